package deliver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/notify"
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

// A table is a Store in memory that can break.
type table struct {
	mu     sync.Mutex
	m      map[string]registry.Subscription
	broken error
}

func (s *table) Subscription(id string) (registry.Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, ok := s.m[id]
	if !ok {
		return x, registry.ErrNotFound
	}
	return x, nil
}

func (s *table) Subscriptions(after string, limit int) (list []registry.Subscription, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.m)) {
		if id > after && len(list) < limit {
			x := s.m[id]
			x.ID = id
			list = append(list, x)
		}
	}
	return list, nil
}

func (s *table) EditSubscription(id string, do func(*registry.Subscription, bool) error) (registry.Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x, found := s.m[id]
	if x.ID = id; s.broken != nil {
		return x, s.broken
	}
	if err := do(&x, found); err != nil {
		return x, err
	}
	if x.State == registry.Ended || x.State == "" {
		delete(s.m, id)
	} else {
		s.m[id] = x
	}
	return x, nil
}

// A counter is a sender that makes as many calls as a subscription's Lease says.
type counter struct{ mark func(id string) }

func (c counter) Next(_ context.Context, s *registry.Subscription, _ time.Time) (Step, error) {
	if c.mark != nil {
		c.mark(s.ID)
	}
	if s.NextTry != nil && time.Now().Before(*s.NextTry) {
		return Step{Hold: *s.NextTry}, nil
	}
	if s.Deliveries >= uint64(s.Lease) {
		return Step{}, nil
	}
	return Step{Call: &Call{Send: HTTP("POST", s.Callback, nil, []byte(s.ID), 0), Since: time.Now(),
		Done: func(*registry.Subscription, Reply) {}}}, nil
}

type testEngine struct {
	*Engine
	t     *testing.T
	store *table
	waker *notify.Waker
	stop  func() error
}

func newTestEngine(t *testing.T, edit func(*Options), all ...registry.Subscription) *testEngine {
	t.Helper()
	s := &testEngine{t: t, store: &table{m: map[string]registry.Subscription{}}, waker: notify.NewWaker()}
	for _, x := range all {
		s.store.m[x.ID] = x
	}
	o := Options{Store: s.store, Waker: s.waker, Guard: guard(t, "127.0.0.0/8"),
		Targets: map[registry.Way]Target{"count": counter{}}, UserAgent: "test", Logger: slog.New(slog.DiscardHandler), Now: time.Now,
		Writable: func() error { return nil }, Owns: func(string) bool { return true },
		Schedule: Schedule{Pauses: []time.Duration{time.Millisecond}}}
	if edit != nil {
		edit(&o)
	}
	if o.Holds == nil {
		o.Holds = o.Owns
	}
	var err error
	if s.Engine, err = New(o); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { s.stop() })
	return s
}

func pendingCalls(id, callback string, calls int) registry.Subscription {
	return registry.Subscription{ID: id, Way: "count", Query: "q", Callback: callback, State: registry.Active, Lease: registry.Duration(calls)}
}

// A node that loses a host while it decides on a call does not make the call, and makes it once it
// has the host again.
func TestHostIsTakenOver(t *testing.T) {
	var calls atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer web.Close()
	var lost, decided atomic.Bool
	e := newTestEngine(t, func(o *Options) {
		o.Owns = func(string) bool { return !lost.Load() }
		o.Targets = map[registry.Way]Target{"count": counter{mark: func(string) {
			lost.Store(!decided.Load())
			decided.Store(true)
		}}}
	}, pendingCalls("a", web.URL, 1))
	until(t, "a decision", decided.Load)
	until(t, "the end of the step", func() bool { return e.Stats().Running == 0 })
	if n := calls.Load(); n != 0 {
		t.Fatalf("%d calls without the host", n)
	}
	lost.Store(false)
	e.Recheck()
	until(t, "the call", func() bool { return calls.Load() == 1 })
}

// What becomes due while the lease of a host has lapsed for a moment is called once the lease is valid again.
func TestLeaseLapsesForAMoment(t *testing.T) {
	var calls atomic.Int64
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer web.Close()
	for _, during := range []string{"queue", "decision"} {
		t.Run(during, func(t *testing.T) {
			calls.Store(0)
			var lapsed, seen atomic.Bool
			e := newTestEngine(t, func(o *Options) {
				o.Holds = func(string) bool { return true }
				o.Owns = func(string) bool {
					seen.Store(seen.Load() || lapsed.Load())
					return !lapsed.Load()
				}
				o.Targets = map[registry.Way]Target{"count": counter{mark: func(string) {
					if during == "decision" && !seen.Load() {
						lapsed.Store(true)
					}
				}}}
				lapsed.Store(during == "queue")
			}, pendingCalls("a", web.URL, 1))
			until(t, "a look at the lease", seen.Load)
			until(t, "the end of the step", func() bool { return e.Stats().Running == 0 })
			if n := calls.Load(); n != 0 {
				t.Fatalf("%d calls without a valid lease", n)
			}
			lapsed.Store(false)
			until(t, "the call", func() bool { return calls.Load() == 1 })
		})
	}
}

// A failure that comes after another node has taken over and delivered says nothing about the callback.
func TestLateFailureAfterTakeover(t *testing.T) {
	called, answer := make(chan struct{}), make(chan struct{})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(called)
		<-answer
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer web.Close()
	e := newTestEngine(t, nil, pendingCalls("a", web.URL, 1))
	<-called
	at := time.Now()
	_, err := e.store.EditSubscription("a", func(s *registry.Subscription, _ bool) error { // as the other node does
		Delivered(s, Reply{At: at}, false)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	close(answer)
	until(t, "the end of the call", func() bool { n := e.Stats(); return n.Failed == 1 && n.Running+n.Queued == 0 })
	s, err := e.store.Subscription("a")
	if err != nil || s.Failures != 0 || s.NextTry != nil || s.LastError != "" || !s.LastAttempt.Equal(at) {
		t.Errorf("%+v, %v", s, err)
	}
}

// A holding target waits for a time of its engine's clock, as digests do, and counts how often it is asked.
type holding struct {
	until time.Time
	asked *atomic.Int64
}

func (h holding) Next(_ context.Context, _ *registry.Subscription, now time.Time) (Step, error) {
	h.asked.Add(1)
	if h.until.Sub(now) > time.Hour { // as before the clock was set
		return Step{}, nil
	}
	return Step{Hold: h.until}, nil
}

// A leased target ends subscriptions when they expire, and holds them back or fails until then.
type leased struct{ fails bool }

func (l leased) Next(_ context.Context, s *registry.Subscription, now time.Time) (Step, error) {
	switch {
	case !now.Before(*s.ExpiresAt):
		return Step{Edit: func(s *registry.Subscription) { s.State = registry.Ended }}, nil
	case l.fails && !BackingOff(s, now):
		return Step{Call: &Call{Since: now, Send: func(context.Context, *Client) Reply { return Reply{Err: errors.New("no answer")} }}}, nil
	}
	return Step{Hold: now.Add(time.Hour), At: *s.ExpiresAt}, nil
}

// A subscription ends in time although wake-ups are ignored for longer.
func TestEndsDuringHold(t *testing.T) {
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprint("fails ", fails), func(t *testing.T) {
			s := pendingCalls("a", "http://127.0.0.1:1", 0)
			s.ExpiresAt = new(time.Now().UTC().Add(100 * time.Millisecond))
			e := newTestEngine(t, func(o *Options) {
				o.Schedule = Schedule{Pauses: []time.Duration{time.Hour}, Probe: time.Hour}
				o.Targets = map[registry.Way]Target{"count": leased{fails}}
			}, s)
			until(t, "the end", func() bool { return e.Stats().Subscriptions == 0 })
		})
	}
}

// An edit of a subscription ends the hold that its turn decides on meanwhile.
func TestEditDuringTurn(t *testing.T) {
	var asked atomic.Int64
	decides, edited := make(chan struct{}), make(chan struct{})
	e := newTestEngine(t, func(o *Options) {
		o.Targets = map[registry.Way]Target{"count": counter{mark: func(string) {
			if asked.Add(1) == 1 {
				close(decides)
				<-edited
			}
		}}}
	}, func() registry.Subscription {
		s := pendingCalls("a", "http://127.0.0.1:1", 0)
		s.NextTry = new(time.Now().UTC().Add(time.Hour))
		return s
	}())
	<-decides
	if _, err := e.Resume("a"); err != nil {
		t.Fatal(err)
	}
	close(edited)
	until(t, "another decision", func() bool { return asked.Load() > 1 })
}

// What waits for a time decides again when the clock is set back.
func TestHoldAfterClockIsSetBack(t *testing.T) {
	var asked, behind atomic.Int64
	now := func() time.Time { return time.Now().Round(0).Add(-time.Duration(behind.Load())) }
	e := newTestEngine(t, func(o *Options) {
		o.Now = now
		o.Targets = map[registry.Way]Target{"count": holding{now().Add(30 * time.Minute), &asked}}
	}, pendingCalls("a", "http://127.0.0.1:1", 0))
	until(t, "a decision", func() bool { return asked.Load() == 1 && e.Stats().Running == 0 })
	e.waker.Wake("q")
	behind.Store(int64(2 * time.Hour))
	until(t, "another one", func() bool {
		e.waker.Wake("q")
		return asked.Load() > 1
	})
}

// A clock that is set back lets no call pass the rate of its host.
func TestRateWhenClockIsSetBack(t *testing.T) {
	e := newTestEngine(t, nil, pendingCalls("a", "http://127.0.0.1:1", 0))
	until(t, "a decision", func() bool { return e.Stats().Running == 0 && len(e.work) == 0 })
	if err := e.stop(); err != nil {
		t.Fatal(err)
	}
	x, now := e.subscribers["a"], time.Now()
	for _, granted := range []bool{true, false} {
		x.granted, x.hold, x.state = granted, now.Add(time.Minute), idle
		e.schedule(x, x.hold)
		e.seen = now.Add(2 * time.Hour)
		if e.compare(now); x.hold.IsZero() == granted {
			t.Errorf("granted %t: it waits until %v", granted, x.hold)
		}
	}
}

// addCalls makes a subscription wait for n calls more.
func (s *testEngine) addCalls(id string, n int) error {
	_, err := s.Edit(id, func(x *registry.Subscription, found bool) error {
		if !found {
			return registry.ErrNotFound
		}
		x.Lease += registry.Duration(n)
		return nil
	})
	return err
}

// One subscription has one call under way, however often it is woken, and gets
// all calls that wait for it.
func TestOneAtATime(t *testing.T) {
	var now, most, calls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(time.Millisecond)
		now.Add(-1)
		if calls.Add(1)%4 == 0 {
			w.WriteHeader(500)
		}
	}))
	defer srv.Close()
	s := newTestEngine(t, nil, pendingCalls("a", srv.URL, 1))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				if err := s.addCalls("a", 1); err != nil {
					t.Error(err)
				}
				s.waker.Wake("q")
			}
		})
	}
	wg.Wait()
	until(t, "all calls", func() bool { x, _ := s.store.Subscription("a"); return x.Deliveries == 41 })
	if most.Load() != 1 {
		t.Errorf("%d calls at once", most.Load())
	}
}

// The limiters bound the calls under way. Hosts outside the listed networks have fewer
// places and a rate.
func TestBounds(t *testing.T) {
	var now, most atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(2 * time.Millisecond)
		now.Add(-1)
	}))
	defer srv.Close()
	for name, c := range map[string]struct {
		limits Limits
		trust  bool
		most   int32
		slower time.Duration
	}{
		"limiters": {Limits{Wide: 5, Narrow: 3}, true, 8, 0},
		"per host": {Limits{Wide: 50, Narrow: 50, PerHost: 2, Rate: 1e6, Burst: 1e6}, false, 2, 0},
		// 30 of 40 wait 5 ms each
		"host rate": {Limits{Wide: 50, Narrow: 50, PerHost: 50, Rate: 200, Burst: 10}, false, 50, 130 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			most.Store(0)
			s := newTestEngine(t, func(o *Options) { o.Limits = c.limits })
			callback := srv.URL
			if !c.trust { // as if the host were elsewhere
				s.client.http.Transport = s.opts.Guard.transport(s.opts.Timing, 50, func(string, bool) {})
				callback = strings.Replace(callback, "127.0.0.1", "localhost", 1)
			}
			start := time.Now()
			var wg sync.WaitGroup
			for i := range 40 {
				wg.Go(func() {
					x := pendingCalls(fmt.Sprint(i), callback, 1)
					if _, err := s.Edit(x.ID, func(into *registry.Subscription, _ bool) error { *into = x; return nil }); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			until(t, "all", func() bool { return s.Stats().Taken == 40 })
			if most.Load() > c.most {
				t.Errorf("%d at once, want at most %d", most.Load(), c.most)
			}
			if took := time.Since(start); took < c.slower {
				t.Errorf("all were called within %v, the rate wants %v", took, c.slower)
			}
		})
	}
}

// A host whose places are all taken by callbacks that hang does not keep other
// hosts waiting, and goes on where it was when they let go.
func TestBusyHostStandsAside(t *testing.T) {
	release := make(chan struct{})
	var hung atomic.Int32
	bad := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hung.Add(1)
		<-release
	}))
	defer bad.Close()
	let := sync.OnceFunc(func() { close(release) })
	defer let()
	good := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer good.Close()
	named := strings.Replace(bad.URL, "127.0.0.1", "localhost", 1)
	s := newTestEngine(t, func(o *Options) { o.Limits = Limits{Wide: 4, Narrow: 8, PerHost: 2} })
	s.client.http.Transport = s.opts.Guard.transport(s.opts.Timing, 4, func(string, bool) {}) // localhost is as good as elsewhere
	for i := range 30 {
		for _, x := range []registry.Subscription{pendingCalls(fmt.Sprint("bad", i), named, 1), pendingCalls(fmt.Sprint("good", i),
			good.URL, 1)} {
			if _, err := s.Edit(x.ID, func(into *registry.Subscription, _ bool) error { *into = x; return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "the good ones", func() bool { return s.Stats().Taken == 30 })
	if n := hung.Load(); n > 2 {
		t.Errorf("%d calls hang at a host with two places", n)
	}
	let()
	until(t, "the bad ones", func() bool { return s.Stats().Taken == 60 })
}

// A store that fails ends Run: what cannot be entered must not be sent again and
// again.
func TestBrokenStore(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer srv.Close()
	s := newTestEngine(t, nil)
	full := fmt.Errorf("disk full: %w", registry.ErrUnusable)
	s.store.mu.Lock()
	s.store.broken = full
	s.store.mu.Unlock()
	if _, err := s.Edit("a", func(x *registry.Subscription, _ bool) error {
		*x = pendingCalls("a", srv.URL, 1)
		return nil
	}); !errors.Is(err, full) {
		t.Errorf("Edit: %v", err)
	}
	if err := s.stop(); !errors.Is(err, full) {
		t.Errorf("Run: %v", err)
	}
	if err := s.addCalls("a", 1); !errors.Is(err, ErrStopped) {
		t.Errorf("an edit after the end: %v", err)
	}
}

// Edits, wake-ups and drops at any time leave no entry of a dropped subscription.
func TestBooks(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer srv.Close()
	s := newTestEngine(t, nil)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			id := fmt.Sprint(i)
			for range 5 {
				if _, err := s.Edit(id, func(x *registry.Subscription, _ bool) error { *x = pendingCalls(id, srv.URL, 3); return nil }); err != nil {
					t.Error(err)
				}
				s.waker.Wake("q")
				if err := s.Drop(id, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	until(t, "empty books", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.subscribers)+len(s.queries)+len(s.hosts)+len(s.timers) == 0
	})
	if n := s.waker.Followers("q"); n != 0 {
		t.Errorf("%d followers are left", n)
	}
}

func TestPauseAndResume(t *testing.T) {
	s := newTestEngine(t, nil, pendingCalls("a", "http://127.0.0.1:1/", 0))
	if _, err := s.Resume("b"); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("resume what is not there: %v", err)
	}
	if x, err := s.Pause("a"); err != nil || x.State != registry.SubscriptionPaused {
		t.Errorf("paused: %s, %v", x.State, err)
	}
	var p *registry.Problem
	if _, err := s.Pause("a"); !errors.As(err, &p) || p.Kind != registry.KindConflict {
		t.Errorf("paused twice: %v", err)
	}
	if x, err := s.Resume("a"); err != nil || x.State != registry.Active {
		t.Errorf("resumed: %s, %v", x.State, err)
	}
}

// Dead letters that are sent again wait for as long as the receiver asks for, and not for ever.
func TestReplayWaitsForReceiver(t *testing.T) {
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := registry.Subscription{Dead: []registry.DeadLetter{{Replay: true}, {Replay: true}}}
	s.Dead[0].ID, s.Dead[1].ID = "a", "b"
	busy := Reply{Sent: at, At: at, Status: http.StatusTooManyRequests, Wait: 30 * time.Second}
	if Replayed(&s, "a", busy) || !s.Dead[0].Replay || s.Dead[0].Attempts != 1 || !s.Asked {
		t.Errorf("it is not sent again: %+v", s)
	}
	if !BackingOff(&s, at.Add(29*time.Second)) || BackingOff(&s, at.Add(34*time.Second)) {
		t.Errorf("it is sent again at %v", s.NextTry)
	}
	for range 2 * 24 * 60 {
		busy.Sent = busy.At.Add(34 * time.Second)
		busy.At = busy.Sent
		Replayed(&s, "a", busy)
	}
	if s.Dead[0].Replay || !s.Dead[1].Replay {
		t.Errorf("after more than a day: %+v", s.Dead)
	}
	refused := Reply{Sent: busy.At, At: busy.At, Status: http.StatusBadRequest}
	if Replayed(&s, "b", refused) || s.Dead[1].Replay {
		t.Errorf("refused: %+v", s.Dead)
	}
	if s.Dead[1].Replay = true; !Replayed(&s, "b", Reply{Sent: busy.At, At: busy.At, Status: 200}) || len(s.Dead) != 1 || s.NextTry != nil {
		t.Errorf("taken: %+v", s)
	}
}

// An unwritten message fails before a call is made.
type unwritten struct{ attempts *atomic.Int64 }

func (u unwritten) Next(_ context.Context, s *registry.Subscription, now time.Time) (Step, error) {
	if BackingOff(s, now) {
		return Step{Hold: *s.NextTry}, nil
	}
	return Step{Call: &Call{Since: now, Send: func(context.Context, *Client) Reply {
		u.attempts.Add(1)
		return Reply{Err: errors.New("there is no key")}
	}}}, nil
}

// What fails before a call is made is tried again after the usual pause.
func TestUnwrittenMessageIsTriedAgainLater(t *testing.T) {
	var attempts atomic.Int64
	e := newTestEngine(t, func(o *Options) {
		o.Schedule = Schedule{Pauses: []time.Duration{time.Hour}}
		o.Targets = map[registry.Way]Target{"count": unwritten{&attempts}}
	}, pendingCalls("a", "http://127.0.0.1:1", 0))
	began := time.Now()
	until(t, "an attempt", func() bool { x, _ := e.store.Subscription("a"); return x.Failures > 0 })
	time.Sleep(100 * time.Millisecond)
	x, err := e.store.Subscription("a")
	if n := attempts.Load(); err != nil || n != 1 || x.FailingSince.Before(began.Add(-time.Minute)) || x.NextTry.Sub(began) < time.Hour {
		t.Errorf("%d attempts, failing since %v, the next at %v: %v", n, x.FailingSince, x.NextTry, err)
	}
}

// Pauses grow by the schedule and stay at its end.
func TestPauses(t *testing.T) {
	schedule := Schedule{Pauses: []time.Duration{time.Second, time.Minute}}
	schedule.fill()
	var s registry.Subscription
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, want := range []time.Duration{time.Second, time.Minute, time.Minute} {
		if v := schedule.judge(&s, &Call{Since: at}, Reply{Sent: at, At: at, Status: 503}); v != Retry {
			t.Errorf("failure %d: %v", i+1, v)
		}
		if got := s.NextTry.Sub(at); got < want || got > want+want/10 || s.Failures != i+1 {
			t.Errorf("failure %d: try again after %v, want %v to %v", i+1, got, want, want+want/10)
		}
	}
	for _, c := range []struct {
		now  time.Duration
		held bool
	}{{0, true}, {time.Second, true}, {time.Hour, false}, {-time.Hour, false}} { // the last: the clock was set back
		if BackingOff(&s, at.Add(c.now)) != c.held {
			t.Errorf("held %t at %s after the attempt", !c.held, c.now)
		}
	}
	schedule.judge(&s, &Call{Since: at}, Reply{At: at, Status: 200})
	if s.Failures != 0 || s.NextTry != nil || s.LastError != "" || s.FailingSince != nil || s.Deliveries != 1 {
		t.Errorf("after success: %+v", s)
	}
}

// What became of a call is entered once the store takes writes again: the
// callback is not called twice for it, and no callback is called meanwhile.
func TestReadOnlyStore(t *testing.T) {
	var calls atomic.Int32
	var full atomic.Pointer[error]
	s := new(testEngine)
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if calls.Add(1) == 1 {
			err := fmt.Errorf("%w: full", registry.ErrReadOnly)
			s.store.mu.Lock()
			s.store.broken = err
			s.store.mu.Unlock()
			full.Store(&err)
		}
	}))
	defer srv.Close()
	s = newTestEngine(t, func(o *Options) {
		o.Writable = func() error {
			if err := full.Load(); err != nil {
				return *err
			}
			return nil
		}
	}, pendingCalls("a", srv.URL, 0), pendingCalls("b", srv.URL, 0))
	if err := s.addCalls("a", 1); err != nil {
		t.Fatal(err)
	}
	until(t, "the call", func() bool { return full.Load() != nil })
	if err := s.addCalls("b", 1); !errors.Is(err, registry.ErrReadOnly) {
		t.Errorf("an edit meanwhile: %v", err)
	}
	s.waker.Wake("q")
	time.Sleep(50 * time.Millisecond)
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls while nothing can be entered", n)
	}
	s.store.mu.Lock()
	s.store.broken = nil
	s.store.mu.Unlock()
	full.Store(nil)
	until(t, "the entry", func() bool { x, _ := s.store.Subscription("a"); return x.Deliveries == 1 })
	if err := s.addCalls("b", 1); err != nil {
		t.Error(err)
	}
	until(t, "the other call", func() bool { x, _ := s.store.Subscription("b"); return x.Deliveries == 1 })
	if n := calls.Load(); n != 2 {
		t.Errorf("%d calls in all", n)
	}
}
