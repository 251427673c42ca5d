// Tests of calls about endpoints that another node of the cluster asks.

package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/cluster"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/loopbacktest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/web/api"
)

// owned returns the node that asks the endpoint city, and another one.
func owned(t *testing.T, nodes []*node) (owner, other *node) {
	t.Helper()
	var workers []string
	for _, n := range nodes {
		if n.role != "gateway" {
			workers = append(workers, n.name)
		}
	}
	await(t, "city has an owner", func() error {
		owner = nil
		for i, n := range nodes {
			if n.loops.local("city") {
				owner, other = n, nodes[(i+1)%len(nodes)]
			}
		}
		if owner == nil {
			return errors.New("no node asks it")
		}
		if last := cluster.Owner(store.EndpointLease("city"), workers); owner.name != last {
			return fmt.Errorf("it moves to %s", last)
		}
		if _, err := owner.fleet.State("city"); err != nil {
			return err
		}
		if n, _ := other.member.Has(store.EndpointLease("city")); n.Name != owner.name {
			return fmt.Errorf("%s does not know the owner", other.name)
		}
		return nil
	})
	return owner, other
}

// An httpAnswer is the answer to a request, with "node" in place of the node's address.
type httpAnswer struct {
	status int
	header http.Header
	body   string
}

func (n *node) ask(method, path, body string, header ...string) httpAnswer {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.URL()+path, strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if n.secret != "" {
		r.Header.Set("Authorization", "Bearer "+n.secret)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	_, address, _ := strings.Cut(n.URL(), "://")
	return httpAnswer{a.StatusCode, a.Header, strings.ReplaceAll(string(b), address, "node")}
}

// A node that does not ask an endpoint answers every call about it as its owner does, and sees
// at once what a slot changed that it has run there.
func TestLoopsOfAnotherNode(t *testing.T) {
	s, nodes := newMembers(t, 3)
	owner, other := owned(t, nodes)
	s.value.Store(7)
	var ids []string
	for i := range 5 {
		var q struct{ ID string }
		other.call("POST", "/v1/queries", map[string]string{"endpoint": "city",
			"query": fmt.Sprintf("SELECT ?n { <http://x/%d> <http://x/n> ?n }", i)}, &q)
		ids = append(ids, q.ID)
	}
	var slot struct{ Slot, Run, Complete int }
	other.call("POST", "/v1/endpoints/city/tick", nil, &slot)
	if slot.Slot != 1 || slot.Run != 5 || slot.Complete != 5 {
		t.Errorf("the slot is %+v", slot)
	}
	if a := other.ask("GET", "/v1/queries/"+ids[0]+"/results", ""); a.status != 200 || !strings.Contains(a.body, `"7"`) {
		t.Errorf("after the slot its result is %d %s", a.status, a.body)
	}
	before := s.asked.Load()
	trial := other.ask("POST", "/v1/queries/validate?run=true", `{"endpoint":"city","query":"SELECT ?n { ?s ?p ?n }"}`)
	if trial.status != 200 || !strings.Contains(trial.body, `"outcome":"complete"`) || !strings.Contains(trial.body, `"rows":1`) ||
		s.asked.Load() != before+1 {
		t.Errorf("the trial run answers %d %s, with %d requests", trial.status, trial.body, s.asked.Load()-before)
	}
	if a := other.ask("POST", "/v1/endpoints/city/hints", `{"touched":["http://x/1"]}`); a.status != 202 || !strings.Contains(a.body,
		`"affected":1,"queries":5`) {
		t.Errorf("the hint answers %d %s", a.status, a.body)
	}
	if e, err := owner.fleet.Explain("city", ids[1]); err != nil || e.Tier != "hinted" {
		t.Errorf("after the hint the owner explains %+v %v", e, err)
	}
	owner.call("PATCH", "/v1/endpoints/city", map[string]any{"slot": "@every 240h", "shadows": []string{"rr"}}, nil)
	same := func(path string) {
		t.Helper()
		await(t, path, func() error {
			a, b := owner.ask("GET", path, ""), other.ask("GET", path, "")
			var x, y any
			if err := errors.Join(json.Unmarshal([]byte(a.body), &x), json.Unmarshal([]byte(b.body), &y)); err != nil {
				t.Fatal(err)
			}
			if a.status != b.status || !reflect.DeepEqual(x, y) {
				return fmt.Errorf("%s answers %d %s\n%s answers %d %s", owner.name, a.status, a.body, other.name, b.status, b.body)
			}
			return nil
		})
	}
	same("/v1/endpoints")
	same("/v1/endpoints/city")
	same("/v1/endpoints/city/templates")
	same("/v1/endpoints/city/shadows")
	same("/v1/queries/" + ids[1] + "/explain")
	same("/v1/queries")
	if list := other.ask("GET", "/v1/queries", "").body; strings.Contains(list, `"next_due":null`) {
		t.Errorf("it does not know when queries are due: %s", list)
	}
	if a := other.ask("GET", "/v1/queries/"+ids[1]+"/explain", ""); a.header.Get("Freshet-Node") != other.name {
		t.Errorf("the answer names the node %q, not %s", a.header.Get("Freshet-Node"), other.name)
	}
	for _, page := range []string{"/", "/endpoints", "/endpoints/city", "/queries", "/queries/" + ids[1], "/cluster"} {
		if a := other.ask("GET", page, ""); a.status != 200 || strings.Contains(a.body, "no node") {
			t.Errorf("the page %s answers %d", page, a.status)
		}
	}
	for _, page := range []string{"/endpoints", "/endpoints/city", "/cluster"} {
		if a := other.ask("GET", page, ""); !strings.Contains(a.body, `<span class="mono">`+owner.name) && !strings.Contains(a.body,
			`data-th="Node">`+owner.name) {
			t.Errorf("the page %s does not show that %s asks city", page, owner.name)
		}
	}
	if a := other.ask("GET", "/v1/endpoints/city", ""); !strings.Contains(a.body, `"node":"`+owner.name+`"`) {
		t.Errorf("it does not name its owner: %s", a.body)
	}
	// Errors are those of the owner.
	owner.call("POST", "/v1/endpoints/city/pause", nil, nil)
	for _, c := range [][2]string{{"POST", "/v1/endpoints/city/tick"}, {"POST", "/v1/endpoints/town/tick"},
		{"GET", "/v1/queries/q_none/explain"}} {
		await(t, "the same error", func() error {
			a, b := owner.ask(c[0], c[1], ""), other.ask(c[0], c[1], "")
			if a.status < 400 || a.status != b.status || a.body != b.body {
				return fmt.Errorf("%v: %d %s, and at the owner %d %s", c, b.status, b.body, a.status, a.body)
			}
			return nil
		})
	}
	// Each endpoint is counted by one node.
	if a := owner.ask("GET", "/metrics", ""); !strings.Contains(a.body, `freshet_endpoint_queries{endpoint="city"`) {
		t.Errorf("the owner does not count its endpoint")
	}
	if a := other.ask("GET", "/metrics", ""); strings.Contains(a.body, `freshet_endpoint_queries{endpoint="city"`) {
		t.Errorf("another node counts the endpoint, too")
	}
}

// A node that has the lease of an endpoint, but no loop yet, does not take a query for unknown.
func TestCallBeforeTheLoop(t *testing.T) {
	_, nodes := newMembers(t, 2)
	owner, other := owned(t, nodes)
	var q struct{ ID string }
	other.call("POST", "/v1/queries", map[string]string{"endpoint": "city", "query": "SELECT ?n { ?s ?p ?n }"}, &q)
	for _, n := range []*node{owner, other} {
		await(t, "an explanation", func() error {
			if a := n.ask("GET", "/v1/queries/"+q.ID+"/explain", ""); a.status != 200 {
				return fmt.Errorf("%d %s", a.status, a.body)
			}
			return nil
		})
	}
	if err := owner.loops.Manager.Remove("city"); err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{owner, other} {
		if a := n.ask("GET", "/v1/queries/"+q.ID+"/explain", ""); a.status != 503 || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s", n.name, a.status, a.body)
		}
	}
}

// A slot that is requested after an edit runs under the settings of that edit, at whichever node
// both are requested.
func TestTickAfterEditAtAnotherNode(t *testing.T) {
	s, nodes := newMembers(t, 2)
	_, other := owned(t, nodes)
	other.call("POST", "/v1/queries", map[string]string{"endpoint": "city", "query": "SELECT ?n { ?s ?p ?n }"}, nil)
	for i := range 25 { // most edits reach the loop in time by themselves
		before := s.asked.Load()
		other.call("POST", "/v1/endpoints/city/pause", nil, nil)
		if a := other.ask("POST", "/v1/endpoints/city/tick", ""); a.status != 409 || s.asked.Load() != before {
			t.Fatalf("%d: a paused endpoint answers a tick with %d %s, after %d requests", i, a.status, a.body, s.asked.Load()-before)
		}
		other.call("POST", "/v1/endpoints/city/resume", nil, nil)
		if a := other.ask("POST", "/v1/endpoints/city/tick", ""); a.status != 200 {
			t.Fatalf("%d: after the pause the tick answers %d %s", i, a.status, a.body)
		}
	}
}

// While no node can answer for an endpoint, calls are refused for the moment, and what is recorded
// of the endpoint is still shown.
func TestLoopsWithoutOwner(t *testing.T) {
	_, nodes := newMembers(t, 2)
	_, other := owned(t, nodes)
	var q struct{ ID string }
	other.call("POST", "/v1/queries", map[string]string{"endpoint": "city", "query": "SELECT ?n { ?s ?p ?n }"}, &q)
	other.call("POST", "/v1/endpoints/city/tick", nil, nil)
	closed := loopbacktest.Reserve(t)
	refused := func(why string) {
		t.Helper()
		for _, c := range [][3]string{{"POST", "/v1/endpoints/city/tick"}, {"GET", "/v1/queries/" + q.ID + "/explain"},
			{"GET", "/v1/endpoints/city/templates"},
			{"POST", "/v1/endpoints/city/hints"}, {"POST", "/v1/queries/validate?run=true", `{"endpoint":"city","query":"ASK { ?s ?p ?o }"}`}} {
			a := other.ask(c[0], c[1], c[2])
			if wait, err := strconv.Atoi(a.header.Get("Retry-After")); a.status != 503 || !strings.Contains(a.body,
				"/problems/unavailable") || !strings.Contains(a.body, why) || err != nil || wait < 1 {
				t.Errorf("%v: %d %s, Retry-After %q", c, a.status, a.body, a.header.Get("Retry-After"))
			}
		}
		await(t, "the list says why", func() error {
			a := other.ask("GET", "/v1/endpoints", "")
			if a.status != 200 || !strings.Contains(a.body, why) || !strings.Contains(a.body, `"queries":1`) ||
				!strings.Contains(a.body, `"results":1`) || !strings.Contains(a.body,
				`"last":{"endpoint":"city","slot":1`) || !strings.Contains(a.body, `"health":{"state":"healthy"`) {
				return fmt.Errorf("%d %s", a.status, a.body)
			}
			return nil
		})
		for _, page := range []string{"/", "/endpoints", "/endpoints/city", "/cluster"} {
			if a := other.ask("GET", page, ""); !strings.Contains(a.body, `<span class="state away">no node asks it`) {
				t.Errorf("%s does not show that no node asks city", page)
			}
		}
		if a := other.ask("GET", "/", ""); !strings.Contains(a.body, "No result is fresh.") {
			t.Errorf("the overview says that the result is fresh: %s", a.body)
		}
		for _, path := range []string{"/v1/queries", "/v1/endpoints/city/shadows", "/", "/endpoints", "/endpoints/city", "/queries",
			"/queries/" + q.ID} {
			if a := other.ask("GET", path, ""); a.status != 200 {
				t.Errorf("%s answers %d", path, a.status)
			}
		}
	}
	network := other.peers.client.Transport.(*http.Transport)
	network.DialContext = func(ctx context.Context, kind, _ string) (net.Conn, error) { // cut off from the other node
		return new(net.Dialer).DialContext(ctx, kind, closed)
	}
	network.CloseIdleConnections()
	refused("does not answer")
	for _, n := range nodes {
		if err := n.member.Drain(n.name); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "no node has the endpoint", func() error {
		if n, _ := other.member.Has(store.EndpointLease("city")); n.Name != "" {
			return fmt.Errorf("%s has it", n.Name)
		}
		return nil
	})
	refused("none can take over")
}

// A node takes a request for one of another node only with a proof for its own process and for the
// caller that is named, and asks no further node for it.
func TestRequestsOfNodes(t *testing.T) {
	_, nodes := newMembers(t, 2)
	owner, other := owned(t, nodes)
	if err := owner.Store.Tokens.PutToken(registry.Token{Name: "t", Role: registry.RoleAdmin, SHA256: strings.Repeat("0", 64)}); err != nil {
		t.Fatal(err)
	}
	await(t, "both nodes ask for tokens", func() error {
		if owner.gate.On() && other.gate.On() {
			return nil
		}
		return errors.New("one does not")
	})
	admin, reader := registry.Caller{Name: "ops", Role: registry.RoleAdmin}, registry.Caller{Name: "a b", Role: registry.RoleRead}
	tick := func(n *node, credentials string) httpAnswer {
		return n.ask("POST", "/v1/endpoints/city/tick", "", "Authorization", credentials, appliedHeader, "0")
	}
	proof := owner.member.credentials(owner.member.Session(), admin)
	forged := []string{"", nodeScheme, nodeScheme + " x admin ops", "Bearer " + owner.member.Session(), proof + " x",
		strings.Replace(proof, "ops", "o%70s", 1),
		owner.member.credentials("another session", admin), strings.Replace(owner.member.credentials(owner.member.Session(), reader),
			"read", "admin", 1),
		strings.Replace(proof, " ops", " other", 1), other.member.credentials(other.member.Session(), admin)}
	for _, credentials := range forged {
		if a := tick(owner, credentials); a.status != 401 || a.header.Get(nodeHeader) != owner.name {
			t.Errorf("with %q: %d %s", credentials, a.status, a.body)
		}
	}
	if a := tick(owner, proof); a.status != 200 || a.header.Get(appliedHeader) == "" {
		t.Errorf("with a proof: %d %s", a.status, a.body)
	}
	if a := tick(owner, owner.member.credentials(owner.member.Session(), reader)); a.status != 403 {
		t.Errorf("for a caller who may not: %d %s", a.status, a.body)
	}
	if a := tick(other, other.member.credentials(other.member.Session(), admin)); a.status != 503 ||
		a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "/problems/unavailable") {
		t.Errorf("a node that does not ask the endpoint: %d %s", a.status, a.body)
	}
	if a := other.ask("GET", "/v1/endpoints", "", "Authorization", other.member.credentials(other.member.Session(), admin),
		appliedHeader, "0"); a.status != 503 {
		t.Errorf("a list that another node has a part of: %d %s", a.status, a.body)
	}
	got := make(chan http.Header, 1)
	listens := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer listens.Close()
	_, _ = other.peers.exchange(t.Context(), registry.Node{API: listens.URL}, request{method: "GET", path: "/"}, nil) // there is no answer
	if h := <-got; h.Get(nodeHeader) != other.name || h.Get(appliedHeader) == "" {
		t.Errorf("a request of %s has the headers %v", other.name, h)
	}
}

// A node that has not applied what another one has says so, and not that what is new does not exist.
func TestRequestToALaggingNode(t *testing.T) {
	_, nodes := newMembers(t, 2)
	owner, other := owned(t, nodes)
	owner.settles(50 * time.Millisecond)
	owner.lag.Lock()
	defer owner.lag.Unlock()
	q, _, err := other.Registry.Register(registry.Caller{Name: registry.Anonymous, Role: registry.RoleAdmin},
		registry.Registration{Endpoint: "city", Text: "SELECT ?n { ?s ?p ?n }"})
	if err != nil {
		t.Fatal(err)
	}
	if a := other.ask("GET", "/v1/queries/"+q.ID+"/explain", ""); a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A client reads at a node what it wrote there and what its slot changed, although this node or
// the owner of the endpoint applies the journal late.
func TestLoopsOfLaggingNodes(t *testing.T) {
	s, nodes := newMembers(t, 2)
	owner, other := owned(t, nodes)
	s.value.Store(7)
	owner.lag.Lock()
	catchUp := sync.OnceFunc(owner.lag.Unlock)
	defer catchUp()
	// Not by the API, which asks the owner when the query is due.
	q, _, err := other.Registry.Register(registry.Caller{Name: registry.Anonymous, Role: registry.RoleAdmin},
		registry.Registration{Endpoint: "city", Text: "SELECT ?n { ?s ?p ?n }"})
	if err != nil {
		t.Fatal(err)
	}
	answers := make(chan httpAnswer, 1)
	go func() { answers <- other.ask("GET", "/v1/queries/"+q.ID+"/explain", "") }()
	time.Sleep(100 * time.Millisecond) // without the wait the owner answers in the meantime that there is no such query
	catchUp()
	if a := receive(t, "the explanation", answers); a.status != 200 {
		t.Errorf("the query that was registered before is explained as %d %s", a.status, a.body)
	}
	other.lag.Lock()
	catchUp = sync.OnceFunc(other.lag.Unlock)
	defer catchUp()
	go func() {
		a := other.ask("POST", "/v1/endpoints/city/tick", "")
		if a.status == 200 {
			a = other.ask("GET", "/v1/queries/"+q.ID+"/results", "")
		}
		answers <- a
	}()
	await(t, "the slot is over", func() error {
		if e, err := owner.fleet.State("city"); err != nil || e.Last.Number != 1 || e.Last.Finished.IsZero() {
			return fmt.Errorf("%+v %v", e.Last, err)
		}
		return nil
	})
	time.Sleep(100 * time.Millisecond) // without the wait the result is read in the meantime
	catchUp()
	if a := receive(t, "the result", answers); a.status != 200 || !strings.Contains(a.body, `"7"`) {
		t.Errorf("after the slot the result is %d %s", a.status, a.body)
	}
}

// A trial run at another node has the whole result, of each form.
func TestTrialOfAnotherNode(t *testing.T) {
	lines := "<http://x/a> <http://x/n> \"1\" .\n<http://x/b> <http://x/n> \"<2>\" .\n"
	for form, document := range map[diff.Form]string{
		diff.Select:    `{"head":{"vars":["n"]},"results":{"bindings":[{"n":{"type":"literal","value":"<1>"}},{}]}}`,
		diff.Ask:       `{"head":{},"boolean":true}`,
		diff.Construct: lines,
	} {
		want, err := diff.Decode([]byte(document), form, false)
		if err != nil {
			t.Fatal(err)
		}
		sent := want.Document()
		if form != diff.Ask {
			rows := diff.Rows{}
			for i := range want.Len() {
				rows = append(rows, want.Row(i))
			}
			sent = diff.RowsJSON(form, want.Vars(), rows)
		}
		text, err := json.Marshal(map[string]any{"outcome": "complete", "elapsed_seconds": 0.25, "results": json.RawMessage(sent)})
		if err != nil {
			t.Fatal(err)
		}
		var x api.Trial
		if err := json.Unmarshal(text, &x); err != nil {
			t.Fatal(err)
		}
		a, err := trialAnswer(&x, &registry.Query{Form: form})
		if err != nil || !a.Outcome.Complete() || a.Elapsed != 250*time.Millisecond || a.Result.Hash() != want.Hash() {
			t.Errorf("%s: %+v %v", form, a, err)
		}
	}
	if a, err := trialAnswer(&api.Trial{Outcome: string(registry.Timeout), Error: "late"}, new(registry.Query)); err != nil ||
		a.Outcome != registry.Timeout || a.Error != "late" || a.Result != nil {
		t.Errorf("%+v %v", a, err)
	}
}
