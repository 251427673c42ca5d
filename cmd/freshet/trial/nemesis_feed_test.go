// A cluster with a change feed under the nemesis.

package trial

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// TestTruthNemesisWithFeed is TestTruthNemesis for an endpoint that has a change feed and tells its position. The
// node that reads the feed is hit more often. Besides, the cluster must have read each event once. Queries are
// merged, too.
func TestTruthNemesisWithFeed(t *testing.T) {
	clitest.NeedEngine(t)
	t.Parallel()
	n := newNemesis(t, newPatchFeed(t))
	if os.Getenv("FRESHET_NEMESIS_FAULTS") == "" {
		n.faults = 2 // of owners, until another node asks
	}
	n.run()
}

// A patchFeed is a log of RDF patches, one for each revision. Its methods do nothing for nil.
type patchFeed struct {
	http *httptest.Server

	mu     sync.Mutex
	log    []string
	values map[string]int
	read   string         // the node that asked last
	reads  map[string]int // requests by node
}

func newPatchFeed(t *testing.T) *patchFeed {
	p := &patchFeed{values: map[string]int{}, reads: map[string]int{}}
	p.http = httptest.NewServer(p)
	t.Cleanup(p.http.Close)
	p.publish(0, 9, 0) // so that there is something to begin with
	return p
}

// settings is the part of a node's configuration that defines the feed.
func (p *patchFeed) settings() string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf("feeds: [{name: log, kind: rdf-patch, url: %q, every: 100ms}]", p.http.URL)
}

// ofEndpoint is the part of the endpoint's settings.
func (p *patchFeed) ofEndpoint() string {
	if p == nil {
		return ""
	}
	return `merge: auto, feed: log, lag: 3s, position: "SELECT ?n { <http://x/log> <http://x/next> ?n }"`
}

// publish appends a patch to the log: a new value of a thing. The endpoint has it already.
func (p *patchFeed) publish(thing, predicate, value int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.log) + 1
	var b strings.Builder
	fmt.Fprintf(&b, "H id <uuid:%d> .\n", n)
	if n > 1 {
		fmt.Fprintf(&b, "H prev <uuid:%d> .\n", n-1)
	}
	b.WriteString("TX .\n")
	at := fmt.Sprintf("<http://x/%d> <http://x/p%d>", thing, predicate)
	if old, ok := p.values[at]; ok {
		fmt.Fprintf(&b, "D %s \"%d\" .\n", at, old)
	}
	fmt.Fprintf(&b, "A %s \"%d\" .\nTC .\n", at, value)
	p.values[at] = value
	p.log = append(p.log, b.String())
}

// ServeHTTP implements http.Handler.
func (p *patchFeed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := nodeContact.FindStringSubmatch(r.UserAgent()); m != nil {
		p.read = m[1]
		p.reads[p.read]++
	}
	v, _ := strconv.Atoi(r.URL.Query().Get("version"))
	if v < 1 || v > len(p.log) {
		http.NotFound(w, r)
		return
	}
	fmt.Fprint(w, p.log[v-1])
}

// reader is the node that reads the log.
func (p *patchFeed) reader() string {
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.read
}

// position answers a query for the position of the endpoint, which has all patches.
func (p *patchFeed) position(w http.ResponseWriter, query string) bool {
	if p == nil || !strings.Contains(query, "<http://x/next>") {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	w.Header().Set("Content-Type", "application/sparql-results+json")
	fmt.Fprintf(w, `{"head":{"vars":["n"]},"results":{"bindings":[{"n":{"type":"literal","value":"%d",
		"datatype":"http://www.w3.org/2001/XMLSchema#integer"}}]}}`, len(p.log)+1)
	return true
}

// proved waits until the results are proved that no event reaches.
func (p *patchFeed) proved(n *nemesis) {
	if p == nil {
		return
	}
	n.eventually("the results that no event reaches are proved", func() bool {
		p.publish(9, 9, 0) // of what only one query asks for
		n.sleep(n.ctx, 200*time.Millisecond)
		for _, f := range n.oracle.facts[:len(n.oracle.facts)-1] {
			var q struct{ Proved *struct{ Feed string } }
			if n.get(n.nodes[n.names[0]], "/v1/queries/"+f.id, &q) != nil || q.Proved == nil || q.Proved.Feed != "log" {
				return false
			}
		}
		return true
	})
}

// judge looks at what the nodes say of the feed: each event was recorded once and no result was
// proved that was another one.
func (p *patchFeed) judge(n *nemesis) {
	if p == nil {
		return
	}
	p.proved(n)
	p.mu.Lock()
	published := len(p.log)
	p.mu.Unlock()
	type status struct {
		State, Owner     string
		Events, Matched  int
		Gaps, Duplicates int
		Position         struct{ Offset int }
	}
	for _, name := range n.names {
		v := n.nodes[name]
		var s status
		n.eventually(v.name+" knows all events", func() bool {
			return n.get(v, "/v1/feeds/log", &s) == nil && s.Position.Offset == published && s.State == "live"
		})
		// The last patch at the beginning is known, and no event.
		if s.Events != published-1 || s.Gaps > 0 || s.Duplicates > 0 || s.Matched == 0 || n.nodes[s.Owner] == nil {
			n.object("%s: %d patches were published, and the feed is %+v", name, published, s)
		}
		if said := v.p.Stderr.String(); strings.Contains(said, "a proof was wrong") || strings.Contains(said, "events of a feed are missing") {
			n.object("%s: %s", name, said)
		}
	}
	proved, slots := 0, 0
	var page struct {
		Slots []struct{ Proved int }
	}
	n.must(n.get(n.nodes[n.names[0]], "/v1/endpoints/truth/slots?limit=500", &page))
	for _, s := range page.Slots {
		proved += s.Proved
		slots += min(1, s.Proved)
	}
	p.mu.Lock()
	n.t.Logf("%d patches, read by %v; %d executions were saved in %d of %d slots", published, p.reads, proved, slots, len(page.Slots))
	p.mu.Unlock()
}
