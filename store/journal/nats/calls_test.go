// Tests of requests that get no answer.

package nats_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
	"github.com/freshet/freshet/store/journal/nats"
)

// A request that is not answered is given up sooner at first than later, and a slow server gets more
// time. After an election no request waits long, until one is answered.
func TestCalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := nats.NewCalls()
		unanswered := func() time.Duration {
			began := time.Now()
			ctx, done := c.Begin(t.Context())
			<-ctx.Done()
			done(ctx.Err())
			return time.Since(began)
		}
		answered := func(after time.Duration) {
			_, done := c.Begin(t.Context())
			time.Sleep(after)
			done(nil)
		}
		expect := func(what string, want ...time.Duration) {
			t.Helper()
			var waits []time.Duration
			for range want {
				waits = append(waits, unanswered())
			}
			if !slices.Equal(waits, want) {
				t.Errorf("%s: waits of %v, want %v", what, waits, want)
			}
		}
		expect("at first", time.Second, 2*time.Second, 3*time.Second, 3*time.Second)
		answered(time.Millisecond)
		expect("a fast server", time.Second)
		answered(500 * time.Millisecond)
		expect("a slow server", 2*time.Second, 3*time.Second)
		began := time.Now()
		ctx, done := c.Begin(t.Context())
		time.AfterFunc(100*time.Millisecond, c.Elected)
		<-ctx.Done()
		done(ctx.Err())
		if waited := time.Since(began); waited != 100*time.Millisecond {
			t.Errorf("a request waits for %v while a leader is elected", waited)
		}
		expect("after an election", 250*time.Millisecond, 500*time.Millisecond, time.Second)
		answered(time.Millisecond)
		expect("a new leader answers", time.Second)
		gone, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		ctx, done = c.Begin(gone)
		<-ctx.Done()
		done(ctx.Err())
		expect("a caller did not wait", 2*time.Second)
	})
}

// The end of the journal is not trusted within a second of an election.
func TestSettled(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := nats.NewCalls()
		waits := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			if err := c.Settled(t.Context()); err != nil || time.Since(began) != want {
				t.Errorf("settled after %v, %v; want %v", time.Since(began), err, want)
			}
		}
		waits(0)
		c.Elected()
		time.AfterFunc(400*time.Millisecond, c.Elected)
		waits(1400 * time.Millisecond)
		waits(0)
		c.Led(300 * time.Millisecond)
		waits(700 * time.Millisecond)
		c.Elected()
		c.Led(time.Hour)
		short, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := c.Settled(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that does not wait: %v", err)
		}
	})
}

// A leader whose clock was set back counts as one that was just elected. A single server was not elected.
func TestLeadership(t *testing.T) {
	for answer, want := range map[string]time.Duration{
		`{"ts": "2026-01-01T00:00:09Z", "cluster": {"raft_group": "g", "leader_since": "2026-01-01T00:00:02Z"}}`: 7 * time.Second,
		`{"ts": "2026-01-01T00:00:09Z", "cluster": {"raft_group": "g", "leader_since": "2026-01-01T01:00:00Z"}}`: 0,
		`{"ts": "2026-01-01T00:00:09Z", "cluster": {"raft_group": "g"}}`:                                         0,
		`{"cluster": {"raft_group": "g", "leader_since": "2026-01-01T00:00:02Z"}}`:                               0,
		`{"ts": "2026-01-01T00:00:09Z", "cluster": {"leader": "n0"}}`:                                            -1,
		`{"ts": "2026-01-01T00:00:09Z"}`:                                                                         -1,
	} {
		if lasts, elected := nats.Lasts([]byte(answer)); elected != (want >= 0) || elected && lasts != want {
			t.Errorf("%s: %v, %t", answer, lasts, elected)
		}
	}
}

// A request is made again if an election ends it, and if the waits after an election are too short. It
// ends after the wait of a request without an election, and with its caller.
func TestRepeat(t *testing.T) {
	const ms = time.Millisecond
	never := time.Hour
	for what, test := range map[string]struct {
		election       time.Duration // after the start
		caller, answer time.Duration // how long they take
		requests       int
		took           time.Duration
		err            error
	}{
		"no election":                       {never, never, 900 * ms, 1, 900 * ms, nil},
		"no answer":                         {never, never, never, 1, 1000 * ms, context.DeadlineExceeded},
		"an election, then a slow answer":   {800 * ms, never, 900 * ms, 4, 2450 * ms, nil},
		"an election, then a fast answer":   {100 * ms, never, 200 * ms, 2, 300 * ms, nil},
		"an election, then a slower answer": {100 * ms, never, 400 * ms, 3, 750 * ms, nil},
		"an election, then no answer":       {100 * ms, never, never, 4, 1850 * ms, context.DeadlineExceeded},
		"a caller that does not wait":       {100 * ms, 300 * ms, never, 2, 300 * ms, context.DeadlineExceeded},
	} {
		t.Run(what, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := nats.NewCalls()
				defer time.AfterFunc(test.election, c.Elected).Stop()
				ctx, cancel := context.WithTimeout(t.Context(), test.caller)
				defer cancel()
				began, requests := time.Now(), 0
				err := c.Repeat(ctx, func(ctx context.Context) error {
					requests++
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(test.answer):
						return nil
					}
				})
				if took := time.Since(began); !errors.Is(err, test.err) || requests != test.requests || took != test.took {
					t.Errorf("%v after %d requests in %v; want %v, %d, %v", err, requests, took, test.err, test.requests, test.took)
				}
			})
		})
	}
}

// What is missing is looked for again and again before it counts. The time in which a process is stopped
// does not count.
func TestAbsence(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const patience = 20 * time.Second
		for what, test := range map[string]struct{ pause, stop, want time.Duration }{
			"looks in a second":       {time.Second, 0, patience},
			"looks in ten seconds":    {10 * time.Second, 0, 200 * time.Second},
			"looks in 100 ms":         {100 * time.Millisecond, 0, patience},
			"stopped after each look": {time.Second, time.Hour, patience + 20*time.Hour},
		} {
			var a nats.Absence
			began := time.Now()
			for !a.Outlasts(patience) {
				time.Sleep(test.pause + test.stop)
			}
			if took := time.Since(began); took != test.want {
				t.Errorf("%s: it counts after %v, want %v", what, took, test.want)
			}
		}
	})
}

// elections expects that an election ends the wait for an answer, which the leader before it may never
// give, that other requests go on, and that the end of the journal is asked for only some time after an
// election, also if the journal was opened later.
func elections(t *testing.T, servers []*nats.Server) {
	before := time.Now()
	j := open(t, servers[0], nats.Config{Name: "elects"})
	defer j.Close()
	if _, err := j.Append(t.Context(), "first", nil); err != nil {
		t.Fatal(err)
	}
	j.SetElected(time.Now().Add(time.Hour))
	short, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if at, err := j.Head(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the end just after an election: %v, %v", at, err)
	}
	var elections sync.WaitGroup
	for range 100 {
		elections.Go(j.Elected)
		// Another error is one of a server that stalls.
		if old, err := j.Old(t.Context(), 0, 0); errors.Is(err, context.Canceled) || err == nil && old != 0 {
			t.Fatalf("old entries during an election: %d, %v", old, err)
		}
	}
	elections.Wait()
	j.SetElected(time.Time{})
	sent, ended := make(chan bool), make(chan error, 1)
	go func() { ended <- j.Unanswered(func() { close(sent) }) }()
	<-sent
	other := open(t, servers[1], nats.Config{Name: "elects"})
	defer other.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := 0; ; i++ {
		_ = other.Lead(ctx, []string{"n0", "n1", "n2"}[i%3]) // it fails until it is done
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("a request that is not answered: %v", err)
			}
			late := open(t, servers[2], nats.Config{Name: "elects"})
			defer late.Close()
			if at := late.LastElected(); at.Before(before) || at.After(time.Now()) {
				t.Errorf("a journal that is opened after elections since %v: the last one was at %v", before, at)
			}
			return
		case <-ctx.Done():
			t.Fatal("a request goes on although the stream has another leader")
		case <-time.After(200 * time.Millisecond):
		}
	}
}
