package deliver

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

func (s *testEngine) put(x registry.Subscription) {
	s.t.Helper()
	if _, err := s.Edit(x.ID, func(into *registry.Subscription, _ bool) error { *into = x; return nil }); err != nil {
		s.t.Fatal(err)
	}
}

// Receivers of one caller that hang do not keep those of another caller waiting, however many
// they are and whether those were called before.
func TestHangingReceiversOfOneCaller(t *testing.T) {
	release := make(chan struct{})
	var hung atomic.Int32
	bad := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		hung.Add(1)
		<-release
	}))
	defer bad.Close()
	let := sync.OnceFunc(func() { close(release) })
	defer let()
	good := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer good.Close()
	limits := Limits{Wide: 8, Narrow: 8, Hung: 8}
	s := newTestEngine(t, func(o *Options) { o.Limits = limits })
	for i := range 600 {
		x := pendingCalls(fmt.Sprint("bad", i), bad.URL, 1)
		x.Caller = "a"
		s.put(x)
	}
	until(t, "calls that hang", func() bool { return hung.Load() == 4 })
	for i := range 20 {
		x := pendingCalls(fmt.Sprint("good", i), good.URL, 2)
		x.Caller = "b"
		s.put(x)
	}
	until(t, "the calls of the other caller", func() bool { return s.Stats().Taken == 40 })
	if n := hung.Load(); n != 4 {
		t.Errorf("%d calls hang at 8 places of which a caller has half", n)
	}
	let()
	until(t, "all calls", func() bool { return s.Stats().Taken == 640 })
	until(t, "the shares of all limiters", func() bool { // a call gives its share back after it is counted
		s.mu.Lock()
		defer s.mu.Unlock()
		left := 0
		for i := range s.limiters {
			left += len(s.limiters[i].shares) + len(s.limiters[i].waiting)
		}
		return left == 0
	})
}

// Receivers of one caller that answered well and hang all at once leave places to those of others.
func TestReceiversThatBeginToHang(t *testing.T) {
	release := make(chan struct{})
	var hung atomic.Int32
	bad := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		hung.Add(1)
		<-release
	}))
	defer bad.Close()
	defer close(release)
	good := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer good.Close()
	s := newTestEngine(t, func(o *Options) { o.Limits, o.Timing = Limits{Wide: 8}, Timing{Header: time.Hour, Total: time.Hour} })
	put := func(id, caller, callback string) {
		x := pendingCalls(id, callback, 1)
		x.Caller, x.LastDelivery = caller, new(time.Now().UTC())
		s.put(x)
	}
	for i := range 20 {
		put(fmt.Sprint("bad", i), "a", bad.URL)
	}
	until(t, "calls that hang", func() bool { return hung.Load() >= 6 })
	for i := range 20 {
		put(fmt.Sprint("good", i), "b", good.URL)
	}
	until(t, "the calls of the other caller", func() bool { return s.Stats().Taken == 20 })
	if n := hung.Load(); n != 6 {
		t.Errorf("%d calls hang at 8 places of which a caller has three quarters", n)
	}
}

// A receiver that was slow is called in the places of those that hang, and in the order of
// who has waited longest.
func TestSlowReceiversHavePlacesOfTheirOwn(t *testing.T) {
	var slow atomic.Bool
	slow.Store(true)
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		if slow.Load() {
			time.Sleep(5 * time.Millisecond)
		}
	}))
	defer web.Close()
	s := newTestEngine(t, func(o *Options) { o.Timing.Slow = time.Millisecond }, pendingCalls("a", web.URL, 1))
	limiterOf := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.subscribers["a"].limiter
	}
	until(t, "a slow call", func() bool { return limiterOf() == hung })
	slow.Store(false)
	s.opts.Timing.Slow = time.Minute
	if err := s.addCalls("a", 1); err != nil {
		t.Fatal(err)
	}
	until(t, "a quick call", func() bool { return limiterOf() == wide })
}

// A clock that is set, or a server that does not run, makes no receiver fail for longer than it was tried.
func TestPatienceWhenTheClockIsSet(t *testing.T) {
	var p Schedule
	p.fill()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, set := range []struct {
		by    time.Duration
		after int // attempts
	}{{0, 3}, {40 * 24 * time.Hour, 3}, {-40 * 24 * time.Hour, 3}, {40 * 24 * time.Hour, 0}} {
		var s registry.Subscription
		c, tries, verdict := &Call{Since: at}, 0, Retry
		for now := at; verdict == Retry && tries < 1000; tries++ {
			now = now.Add(time.Hour)
			sent := now
			if tries == set.after { // while it is called
				now = now.Add(set.by)
			}
			verdict = p.judge(&s, c, Reply{Sent: sent, At: now, Status: 503})
		}
		if want := int(p.Patience / time.Hour); verdict != GiveUp || tries < want || tries > want+2 {
			t.Errorf("a clock that is set by %s: verdict %d after %d attempts in as many hours", set.by, verdict, tries)
		}
	}
}

// A message that the receiver refuses is sent twice and then set aside; other failures last until
// patience ends. A message that the receiver needs is not set aside.
func TestVerdicts(t *testing.T) {
	p := Schedule{Patience: time.Hour}
	p.fill()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, status := range []int{400, 401, 403, 404, 413, 415, 422} {
		var s registry.Subscription
		c, r := &Call{Since: at}, Reply{Sent: at, At: at, Status: status}
		for message := range 3 {
			if first, second := p.judge(&s, c, r), p.judge(&s, c, r); first != Retry || second != GiveUp || BackingOff(&s, at) {
				t.Errorf("%d: message %d: %v, %v, %+v", status, message, first, second, s)
			}
		}
		var insisting registry.Subscription
		for range 5 {
			if v := p.judge(&insisting, &Call{Since: at, Insist: true}, r); v != Retry {
				t.Errorf("%d: a message that is needed: %v", status, v)
			}
		}
	}
	for _, r := range []Reply{{Status: 500}, {Status: 429}, {Status: 408}, {Status: 302}, {Err: http.ErrHandlerTimeout}} {
		var s registry.Subscription
		for i, want := range []Verdict{Retry, Retry, Retry, GiveUp} {
			r.Sent = at.Add(time.Duration(i) * p.Patience / 3)
			r.At = r.Sent
			if v := p.judge(&s, &Call{Since: at}, r); v != want {
				t.Errorf("%+v after %s: %v", r, r.At.Sub(at), v)
			}
		}
		if v := p.judge(&s, &Call{Since: r.At}, r); v != Retry {
			t.Errorf("%+v: the next message: %v", r, v)
		}
	}
	var s registry.Subscription
	if v := p.judge(&s, &Call{Since: at}, Reply{Sent: at, At: at, Status: http.StatusGone}); v != Gone {
		t.Errorf("410: %v", v)
	}
}

// However long the pauses have become, a receiver that is back gets its message after a probe, and
// the others of its host follow. While the host is down, one of them is called for all.
func TestReceiverComesBack(t *testing.T) {
	var down atomic.Bool
	var calls atomic.Int32
	down.Store(true)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer web.Close()
	const probe = 20 * time.Millisecond
	var all []registry.Subscription
	for i := range 50 {
		all = append(all, pendingCalls(fmt.Sprint(i), strings.Replace(web.URL, "127.0.0.1", "localhost", 1)+"/"+fmt.Sprint(i), 1))
	}
	began := time.Now()
	s := newTestEngine(t, func(o *Options) {
		o.Guard = guard(t, "127.0.0.0/8", "::1/128")
		o.Schedule = Schedule{Pauses: []time.Duration{24 * time.Hour}, Probe: probe}
	}, all...)
	until(t, "the probes", func() bool { return calls.Load() >= 55 })
	if n, most := int(calls.Load()), 50+int(time.Since(began)/probe)+1; n > most {
		t.Errorf("%d calls of a host that is down, want at most %d", n, most)
	}
	down.Store(false)
	until(t, "all deliveries", func() bool { return s.Stats().Taken == 50 })
}
