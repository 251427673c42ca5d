// Tests of a node that is cut off from its cluster and does not know it yet.

package trial

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/notify/client"
	"github.com/freshet/freshet/registry"
)

// How long a fault lasts: longer than a member takes to notice that it is alone, and than the others take to
// elect a leader and to accept writes. cutTail is how long the node is asked after that.
var cutLasts = map[string]time.Duration{"silence": 14 * time.Second, "cut": 8 * time.Second, "freeze": 7 * time.Second}

const cutTail = 3 * time.Second

// cutSecret is the token of the test, of an admin.
const cutSecret = "the-token-of-the-test"

// A cutRun cuts nodes off and asks them for what the others have.
type cutRun struct {
	t      *testing.T
	e      *countedEndpoint
	links  *linkSet
	nodes  map[string]*processNode
	client *http.Client
	signed map[string]*http.Cookie // by node

	mu       sync.Mutex
	value    int                          // of the endpoint
	shown    int                          // the result at the position at
	things   map[string]map[string]string // the newest of each kind that another node has stored
	at       registry.Position            // of a change that another node has
	offset   string                       // of a change of all queries that another node has
	late     []string                     // queries that have no result yet
	answers  map[string]int               // by kind and status
	wrong    int
	followed int
}

// A cutKind is a kind of things that nodes have. NAME and ID stand for those of one thing.
type cutKind struct {
	create, body string
	reads        []string
}

// cutKinds are all kinds. The first read of each tells another node that has the thing.
var cutKinds = map[string]cutKind{
	"query": {"/v1/queries", `{"name": "NAME", "endpoint": "numbers", "query": "SELECT ?n { ?s <http://example.org/NAME> ?n }"}`,
		[]string{"/v1/queries/ID", "/v1/queries/NAME", "/v1/queries/ID/changes", "/v1/queries/ID/explain",
			"/v1/queries/ID/changes.atom", "/queries/ID"}},
	"rule": {"/v1/rules", `{"name": "NAME", "query": "number", "when": "?n > 0"}`,
		[]string{"/v1/rules/ID", "/v1/rules/NAME", "/v1/rules/ID/alerts", "/v1/rules/NAME/alerts", "/rules/ID"}},
	"profile": {"/v1/profiles", `{"name": "NAME", "items": [{"query": "number", "when": {"every": "NUMBERm", "slack": "5m"}}]}`,
		[]string{"/v1/profiles/ID", "/v1/profiles/NAME", "/v1/profiles/ID/captures", "/profiles/ID"}},
	"watch": {"/v1/watches", `{"name": "NAME", "endpoint": "numbers", "iri": "http://example.org/NAME"}`,
		[]string{"/v1/watches/ID", "/v1/watches/NAME", "/v1/watches/ID/changes", "/v1/watches/ID/changes.atom", "/watches/ID"}},
	"webhook": {"/v1/webhooks", `{"name": "NAME", "query": "number", "url": "http://127.0.0.1:9/NAME"}`,
		[]string{"/v1/webhooks/ID", "/v1/subscriptions/ID"}},
	"endpoint": {"/v1/endpoints", `{"name": "NAME", "url": "http://127.0.0.1:9/", "slot": "never", "budget": "1s"}`,
		[]string{"/v1/endpoints/NAME", "/v1/endpoints/NAME/slots", "/v1/endpoints/NAME/due", "/endpoints/NAME"}},
	"token": {"/v1/tokens", `{"name": "NAME", "role": "read"}`, []string{"/v1/queries TOKEN", "/v1/tokens/NAME/none"}},
}

// A node that is cut off, or was stopped, says that it does not know: it answers no 404, no 410 and no 401,
// gives no older state for a time, and begins no subscription with a result that is older than the follower's.
// One node is silenced, one is cut off, one is stopped. With FRESHET_NEMESIS_FAULTS=9, each node meets all three.
func TestClusterCutNode(t *testing.T) {
	t.Parallel()
	r := &cutRun{t: t, e: newCounted(t), links: newLinks(t), answers: map[string]int{}, signed: map[string]*http.Cookie{},
		things: map[string]map[string]string{},
		client: &http.Client{Timeout: time.Minute, Transport: bearerTransport(cutSecret), CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		}}}
	r.e.set(0)
	at, listen := addresses(t, "n1", "n2", "n3"), addresses(t, "n1", "n2", "n3")
	var peers []string
	for n := range at {
		peers = append(peers, fmt.Sprintf("%s: %q", n, r.links.proxy("journal", n, listen[n])))
	}
	r.nodes = startNodes(t, clusterPlan{at: at, endpoint: r.e.http.URL, client: r.client,
		more: fmt.Sprintf("default_endpoint: numbers\ntokens: [{name: boss, role: admin, sha256: %q}]\nwebsub: "+
			"{allow_callback_networks: [127.0.0.0/8]}\n", registry.HashSecret(cutSecret)),
		cluster: func(n string) string {
			return fmt.Sprintf("  listen: %s\n  peers: {%s}\n", listen[n], strings.Join(peers, ", "))
		}})
	for name, n := range r.nodes {
		n.awaitReady(t)
		r.signIn(name, n)
	}
	r.nodes["n1"].registerNumber(t)
	clitest.Eventually(t, "the first result", func() bool { return r.look(r.nodes["n1"]) })
	for i := range int(nemesisNumber(t, "FRESHET_NEMESIS_FAULTS", 3)) {
		r.attack([]string{"silence", "cut", "freeze"}[i%3], []string{"n1", "n2", "n3"}[(i+i/3)%3])
	}
	t.Logf("%d false answers; %d followers; answers %v", r.wrong, r.followed, r.answers)
}

// A bearerTransport sends a token with each request that has none.
type bearerTransport string

// RoundTrip implements http.RoundTripper.
func (b bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") == "" && r.Header.Get("Cookie") == "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+string(b))
	}
	return http.DefaultTransport.RoundTrip(r)
}

// signIn signs in at the pages of a node.
func (r *cutRun) signIn(name string, n *processNode) {
	resp, err := r.client.PostForm(n.Url+"/signin", url.Values{"token": {cutSecret}, "next": {"/"}})
	if err != nil {
		r.t.Fatal(err)
	}
	resp.Body.Close()
	if len(resp.Cookies()) == 0 {
		r.t.Fatalf("signing in: %s", resp.Status)
	}
	r.signed[name] = resp.Cookies()[0]
}

// attack hinders a node for a while, asks it all the time, and waits until it is ready again.
func (r *cutRun) attack(fault, victim string) {
	v, others := r.nodes[victim], []*processNode{}
	var links []link
	for name, n := range r.nodes {
		if name != victim {
			others = append(others, n)
			links = append(links, link{victim, name}, link{name, victim})
		}
	}
	before := r.wrong
	r.pause(others[0])
	ctx, cancel := context.WithCancel(r.t.Context())
	var writing, asking sync.WaitGroup
	writing.Go(func() { r.write(ctx, others) })
	began := time.Now()
	var heal func()
	switch fault {
	case "freeze":
		if err := v.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			r.t.Fatal(err)
		}
		heal = func() { _ = v.Cmd.Process.Signal(syscall.SIGCONT) }
	case "cut":
		heal = r.links.hold(links...)
		r.links.cut()
	default:
		heal = r.links.hold(links...)
	}
	for i := 0; time.Since(began) < cutLasts[fault]+cutTail; i++ {
		asking.Go(func() { r.ask(v, i) })
		if i%5 == 0 {
			asking.Go(func() { r.follow(v, i/5%5) })
		}
		if heal != nil && time.Since(began) > cutLasts[fault] {
			heal()
			heal = nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	asking.Wait()
	cancel()
	writing.Wait()
	v.awaitReady(r.t)
	r.t.Logf("%s %s: %d false answers", fault, victim, r.wrong-before)
}

// pause registers queries that do not run yet.
func (r *cutRun) pause(n *processNode) {
	r.late = nil
	for range 3 {
		name := fmt.Sprint("late", time.Now().UnixNano())
		ok := r.send(n, "POST", "/v1/queries", strings.ReplaceAll(cutKinds["query"].body, "NAME", name), nil) &&
			r.send(n, "POST", "/v1/queries/"+name+"/pause", "", nil)
		if ok {
			r.late = append(r.late, name)
		}
	}
}

// send sends a request and decodes the answer. It reports whether that is a success.
func (r *cutRun) send(n *processNode, method, path, body string, out any) bool {
	q, err := http.NewRequestWithContext(r.t.Context(), method, n.Url+path, strings.NewReader(body))
	if err != nil {
		r.t.Error(err)
		return false
	}
	q.Header.Set("Content-Type", "application/json")
	resp, err := r.client.Do(q)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if resp.StatusCode/100 == 4 && resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusConflict {
		r.object("%s: %s %s: %s %.300s", n.name, method, path, resp.Status, text)
	}
	return err == nil && resp.StatusCode/100 == 2 && (out == nil || json.Unmarshal(text, out) == nil)
}

// write changes the result and makes things of all kinds at the others, and remembers what they have stored.
func (r *cutRun) write(ctx context.Context, others []*processNode) {
	kinds := slices.Sorted(maps.Keys(cutKinds))
	for i := 0; ctx.Err() == nil; i++ {
		n := others[i%len(others)]
		for _, kind := range []string{kinds[2*i%len(kinds)], kinds[(2*i+1)%len(kinds)]} {
			r.create(n, kind)
		}
		if i < len(r.late) && r.send(n, "POST", "/v1/queries/"+r.late[i]+"/resume", "", nil) {
			go r.awaitFirst(ctx, n, r.late[i])
		}
		r.mu.Lock()
		r.value++
		r.e.set(r.value)
		r.mu.Unlock()
		r.look(n)
		var page struct{ Next string }
		if r.send(n, "GET", "/v1/changes?limit=1000", "", &page) {
			r.mu.Lock()
			r.offset = page.Next
			r.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (r *cutRun) create(n *processNode, kind string) {
	number := fmt.Sprint(time.Now().UnixMilli() % 1e5)
	thing := map[string]string{"NAME": kind + number}
	body := strings.NewReplacer("NAME", thing["NAME"], "NUMBER", number).Replace(cutKinds[kind].body)
	var made struct{ ID, Token string }
	if r.send(n, "POST", cutKinds[kind].create, body, &made) {
		thing["ID"], thing["TOKEN"] = made.ID, made.Token
		r.mu.Lock()
		r.things[kind] = thing
		r.mu.Unlock()
	}
}

// awaitFirst waits for the first result of a query at a node.
func (r *cutRun) awaitFirst(ctx context.Context, n *processNode, name string) {
	for ctx.Err() == nil && !r.send(n, "GET", "/v1/queries/"+name+"/results.srj", "", nil) {
		time.Sleep(100 * time.Millisecond)
	}
	if ctx.Err() == nil {
		r.mu.Lock()
		r.things["first"] = map[string]string{"NAME": name}
		r.mu.Unlock()
	}
}

// look reads the result and its position at a node.
func (r *cutRun) look(n *processNode) bool {
	resp, err := r.client.Get(n.Url + "/v1/queries/number/results.srj")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	parts := strings.FieldsFunc(strings.TrimPrefix(resp.Header.Get("ETag"), "W/"), func(r rune) bool { return r == '"' || r == '.' })
	if err != nil || resp.StatusCode != http.StatusOK || len(parts) < 2 {
		return false
	}
	p, err := registry.ParsePosition(parts[0] + ":" + parts[1])
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && p.Seq > r.at.Seq {
		r.at, r.shown = p, numberIn(string(body))
	}
	return r.at.Seq > 0
}

// numberIn returns the value of the only row in a document, -1 if there is none.
func numberIn(document string) int {
	_, text, _ := strings.Cut(document, `"value":"`)
	n, err := strconv.Atoi(text[:max(0, strings.IndexByte(text, '"'))])
	if err != nil {
		return -1
	}
	return n
}

// A cutQuestion is a question to a node.
type cutQuestion struct {
	kind, path    string
	token         string                     // instead of the test's
	method, body  string                     // GET if ""
	header, value string                     // one more header
	seq           func(string) (int, string) // reads what must not be less than min from an answer, and says what it is
	min           int
}

// questions returns all questions about what another node has.
func (r *cutRun) questions(v *processNode) (list []cutQuestion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(cutKinds)) {
		thing := r.things[kind]
		if thing == nil {
			continue
		}
		for _, read := range cutKinds[kind].reads {
			path, token, _ := strings.Cut(read, " ")
			q := cutQuestion{kind: kind + " " + read, path: strings.NewReplacer("NAME", thing["NAME"], "ID", thing["ID"]).Replace(path)}
			switch {
			case token != "":
				q.token = thing["TOKEN"]
			case strings.HasSuffix(path, "/none"): // removing it is the question that an admin asks about one
				q.method, q.path = "DELETE", strings.TrimSuffix(q.path, "/none")
				delete(r.things, kind)
			}
			list = append(list, q)
		}
	}
	if q := r.things["first"]; q != nil {
		for _, rest := range []string{"/results.srj", "/changes/latest", "/timemap", "/results.srj?seq=1"} {
			list = append(list, cutQuestion{kind: "first " + rest, path: "/v1/queries/" + q["NAME"] + rest})
		}
	}
	number, now := "/v1/queries/number", time.Now().UTC()
	shows := func(body string) (int, string) { return numberIn(body), "the number" }
	reaches := func(body string) (int, string) {
		var x struct{ To struct{ Seq int } }
		_ = json.Unmarshal([]byte(body), &x)
		return x.To.Seq, "the end"
	}
	list = append(list,
		cutQuestion{kind: "after", path: number + "/changes?after=" + r.at.String()},
		cutQuestion{kind: "seq", path: fmt.Sprint(number, "/results.srj?seq=", r.at.Seq), seq: shows, min: r.shown},
		cutQuestion{kind: "at", path: number + "/results.srj?at=" + now.Format(time.RFC3339Nano), seq: shows, min: r.shown},
		cutQuestion{kind: "memento", path: number + "/results.srj", header: "Accept-Datetime", value: now.Format(http.TimeFormat),
			seq: shows, min: r.shown},
		cutQuestion{kind: "diff", path: fmt.Sprint(number, "/changes/diff?from=1"), seq: reaches, min: int(r.at.Seq)},
		cutQuestion{kind: "page of a change", path: fmt.Sprintf("/queries/number/changes/%d", r.at.Seq)})
	if r.offset != "" {
		list = append(list, cutQuestion{kind: "all after", path: "/v1/changes?after=" + r.offset})
	}
	if q := r.things["query"]; q != nil {
		form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {v.Url + "/v1/queries/" + q["ID"] + "/changes/latest"},
			"hub.callback": {"http://127.0.0.1:9/" + q["NAME"]}}
		list = append(list, cutQuestion{kind: "hub", path: "/v1/hub", method: "POST", body: form.Encode(), header: "Content-Type",
			value: "application/x-www-form-urlencoded"})
	}
	return list
}

// ask asks a node some of the questions, so that each one comes every second.
func (r *cutRun) ask(v *processNode, i int) {
	var asking sync.WaitGroup
	defer asking.Wait()
	for j, q := range r.questions(v) {
		if j%10 == i%10 {
			asking.Go(func() { r.question(v, q) })
		}
	}
}

// question asks a node a question and judges the answer.
func (r *cutRun) question(v *processNode, q cutQuestion) {
	x, err := http.NewRequestWithContext(r.t.Context(), cmp.Or(q.method, "GET"), v.Url+q.path, strings.NewReader(q.body))
	if err != nil {
		r.t.Error(err)
		return
	}
	if q.token != "" {
		x.Header.Set("Authorization", "Bearer "+q.token)
	} else if q.method == "" && !strings.HasPrefix(q.path, "/v1/") {
		x.AddCookie(r.signed[v.name])
	}
	if q.header != "" {
		x.Header.Set(q.header, q.value)
	}
	resp, err := r.client.Do(x)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, 5000))
	r.mu.Lock()
	r.answers[fmt.Sprint(q.kind, " ", resp.StatusCode)]++
	r.mu.Unlock()
	switch {
	case resp.StatusCode/100 == 2 && q.seq != nil:
		if n, what := q.seq(string(body)); n < q.min {
			r.object("%s: %s %s: %s is %d, and was %d at another node before: %s", v.name, q.kind, q.path, what, n, q.min, body)
		}
	case resp.StatusCode/100 != 2 && (resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == ""):
		r.object("%s: %s: %s %s: %s %.300s", v.name, q.kind, x.Method, q.path, resp.Status, body)
	}
}

func (r *cutRun) object(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wrong++
	r.t.Errorf(format, args...)
}

// follow moves a follower to a node: of the WebSocket, of event streams, or of SEPA.
func (r *cutRun) follow(v *processNode, way int) {
	r.mu.Lock()
	at, shown, offset, watched := r.at, r.shown, r.offset, r.things["watch"]["ID"]
	r.followed++
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.t.Context(), 15*time.Second)
	defer cancel()
	switch way {
	case 0:
		from := &client.State{Query: "number", Epoch: at.Epoch, Seq: at.Seq, Form: "SELECT",
			Document: []byte(`{"head":{"vars":["n"]},"results":{"bindings":[]}}`)}
		_ = client.Follow(ctx, client.Options{Server: v.Url, Token: cutSecret, Query: "number", From: from}, func(e client.Event) error {
			if e.Kind == client.Subscribed && !e.Resumed {
				r.object("%s: a follower with the position %s is not resumed: %s", v.name, at, e.Reason)
			}
			cancel()
			return nil
		})
	case 1:
		r.events(ctx, v, "/v1/queries/number/changes", at.String())
	case 2:
		r.events(ctx, v, "/v1/changes", offset)
	case 3:
		if watched != "" {
			r.events(ctx, v, "/v1/watches/"+watched+"/changes", "")
		}
	default:
		c, _, err := websocket.DefaultDialer.DialContext(ctx, strings.Replace(v.Url, "http", "ws", 1)+"/sepa/subscribe",
			http.Header{"Authorization": {"Bearer " + cutSecret}})
		if err != nil {
			return
		}
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		if err := readSEPA(c, `SELECT ?n { ?s <http://example.org/number> ?n }`, func(n *sepaNotification) bool {
			if first := numberIn(fmt.Sprint(n.AddedResults.rows())); first < shown {
				r.object("%s: a subscription begins with %d, and another node had %d before", v.name, first, shown)
			}
			return false
		}); err != nil {
			r.object("%s: SEPA: %v", v.name, err)
		}
	}
}

// events follows an event stream of a node for a while.
func (r *cutRun) events(ctx context.Context, v *processNode, path, after string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, v.Url+path, nil)
	if err != nil {
		r.t.Error(err)
		return
	}
	q.Header.Set("Accept", "text/event-stream")
	if after != "" {
		q.Header.Set("Last-Event-ID", after)
	}
	resp, err := r.client.Do(q)
	if err != nil {
		return
	}
	defer resp.Body.Close()
	if time.AfterFunc(5*time.Second, cancel); resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		r.object("%s: an event stream of %s: %s", v.name, path, resp.Status)
	}
	if body, _ := io.ReadAll(resp.Body); after != "" && (strings.Contains(string(body), "event: gap") ||
		strings.Contains(string(body), "event: snapshot")) {
		r.object("%s: an event stream of %s after %s: %s", v.name, path, after, body)
	}
}
