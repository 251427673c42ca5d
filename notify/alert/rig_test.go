// The rig of the tests of alert rules: an engine over a real store and a log in memory.

package alert_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/scheduler/schedulertest/leak"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
)

func TestMain(m *testing.M) { leak.Main(m) }

// patience is how long a test waits for what must come. Ten thousand messages take minutes on
// a busy machine.
const patience = 10 * time.Minute

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not come: %s", what)
		}
	}
}

var app = registry.Caller{Name: "app", Role: registry.RoleApp}

type rig struct {
	*alert.Engine
	t         testing.TB
	dir       string
	db        *store.DB
	deliver   *deliver.Engine
	owns      atomic.Bool
	halted    atomic.Pointer[map[string]string] // why endpoints run no slot
	schedule  deliver.Schedule
	log       *notifytest.Log
	waker     *notify.Waker
	options   alert.Options
	withdrawn atomic.Bool
	proved    atomic.Int64 // until when results are, in seconds
	asked     atomic.Int64 // how often the caller of a rule was looked up
	tick      int
	passed    atomic.Int64           // minutes, one with each answer
	ahead     time.Duration          // of the clock
	most      int                    // states in one transaction; 0: any number
	journal   *memory.Log            // nil: none
	refuse    func(cmd []byte) error // what the journal does with a command; nil: it takes all
	readOnly  atomic.Bool
	wrap      func(alert.Store) alert.Store // nil: nothing
	stop      func()
}

// A tight store has room for a number of states in one transaction, and takes no writes at times.
type tight struct {
	*store.RuleStore
	most     int
	readOnly *atomic.Bool
}

func (s tight) EditRules(e *registry.RuleEdit) error {
	if s.readOnly.Load() {
		return registry.ErrReadOnly
	}
	if s.most > 0 && len(e.States) > s.most {
		return fmt.Errorf("%w: %d states", registry.ErrTooLarge, len(e.States))
	}
	return s.RuleStore.EditRules(e)
}

// A guarded journal refuses commands.
type guarded struct {
	journal.Journal
	*rig
}

func (g guarded) Append(ctx context.Context, id string, cmd []byte) (uint64, error) {
	if g.refuse != nil {
		if err := g.refuse(cmd); err != nil {
			return 0, err
		}
	}
	return g.Journal.Append(ctx, id, cmd)
}

// A full store takes no progress of deliveries at times.
type full struct {
	*store.SubscriptionStore
	readOnly *atomic.Bool
}

func (s full) EditSubscription(id string, do func(*registry.Subscription, bool) error) (registry.Subscription, error) {
	if s.readOnly.Load() {
		return registry.Subscription{}, registry.ErrReadOnly
	}
	return s.SubscriptionStore.EditSubscription(id, do)
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, dir: t.TempDir(), log: notifytest.NewLog("store"), waker: notify.NewWaker()}
	guard, err := deliver.NewGuard([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	r.options = alert.Options{Log: r.log, Waker: r.waker, Guard: guard, Resolve: r.log.Resolve, PublicURL: "http://fresh.example",
		Resend: 50 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler), Most: 50_000, MostEach: 10_000, Bytes: 32 << 20, Rows: 1000, Receivers: 10, Addresses: 10_000,
		Lease:  func() (uint64, bool) { return 0, true },
		Names:  func(string, []string) watch.Namer { return func(iri string) string { return "" } },
		Proved: func(string, registry.Position) time.Time { return time.Unix(r.proved.Load(), 0) },
		Halted: func(endpoint string) string { return (*r.halted.Load())[endpoint] },
		Query:  func(id string) (registry.Query, error) { return r.log.Resolve(app, id) },
		Caller: func(name string) (registry.Caller, error) {
			r.asked.Add(1)
			if r.withdrawn.Load() {
				return registry.Caller{Name: name}, nil
			}
			return app, nil
		}}
	r.owns.Store(true)
	r.halted.Store(&map[string]string{})
	r.schedule = deliver.Schedule{Pauses: []time.Duration{10 * time.Millisecond}}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *rig) start() {
	var err error
	var with store.Options
	if r.journal != nil {
		j := r.journal.Open()
		r.t.Cleanup(func() { j.Close() })
		with.Journal = guarded{j, r}
	}
	if r.db, err = store.Open(r.dir, with); err != nil {
		r.t.Fatal(err)
	}
	o := r.options
	o.Store, o.Queue = tight{r.db.Rules, r.most, &r.readOnly}, r.db.Subscriptions
	if o.Now == nil {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(r.passed.Load()) * time.Minute) }
	}
	if o.Machine == nil {
		o.Machine = o.Now
	}
	if r.wrap != nil {
		o.Store = r.wrap(o.Store)
	}
	if r.Engine, err = alert.New(o); err != nil {
		r.t.Fatal(err)
	}
	r.deliver, err = deliver.New(notifytest.Delivering(deliver.Options{
		Store: full{r.db.Subscriptions, &r.readOnly}, Waker: r.waker, Guard: o.Guard,
		UserAgent: "freshet/test", Schedule: r.schedule, Now: o.Now,
		Owns:    func(string) bool { return r.owns.Load() },
		Targets: map[registry.Way]deliver.Target{registry.Alerts: alert.Target{Engine: r.Engine}}}))
	if err != nil {
		r.t.Fatal(err)
	}
	r.Deliver(r.deliver)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- r.Run(ctx) }()
	go func() { ended <- r.deliver.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			r.t.Error(err)
		}
		if err := r.db.Check(); err != nil {
			r.t.Error(err)
		}
		if err := r.db.Close(); err != nil {
			r.t.Error(err)
		}
	})
}

// record commits a result; every answer is a minute later than the one before.
func (r *rig) record(id string, rows ...string) {
	r.tick++
	r.passed.Add(1)
	r.log.Record(id, table(r.t, rows...), time.Unix(1_790_000_000+60*int64(r.tick), 0).Add(r.ahead))
	r.waker.Wake(id)
}

func (r *rig) create(s registry.RuleSettings) registry.ListedRule {
	r.t.Helper()
	v, err := r.Create(context.Background(), app, s)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// delivered waits until the engine has recorded the deliveries of a rule. A restart would
// repeat one that has arrived and is not recorded.
func (r *rig) delivered(ref string) {
	r.t.Helper()
	until(r.t, "the record of the deliveries", func() bool { return r.rule(ref).Receivers[0].Waiting() == 0 })
}

func (r *rig) rule(ref string) registry.ListedRule {
	r.t.Helper()
	v, err := r.Rule(app, ref)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// alerts returns the number of alerts of a rule.
func alerts(r registry.ListedRule) int { return r.Firing + r.Pending }

// table is a result with the variables s and value.
func table(t testing.TB, rows ...string) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	if err := b.SetVars([]string{"s", "value"}); err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		s, v, _ := strings.Cut(row, "=")
		if err := b.Row(diff.Term{Kind: diff.Literal, Value: s}, diff.Term{Kind: diff.Literal, Value: v}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// A hook receives webhooks.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	refuse func(message) bool // with 400
	got    []message
}

type message struct {
	http.Header
	body []byte
	data map[string]any
}

func newHook(t testing.TB) *hook {
	h := &hook{status: http.StatusNoContent}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			Type string
			Data map[string]any
		}
		if err := json.Unmarshal(body, &m); err != nil || m.Type != "alert."+fmt.Sprint(m.Data["state"]) {
			t.Errorf("%v: %s", err, body)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		got := message{r.Header, body, m.Data}
		h.got = append(h.got, got)
		if h.refuse != nil && h.refuse(got) {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.WriteHeader(h.status)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) answer(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = status
}

func (h *hook) messages() []message {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]message(nil), h.got...)
}

// seen lists the messages as state and label s.
func (h *hook) seen() (list []string) {
	for _, m := range h.messages() {
		labels, _ := m.data["labels"].(map[string]any)
		list = append(list, fmt.Sprintf("%v %v", m.data["state"], labels["s"]))
	}
	return list
}

// newServer serves requests with the status that a function returns, and returns its URL.
func newServer(t testing.TB, serve func(*http.Request) int) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(serve(r)) }))
	t.Cleanup(s.Close)
	return s.URL
}
