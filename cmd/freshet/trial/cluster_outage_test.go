// Tests of clusters that lose their majority, and of nodes that lack what the journal has dropped.

package trial

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/store/journal"
	natsjournal "github.com/freshet/freshet/store/journal/nats"
)

// startNumbers starts a cluster whose endpoint has the number 1, and follows that at a node.
func startNumbers(t *testing.T, at string) (*countedEndpoint, map[string]*processNode, *numberFollower) {
	e := newCounted(t)
	e.set(1)
	nodes := startCluster(t, e.http.URL, "")
	for _, n := range nodes {
		n.awaitReady(t)
	}
	nodes["n1"].registerNumber(t)
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
	r, err := n.client.Post(n.Url+"/v1/queries", "application/json", strings.NewReader(body))
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

// registerNumber registers the query that is followed. It tries again if the journal is slow.
func (n *processNode) registerNumber(t *testing.T) {
	t.Helper()
	clitest.Eventually(t, "the query is registered", func() bool {
		status, text, _ := n.register(t, "number")
		if status/100 != 2 && status != http.StatusServiceUnavailable {
			t.Fatalf("%d %s", status, text)
		}
		return status/100 == 2
	})
}

// named is how a list of queries begins the entry of one that has a name.
func named(name string) string { return fmt.Sprintf(`"endpoint":"numbers","name":%q`, name) }

// changes returns the log of a query as the node has it once it has a change.
func (n *processNode) changes(t *testing.T, f *numberFollower, seq int) (text string) {
	t.Helper()
	clitest.Eventually(t, n.name+" has all changes", func() bool {
		_, text = n.get(t, fmt.Sprintf("/v1/queries/%s/changes?after=%s:0&limit=1000", f.from.Query, f.from.Epoch))
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
		if status, text, retry := n3.register(t, name); status != http.StatusServiceUnavailable || retry == "" ||
			!strings.Contains(text, "does not reach the journal") {
			t.Errorf("a write: %d, Retry-After %q: %s", status, retry, text)
		}
	}
	if status, text := n3.get(t, "/v1/queries/number/results.csv"); status != 200 || !strings.Contains(text, "1") {
		t.Errorf("a read: %d %s", status, text)
	}
	clitest.Eventually(t, "n3 is not ready", func() bool { code, _ := n3.get(t, "/readyz"); return code == 503 })
	// It counts no lease that has run out, and does not say that others take over.
	clitest.Eventually(t, "the leases of n3 have run out", func() bool {
		_, text := n3.get(t, "/metrics")
		return strings.Contains(text, `freshet_lease_owned{kind="endpoint"} 0`) && strings.Contains(text,
			`freshet_lease_owned{kind="delivery"} 0`)
	})
	clitest.Eventually(t, "the status at n3 says that it is cut off", func() bool {
		out, err := exec.Command(binary(t), "cluster", "status", "--server", n3.Url).Output()
		return err == nil && strings.Contains(string(out), "n3 is cut off from the journal")
	})
	clitest.Eventually(t, "n3 says that it is cut off", func() bool { // it may have a state that is a second old
		_, text := n3.get(t, "/v1/endpoints/numbers")
		return strings.Contains(text, "this node is cut off from its cluster") && !strings.Contains(text, "takes over")
	})
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
		if _, text := n.get(t, "/v1/queries?limit=100"); strings.Count(text, named("first")) > 1 || strings.Contains(text,
			named("second")) || strings.Count(text, named("third")) != 1 {
			t.Errorf("%s: %s", name, text)
		}
	}
	// A node that stops in order does not wait for a majority, and neither does one that starts.
	nodes["n1"].Kill()
	nodes["n2"].Kill()
	if err := n3.Stop(); err != nil || strings.Contains(n3.Stderr.String(), "left behind") {
		t.Errorf("n3 stops without a majority: %v\n%s", err, n3.Stderr)
	}
	alone := clitest.Launch(t, binary(t), "serve", "--config", n3.config)
	clitest.Eventually(t, "n3 waits for the journal", func() bool {
		return strings.Contains(alone.Stderr.String(),
			"waiting for the journal")
	})
	if status, text := n3.get(t, "/healthz"); status != http.StatusOK {
		t.Errorf("healthz of a node that waits for the journal: %d %s", status, text)
	}
	if status, text := n3.get(t, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, "waits for the journal") {
		t.Errorf("readyz of a node that waits for the journal: %d %s", status, text)
	}
	if err := alone.Stop(); err != nil {
		t.Errorf("n3 stops while it starts: %v\n%s", err, alone.Stderr)
	}
}

// A node that lacks what the journal has dropped, because it was stopped for long or because it is
// new, does not start and says why. It goes on after a rebuild from another node.
func TestClusterRebuild(t *testing.T) {
	t.Parallel()
	e, nodes, f := startNumbers(t, "n2")
	n1, n3 := nodes["n1"], nodes["n3"]
	clients := clitest.FreeAddr(t)
	config, err := os.ReadFile(n1.config)
	if err == nil {
		err = os.WriteFile(n1.config, fmt.Appendf(config, "  clients: %s\n", clients), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := n1.Stop(); err != nil {
		t.Fatal(err)
	}
	n1.start(t)
	value := 1
	for _, fresh := range []bool{false, true} {
		if err := n3.Stop(); err != nil {
			t.Fatal(err)
		}
		value++
		e.set(value)
		f.expect(value)
		dropAll(t, clients, n1, nodes["n2"])
		if data := filepath.Join(filepath.Dir(n3.config), "n3"); fresh {
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
		}
		if p, err := clitest.TryStart(t, nil, binary(t), "serve", "--config", n3.config); err == nil {
			p.Kill()
			t.Fatal("a node that lacks entries starts")
		} else if !strings.Contains(err.Error(), "freshet cluster rebuild") || !strings.Contains(err.Error(), "were dropped") {
			t.Errorf("new: %t: %v", fresh, err)
		}
		env, from := map[string]string{"FRESHET_SERVER": n1.Url}, "n1"
		if fresh { // any node that runs will do
			env, from = nil, "n2"
			config, err := os.ReadFile(n3.config)
			if err == nil {
				err = os.WriteFile(n3.config, fmt.Appendf(config, "  api: {n1: %q, n2: %q, n3: %q}\n", "http://"+clitest.FreeAddr(t),
					nodes["n2"].Url, n3.Url), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if code, out, stderr := runCLI(t, env, "", "cluster", "rebuild", "--config", n3.config); code != 0 || !strings.Contains(stderr,
			"a copy of the store of "+from) {
			t.Fatalf("rebuild: %d %s%s", code, out, stderr)
		}
		n3.start(t)
		value++
		e.set(value)
		f.expect(value)
		if got, want := n3.changes(t, f, value), n1.changes(t, f, value); got != want {
			t.Errorf("n3 has other changes:\n%s\n%s", got, want)
		}
	}
	f.follow(n3) // from its position
	value++
	e.set(value)
	f.expect(value)
}

// A node whose journal has lost messages ends, and says that it is to be rebuilt. Afterwards it has what the
// others have.
func TestClusterDamagedJournal(t *testing.T) {
	t.Parallel()
	e, nodes, f := startNumbers(t, "n2")
	n1, n3 := nodes["n1"], nodes["n3"]
	if err := n3.Stop(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(filepath.Dir(n3.config), "n3", "journal", "jetstream", "$G", "streams", "*", "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no messages: %v", err)
	}
	i, err := os.Stat(files[0])
	if err == nil {
		err = os.Truncate(files[0], i.Size()/2)
	}
	if err != nil {
		t.Fatal(err)
	}
	e.set(2)
	f.expect(2)
	p, err := clitest.TryStart(t, nil, binary(t), "serve", "--config", n3.config)
	if err == nil {
		select {
		case <-p.Ended:
			err = errors.New(p.Stderr.String())
		case <-time.After(2 * time.Minute):
			p.Kill()
			t.Fatalf("it goes on without the messages that are missing: %s", p.Stderr)
		}
	}
	if !asksForRebuild(err) {
		t.Errorf("it does not say what to do: %v", err)
	}
	e.set(3)
	f.expect(3)
	if code, out, stderr := runCLI(t, map[string]string{"FRESHET_SERVER": n1.Url}, "", "cluster", "rebuild", "--config",
		n3.config); code != 0 {
		t.Fatalf("rebuild: %d %s%s", code, out, stderr)
	}
	n3.start(t)
	e.set(4)
	f.expect(4)
	if got, want := n3.changes(t, f, 4), n1.changes(t, f, 4); got != want {
		t.Errorf("n3 has other changes:\n%s\n%s", got, want)
	}
}

// dropAll removes from the journal what some nodes have applied.
func dropAll(t *testing.T, address string, by ...*processNode) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	j, err := natsjournal.Dial(ctx, "nats://"+address, natsjournal.Config{Name: "test"}, nats.Token(nodesSecret))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var head journal.Position
	clitest.Eventually(t, "the end of the journal", func() bool { // after an election, if there is one
		head, err = j.Head(ctx)
		return err == nil
	})
	for _, n := range by {
		clitest.Eventually(t, n.name+" is up to date", func() bool { return n.status(t).Applied >= head.Seq })
	}
	clitest.Eventually(t, "the drop", func() bool { return j.Drop(ctx, head.Seq) == nil })
}
