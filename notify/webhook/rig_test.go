package webhook_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/webhook"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/schedulertest/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

const patience = time.Minute

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not come: %s", what)
		}
	}
}

var admin = registry.Caller{Name: registry.Anonymous, Role: registry.RoleAdmin}

type rig struct {
	*webhook.Manager
	t         *testing.T
	log       *notifytest.Log
	waker     *notify.Waker
	store     deliver.Store
	format    notify.Format
	schedule  deliver.Schedule
	timing    deliver.Timing
	withdrawn atomic.Bool
	tick      int
	stop      func()
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, log: notifytest.NewLog("store"), waker: notify.NewWaker(), store: notifytest.NewSubscriptions(),
		format:   notify.Format{PublicURL: "http://fresh.example", Summary: true},
		schedule: deliver.Schedule{Pauses: []time.Duration{10 * time.Millisecond, 20 * time.Millisecond}}}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) start() {
	guard, err := deliver.NewGuard([]string{"127.0.0.0/8"})
	if err != nil {
		r.t.Fatal(err)
	}
	target := webhook.New(webhook.Options{
		Log: r.log, Head: r.log.Head, Format: r.format, Now: time.Now,
		Query: func(id string) (registry.Query, error) { return r.log.Resolve(admin, id) },
		Caller: func(name string) (registry.Caller, error) {
			if r.withdrawn.Load() {
				return registry.Caller{Name: name}, nil
			}
			return registry.Caller{Name: name, Role: registry.RoleRead}, nil
		},
	})
	engine, err := deliver.New(notifytest.Delivering(deliver.Options{Store: r.store, Waker: r.waker, Guard: guard, UserAgent: "freshet/test",
		Timing: r.timing, Schedule: r.schedule,
		Targets: map[registry.Way]deliver.Target{registry.Webhook: target}}))
	if err != nil {
		r.t.Fatal(err)
	}
	r.Manager = &webhook.Manager{Engine: engine, Guard: guard, Target: target, Resolve: r.log.Resolve}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
}

// hasten makes the engine give messages up soon.
func (r *rig) hasten() {
	r.stop()
	r.schedule.Patience = 25 * time.Millisecond
	r.start()
}

func (r *rig) record(id string, res *diff.Result) {
	r.tick++
	r.log.Record(id, res, time.Unix(1_790_000_000+int64(r.tick), 0))
	r.waker.Wake(id)
}

func (r *rig) get(id string) registry.Subscription {
	r.t.Helper()
	s, err := r.store.Subscription(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// pause pauses a webhook and waits until no turn that began before plans a message.
func (r *rig) pause(id string) {
	r.t.Helper()
	if _, err := r.Engine.Pause(id); err != nil {
		r.t.Fatal(err)
	}
	until(r.t, "an idle engine", func() bool { n := r.Engine.Stats(); return n.Running+n.Queued == 0 })
}

// create registers a webhook and waits until it is active.
func (r *rig) create(h *receiver, w registry.WebhookRequest) registry.Subscription {
	r.t.Helper()
	w.URL = h.http.URL + "/hook"
	s, err := r.Create(admin, w)
	if err != nil {
		r.t.Fatal(err)
	}
	h.setSecret(s.Secrets[0].Key)
	until(r.t, "an active webhook", func() bool { return r.get(s.ID).State == registry.Active })
	return s
}

// A receiver checks signatures and keeps the result of each query by applying the
// messages, like an application.
type receiver struct {
	t    *testing.T
	http *httptest.Server

	mu     sync.Mutex
	keys   [][]byte
	many   bool                       // it follows all queries, from the middle of their history on
	answer func(n int, m message) int // before the message is taken
	late   func(n int, m message) int // after
	got    []message
	took   map[string]int // ids taken, how often they came
	state  map[string]*replica
	hasty  bool // the sender may give an attempt up before the receiver takes it
}

type message struct {
	ID        string          `json:"-"`
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"`
	Data      json.RawMessage `json:"data"`
	raw       string
	header    http.Header
}

// A replica is a receiver's copy of a result.
type replica struct {
	epoch string
	seq   uint64
	rows  map[string]int // canonical rows as a bag
	ended bool
}

func newReceiver(t *testing.T) *receiver {
	h := &receiver{t: t, took: map[string]int{}, state: map[string]*replica{}}
	h.http = httptest.NewServer(h)
	t.Cleanup(h.http.Close)
	return h
}

func (h *receiver) setSecret(keys ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys = nil
	for _, k := range keys {
		b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(k, "whsec_"))
		if err != nil {
			h.t.Error(err)
		}
		h.keys = append(h.keys, b)
	}
}

func (h *receiver) on(answer, late func(n int, m message) int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer, h.late = answer, late
}

func (h *receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	m := message{ID: r.Header.Get("Webhook-Id"), raw: string(body), header: r.Header.Clone()}
	if err := json.Unmarshal(body, &m); err != nil {
		h.t.Errorf("message %s: %v", body, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got = append(h.got, m)
	if h.answer != nil {
		if status := h.answer(len(h.got), m); status != 200 {
			w.WriteHeader(status)
			return
		}
	}
	h.take(m)
	if h.late != nil {
		w.WriteHeader(h.late(len(h.got), m))
	}
}

func (h *receiver) messages(types ...string) []message {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []message
	for _, m := range h.got {
		for _, typ := range types {
			if m.Type == typ {
				out = append(out, m)
			}
		}
	}
	return out
}

// body holds the members of messages about a query.
type body struct {
	Query, Epoch, Reason string
	Prev, Seq, Offset    uint64
	Baseline, Truncated  bool
	Filtered             bool
	Hash                 *string
	Added, Removed       document
	Results              json.RawMessage
	Boolean              *bool
}

type document struct {
	Head    struct{ Vars []string }
	Results struct{ Bindings []json.RawMessage }
	Triples []string
	Boolean *bool
}

func (d document) rows() (all []string) {
	for _, b := range d.Results.Bindings {
		all = append(all, string(b))
	}
	return append(all, d.Triples...)
}

// take applies a message by the rules: a repeated one changes nothing, a change must
// follow the current position, and positions never decrease. Of a hasty sender, an
// attempt that it gave up may come after later messages. It changes nothing either.
func (h *receiver) take(m message) {
	h.took[m.ID]++
	if h.took[m.ID] > 1 || !strings.HasPrefix(m.Type, "query.") {
		return
	}
	var b body
	if err := json.Unmarshal(m.Data, &b); err != nil {
		h.t.Errorf("data %s: %v", m.Data, err)
	}
	r := h.state[b.Query]
	if r == nil {
		r = &replica{rows: map[string]int{}}
		h.state[b.Query] = r
	}
	switch m.Type {
	case webhook.TypeEnded:
		r.ended = true
		return
	case webhook.TypeSnapshot:
		if b.Epoch == r.epoch && b.Seq < r.seq {
			if h.hasty {
				return
			}
			h.t.Errorf("a snapshot of %d came after %d", b.Seq, r.seq)
		}
		r.epoch, r.seq, r.rows = b.Epoch, b.Seq, map[string]int{}
		var d document
		if !b.Truncated {
			if err := json.Unmarshal(b.Results, &d); err != nil {
				h.t.Errorf("results %s: %v", b.Results, err)
			}
		}
		for _, row := range d.rows() {
			r.rows[row]++
		}
		if d.Boolean != nil {
			r.rows[fmt.Sprint(*d.Boolean)] = 1
		}
	case webhook.TypeChanged:
		if b.Seq <= r.seq && b.Epoch == r.epoch {
			return // replayed
		}
		if fresh := r.epoch == ""; !fresh && b.Epoch != r.epoch || b.Prev != r.seq && !(fresh && h.many) {
			h.t.Errorf("a change from %s:%d came to %s:%d", b.Epoch, b.Prev, r.epoch, r.seq)
		}
		r.epoch, r.seq = b.Epoch, b.Seq
		for _, row := range b.Removed.rows() {
			if r.rows[row]--; r.rows[row] == 0 {
				delete(r.rows, row)
			}
		}
		for _, row := range b.Added.rows() {
			r.rows[row]++
		}
		if b.Boolean != nil {
			r.rows = map[string]int{fmt.Sprint(*b.Boolean): 1}
		}
	}
}

// holds reports whether the receiver has this result.
func (h *receiver) holds(query string, res *diff.Result) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.state[query]
	if r == nil || res == nil {
		return r == nil && res == nil
	}
	want := map[string]int{}
	if res.Form() == diff.Ask {
		want[fmt.Sprint(res.Boolean())] = 1
	}
	for i := range res.Len() {
		if res.Form() != diff.Ask {
			want[string(res.Row(i))]++
		}
	}
	return fmt.Sprint(want) == fmt.Sprint(r.rows)
}
