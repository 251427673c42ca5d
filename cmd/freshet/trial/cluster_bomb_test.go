// Tests of a cluster with rules whose alerts are too large for it.

package trial

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

// A rowEndpoint answers with rows of 50 bytes whose value is 11.
type rowEndpoint struct {
	*httptest.Server
	rows atomic.Int64
}

func newRowEndpoint(t *testing.T) *rowEndpoint {
	e := new(rowEndpoint)
	e.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rows := make([]string, e.rows.Load())
		for i := range rows {
			rows[i] = fmt.Sprintf(`{"s":{"type":"literal","value":"%050d"},"v":{"type":"literal","value":"11",`+
				`"datatype":"http://www.w3.org/2001/XMLSchema#integer"}}`, i)
		}
		w.Header().Set("Content-Type", "application/sparql-results+json")
		fmt.Fprintf(w, `{"head":{"vars":["s","v"]},"results":{"bindings":[%s]}}`, strings.Join(rows, ","))
	}))
	t.Cleanup(e.Close)
	return e
}

// bombRows is the number of rows that make the alerts of a bomb too large.
const bombRows = 1000

// rowQuery returns a query about a predicate of its own.
func rowQuery(name string) map[string]any {
	return map[string]any{"name": name, "endpoint": "numbers", "query": "SELECT ?s ?v { ?s <http://example.org/" + name + "> ?v }"}
}

// bomb returns a rule with as many labels. Each has one text.
func bomb(name string, labels int, text string, to []map[string]string) map[string]any {
	all := map[string]string{"s": "?s"}
	for i := range labels - 1 {
		all[fmt.Sprint("l", i)] = text
	}
	return map[string]any{"name": name, "query": "rows", "when": "?v > 10", "labels": all, "to": to}
}

// bombs are the rules of the tests: one with labels that are large by themselves, and one with labels of
// moderate size for many receivers. Both are harmless while the result has one row.
func bombs(receiver string) (byLabels, byData map[string]any) {
	var to []map[string]string
	for i := range 10 {
		to = append(to, map[string]string{"webhook": fmt.Sprint(receiver, "/", i)})
	}
	return bomb("labels", 20, "?s "+strings.Repeat("<", 1100), nil), bomb("data", 9, strings.Repeat("x", 1000), to)
}

// newRefuser returns a receiver that takes nothing, so that messages stay.
func newRefuser(t *testing.T) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	t.Cleanup(s.Close)
	return s.URL
}

// A bombed is a caller of a server that has such rules.
type bombed struct {
	t     *testing.T
	token string
}

// call sends a request, and sends it again while the answer is 503.
func (b *bombed) call(url, method, path string, in, out any) {
	b.t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		b.t.Fatal(err)
	}
	clitest.Eventually(b.t, method+" "+path, func() bool {
		q, err := http.NewRequestWithContext(b.t.Context(), method, url+path, strings.NewReader(string(body)))
		if err != nil {
			b.t.Fatal(err)
		}
		q.Header.Set("Content-Type", "application/json")
		if b.token != "" {
			q.Header.Set("Authorization", "Bearer "+b.token)
		}
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			b.t.Fatal(err)
		}
		defer r.Body.Close()
		switch {
		case r.StatusCode == http.StatusServiceUnavailable:
			return false
		case r.StatusCode/100 != 2:
			b.t.Fatalf("%s %s: %s", method, path, r.Status)
		case out != nil:
			if err := json.NewDecoder(r.Body).Decode(out); err != nil {
				b.t.Fatal(err)
			}
		}
		return true
	})
}

// fails waits until a rule is failing, and checks that it says why.
func (b *bombed) fails(url, name string) {
	b.t.Helper()
	var v api.Rule
	clitest.Eventually(b.t, "the rule "+name+" is failing", func() bool {
		b.call(url, "GET", "/v1/rules/"+name, nil, &v)
		return v.Status == "failing"
	})
	if !strings.Contains(v.Reason, "its alerts") && !strings.Contains(v.Reason, "limits.token_bytes") || !strings.Contains(v.Reason,
		"fewer or shorter labels") {
		b.t.Errorf("%s: %s", name, v.Reason)
	}
}

// fires waits until a rule fires.
func (b *bombed) fires(url, name string) {
	b.t.Helper()
	clitest.Eventually(b.t, "the rule "+name+" fires", func() bool {
		var v api.Rule
		b.call(url, "GET", "/v1/rules/"+name, nil, &v)
		return v.Status == "firing"
	})
}

// Rules whose alerts do not fit into the journal, by their labels or by the data of the endpoint, fail and say
// why. The nodes stay up and serve everything else, and so does the node that starts again.
func TestClusterRuleBombs(t *testing.T) {
	t.Parallel()
	e := newRowEndpoint(t)
	e.rows.Store(1)
	tokens := ""
	for _, role := range []string{"app", "admin"} {
		tokens += fmt.Sprintf("  - {name: %s, role: %[1]s, sha256: %q}\n", role, registry.HashSecret("a-token-of-an-"+role))
	}
	nodes := startCluster(t, e.URL, "websub: {allow_callback_networks: [127.0.0.0/8]}\ntokens:\n"+tokens)
	for _, n := range nodes {
		n.awaitReady(t)
	}
	byLabels, byData := bombs(newRefuser(t))
	b, admin := bombed{t, "a-token-of-an-app"}, bombed{t, "a-token-of-an-admin"}
	at := func(n string) string { return nodes[n].Url }
	b.call(at("n1"), "POST", "/v1/queries", rowQuery("rows"), nil)
	b.call(at("n1"), "POST", "/v1/rules", map[string]any{"name": "small", "query": "rows", "when": "rows > 900"}, nil)
	b.call(at("n1"), "POST", "/v1/rules", byData, nil)
	b.fires(at("n1"), "data")
	e.rows.Store(bombRows)
	b.fires(at("n2"), "small")
	b.fails(at("n2"), "data")
	b.call(at("n2"), "POST", "/v1/rules", byLabels, nil)
	b.fails(at("n3"), "labels")
	for n, x := range nodes {
		name := "of" + n
		b.call(x.Url, "POST", "/v1/queries", rowQuery(name), nil)
		clitest.Eventually(t, n+" has the result of a further query", func() bool {
			var q api.Query
			b.call(x.Url, "GET", "/v1/queries/"+name, nil, &q)
			return q.Rows == bombRows
		})
	}
	var status registry.ClusterStatus
	admin.call(at("n1"), "GET", "/v1/cluster", nil, &status)
	var owner string
	for _, l := range status.Leases {
		if l.Key == "alerts" {
			owner = l.Node
		}
	}
	nodes[owner].Kill()
	nodes[owner].start(t)
	b.fails(at(owner), "data")
	b.call(at(owner), "DELETE", "/v1/rules/labels", nil, nil)
	b.call(at(owner), "DELETE", "/v1/rules/data", nil, nil)
	e.rows.Store(1)
	clitest.Eventually(t, "the other rule is resolved", func() bool {
		var v api.Rule
		b.call(at(owner), "GET", "/v1/rules/small", nil, &v)
		return v.Status == "inactive"
	})
	for n, x := range nodes {
		select {
		case <-x.Ended:
			t.Errorf("%s ended: %v\n%s", n, x.Err, x.Stderr)
		default:
		}
	}
}

// A server that stopped with such rules loses them by "rule remove --local", and starts without them.
func TestRuleBombRemovedLocally(t *testing.T) {
	t.Parallel()
	e := newRowEndpoint(t)
	e.rows.Store(bombRows)
	u := &restartingServer{t: t, bin: binary(t), addr: clitest.FreeAddr(t), data: filepath.Join(t.TempDir(), "data"),
		yaml: fmt.Sprintf("endpoints: [{name: numbers, url: %q, slot: \"@every 1s\", budget: 900ms}]\nwebsub: "+
			"{allow_callback_networks: [127.0.0.0/8]}\n", e.URL)}
	u.start()
	b := bombed{t: t}
	byLabels, byData := bombs(newRefuser(t))
	b.call("http://"+u.addr, "POST", "/v1/queries", rowQuery("rows"), nil)
	for _, rule := range []map[string]any{byLabels, byData} {
		b.call("http://"+u.addr, "POST", "/v1/rules", rule, nil)
		b.fails("http://"+u.addr, rule["name"].(string))
	}
	u.p.Kill()
	if code, _, stderr := runCLI(t, nil, "", "rule", "remove", "labels", "data", "--local", "--data", u.data); code != 0 {
		t.Fatalf("%d %s", code, stderr)
	}
	u.start()
	defer func() { u.p.Kill() }()
	var list struct{ Rules []api.Rule }
	if b.call("http://"+u.addr, "GET", "/v1/rules", nil, &list); len(list.Rules) > 0 {
		t.Errorf("%+v", list.Rules)
	}
}
