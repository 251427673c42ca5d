package follow_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock/clocktest"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler/follow"
	"github.com/freshet/freshet/scheduler/proof"
	"github.com/freshet/freshet/scheduler/schedulertest"
)

// set is a clock that can be set.
type set struct {
	sleeper
	*clocktest.Machine
}

func (s set) Now() time.Time { return s.Machine.Now() }

// steps is a source that does one thing after another.
type steps []func(take func(feed.Batch) error) error

func (s steps) Follow(_ context.Context, _ string, take func(feed.Batch) error) error {
	for _, do := range s {
		if err := do(take); err != nil {
			return err
		}
	}
	return nil
}

// The clock is set forward by an hour: an event of a moment before is not old, so no answer of an endpoint that is behind by ten
// minutes at most includes it yet.
func TestClockIsSetForward(t *testing.T) {
	ledger := &schedulertest.Memory{}
	if err := ledger.Register(registry.Query{ID: "q", Endpoint: "city", Form: diff.Select, Text: "SELECT * { ?s <http://x/p> ?o }",
		Holders: []registry.Holder{{Caller: "me"}}}); err != nil {
		t.Fatal(err)
	}
	e := registry.Endpoint{Name: "city", Feed: "log"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	clock := set{Machine: new(clocktest.Machine)}
	event := func(n int64) func(func(feed.Batch) error) error {
		return func(take func(feed.Batch) error) error {
			p := feed.Place{Offset: n}
			return take(feed.Batch{Events: []feed.Event{{Place: p, All: true}}, Head: feed.Place{Offset: n, Time: clock.Now()}})
		}
	}
	proved := func() bool {
		n, err := ledger.Since("city", 0)
		if err != nil {
			t.Fatal(err)
		}
		v := proof.NewView(e, n.Feeds["log"], n.Space, n.Proof, clock.Now())
		before := v.Assumed(clock.Now(), 10*time.Minute)
		before.Answered = clock.Now()
		return v.Holds(n.Touched["q"], before)
	}
	f := follow.New(follow.Config{
		Definition: feed.Definition{Name: "log", Kind: feed.RDFPatch, URL: "http://x/"}, Ledger: ledger, Clock: clock,
		Endpoints: func() []registry.Endpoint { return []registry.Endpoint{e} },
		Heard:     func(string) {}, Logger: slog.New(slog.DiscardHandler),
		Source: steps{event(1), event(2), func(take func(feed.Batch) error) error {
			clock.Set(time.Hour)
			if err := take(feed.Batch{Head: feed.Place{Offset: 2, Time: clock.Now()}}); err != nil {
				return err
			}
			if proved() {
				t.Error("an answer proves that it includes an event of a moment before the clock was set")
			}
			clock.Pass(11 * time.Minute)
			if err := take(feed.Batch{Head: feed.Place{Offset: 2, Time: clock.Now()}}); err != nil {
				return err
			}
			if !proved() {
				t.Error("an answer of eleven minutes later does not prove that")
			}
			cancel()
			return nil
		}},
	})
	if err := f.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// The clock is set forward after an event: its number begins again with the next one, and no answer from before the event is proved.
func TestEventsBeforeTheClockIsSetForward(t *testing.T) {
	ledger := &schedulertest.Memory{}
	if err := ledger.Register(registry.Query{ID: "q", Endpoint: "city", Form: diff.Select, Text: "SELECT * { ?s <http://x/p> ?o }",
		Holders: []registry.Holder{{Caller: "me"}}}); err != nil {
		t.Fatal(err)
	}
	e := registry.Endpoint{Name: "city", Feed: "log", Position: "SELECT ?n { <http://x/log> <http://x/next> ?n }"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	clock := set{Machine: new(clocktest.Machine)}
	event := func(n int64, events ...feed.Event) func(func(feed.Batch) error) error {
		return func(take func(feed.Batch) error) error {
			return take(feed.Batch{Events: events, Head: feed.Place{Offset: n, Time: clock.Now()}})
		}
	}
	proved := func(next int64) bool {
		n, err := ledger.Since("city", 0)
		if err != nil {
			t.Fatal(err)
		}
		v := proof.NewView(e, n.Feeds["log"], n.Space, n.Proof, clock.Now())
		v.Tell(20)
		return v.Holds(n.Touched["q"], v.Told(feed.Place{Offset: next}))
	}
	f := follow.New(follow.Config{
		Definition: feed.Definition{Name: "log", Kind: feed.RDFPatch, URL: "http://x/"}, Ledger: ledger, Clock: clock,
		Endpoints: func() []registry.Endpoint { return []registry.Endpoint{e} },
		Heard:     func(string) {}, Logger: slog.New(slog.DiscardHandler),
		Source: steps{event(23), event(24, feed.Event{Place: feed.Place{Offset: 24}, All: true}), func(take func(feed.Batch) error) error {
			clock.Set(time.Hour)
			if err := event(24)(take); err != nil {
				return err
			}
			if proved(24) || !proved(25) {
				t.Errorf("without event 24 an answer is proved: %v, and with it: %v", proved(24), proved(25))
			}
			cancel()
			return nil
		}},
	})
	if err := f.Run(ctx); err != nil {
		t.Fatal(err)
	}
}
