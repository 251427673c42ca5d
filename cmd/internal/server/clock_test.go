// Tests of a whole server while somebody sets the clock of its machine.

package server

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock"
)

const day = 24 * time.Hour

// A letterbox is a receiver of webhooks, alerts and WebSub content. While it is ill, it answers 503 to each.
type letterbox struct {
	*httptest.Server
	mu    sync.Mutex
	ill   bool
	ids   map[string][]string // of messages that it took, by path, without those that came again
	tried map[string]int      // by path
}

func newLetterbox(t *testing.T) *letterbox {
	b := &letterbox{ids: map[string][]string{}, tried: map[string]int{}}
	b.Server = httptest.NewServer(b)
	t.Cleanup(b.Close)
	return b
}

func (b *letterbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r.Method == http.MethodGet {
		io.WriteString(w, r.FormValue("hub.challenge"))
		return
	}
	io.Copy(io.Discard, r.Body)
	if b.tried[r.URL.Path]++; b.ill {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if id := r.Header.Get("Webhook-Id"); id == "" || !slices.Contains(b.ids[r.URL.Path], id) {
		b.ids[r.URL.Path] = append(b.ids[r.URL.Path], id)
	}
}

func (b *letterbox) set(ill bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ill = ill
}

func (b *letterbox) count(path string) (taken, tried int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.ids[path]), b.tried[path]
}

// A timed is everything at a server that waits for a time, or ends at one.
type timed struct {
	t              *testing.T
	nodes          []*node
	s              *sensor
	box            *letterbox
	query, profile string
	rules          map[string]string // ids by name
	hook           string
	flips          int
	deadlines      bool // some of what it has ends at a time
}

// newTimed registers everything at the first of some nodes.
func newTimed(t *testing.T, s *sensor, nodes []*node, deadlines bool) *timed {
	x := &timed{t: t, deadlines: deadlines, nodes: nodes, s: s, box: newLetterbox(t), rules: map[string]string{}}
	n := nodes[0]
	id := func(method, path string, body any) string {
		t.Helper()
		var v struct{ ID string }
		await(t, method+" "+path, func() error { return n.Call(t.Context(), method, path, body, &v) }) // until nodes know each other
		return v.ID
	}
	q := map[string]any{"endpoint": "city", "query": "SELECT ?n { ?s ?p ?n }"}
	if deadlines {
		q["until"] = time.Now().Add(2 * time.Hour).UTC()
	}
	x.query = id("POST", "/v1/queries", q)
	s.value.Store(20)
	x.tick()
	for name, r := range map[string]map[string]any{
		"once": {"when": "?n > 10"},
		"late": {"when": "?n > 1", "for": "2h"},
		"long": {"when": "?n = 20", "keep_firing_for": "2h"},
	} {
		r["name"], r["query"], r["labels"], r["to"] = name, x.query, map[string]string{"a": "a"},
			[]map[string]string{{"webhook": x.box.URL + "/" + url.PathEscape(name)}}
		x.rules[name] = id("POST", "/v1/rules", r)
	}
	x.hook = id("POST", "/v1/webhooks", map[string]string{"query": x.query, "url": x.box.URL + "/hook"})
	idle := id("POST", "/v1/queries", map[string]any{"endpoint": "city", "query": "SELECT ?n { ?s <http://example.org/p> ?n }"})
	id("POST", "/v1/queries/"+idle+"/pause", nil)
	x.profile = id("POST", "/v1/profiles", map[string]any{"name": "p",
		"items": []map[string]any{{"query": idle, "when": map[string]any{"changed": x.query, "within": "2h"}}}})
	topic := n.URL() + "/v1/queries/" + x.query + "/results.srj"
	a, err := http.PostForm(n.URL()+"/v1/hub", url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic},
		"hub.callback": {x.box.URL + "/websub"}, "hub.lease_seconds": {"7200"}})
	if err != nil || a.StatusCode != http.StatusAccepted {
		t.Fatal(a, err)
	}
	a.Body.Close()
	x.flip() // 20 → 5 → …
	if !deadlines {
		return x
	}
	await(t, "deliveries begin", func() error {
		for _, path := range []string{"/once", "/long", "/hook", "/websub"} {
			if n, _ := x.box.count(path); n == 0 {
				return fmt.Errorf("nothing at %s", path)
			}
		}
		return nil
	})
	x.box.set(true)
	x.flip()
	await(t, "deliveries fail", func() error {
		if _, n := x.box.count("/hook"); n < 2 {
			return fmt.Errorf("%d attempts", n)
		}
		return nil
	})
	return x
}

// tick runs a slot, at a node that may be taking the endpoint over just now.
func (x *timed) tick() {
	x.t.Helper()
	n := x.nodes[x.flips%len(x.nodes)]
	await(x.t, "a slot", func() error {
		var s struct {
			Slot, Planned, Complete, Failed, Cut, Skipped int
		}
		if err := n.Call(x.t.Context(), "POST", "/v1/endpoints/city/tick", nil, &s); err != nil {
			return err
		} else if s.Complete != 1 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

// flip changes the result, by which the rule "once" begins or ends to fire.
func (x *timed) flip() {
	x.t.Helper()
	x.flips++
	x.s.value.Store([]int64{20, 5}[x.flips%2])
	x.tick()
	want := map[string]string{"once": []string{"firing", "inactive"}[x.flips%2], "late": "pending", "long": "firing"}
	for name, status := range want {
		await(x.t, fmt.Sprintf("flip %d, rule %s", x.flips, name), func() error {
			var v struct {
				Status string
				Fired  int
				State  struct{ CheckedAt string }
			}
			if err := x.nodes[0].Call(x.t.Context(), "GET", "/v1/rules/"+x.rules[name], nil, &v); err != nil || v.Status != status {
				return fmt.Errorf("%+v, want %s, %v", v, status, err)
			}
			return nil
		})
	}
}

// hold checks that nothing has ended before its time, was repeated, or was lost.
func (x *timed) hold() {
	x.t.Helper()
	n := x.nodes[0]
	get := func(path string) (v map[string]any) {
		x.t.Helper()
		await(x.t, path, func() error { return n.Call(x.t.Context(), "GET", path, nil, &v) })
		return v
	}
	if ids := n.changes(x.query, ""); len(ids) != x.flips+1 {
		x.t.Errorf("%d of %d changes are left", len(ids), x.flips+1)
	}
	if v := get("/v1/webhooks/" + x.hook); v["state"] != "active" || v["given_up"] != 0.0 {
		x.t.Errorf("the webhook: %v", v)
	}
	if v := get("/v1/profiles/" + x.profile); x.deadlines && v["open"] == 0.0 || x.deadlines && v["expired"] != 0.0 {
		x.t.Errorf("the profile: %v", v)
	}
	if v := get("/v1/dead-letters"); len(v["subscriptions"].([]any)) != 0 {
		x.t.Errorf("given up: %v", v)
	}
	x.box.set(false)
	firings := x.flips + 1 // of "once": each begins or ends
	await(x.t, "everything arrives", func() error {
		for path, want := range map[string]int{"/once": firings, "/long": 1, "/late": 0} {
			if n, _ := x.box.count(path); n != want {
				return fmt.Errorf("%d messages at %s, want %d", n, path, want)
			}
		}
		if v := get("/v1/webhooks/" + x.hook); v["failures"] != 0.0 || v["lag"].(map[string]any)["changes"] != 0.0 {
			text, _ := json.Marshal(v)
			return fmt.Errorf("the webhook: %s", text)
		}
		return nil
	})
	if !x.deadlines {
		return
	}
	before, _ := x.box.count("/websub")
	x.flip()
	await(x.t, "the lease of the subscriber lasts", func() error {
		if n, _ := x.box.count("/websub"); n <= before {
			return fmt.Errorf("%d deliveries, as before", n)
		}
		return nil
	})
}

// setClocks sets the clocks of machines, one after the other, and lets the result change meanwhile.
func (x *timed) setClocks(way func(step int) (ahead, lasts time.Duration)) {
	x.t.Helper()
	for step := range 6 {
		ahead, lasts := way(step)
		x.nodes[step%len(x.nodes)].machine.Set(ahead)
		for end := time.Now().Add(lasts); ; time.Sleep(lasts / 10) {
			x.flip()
			if !time.Now().Before(end) {
				break
			}
		}
	}
}

func hourBack(int) (ahead, lasts time.Duration) { return -time.Hour, 0 }

func backAndForth(step int) (ahead, lasts time.Duration) {
	return time.Duration(step%2*2-1) * 3 * time.Hour, time.Second / 5
}

// A setting is a way to set the clocks of some nodes.
type setting struct {
	name  string
	nodes int
	way   func(step int) (ahead, lasts time.Duration)
}

// try sets clocks in some ways, at servers that believe them after some time.
func try(t *testing.T, deadlines bool, patience time.Duration, list []setting) {
	for _, v := range list {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			s, nodes := newMembers(t, v.nodes, func(n *node) {
				n.patience, n.conf = patience, func(c *config.Config) { c.Retention.Age = registry.Duration(day) }
			})
			x := newTimed(t, s, nodes, deadlines)
			x.setClocks(v.way)
			x.hold()
		})
	}
}

// A clock that is wrong for a while ends no lease, completes no "for" and trims no history. No message is
// given up, no round expires, and nothing is repeated or lost.
func TestClockIsSet(t *testing.T) {
	try(t, true, clock.Patience, []setting{
		{"an hour back", 1, hourBack},
		{"a day ahead for half a second", 3, func(n int) (time.Duration, time.Duration) { return time.Duration(n%2) * day, time.Second / 2 }},
		{"40 days ahead for 4 s", 1, func(n int) (time.Duration, time.Duration) { return time.Duration(n%2) * 40 * day, 4 * time.Second }},
		{"back and forth", 3, backAndForth},
	})
}

// A server that believes another time goes by it for leases and deadlines. Alerts still wait for the time
// that passes, are neither repeated nor lost, and no history is trimmed.
func TestClockIsBelieved(t *testing.T) {
	try(t, false, 0, []setting{
		{"an hour back", 3, hourBack},
		{"back and forth", 1, backAndForth},
		{"days ahead", 3, func(n int) (time.Duration, time.Duration) { return time.Duration(n) * day, 0 }},
	})
}
