package notify_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/registry"
)

// skipPart skips a test that needs a missing part of the machine, unless the part is
// required.
func skipPart(t *testing.T, part string) {
	t.Helper()
	message := fmt.Sprintf("SKIP-PART %s: run \"make deps\"", part)
	if slices.Contains(strings.Split(os.Getenv("FRESHET_REQUIRE"), ","), part) {
		t.Fatal(message)
	}
	t.Skip(message)
}

const clientDir = "../web/client"

func needNode(t *testing.T) string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		skipPart(t, "npm")
	}
	for _, module := range []string{"ws", "eventsource", "n3", "@rdfjs/types"} {
		if _, err := os.Stat(filepath.Join(clientDir, "node_modules", module)); err != nil {
			skipPart(t, "npm")
		}
	}
	return node
}

// A cutter is a proxy that breaks every connection after a random number of bytes.
type cutter struct {
	ln   net.Listener
	to   string
	wg   sync.WaitGroup
	rnd  *rand.Rand // of the accepting goroutine
	cuts int

	mu   sync.Mutex
	open map[net.Conn]bool
}

func newCutter(t *testing.T, to string, seed uint64) *cutter {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{ln: ln, to: to, rnd: rand.New(rand.NewPCG(seed, 0)), open: map[net.Conn]bool{}}
	c.wg.Go(c.serve)
	t.Cleanup(func() {
		ln.Close()
		c.mu.Lock()
		for conn := range c.open {
			conn.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) serve() {
	for {
		in, err := c.ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", c.to)
		if err != nil {
			in.Close()
			continue
		}
		c.mu.Lock()
		c.open[in], c.open[out] = true, true
		c.cuts++
		first := c.cuts == 1
		c.mu.Unlock()
		budget := int64(1500 + c.rnd.IntN(10_000))
		if first { // so that it is cut, be the rest folded into few messages
			budget = int64(1000 + c.rnd.IntN(1000))
		}
		c.wg.Go(func() {
			c.wg.Go(func() { io.Copy(out, in); in.Close(); out.Close() })
			io.CopyN(in, out, budget)
			in.Close()
			out.Close()
		})
	}
}

func (c *cutter) connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cuts
}

// A line is one line of output of driver/follow.js.
type line struct {
	Type, Epoch, Reason, Message, Hash string
	Prev, Seq                          *uint64
	Resumed                            *bool
	Document                           *string
}

// TestJavaScript: the JavaScript client, over npm's ws, Node's own WebSocket and
// EventSource, is cut off again and again and always holds the truth.
func TestJavaScript(t *testing.T) {
	node := needNode(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := newRig(t, func(o *notify.Options) {
		o.Limits.Fold, o.Limits.Part = 5, 200
		o.Timing.Retry, o.Timing.Ping = 10*time.Millisecond, 100*time.Millisecond
	})
	kinds := []struct {
		form    diff.Form
		ordered bool
	}{{diff.Select, false}, {diff.Select, true}, {diff.Ask, false}, {diff.Describe, false}}
	w := &truth{docs: map[string][][]byte{}}
	rnd := rand.New(rand.NewPCG(seed, 1))
	const steps = 120
	var wg, begun sync.WaitGroup
	for i, k := range kinds {
		id := r.log.Add(fmt.Sprintf("q%d", i), k.form, k.ordered)
		w.record(r, id, notifytest.Random(rnd, k.form, k.ordered))
		for j, transport := range []string{"ws", "native", "sse"} {
			proxy := newCutter(t, r.http.Listener.Addr().String(), seed+uint64(3*i+j))
			begun.Add(1)
			wg.Go(func() {
				runDriver(t, w, id, begun.Done, exec.CommandContext(t.Context(), node, "--experimental-websocket", "driver/follow.js",
					"http://"+proxy.ln.Addr().String(), id, transport, fmt.Sprint(steps+1)))
				if proxy.connections() < 2 {
					t.Errorf("%s over %s was never cut", id, transport)
				}
			})
		}
	}
	begun.Wait() // so that they follow live
	for range steps {
		for i, k := range kinds {
			id, _ := r.log.Resolve(open[""], fmt.Sprintf("q%d", i))
			for !w.record(r, id.ID, notifytest.Random(rnd, k.form, k.ordered)) {
			}
		}
		time.Sleep(time.Duration(rnd.IntN(30)) * time.Millisecond)
	}
	wg.Wait()
}

// A page without a token follows a public query of a server that has tokens, and is told that it cannot follow others.
func TestJavaScriptWithoutToken(t *testing.T) {
	node := needNode(t)
	r := newRig(t, func(o *notify.Options) { o.Gate = gate{"t": {Name: "r", Role: registry.RoleRead}} })
	for query, want := range map[string]string{"public": `"type":"snapshot"`, "hidden": `"type":"error"`} {
		id := r.log.Add(query, diff.Select, false)
		r.log.Publish(id, query == "public")
		r.record(id, rows("a"))
		cmd := exec.CommandContext(t.Context(), node, "driver/follow.js", r.http.URL, query, "ws", "1")
		cmd.Dir = clientDir
		out, err := cmd.Output()
		if (err != nil) != (query == "hidden") || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, %s", query, err, out)
		}
	}
}

// runDriver compares every line of a driver with the log. It calls begun after the
// first line.
func runDriver(t *testing.T, w *truth, id string, begun func(), cmd *exec.Cmd) {
	once := sync.OnceFunc(begun)
	defer once()
	name := cmd.Args[len(cmd.Args)-2]
	cmd.Dir = clientDir
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return
	}
	seen, snapshots := uint64(0), 0
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		once()
		var l line
		if err := json.Unmarshal(in.Bytes(), &l); err != nil {
			t.Errorf("%s: %s: %v", name, in.Text(), err)
			continue
		}
		switch {
		case l.Type == "error" || l.Type == "gap":
			t.Errorf("%s: %s", name, in.Text())
		case l.Type == "snapshot":
			snapshots++
			seen = *l.Seq
		case l.Type == "delta" || l.Type == "change":
			if *l.Prev != seen {
				t.Errorf("%s: (%d, %d] after %d", name, *l.Prev, *l.Seq, seen)
			}
			seen = *l.Seq
		case l.Type == "alive":
			seen = *l.Seq
		}
		if l.Document != nil && l.Seq != nil && *l.Document != string(w.at(id, *l.Seq)) {
			t.Errorf("%s at %d holds\n%s, the truth is\n%s", name, *l.Seq, *l.Document, w.at(id, *l.Seq))
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: %v\n%s", name, err, complaints.String())
	}
	if snapshots > 1 {
		t.Errorf("%s: %d snapshots although the log reaches back", name, snapshots)
	}
}

// hardTriples is a graph with terms that are hard to write and to read.
func hardTriples() *diff.Result {
	b := diff.NewBuilder(diff.Construct, diff.Options{})
	iri := func(v string) diff.Term { return diff.Term{Kind: diff.IRI, Value: v} }
	p := iri("http://x/é𝄞?a=b&c#d")
	for _, o := range []diff.Term{
		{Kind: diff.Literal, Value: ""}, {Kind: diff.Literal, Value: "a\"b\\c\nd\re\tf\bg\fh"}, {Kind: diff.Literal, Value: "\x01\x7f\u2028é𝄞"},
		{Kind: diff.Literal, Value: `\u0041 \n`}, {Kind: diff.Literal, Value: `" . <x> "`, Lang: "de-ch"},
		{Kind: diff.Literal, Value: "1.50", Datatype: "http://www.w3.org/2001/XMLSchema#decimal"},
		{Kind: diff.Literal, Value: "@en"}, {Kind: diff.Literal, Value: "^^<x>", Datatype: "http://x/ü"},
		{Kind: diff.Blank, Value: "b"}, iri("urn:a:b"),
	} {
		must(b.Triple(iri("http://x/s"), p, o))
	}
	must(b.Triple(diff.Term{Kind: diff.Blank, Value: "b"}, p, diff.Term{Kind: diff.Blank, Value: "c"}))
	return finish(b)
}

// TestJavaScriptUnits runs the client's own tests.
func TestJavaScriptUnits(t *testing.T) {
	node := needNode(t)
	r := newRig(t, nil)
	id := r.log.Add("q", diff.Select, false)
	r.record(id, rows("ü", "\"\u2028", "𝄞"))
	graph := r.log.Add("graph", diff.Construct, false)
	r.record(graph, hardTriples())
	cmd := exec.CommandContext(t.Context(), node, "--test")
	cmd.Dir = clientDir
	cmd.Env = append(os.Environ(), "FRESHET_URL="+r.http.URL, "FRESHET_QUERY=q", "FRESHET_GRAPH=graph")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "# skipped 0") {
		t.Errorf("node --test: %v\n%s", err, out)
	}
}
