package endpoint

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

func TestConcurrency(t *testing.T) {
	var now, most atomic.Int32
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		for end := time.Now().Add(5 * time.Second); most.Load() < 2 && time.Now().Before(end); {
			time.Sleep(time.Millisecond) // for the other one, which a busy machine delays
		}
		time.Sleep(20 * time.Millisecond) // for one that must not start
		now.Add(-1)
		send(200, typeJSON, rows(1))(w, r)
	}), func(e *registry.Endpoint, o *Options) { e.Concurrency = 2 })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if a := c.Execute(t.Context(), sel("S"), Memory{}, long); a.Outcome != registry.Changed {
				t.Errorf("%+v", a)
			}
		})
	}
	wg.Wait()
	if most.Load() != 2 {
		t.Errorf("%d requests at a time, want 2", most.Load())
	}
}

func TestGap(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g := newRequestLimiter(1, time.Minute)
		enter := func(d time.Duration) error {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			return g.acquire(ctx)
		}
		start := time.Now()
		if err := enter(time.Second); err != nil || time.Since(start) != 0 {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		if err := enter(time.Second); err == nil {
			t.Fatal("two at a time")
		}
		time.Sleep(9 * time.Second)
		g.release(true) // at 10 s
		if err := enter(30 * time.Second); err == nil || time.Since(start) != 40*time.Second {
			t.Fatalf("%v after %v: waiting goes beyond ctx", err, time.Since(start))
		}
		if err := enter(time.Hour); err != nil || time.Since(start) != 70*time.Second {
			t.Fatalf("%v after %v, want at 1m10s", err, time.Since(start))
		}
		g.release(false) // nothing was sent
		if err := enter(time.Second); err != nil {
			t.Fatal(err)
		}
	})
}

// With two concurrent requests, the gap starts at the end of the last one, even if it ends
// while another request waits.
func TestGapBeginsAnew(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g, start := newRequestLimiter(2, 10*time.Second), time.Now()
		for range 2 {
			if err := g.acquire(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		g.release(true)
		go func() {
			time.Sleep(5 * time.Second)
			g.release(true)
		}()
		if err := g.acquire(t.Context()); err != nil || time.Since(start) != 15*time.Second {
			t.Errorf("%v after %v, want at 15s", err, time.Since(start))
		}
	})
}

// Waiting for a free execution is not execution time, but it ends with ctx.
func TestWaitingIsNotElapsed(t *testing.T) {
	c := client(t, serve(t, send(200, typeJSON, rows(1))), func(e *registry.Endpoint, o *Options) {
		e.MinGap = registry.Duration(200 * time.Millisecond)
	})
	start := time.Now()
	first, a := execute(t, c, sel("S")), execute(t, c, sel("S"))
	want(t, first, registry.Changed)
	want(t, a, registry.Changed)
	// At least the gap, however long the machine is busy in between.
	if waited := time.Since(start) - first.Elapsed - a.Elapsed; waited < 190*time.Millisecond {
		t.Errorf("waited %v, elapsed %v and %v", waited, first.Elapsed, a.Elapsed)
	}
	c = client(t, serve(t, send(200, typeJSON, rows(1))), func(e *registry.Endpoint, o *Options) {
		e.MinGap = registry.Duration(time.Hour)
	})
	want(t, execute(t, c, sel("S")), registry.Changed)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	a = c.Execute(ctx, sel("S"), Memory{}, long)
	want(t, a, registry.Cut, "waiting")
	if a.Elapsed != 0 {
		t.Errorf("elapsed %v", a.Elapsed)
	}
}

// A fakeTime is a clock that a test sets.
type fakeTime struct{ atomic.Int64 }

func (f *fakeTime) now() time.Time { return time.Unix(1_800_000_000, f.Load()).UTC() }

func (f *fakeTime) pass(d time.Duration) { f.Add(int64(d)) }

func TestThrottledUntil(t *testing.T) {
	var clock fakeTime
	var requests atomic.Int32
	status, retry := 429, "60"
	set := func(e *registry.Endpoint, o *Options) { o.Now = clock.now }
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("Retry-After", retry)
		send(status, typeJSON, rows(1))(w, r)
	})
	c := client(t, addr, set)
	want(t, execute(t, c, sel("S")), registry.Throttled)
	h := c.Health()
	if h.State != registry.HealthThrottled || !h.Until.Equal(clock.now().Add(time.Minute)) || !h.Since.Equal(clock.now()) || h.Failures != 1 {
		t.Errorf("health %+v", h)
	}
	clock.pass(59 * time.Second)
	a := execute(t, c, sel("S"))
	want(t, a, registry.Throttled, "not asked", "2027-01-15T08:01:00Z")
	if requests.Load() != 1 || a.Elapsed != 0 {
		t.Errorf("%d requests, elapsed %v", requests.Load(), a.Elapsed)
	}
	t.Run("across a restart", func(t *testing.T) {
		restored := client(t, addr, func(e *registry.Endpoint, o *Options) { o.Now, o.Health = clock.now, h })
		want(t, execute(t, restored, sel("S")), registry.Throttled, "not asked")
	})
	t.Run("ever longer when it does not say", func(t *testing.T) {
		clock.pass(time.Second)
		retry = ""
		for _, wait := range []time.Duration{20, 40, 80, 160, 320, 600, 600} {
			want(t, execute(t, c, sel("S")), registry.Throttled, "429")
			if got := c.Health().Until.Sub(clock.now()); got != wait*time.Second {
				t.Errorf("waits %v, want %v", got, wait*time.Second)
			}
			clock.pass(wait * time.Second)
		}
	})
	status = 200
	want(t, execute(t, c, sel("S")), registry.Changed)
	if d := cmp.Diff(registry.Health{State: registry.Healthy, Since: clock.now()}, c.Health()); d != "" {
		t.Error(d)
	}
}

func TestOpenAndProbe(t *testing.T) {
	var clock fakeTime
	var requests, inside atomic.Int32
	var status atomic.Int32
	hold := make(chan struct{})
	status.Store(502)
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if status.Load() == 200 {
			inside.Add(1)
			<-hold
		}
		send(int(status.Load()), typeJSON, rows(1))(w, r)
	}), func(e *registry.Endpoint, o *Options) { o.Now, e.Concurrency = clock.now, 4 })
	for i := range failuresToRest {
		if h := c.Health(); h.State != registry.Healthy || h.Failures != i {
			t.Fatalf("health %+v after %d failures", h, i)
		}
		want(t, execute(t, c, sel("S")), registry.Failed, "502")
	}
	for _, wait := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		if h := c.Health(); h.State != registry.HealthFailing || h.Until.Sub(clock.now()) != wait*time.Second || h.Error == "" {
			t.Fatalf("health %+v, want it failing for %v", h, wait*time.Second)
		}
		n := requests.Load()
		want(t, execute(t, c, sel("S")), registry.Throttled, "not asked")
		clock.pass(wait * time.Second)
		want(t, execute(t, c, sel("S")), registry.Failed, "502")
		if requests.Load() != n+1 {
			t.Fatalf("%d requests, want one probe", requests.Load()-n)
		}
	}
	clock.pass(longestProbe)
	status.Store(200)
	var wg sync.WaitGroup
	wg.Go(func() {
		if a := c.Execute(t.Context(), sel("S"), Memory{}, long); a.Outcome != registry.Changed {
			t.Errorf("probe: %+v", a)
		}
	})
	for inside.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	want(t, execute(t, c, sel("S")), registry.Throttled, "not asked") // one probe at a time
	close(hold)
	wg.Wait()
	if h := c.Health(); h.State != registry.Healthy || h.Failures != 0 || h.Error != "" {
		t.Errorf("health %+v after the probe", h)
	}
	want(t, execute(t, c, sel("S")), registry.Changed)
}

// A 500 to a query that was never answered may be about the query: many of them
// pause the endpoint, but never longer than at first, so that other queries
// soon run. One to a query that was answered before is about the endpoint.
func TestQueriesThatBreakTheServer(t *testing.T) {
	var clock fakeTime
	down := false
	c := client(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if down || strings.Contains(r.FormValue("query"), "bad") {
			send(500, "text/plain", "java.lang.NullPointerException")(w, r)
			return
		}
		send(200, typeJSON, rows(1))(w, r)
	}), func(e *registry.Endpoint, o *Options) { o.Now = clock.now })
	for row := range 4 {
		for range failuresToRest {
			want(t, execute(t, c, sel("bad")), registry.Failed, "500")
		}
		if h := c.Health(); h.Failures != (row+1)*failuresToRest || h.State != registry.HealthFailing || h.Until.Sub(clock.now()) != firstProbe {
			t.Fatalf("%+v, want it failing for %v", h, firstProbe)
		}
		want(t, execute(t, c, sel("good")), registry.Throttled, "not asked")
		clock.pass(firstProbe)
	}
	m := execute(t, c, sel("good")).Memory
	if h := c.Health(); h.Failures != 0 {
		t.Errorf("%+v after an answer", h)
	}
	down = true
	for range failuresToRest {
		want(t, c.Execute(t.Context(), sel("good"), m, long), registry.Failed, "500")
	}
	if h := c.Health(); h.State != registry.HealthFailing {
		t.Fatalf("%+v although queries fail that were answered before", h)
	}
	for range failuresToRest { // probes that may be about the query only
		clock.pass(firstProbe)
		want(t, execute(t, c, sel("bad")), registry.Failed, "500")
	}
	want(t, execute(t, c, sel("good")), registry.Throttled, "not asked")
	down = false
	clock.pass(firstProbe)
	want(t, execute(t, c, sel("good")), registry.Changed)
	if h := c.Health(); h.State != registry.Healthy {
		t.Errorf("%+v after a probe that was answered", h)
	}
}

func TestHealthRules(t *testing.T) {
	var clock fakeTime
	sent := func(o registry.Outcome, down bool) verdict {
		return verdict{Answer: Answer{Outcome: o, Error: "e"}, sent: true, down: down}
	}
	t.Run("time that runs out for queries never answered", func(t *testing.T) {
		for _, first := range []bool{true, false} {
			s := newHealth(registry.Health{}, clock.now)
			v := sent(registry.Timeout, true)
			v.first = first
			for range failuresToRest {
				s.end(permit{}, v)
			}
			if h := s.snapshot(); h.State != registry.HealthFailing || h.Until.Sub(clock.now()) != firstProbe {
				t.Errorf("never answered %t: %+v", first, h)
			}
			clock.pass(firstProbe)
			s.end(permit{probe: true}, v)
			if h := s.snapshot(); h.State != registry.HealthFailing || h.Until.After(clock.now()) == first {
				t.Errorf("never answered %t: %+v after a probe", first, h)
			}
		}
	})
	t.Run("requests that fail together lengthen no wait", func(t *testing.T) {
		s := newHealth(registry.Health{}, clock.now)
		var all []permit
		for range failuresToRest + 3 {
			p, _ := s.begin()
			all = append(all, p)
		}
		for _, p := range all {
			s.end(p, sent(registry.Failed, true))
		}
		if h := s.snapshot(); h.Failures != failuresToRest || h.Until.Sub(clock.now()) != firstProbe {
			t.Errorf("%+v at %s", h, clock.now())
		}
		clock.pass(firstProbe)
		p, _ := s.begin()
		if s.end(p, sent(registry.Failed, true)); s.snapshot().Until.Sub(clock.now()) != 2*firstProbe {
			t.Errorf("after a probe: %+v at %s", s.snapshot(), clock.now())
		}
	})
	t.Run("a rejected query ends a row of failures, a cut one does not", func(t *testing.T) {
		s := newHealth(registry.Health{}, clock.now)
		s.end(permit{}, sent(registry.Failed, true))
		s.end(permit{}, sent(registry.Cut, false))
		if s.snapshot().Failures != 1 {
			t.Errorf("%+v", s.snapshot())
		}
		s.end(permit{}, sent(registry.Rejected, false))
		if s.snapshot().Failures != 0 {
			t.Errorf("%+v", s.snapshot())
		}
	})
	t.Run("an answer from before does not end the wait", func(t *testing.T) {
		s := newHealth(registry.Health{}, clock.now)
		early, _ := s.begin()
		late, _ := s.begin()
		v := sent(registry.Throttled, false)
		v.wait = time.Hour
		s.end(late, v)
		s.end(early, sent(registry.Changed, false))
		if h := s.snapshot(); h.State != registry.HealthThrottled {
			t.Errorf("%+v", h)
		}
		v.wait = time.Minute
		s.end(early, v)
		if h := s.snapshot(); h.Until.Sub(clock.now()) != time.Hour {
			t.Errorf("a shorter wait replaced the longer: %+v", h)
		}
	})
	t.Run("a clock that was set back delays no request", func(t *testing.T) {
		for _, c := range []struct{ since, until, want time.Duration }{
			{-time.Minute, time.Hour, time.Hour},
			{10 * time.Hour, 11 * time.Hour, time.Hour},
			{-time.Minute, 100 * time.Hour, longestWait},
			{100 * time.Hour, 200 * time.Hour, longestWait},
		} {
			now := clock.now()
			s := newHealth(registry.Health{State: registry.HealthThrottled, Since: now.Add(c.since), Until: now.Add(c.until)}, clock.now)
			if h := s.snapshot(); !h.Until.Equal(now.Add(c.want)) || h.Since.After(now) {
				t.Errorf("%+v at %s, want %s", h, now, c.want)
			}
		}
	})
	t.Run("a clock that was set back delays no probe", func(t *testing.T) {
		now := clock.now()
		s := newHealth(registry.Health{State: registry.HealthFailing, Until: now.Add(time.Hour), Failures: 5}, clock.now)
		if h := s.snapshot(); !h.Until.Equal(now.Add(longestProbe)) {
			t.Errorf("%+v at %s", h, now)
		}
	})
	t.Run("what was not sent shows nothing", func(t *testing.T) {
		s := newHealth(registry.Health{State: registry.HealthFailing, Until: clock.now(), Failures: 7}, clock.now)
		p, _ := s.begin()
		s.end(p, verdict{Answer: Answer{Outcome: registry.Failed}})
		if h := s.snapshot(); h.State != registry.HealthFailing || h.Failures != 7 {
			t.Errorf("%+v", h)
		}
	})
	t.Run("a cut probe leaves room for the next", func(t *testing.T) {
		s := newHealth(registry.Health{State: registry.HealthFailing, Until: clock.now(), Failures: 7}, clock.now)
		p, why := s.begin()
		if why != "" {
			t.Fatal(why)
		}
		s.end(p, sent(registry.Cut, false))
		if _, why = s.begin(); why != "" {
			t.Error(why)
		}
	})
}

// What an endpoint reports to a client applies to its successor, even if it is
// reported later.
func TestTakingOver(t *testing.T) {
	asked, answer := make(chan struct{}, 9), make(chan struct{})
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-answer
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	old := client(t, addr, nil)
	over := make(chan Answer)
	go func() { over <- old.Execute(t.Context(), sel("S"), Memory{}, long) }()
	<-asked
	next := client(t, addr, func(e *registry.Endpoint, o *Options) { o.Predecessor, e.Timeout = old, registry.Duration(time.Minute) })
	close(answer)
	want(t, <-over, registry.Throttled)
	want(t, execute(t, next, sel("S")), registry.Throttled, "not asked")
	if len(asked) > 0 {
		t.Error("asked although it was to be left alone")
	}
}

func TestTakingOverKeepsTheGap(t *testing.T) {
	addr := serve(t, send(200, typeJSON, rows(1)))
	old := client(t, addr, nil)
	want(t, execute(t, old, sel("S")), registry.Changed)
	next := client(t, addr, func(e *registry.Endpoint, o *Options) { o.Predecessor, e.MinGap = old, registry.Duration(time.Hour) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	want(t, next.Execute(ctx, sel("S"), Memory{}, long), registry.Cut, "waiting for a free execution")
}

func TestGapBeginsBeforeTheFirst(t *testing.T) {
	addr := serve(t, send(200, typeJSON, rows(1)))
	c := client(t, addr, func(e *registry.Endpoint, o *Options) {
		o.LastRequest, e.MinGap = time.Now(), registry.Duration(time.Hour)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	want(t, c.Execute(ctx, sel("S"), Memory{}, long), registry.Cut, "waiting for a free execution")
}

// A Retry-After applies from its header on: the body may never arrive.
func TestRetryAfterBeforeTheEnd(t *testing.T) {
	asked, release := make(chan struct{}, 9), make(chan struct{})
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
		w.(http.Flusher).Flush()
		<-release
	})
	defer close(release)
	for _, foreign := range []bool{true, false} {
		var c *Client
		var a Answer
		// The header must come within the limit, for which a busy machine needs a longer one.
		for limit := time.Second; limit < long; limit *= 2 {
			c = client(t, addr, func(e *registry.Endpoint, o *Options) { e.Timeout = registry.Duration(2 * limit) })
			if !foreign {
				a = c.Execute(t.Context(), sel("S"), Memory{}, long)
			} else {
				a = c.Execute(t.Context(), sel("S"), Memory{}, limit)
			}
			if a.Outcome != registry.Cut && a.Outcome != registry.Timeout {
				break
			}
			for len(asked) > 0 {
				<-asked
			}
		}
		want(t, a, registry.Throttled)
		<-asked
		want(t, execute(t, c, sel("S")), registry.Throttled, "not asked")
		if len(asked) > 0 {
			t.Error("asked although it was to be left alone")
		}
	}
}
