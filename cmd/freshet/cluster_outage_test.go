// Tests of clusters that lose their majority.

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// startNumbers starts a cluster whose endpoint has the number 1, and follows that at a node.
func startNumbers(t *testing.T, at string) (*countedEndpoint, map[string]*processNode, *numberFollower) {
	e := newCounted(t)
	e.set(1)
	nodes := startCluster(t, e.http.URL, "")
	for _, n := range nodes {
		n.awaitReady(t)
	}
	if status, text, _ := nodes["n1"].register(t, "number"); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	f := &numberFollower{t: t, query: "number", seen: make(chan string, 100)}
	t.Cleanup(f.stop)
	f.follow(nodes[at])
	f.expect(1)
	return e, nodes, f
}

func (n *processNode) awaitReady(t *testing.T) {
	t.Helper()
	clitest.Eventually(t, n.name+" is ready", func() bool {
		select {
		case <-n.Ended:
			t.Fatalf("%s ended: %v\n%s", n.name, n.Err, n.Stderr)
		default:
		}
		code, _ := n.get(t, "/readyz")
		return code == 200
	})
}

// start starts the node again.
func (n *processNode) start(t *testing.T) {
	t.Helper()
	n.Process = clitest.Start(t, binary(t), "serve", "--config", n.config)
	n.awaitReady(t)
}

// register registers a query of its own.
func (n *processNode) register(t *testing.T, name string) (status int, text, retry string) {
	t.Helper()
	body := fmt.Sprintf(`{"name": %q, "endpoint": "numbers", "query": "SELECT ?n { ?s <http://example.org/%s> ?n }"}`, name, name)
	r, err := http.Post(n.Url+"/v1/queries", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, b.String(), r.Header.Get("Retry-After")
}

// named is how a list of queries begins the entry of one that has a name.
func named(name string) string { return fmt.Sprintf(`"endpoint":"numbers","name":%q`, name) }

// changes returns the log of a query as the node has it once it has a change.
func (n *processNode) changes(t *testing.T, f *numberFollower, seq int) (text string) {
	t.Helper()
	clitest.Eventually(t, n.name+" has all changes", func() bool {
		_, text = n.get(t, fmt.Sprintf("/v1/queries/%s/changes?since=%s:0&limit=1000", f.from.Query, f.from.Epoch))
		return strings.Contains(text, fmt.Sprintf(`"seq":%d,`, seq))
	})
	return text
}

// A node that has lost the majority answers reads and refuses writes with 503. Everything goes on
// when one of the others returns. No change is lost, and a write that was refused is stored once
// or not at all.
func TestClusterWithoutMajority(t *testing.T) {
	t.Parallel()
	e, nodes, f := startNumbers(t, "n3")
	n3 := nodes["n3"]
	nodes["n1"].Kill()
	nodes["n2"].Kill()
	e.set(2)
	for _, name := range []string{"first", "second"} { // the second is refused without a wait
		if status, text, retry := n3.register(t, name); status != http.StatusServiceUnavailable || retry == "" || !strings.Contains(text, "majority") {
			t.Errorf("a write: %d, Retry-After %q: %s", status, retry, text)
		}
	}
	if status, text := n3.get(t, "/v1/queries/number/results.csv"); status != 200 || !strings.Contains(text, "1") {
		t.Errorf("a read: %d %s", status, text)
	}
	clitest.Eventually(t, "n3 is not ready", func() bool { code, _ := n3.get(t, "/readyz"); return code == 503 })
	nodes["n1"].start(t)
	f.expect(2)
	n3.awaitReady(t)
	clitest.Eventually(t, "a write succeeds", func() bool { status, _, _ := n3.register(t, "third"); return status < 300 })
	e.set(3)
	f.expect(3)
	nodes["n2"].start(t)
	e.set(4)
	f.expect(4)
	want := n3.changes(t, f, 4)
	for name, n := range nodes {
		if got := n.changes(t, f, 4); got != want {
			t.Errorf("%s has other changes:\n%s\n%s", name, got, want)
		}
		if _, text := n.get(t, "/v1/queries?limit=100"); strings.Count(text, named("first")) > 1 || strings.Contains(text, named("second")) || strings.Count(text, named("third")) != 1 {
			t.Errorf("%s: %s", name, text)
		}
	}
}
