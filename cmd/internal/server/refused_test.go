// Tests of servers whose journal refuses commands.

package server

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal"
)

// A refusing journal takes small commands only, and refuses one command.
type refusing struct {
	journal.Journal
	gate *gate
}

type gate struct {
	mu      sync.Mutex
	largest int  // bytes, 0: any
	kind    byte // of the command that is refused, 0: none
	skip    int  // commands of that kind before it
	seen    map[byte]int
	refused bool
}

var errRefused = errors.New("refused by the test")

func (r refusing) Append(ctx context.Context, id string, cmd []byte) (uint64, error) {
	if err := r.gate.check(cmd); err != nil {
		return 0, err
	}
	return r.Journal.Append(ctx, id, cmd)
}

func (g *gate) check(cmd []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	kind := cmd[1]
	if g.seen[kind]++; g.largest > 0 && len(cmd) > g.largest {
		return fmt.Errorf("%w: %d bytes", journal.ErrTooLarge, len(cmd))
	}
	if kind != g.kind || g.refused {
		return nil
	}
	if g.skip--; g.skip >= 0 {
		return nil
	}
	g.refused = true
	return errRefused
}

func (g *gate) refuse(kind byte, skip int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.kind, g.skip, g.refused, g.seen = kind, skip, false, map[byte]int{}
}

// all waits for commands of some kinds, and returns how many of each there were.
func (g *gate) all(t *testing.T, kinds string) (seen map[byte]int) {
	t.Helper()
	await(t, "commands of the kinds "+kinds, func() error {
		g.mu.Lock()
		defer g.mu.Unlock()
		seen = maps.Clone(g.seen)
		for _, kind := range []byte(kinds) {
			if seen[kind] == 0 {
				return fmt.Errorf("there is none of %c, only %v", kind, seen)
			}
		}
		return nil
	})
	return seen
}

// everything makes each kind of command by the API of a node. Requests may fail.
func everything(t *testing.T, n *node, s *sensor, hook, text string) {
	t.Helper()
	post := func(path string, body string) string {
		t.Helper()
		return n.ask("POST", path, body).body
	}
	id := func(body string) string {
		_, rest, _ := strings.Cut(body, `"id":"`)
		v, _, _ := strings.Cut(rest, `"`)
		return v
	}
	q := id(post("/v1/queries", `{"endpoint":"city","query":"SELECT ?n { ?s ?p ?n } # `+text+`"}`))
	s.value.Add(1)
	post("/v1/endpoints/city/tick", "")
	rule := `{"name":"r","query":"` + q + `","when":"?n > 0","labels":{"n":"?n","l":"` + strings.Repeat("<", 1000) +
		`"},"to":[{"webhook":"` + hook + `/a"}]}`
	r := id(post("/v1/rules", rule))
	s.value.Add(1)
	post("/v1/endpoints/city/tick", "")
	n.ask("PATCH", "/v1/rules/"+r, `{"when":"?n > 1"}`)
	post("/v1/rules/"+r+"/pause", "")
	post("/v1/rules/"+r+"/resume", "")
	w := id(post("/v1/webhooks", `{"query":"`+q+`","url":"`+hook+`/b"}`))
	p := id(post("/v1/profiles", `{"name":"p","items":[{"query":"`+q+`","when":{"every":"1h","slack":"1m"}}]}`))
	s.value.Add(1)
	post("/v1/endpoints/city/tick", "")
	n.ask("DELETE", "/v1/profiles/"+p, "")
	n.ask("DELETE", "/v1/subscriptions/"+w, "")
	n.ask("DELETE", "/v1/rules/"+r, "")
	n.ask("PATCH", "/v1/endpoints/city", `{"budget":"59s"}`)
	n.ask("PATCH", "/v1/endpoints/city", `{"timeout":"9s"}`)
	n.ask("PATCH", "/v1/endpoints/city", `{"timeout":"8s"}`)
	moved := `{"name":"moved","url":"http://127.0.0.1:1/sparql","slot":"never"}` // the node takes a lease, and gives it back
	post("/v1/endpoints", moved)
	await(t, "the lease of an endpoint", func() error {
		if n.loops.local("moved") {
			return nil
		}
		if n.ask("GET", "/v1/endpoints/moved", "").status == http.StatusNotFound { // its command was refused
			post("/v1/endpoints", moved)
		}
		return errors.New("it is not held")
	})
	n.ask("DELETE", "/v1/endpoints/moved", "")
	n.ask("DELETE", "/v1/queries/"+q, "")
	if n.Store.Tokens.PutToken(registry.Token{Name: "t", Role: registry.RoleAdmin, SHA256: strings.Repeat("0", 64)}) == nil {
		_ = n.Store.Tokens.DeleteToken("t", true) // the last one that lasts stays
		await(t, "the token is gone", func() error { return n.Store.Tokens.DeleteToken("t", false) })
	}
}

// well checks that a node does everything that it is for.
func well(t *testing.T, n *node, s *sensor, hook string) {
	t.Helper()
	var q, r struct{ ID string }
	try := func(method, path, body string, out any) error {
		a := n.ask(method, path, body)
		if a.status >= 300 {
			return fmt.Errorf("%d %s", a.status, a.body)
		}
		return json.Unmarshal([]byte(a.body), out)
	}
	await(t, "a query is registered", func() error {
		return try("POST", "/v1/queries", `{"endpoint":"city","query":"SELECT ?n { ?s ?p ?n } # well"}`, &q)
	})
	defer n.ask("DELETE", "/v1/queries/"+q.ID, "")
	await(t, "a rule is made", func() error {
		return try("POST", "/v1/rules", `{"name":"well","query":"`+q.ID+`","when":"?n > 0","to":[{"webhook":"`+hook+`/well"}]}`, &r)
	})
	defer n.ask("DELETE", "/v1/rules/"+r.ID, "")
	s.value.Add(1)
	await(t, "the rule fires", func() error {
		n.ask("POST", "/v1/endpoints/city/tick", "")
		var v struct{ Status, Reason string }
		if err := try("GET", "/v1/rules/"+r.ID, "", &v); err != nil || v.Status != "firing" {
			return fmt.Errorf("%+v %v", v, err)
		}
		return nil
	})
}

// A command that the journal refuses, and any that is too large for it, ends no server. The server
// does all its work afterwards.
func TestRefusedCommands(t *testing.T) {
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(hook.Close)
	g := &gate{seen: map[byte]int{}}
	s, nodes := newMembers(t, 1, func(n *node) {
		open := n.open
		n.open = func() journal.Journal { return refusing{open(), g} }
		n.conf = func(c *config.Config) { c.Cluster.Lease = registry.Duration(3 * time.Second) } // so it shows that it lives each second
	})
	n := nodes[0]
	owned(t, nodes)
	// everything makes a token and removes it. If the node looks at its tokens between, which a
	// delivery does, it asks for a token from then on.
	n.secret = "a token of the configuration file"
	n.gate.SetFile([]registry.Token{{Name: "root", Role: registry.RoleAdmin, SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(n.secret)))}})
	await(t, "the node has the lease of the rules", func() error {
		if _, holds := n.member.alerts(); !holds {
			return errors.New("it has not")
		}
		return nil
	})
	g.refuse(0, 0)
	everything(t, n, s, hook.URL, "first")
	seen := g.all(t, "nlQePStba")
	for kind, count := range seen {
		for skip := range min(count, 20) {
			g.refuse(kind, skip)
			everything(t, n, s, hook.URL, fmt.Sprintf("%c %d", kind, skip))
			if kind == 'n' { // which comes by itself
				g.all(t, "n")
			}
			if n.phase.Load() != phaseReady {
				t.Fatalf("the server ended when command %d of the kind %q was refused", skip, kind)
			}
		}
	}
	g.refuse(0, 0)
	well(t, n, s, hook.URL)
	g.mu.Lock()
	g.largest = 64 << 10
	g.mu.Unlock()
	everything(t, n, s, hook.URL, strings.Repeat("x", 70<<10))
	everything(t, n, s, hook.URL, "small")
	well(t, n, s, hook.URL)
}
