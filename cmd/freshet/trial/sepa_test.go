package trial

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/diff"
)

const testClients = "../testclient"

func needTestClients(t *testing.T) {
	t.Helper()
	clitest.NeedNode(t, jsClient)
	if _, err := os.Stat(filepath.Join(testClients, "node_modules", "@arces-wot")); err != nil {
		clitest.SkipPart(t, "npm", `run "npm ci --prefix cmd/freshet/testclient"`)
	}
}

// A sepaLine is the report of the sepa-js driver on one event.
type sepaLine struct {
	Name         string
	Sequence     *int
	SPUID, Alias string
	Added        json.RawMessage
	Removed      json.RawMessage
	Rows, Wrong  []string
	Error        string
	Status       int
	Unsubscribed bool
}

// A sepaClient is a process that subscribes with npm sepa-js.
type sepaClient struct {
	t     *testing.T
	stdin io.WriteCloser
	lines chan sepaLine
	held  map[string][]string // the rows of each subscription
	last  map[string]sepaLine
}

func startSEPA(t *testing.T, addr, token, path string, queries map[string]string) *sepaClient {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"sepa.js", host, port, path}
	for _, name := range slices.Sorted(maps.Keys(queries)) {
		args = append(args, name+"="+queries[name])
	}
	cmd := exec.Command("node", args...)
	cmd.Dir, cmd.Stderr = testClients, os.Stderr
	cmd.Env = append(os.Environ(), "FRESHET_TOKEN="+token)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c := &sepaClient{t: t, lines: make(chan sepaLine, 10_000), held: map[string][]string{}, last: map[string]sepaLine{}}
	if c.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for in := bufio.NewScanner(out); in.Scan(); {
			var l sepaLine
			if json.Unmarshal(in.Bytes(), &l) == nil {
				c.lines <- l
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()         // killed
	})
	return c
}

// next returns the next event of any subscription.
func (c *sepaClient) next() sepaLine {
	c.t.Helper()
	select {
	case l, ok := <-c.lines:
		if !ok {
			c.t.Fatal("the client ended")
		}
		if len(l.Wrong) > 0 {
			c.t.Errorf("%s: %v", l.Name, l.Wrong)
		}
		if l.Sequence != nil {
			if l.Alias != l.Name {
				c.t.Errorf("%s got alias %q", l.Name, l.Alias)
			}
			c.held[l.Name], c.last[l.Name] = readable(c.t, l.Rows), l
		}
		return l
	case <-time.After(time.Minute):
		c.t.Fatal("the client says nothing")
		return sepaLine{}
	}
}

// until waits until a subscription has these rows.
func (c *sepaClient) until(name string, want []string) {
	c.t.Helper()
	for !slices.Equal(c.held[name], want) || c.last[name].Sequence == nil {
		select {
		case <-c.t.Context().Done():
			return
		default:
		}
		if l := c.next(); l.Error != "" {
			c.t.Fatalf("%s: error %s (%d)", l.Name, l.Error, l.Status)
		}
	}
}

// readable converts the driver's rows to the form of rowsOf.
func readable(t *testing.T, rows []string) []string {
	t.Helper()
	out := []string{}
	for _, r := range rows {
		var cells [][]string
		if json.Unmarshal([]byte(r), &cells) == nil {
			r = fmt.Sprintf("%q", cells)
		}
		out = append(out, r)
	}
	slices.Sort(out)
	return out
}

// rowsOf returns the rows of the server's document in a form comparable with a client's.
func rowsOf(t *testing.T, form diff.Form, document string) []string {
	t.Helper()
	res, err := diff.Decode([]byte(document), form, false)
	if err != nil {
		t.Fatal(err)
	}
	if form == diff.Ask {
		return []string{fmt.Sprint(res.Boolean())}
	}
	vars := res.Vars()
	if form.Graph() {
		vars = []string{"subject", "predicate", "object"}
	}
	kinds := map[diff.Kind]string{diff.IRI: "uri", diff.Blank: "bnode", diff.Literal: "literal"}
	out := []string{}
	for i := range res.Len() {
		var cells [][]string
		for k, term := range res.Terms(i) {
			if term.Kind != diff.Unbound {
				cells = append(cells, []string{vars[k], kinds[term.Kind], term.Value, term.Datatype, term.Lang})
			}
		}
		slices.SortFunc(cells, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
		out = append(out, fmt.Sprintf("%q", cells))
	}
	slices.Sort(out)
	return out
}

// sepaQueries cover every kind of result: optional values, repeated rows, blank nodes, an order,
// a boolean and a graph.
var sepaQueries = map[string]struct {
	form diff.Form
	text string
}{
	"rows":     {diff.Select, "SELECT ?s ?n { ?s <http://x/n> ?n }"},
	"optional": {diff.Select, "SELECT ?s ?k { ?s <http://x/n> ?n OPTIONAL { ?s <http://x/k> ?k } }"},
	"twice":    {diff.Select, "SELECT ?k { ?s <http://x/k> ?k }"},
	"blank":    {diff.Select, "SELECT ?b ?v { ?s <http://x/b> ?b . ?b <http://x/v> ?v }"},
	"ordered":  {diff.Select, "SELECT ?s ?k { ?s <http://x/k> ?k } ORDER BY DESC(?k) ?s"},
	"ask":      {diff.Ask, "ASK { ?s <http://x/k> 3 }"},
	"graph":    {diff.Construct, "CONSTRUCT { ?s <http://x/has> [ <http://x/of> ?k ] } WHERE { ?s <http://x/k> ?k }"},
}

// Clients of npm sepa-js follow random changes over crashes of the server and have the same rows
// as the server: nothing is applied twice, and nothing is missing.
func TestSEPAClient(t *testing.T) {
	needTestClients(t)
	const seed = 41
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, seed))
	s := newTestServer(t, "")
	texts := map[string]string{}
	for name, q := range sepaQueries {
		texts[name] = q.text
	}
	texts["shared-a"], texts["shared-b"] = texts["rows"], texts["ask"]
	c := startSEPA(t, s.addr, "", "/sepa/subscribe", texts)
	waitQueries(t, s, len(sepaQueries))
	s.must(t, "", "endpoint", "tick", "city") // baselines, the first notifications
	for len(c.last) < len(texts) {
		if l := c.next(); l.Sequence == nil || *l.Sequence != 0 {
			t.Fatalf("%s begins with %+v, want sequence 0", l.Name, l)
		}
	}
	if got := string(c.last["rows"].Removed); got != `{"head":{"vars":["s","n"]},"results":{"bindings":[]}}` {
		t.Errorf("the first notification removes %s", got)
	}
	check := func() {
		t.Helper()
		for name, q := range sepaQueries {
			want := rowsOf(t, q.form, s.results(id(t, s, q.text)))
			c.until(name, want)
		}
	}
	for i := range 15 {
		for range 1 + random.IntN(3) {
			s.Update(t, randomUpdate(random))
		}
		s.must(t, "", "endpoint", "tick", "city")
		if i == 7 {
			check()
			for _, name := range []string{"shared-a", "shared-b"} { // the library loses these when the connection breaks
				fmt.Fprintln(c.stdin, name)
				for l := c.next(); l.Name != name || !l.Unsubscribed; l = c.next() {
				}
			}
		}
		if i == 7 || i == 11 {
			s.crash()
		}
	}
	check()
	fmt.Fprintln(c.stdin, "rows")
	for l := c.next(); !l.Unsubscribed || l.Name != "rows"; l = c.next() {
	}
	s.Update(t, `INSERT DATA { <http://x/last> <http://x/n> "last" ; <http://x/k> 7 }`)
	s.must(t, "", "endpoint", "tick", "city")
	c.until("twice", rowsOf(t, diff.Select, s.results(id(t, s, texts["twice"]))))
	if slices.ContainsFunc(c.held["rows"], func(r string) bool { return strings.Contains(r, "last") }) {
		t.Error("a subscription that was ended still gets notifications")
	}
}

// randomUpdate changes one of a few resources, so that values appear, disappear, repeat and
// move.
func randomUpdate(r *rand.Rand) string {
	s := fmt.Sprintf("<http://x/r%d>", r.IntN(6))
	switch r.IntN(5) {
	case 0:
		return fmt.Sprintf(`DELETE WHERE { %s ?p ?o }`, s)
	case 1:
		return fmt.Sprintf(`DELETE { %s <http://x/k> ?k } INSERT { %s <http://x/k> %d } WHERE { OPTIONAL { %s <http://x/k> ?k } }`, s,
			s, r.IntN(4), s)
	case 2:
		return fmt.Sprintf(`INSERT DATA { %s <http://x/b> [ <http://x/v> %d ] }`, s, r.IntN(3))
	case 3:
		return fmt.Sprintf(`DELETE WHERE { %s <http://x/k> ?k }`, s)
	}
	return fmt.Sprintf(`INSERT DATA { %s <http://x/n> "%d \"é𝄞\\\u2028\n\""@en ; <http://x/k> %d }`, s, r.IntN(9), r.IntN(4))
}

// waitQueries waits until the server has that many queries.
func waitQueries(t *testing.T, s *testServer, n int) {
	t.Helper()
	for range 1200 {
		if strings.Count(s.must(t, "", "query", "list", "--json"), "\n") >= n {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("the server does not get %d queries", n)
}

// id returns the id of the query with this text.
func id(t *testing.T, s *testServer, text string) string {
	t.Helper()
	for line := range strings.Lines(s.must(t, "", "query", "list", "--json")) {
		var q struct{ ID, Query string }
		if json.Unmarshal([]byte(line), &q) == nil && q.Query == text {
			return q.ID
		}
	}
	t.Fatalf("no query %q", text)
	return ""
}

// Errors have a status and the alias, and do not close the connection.
func TestSEPAErrors(t *testing.T) {
	needTestClients(t)
	s := newTestServer(t, "")
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "-")
	s.must(t, "", "endpoint", "tick", "city")
	c := startSEPA(t, s.addr, "", "/sepa/subscribe", map[string]string{
		"shared-1-bad": "SELECT ?s {", "shared-2-update": "INSERT DATA { <http://x/s> <http://x/p> 1 }",
		"shared-3-good": "SELECT ?s ?n { ?s <http://x/n> ?n }",
	})
	got := map[string]int{}
	for len(got) < 3 {
		l := c.next()
		got[l.Name] = l.Status
	}
	want := map[string]int{"shared-1-bad": 400, "shared-2-update": 422, "shared-3-good": 0}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("status (-want +got):\n%s", d)
	}
}

// On a server with tokens the message's authorization decides. Filter and rate in the URL apply.
func TestSEPATokensAndFilter(t *testing.T) {
	needTestClients(t)
	s := newTestServer(t, "")
	s.Env["FRESHET_TOKEN"] = strings.TrimSpace(s.must(t, "", "token", "add", "boss", "--role", "admin"))
	secret := strings.TrimSpace(s.must(t, "", "token", "add", "sensor", "--role", "app"))
	read := strings.TrimSpace(s.must(t, "", "token", "add", "reader", "--role", "read"))
	query := map[string]string{"q": "SELECT ?s ?n { ?s <http://x/n> ?n }"}
	for token, status := range map[string]int{"": 401, "wrong": 401, read: 403} {
		if l := startSEPA(t, s.addr, token, "/sepa/subscribe", query).next(); l.Status != status || l.Name != "q" {
			t.Errorf("token %q: %+v, want status %d", token, l, status)
		}
	}
	c := startSEPA(t, s.addr, secret, "/sepa/subscribe?vars=s&where=s:contains:1&min_rows=2", query)
	waitQueries(t, s, 1)
	s.must(t, "", "endpoint", "tick", "city")
	if l := c.next(); l.Sequence == nil || len(l.Rows) != 0 {
		t.Errorf("the filtered beginning is %+v", l)
	}
	for n := range 3 { // 1 meets the condition, 2 does not
		if n > 0 {
			s.step(n)
		}
	}
	s.step(10)
	l := c.next()
	if want := `{"head":{"vars":["s"]},"results":{"bindings":[{"s":{"type":"uri","value":"http://x/1"}},{"s":{"type":"uri",` +
		`"value":"http://x/10"}}]}}`; string(l.Added) != want {
		t.Errorf("the net change since the last message is\n%s, want\n%s", l.Added, want)
	}
}

// The graphs of a subscription are part of the query's identity.
func TestSEPAGraphs(t *testing.T) {
	s := newTestServer(t, "")
	s.Update(t, `INSERT DATA { GRAPH <http://x/g> { <http://x/in> <http://x/n> 1 } }`)
	conn, _, err := websocket.DefaultDialer.Dial("ws://"+s.addr+"/sepa/subscribe", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for alias, graph := range map[string]string{"none": "", "one": `,"default-graph-uri":"http://x/g"`,
		"list": `,"default-graph-uri":["http://x/g"]`} {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(`{"subscribe":{"sparql":"SELECT ?s { ?s <http://x/n> ?n }","alias":"`+
			alias+`"`+graph+`}}`)); err != nil {
			t.Fatal(err)
		}
	}
	waitQueries(t, s, 2)
	s.must(t, "", "endpoint", "tick", "city")
	for range 3 {
		var m struct {
			Notification struct {
				Alias string
				Added struct {
					Results struct {
						Bindings []struct{ S struct{ Value string } }
					}
				} `json:"addedResults"`
			}
		}
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := conn.ReadJSON(&m); err != nil {
			t.Fatal(err)
		}
		want := "http://x/in"
		if m.Notification.Alias == "none" {
			want = "http://x/0"
		}
		if b := m.Notification.Added.Results.Bindings; len(b) != 1 || b[0].S.Value != want {
			t.Errorf("%s: %+v, want %s", m.Notification.Alias, b, want)
		}
	}
}
