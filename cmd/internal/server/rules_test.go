// Tests of alert rules in a cluster.

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/cluster"
	"github.com/freshet/freshet/endpoint/loopbacktest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store"
)

// A rule may be made, edited, paused and removed at any node. Each of its alerts is sent once,
// and every node shows how the messages fare.
func TestRulesOfAnotherNode(t *testing.T) {
	s, nodes := newMembers(t, 3)
	var owner, other, third *node
	last := cluster.Owner(store.AlertsLease, []string{"n1", "n2", "n3"}) // when all nodes have joined
	for i, n := range nodes {
		if n.name == last {
			owner, other, third = n, nodes[(i+1)%3], nodes[(i+2)%3]
		}
	}
	await(t, "all nodes know the owner of the rules", func() error {
		_, holds := owner.member.alerts()
		for _, n := range nodes {
			if has, _ := n.member.Has(store.AlertsLease); !holds || has.Name != last {
				return fmt.Errorf("%s knows %s, not %s", n.name, has.Name, last)
			}
		}
		return nil
	})
	owned(t, nodes)
	type message struct {
		Type string
		Data struct{ Name string }
	}
	got := make(chan message, 100)
	var mu sync.RWMutex
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m message
		b, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(b, &m); err != nil {
			t.Error(err)
		}
		got <- m
		mu.RLock() // held while receivers must wait
		defer mu.RUnlock()
	}))
	t.Cleanup(hook.Close)
	next := func(kind, name string) {
		t.Helper()
		if m := receive(t, kind, got); m.Type != kind || m.Data.Name != name {
			t.Fatalf("%+v, not %s of %s", m, kind, name)
		}
	}
	var q struct{ ID string }
	other.call("POST", "/v1/queries", map[string]string{"endpoint": "city", "query": "SELECT ?n { ?s ?p ?n }"}, &q)
	s.value.Store(5)
	other.call("POST", "/v1/endpoints/city/tick", nil, nil)
	var rule struct{ ID string }
	settings := map[string]any{"name": "many", "query": q.ID, "when": "?n > 3", "to": []map[string]string{{"webhook": hook.URL}}}
	other.call("POST", "/v1/rules", settings, &rule)
	next("alert.firing", "many")
	same := func(path string) {
		t.Helper()
		await(t, path, func() error {
			a, b := owner.ask("GET", path, ""), other.ask("GET", path, "")
			var x, y any
			if err := errors.Join(json.Unmarshal([]byte(a.body), &x), json.Unmarshal([]byte(b.body), &y)); err != nil {
				t.Fatal(err)
			}
			if a.status != 200 || a.status != b.status || !reflect.DeepEqual(x, y) {
				return fmt.Errorf("%s answers %d %s\n%s answers %d %s", owner.name, a.status, a.body, other.name, b.status, b.body)
			}
			return nil
		})
	}
	same("/v1/rules")
	await(t, "the message is counted", func() error {
		list, err := ruleSet{other.alerts, other.peers}.Rules("", 10)
		if err == nil && (len(list) != 1 || len(list[0].Receivers) != 1 || list[0].Receivers[0].Deliveries != 1 ||
			list[0].Receivers[0].Waiting() != 0) {
			err = fmt.Errorf("%+v", list)
		}
		return err
	})
	third.call("POST", "/v1/rules/"+rule.ID+"/pause", nil, nil)
	next("alert.resolved", "many")
	third.call("POST", "/v1/rules/"+rule.ID+"/resume", nil, nil)
	next("alert.firing", "many")
	settings["name"] = "more"
	third.call("PATCH", "/v1/rules/"+rule.ID, map[string]string{"name": "more"}, nil)
	next("alert.resolved", "many")
	next("alert.firing", "more")
	same("/v1/rules/" + rule.ID)
	for _, n := range nodes {
		if a := n.ask("POST", "/v1/rules", `{"name":"more","query":"`+q.ID+`","when":"rows > 1"}`); a.status != http.StatusConflict {
			t.Errorf("%s: a second rule of the name: %d %s", n.name, a.status, a.body)
		}
		if a := n.ask("GET", "/v1/rules/rule_none", ""); a.status != http.StatusNotFound {
			t.Errorf("%s: a rule that is missing: %d %s", n.name, a.status, a.body)
		}
	}
	third.call("DELETE", "/v1/rules/"+rule.ID, nil, nil)
	next("alert.resolved", "more")
	if a := other.ask("GET", "/v1/rules/"+rule.ID, ""); a.status != http.StatusNotFound {
		t.Errorf("the removed rule: %d %s", a.status, a.body)
	}
	// A node that knows the owner, which does not answer any more, shows what it knows.
	third.call("POST", "/v1/rules", settings, &rule)
	next("alert.firing", "more")
	await(t, "the node knows the rule itself", func() error {
		_, err := other.alerts.Rule(registry.Caller{}, rule.ID)
		return err
	})
	other.peers.mu.Lock()
	other.peers.silent[owner.member.Session()] = time.Now().Add(time.Hour)
	other.peers.mu.Unlock()
	if a := other.ask("GET", "/v1/rules/"+rule.ID, ""); a.status != 200 {
		t.Errorf("while the owner is silent: %d %s", a.status, a.body)
	}
	if a := other.ask("DELETE", "/v1/rules/"+rule.ID, ""); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("an edit while the owner is silent: %d %s", a.status, a.body)
	}
	// A node that gives the lease of the receiver back waits for the message that it is sending.
	const host = "127.0.0.1" // of the receiver
	sends := func() (n *node) {
		for _, x := range nodes {
			if x.member.callsHost(host) {
				n = x
			}
		}
		return n
	}
	sender := sends()
	if sender == nil {
		t.Fatal("no node calls the receiver")
	}
	began := time.Now()
	waits := func() bool { return time.Since(began) < 15*time.Second } // a node waits for so long until a receiver answers
	mu.Lock()
	answer := sync.OnceFunc(mu.Unlock)
	defer answer()
	if a := third.ask("POST", "/v1/rules/"+rule.ID+"/pause", ""); a.status != 200 {
		t.Errorf("pause: %d %s", a.status, a.body)
	}
	next("alert.resolved", "more")
	if a := third.ask("POST", "/v1/cluster/nodes/"+sender.name+"/drain", ""); a.status != http.StatusAccepted {
		t.Errorf("drain: %d %s", a.status, a.body)
	}
	await(t, "the node begins nothing more", func() error {
		if sender.member.callsHost(host) {
			return errors.New("it has the lease")
		}
		return nil
	})
	for range 20 {
		time.Sleep(20 * time.Millisecond)
		if has, _ := owner.member.Has(deliveryLease(host)); has.Name != sender.name && waits() {
			t.Fatalf("%q has the lease while %s sends a message", has.Name, sender.name)
		}
	}
	answer()
	await(t, "another node takes the lease", func() error {
		if n := sends(); n == nil || n == sender {
			return errors.New("none has it")
		}
		return nil
	})
	select {
	case m := <-got:
		if waits() { // else the node may have sent the message again
			t.Errorf("a further message: %+v", m)
		}
	default:
	}
	for _, n := range nodes {
		if fenced := n.member.fenced.Load(); fenced > 0 {
			t.Errorf("%s: %d writes were fenced", n.name, fenced)
		}
	}
}

// rulesOwner waits until the one of two nodes has the lease of the rules that keeps it when both have joined, and
// the other one knows.
func rulesOwner(t *testing.T, nodes []*node) (owner, other *node) {
	t.Helper()
	owner, other = nodes[0], nodes[1]
	if cluster.Owner(store.AlertsLease, []string{owner.name, other.name}) == other.name {
		owner, other = other, owner
	}
	await(t, "a node has the lease of the rules", func() error {
		if _, holds := owner.member.alerts(); !holds {
			return errors.New("it has not")
		}
		if has, _ := other.member.Has(store.AlertsLease); has.Name != owner.name {
			return fmt.Errorf("%s knows %s", other.name, has.Name)
		}
		return nil
	})
	return owner, other
}

// A node that lags, and cannot ask the node that evaluates rules, does not say that a new rule does not exist.
func TestRulesOfALaggingNode(t *testing.T) {
	_, nodes := newMembers(t, 2)
	owner, other := rulesOwner(t, nodes)
	q, _, err := owner.Registry.Register(registry.Caller{Name: registry.Anonymous, Role: registry.RoleAdmin},
		registry.Registration{Endpoint: "city", Text: "SELECT ?n { ?s ?p ?n }"})
	if err != nil {
		t.Fatal(err)
	}
	editWhileLagging(t, owner, other, q.ID)
	closed := loopbacktest.Reserve(t)
	network := other.peers.client.Transport.(*http.Transport)
	network.DialContext = func(ctx context.Context, kind, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, kind, closed)
	}
	network.CloseIdleConnections()
	for i, path := range []string{"/v1/rules/ID", "/rules/ID", "/v1/rules/NAME"} {
		other.lag.Lock()
		catchUp := sync.OnceFunc(other.lag.Unlock)
		defer catchUp()
		r, err := owner.alerts.Create(t.Context(), registry.Caller{Name: registry.Anonymous, Role: registry.RoleAdmin},
			registry.RuleSettings{Name: fmt.Sprint("r", i), Query: q.ID, When: "?n > 3"})
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan httpAnswer, 1)
		path := strings.NewReplacer("ID", r.ID, "NAME", r.Name).Replace(path)
		go func() { answers <- other.ask("GET", path, "") }()
		time.Sleep(100 * time.Millisecond) // without the wait the rule arrives in the meantime
		catchUp()
		if a := receive(t, path, answers); a.status != http.StatusOK {
			t.Errorf("GET %s: %d %.200s", path, a.status, a.body)
		}
	}
}

// A node that is cut off after another one has stored an edit says that it was stored. If it got no answer it says
// that it does not know.
func TestEditsWithUnknownOutcome(t *testing.T) {
	_, nodes := newMembers(t, 2)
	owner, other := rulesOwner(t, nodes)
	q, _, err := owner.Registry.Register(registry.Caller{Name: registry.Anonymous, Role: registry.RoleAdmin},
		registry.Registration{Endpoint: "city", Text: "SELECT ?n { ?s ?p ?n }"})
	if err != nil {
		t.Fatal(err)
	}
	var rule struct{ ID string }
	await(t, "the rule", func() error {
		return other.Call(t.Context(), "POST", "/v1/rules", map[string]any{"name": "edited", "query": q.ID, "when": "?n > 3"}, &rule)
	})
	edit := func(when string, meanwhile func()) httpAnswer {
		t.Helper()
		answers := make(chan httpAnswer, 1)
		go func() {
			answers <- other.ask("PATCH", "/v1/rules/"+rule.ID, `{"when": "`+when+`"}`, "Content-Type", "application/json")
		}()
		await(t, "the rule is edited", func() error {
			if a := owner.ask("GET", "/v1/rules/"+rule.ID, ""); !strings.Contains(a.body, when) {
				return errors.New(a.body)
			}
			return nil
		})
		meanwhile()
		return receive(t, "the answer to the edit", answers)
	}
	network := other.peers.client.Transport.(*http.Transport)
	usual := network.DialContext
	network.DialContext = func(ctx context.Context, kind, address string) (net.Conn, error) {
		c, err := usual(ctx, kind, address)
		return &unheard{Conn: c}, err
	}
	network.CloseIdleConnections()
	usualWaits := *other.peers.waits.Load()
	other.peers.waits.Store(&waitTimes{time.Millisecond, usualWaits.state, 300 * time.Millisecond})
	if a := edit("?n > 7", func() {}); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body,
		"it is not known whether this was done") {
		t.Errorf("without an answer: %d %.400s", a.status, a.body)
	}
	other.peers.waits.Store(&waitTimes{time.Millisecond, usualWaits.state, shortLimit})
	network.DialContext = usual
	network.CloseIdleConnections()
	time.Sleep(silentTime)
	other.lag.Lock()
	defer other.lag.Unlock()
	if a := edit("?n > 8", func() { other.Store.Hurry(0) }); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body,
		"this was stored") {
		t.Errorf("stored elsewhere: %d %.400s", a.status, a.body)
	}
}

// An unheard connection loses the answer to an edit.
type unheard struct {
	net.Conn
	deaf atomic.Bool
}

// Write implements net.Conn.
func (c *unheard) Write(b []byte) (int, error) {
	if bytes.HasPrefix(b, []byte("PATCH ")) {
		c.deaf.Store(true)
	}
	return c.Conn.Write(b)
}

// Read implements net.Conn.
func (c *unheard) Read(b []byte) (int, error) {
	for {
		if n, err := c.Conn.Read(b); err != nil || !c.deaf.Load() {
			return n, err
		}
	}
}

// editWhileLagging edits a rule at a node that lags for longer than it waits, and wants the new settings in its answer.
func editWhileLagging(t *testing.T, owner, other *node, query string) {
	t.Helper()
	usual := other.settles(time.Millisecond)
	defer other.settles(usual)
	var rule struct{ ID string }
	other.call("POST", "/v1/rules", registry.RuleSettings{Name: "edited", Query: query, When: "?n > 3"}, &rule)
	other.lag.Lock()
	catchUp := sync.OnceFunc(other.lag.Unlock)
	defer catchUp()
	answers := make(chan httpAnswer, 1)
	go func() {
		answers <- other.ask("PATCH", "/v1/rules/"+rule.ID, `{"when": "?n > 7"}`, "Content-Type", "application/json")
	}()
	await(t, "the rule is edited", func() error {
		if a := owner.ask("GET", "/v1/rules/"+rule.ID, ""); !strings.Contains(a.body, "?n > 7") {
			return errors.New(a.body)
		}
		return nil
	})
	time.Sleep(100 * time.Millisecond) // without the wait the other node learns of the edit in the meantime
	catchUp()
	if a := receive(t, "the answer to the edit", answers); a.status != http.StatusOK || !strings.Contains(a.body, "?n > 7") {
		t.Errorf("PATCH: %d %.400s", a.status, a.body)
	}
}
