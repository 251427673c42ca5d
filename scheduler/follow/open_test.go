package follow_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock/clocktest"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/follow"
	"github.com/freshet/freshet/scheduler/proof"
	"github.com/freshet/freshet/scheduler/schedulertest"
)

// once is a source of one batch.
type once struct {
	feed.Batch
	done func()
}

func (s once) Follow(_ context.Context, _ string, take func(feed.Batch) error) error {
	defer s.done()
	return take(s.Batch)
}

// Events arm a query whose result also changes with time, and prove nothing about it. That holds for one that
// was proved before that was known, too.
func TestAQueryWithTheTimeIsNotProved(t *testing.T) {
	ledger := &schedulertest.Memory{}
	for id, text := range map[string]string{"now": `SELECT * { ?s <http://x/p> ?o FILTER(?o > NOW()) }`,
		"plain": `SELECT * { ?s <http://x/p> ?o }`} {
		if err := ledger.Register(registry.Query{ID: id, Endpoint: "city", Form: diff.Select, Text: text,
			Holders: []registry.Holder{{Caller: "me"}}}); err != nil {
			t.Fatal(err)
		}
	}
	definition := feed.Definition{Name: "wd", Kind: feed.Wikimedia, URL: "http://x/"}
	place := feed.Place{Offset: 1, Time: time.Now().Add(-time.Minute)}
	state := proof.Feed{Source: proof.SourceOf(definition), Head: place, Base: place, Members: map[string]uint64{"city": 1}}
	old := map[string]proof.Touch{"now": {Feed: "wd", Reached: place}, "plain": {Feed: "wd", Reached: place}}
	if err := ledger.RecordFeed(scheduler.FeedBatch{Feed: "wd", State: state, Touched: old}); err != nil {
		t.Fatal(err)
	}
	follower := func(b feed.Batch) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		f := follow.New(follow.Config{
			Definition: definition, Source: once{b, cancel}, Ledger: ledger, Clock: sleeper{},
			Endpoints: func() []registry.Endpoint { return []registry.Endpoint{{Name: "city", Feed: "wd"}} },
			Heard:     func(string) {}, Logger: slog.New(slog.DiscardHandler),
		})
		if err := f.Run(ctx); err != nil {
			t.Fatal(err)
		}
	}
	touches := func() map[string]proof.Touch {
		n, err := ledger.Since("city", 0)
		if err != nil {
			t.Fatal(err)
		}
		return n.Touched
	}
	follower(feed.Batch{Head: feed.Place{Offset: 2, Time: time.Now()}})
	if got := touches(); !got["now"].Open || got["plain"].Open {
		t.Errorf("%+v", got)
	}
	follower(feed.Batch{Events: []feed.Event{{Place: feed.Place{Offset: 3, Time: time.Now()},
		Added: []sparql.Pattern{{Subject: "<http://x/s>", Predicate: "<http://x/p>", Object: `"2030`}}}}})
	if got := touches(); got["now"].Matched.Offset != 3 || !got["now"].Open {
		t.Errorf("%+v", got)
	}
	e := registry.Endpoint{Name: "city", Feed: "wd"}
	if p := ledger.Proof(e, "now", time.Now()); !strings.Contains(p.Unprovable, "cannot be proved, because it calls NOW") {
		t.Errorf("%+v", p)
	}
	v := proof.NewView(e, proof.Feed{Silence: time.Hour, Heard: place.Time, Head: place, Base: place,
		Members: map[string]uint64{"city": 1}}, 1, proof.Endpoint{}, place.Time)
	touch := proof.Touch{Feed: "wd", Reached: feed.Place{Offset: 1, Time: place.Time.Add(-time.Hour)}}
	before := v.Assumed(place.Time, time.Second)
	before.Assumed = place.Time
	if !v.Holds(touch, before) {
		t.Fatal(v.Proof(touch, before, ""))
	}
	if touch.Open = true; v.Holds(touch, before) {
		t.Error("proved")
	}
}

// What may have changed anything is one note in the feed, and not one a query. Deltas arm each query.
func TestOneNoteForAll(t *testing.T) {
	ledger := &schedulertest.Memory{}
	for i := range 50 {
		if err := ledger.Register(registry.Query{ID: fmt.Sprint("q", i), Endpoint: "city", Form: diff.Select,
			Text: fmt.Sprintf(`SELECT * { <http://x/%d> <http://x/p> ?o }`, i), Holders: []registry.Holder{{Caller: "me"}}}); err != nil {
			t.Fatal(err)
		}
	}
	follower := func(d feed.Definition, s feed.Source) *follow.Follower {
		return follow.New(follow.Config{Definition: d, Source: s, Ledger: ledger, Clock: sleeper{},
			Endpoints: func() []registry.Endpoint { return []registry.Endpoint{{Name: "city", Feed: d.Name}} },
			Heard:     func(string) {}, Logger: slog.New(slog.DiscardHandler)})
	}
	place := func(n int64) feed.Place {
		return feed.Place{Offset: n, Time: time.Now().Add(time.Duration(n-10) * time.Second)}
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	p3, p4 := place(3), place(4)
	add := sparql.Pattern{Subject: "<http://x/7>", Predicate: "<http://x/p>", Object: `"1`}
	if err := follower(feed.Definition{Name: "wd", Kind: feed.Wikimedia, URL: "http://x/"}, several{[]func() feed.Batch{
		func() feed.Batch { return feed.Batch{Head: place(1)} },
		func() feed.Batch {
			cancel()
			return feed.Batch{Events: []feed.Event{{Place: p3, All: true, Added: []sparql.Pattern{add}}, {Place: p4}}}
		},
	}}).Run(ctx); err != nil {
		t.Fatal(err)
	}
	n, err := ledger.Since("city", 0)
	if err != nil {
		t.Fatal(err)
	}
	if f := n.Feeds["wd"]; f.Any.Reached.Offset != 3 || f.Possible != 50 || f.Matched != 1 {
		t.Errorf("%+v", f)
	}
	if n.Touched["q7"].Matched.Offset != 3 || n.Touched["q8"].Reached.Offset != 1 {
		t.Errorf("%+v", n.Touched)
	}
	if err := follower(feed.Definition{Name: "sent", Kind: feed.Deltas}, nil).Tell([]feed.Event{{Place: feed.Place{Time: time.Now()},
		All: true}}); err != nil {
		t.Fatal(err)
	}
	if n, err = ledger.Since("city", 0); err != nil || n.Touched["q8"].Matched.Time.IsZero() || n.Feeds["sent"].Any.Reached.Offset != 0 {
		t.Errorf("%v, %+v", err, n.Touched["q8"])
	}
}

// A message that is sent concerns a query of which no pattern can be told, also after a restart.
func TestSentToAQueryWithoutPatterns(t *testing.T) {
	ledger := &schedulertest.Memory{}
	if err := ledger.Register(registry.Query{ID: "q", Endpoint: "city", Form: diff.Describe, Text: "DESCRIBE <http://x/a>",
		Holders: []registry.Holder{{Caller: "me"}}}); err != nil {
		t.Fatal(err)
	}
	f := follow.New(follow.Config{Definition: feed.Definition{Name: "sent", Kind: feed.Deltas}, Ledger: ledger, Clock: sleeper{},
		Endpoints: func() []registry.Endpoint { return []registry.Endpoint{{Name: "city", Feed: "sent"}} },
		Heard:     func(string) {}, Logger: slog.New(slog.DiscardHandler)})
	for i := range 2 {
		at := time.Now()
		if err := f.Tell([]feed.Event{{Place: feed.Place{Time: at},
			Added: []sparql.Pattern{{Subject: "<http://x/a>", Predicate: "<http://x/p>", Object: "_"}}}}); err != nil {
			t.Fatal(err)
		}
		n, err := ledger.Since("city", 0)
		if got := n.Touched["q"]; err != nil || !got.Open || got.Matched.Time.Before(at) {
			t.Errorf("message %d: %+v, %v", i, got, err)
		}
	}
}

// A query that is registered shortly before a feed begins again with a gap is proved by an answer that includes the last event.
func TestRegisteredBeforeAGap(t *testing.T) {
	ledger := &schedulertest.Memory{}
	register := func(id string) {
		if err := ledger.Register(registry.Query{ID: id, Endpoint: "city", Form: diff.Select, Text: "SELECT * { ?s <http://x/p> ?o }",
			Holders: []registry.Holder{{Caller: "me"}}}); err != nil {
			t.Fatal(err)
		}
	}
	e := registry.Endpoint{Name: "city", Feed: "log", Position: "SELECT ?n { <http://x/log> <http://x/next> ?n }"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	register("known")
	f := follow.New(follow.Config{
		Definition: feed.Definition{Name: "log", Kind: feed.RDFPatch, URL: "http://x/"}, Ledger: ledger, Clock: sleeper{},
		Endpoints: func() []registry.Endpoint { return []registry.Endpoint{e} },
		Heard:     func(string) {}, Logger: slog.New(slog.DiscardHandler),
		Source: several{[]func() feed.Batch{
			func() feed.Batch {
				return feed.Batch{Events: []feed.Event{{Place: feed.Place{Offset: 24}}}, Head: feed.Place{Offset: 24, Time: time.Now()}}
			},
			func() feed.Batch {
				register("new")
				cancel()
				return feed.Batch{Gap: "the patch of version 26 follows no known one", Renumbered: true,
					Events: []feed.Event{{Place: feed.Place{Offset: 26}}}, Head: feed.Place{Offset: 26, Time: time.Now()}}
			},
		}},
	})
	if err := f.Run(ctx); err != nil {
		t.Fatal(err)
	}
	n, err := ledger.Since("city", 0)
	if err != nil {
		t.Fatal(err)
	}
	v := proof.NewView(e, n.Feeds["log"], n.Space, n.Proof, time.Now())
	v.Tell(20)
	for _, id := range []string{"known", "new"} {
		for next, want := range map[int64]bool{26: false, 27: true} {
			if got := v.Holds(n.Touched[id], v.Told(feed.Place{Offset: next})); got != want {
				t.Errorf("%s, with the event before %d: proved is %v, want %v: %+v", id, next, got, want, n.Touched[id])
			}
		}
	}
}

// A batch of the feed that an endpoint named before is recorded late: queries that it reached are new to the feed of now.
func TestLateBatchOfAnotherFeed(t *testing.T) {
	ledger := &schedulertest.Memory{}
	if err := ledger.Register(registry.Query{ID: "q", Endpoint: "city", Form: diff.Select, Text: "SELECT * { ?s <http://x/p> ?o }",
		Holders: []registry.Holder{{Caller: "me"}}}); err != nil {
		t.Fatal(err)
	}
	e := registry.Endpoint{Name: "city", Feed: "log"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	at := func(n int64) feed.Place { return feed.Place{Offset: n, Time: time.Unix(n, 0)} }
	tell := func(n int64) func(func(feed.Batch) error) error {
		return func(take func(feed.Batch) error) error {
			return take(feed.Batch{Events: []feed.Event{{Place: at(n), Entity: "http://x/other"}}, Head: at(n)})
		}
	}
	f := follow.New(follow.Config{
		Definition: feed.Definition{Name: "log", Kind: feed.RDFPatch, URL: "http://x/"}, Ledger: ledger,
		Clock:     set{Machine: new(clocktest.Machine)},
		Endpoints: func() []registry.Endpoint { return []registry.Endpoint{e} },
		Heard:     func(string) {}, Logger: slog.New(slog.DiscardHandler),
		Source: steps{tell(1), tell(2), func(func(feed.Batch) error) error {
			return ledger.RecordFeed(scheduler.FeedBatch{Feed: "old", Touched: map[string]proof.Touch{"q": {Feed: "old", Reached: at(900)}}})
		}, tell(3), func(func(feed.Batch) error) error {
			cancel()
			n, err := ledger.Since("city", 0)
			if got := n.Touched["q"]; got.Feed != "log" || got.Reached.Offset != 2 {
				t.Errorf("%+v", got)
			}
			return err
		}},
	})
	if err := f.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

// A recorded is a clock that notes how long it is waited for, and does not wait.
type recorded struct {
	set
	waits *[]time.Duration
	end   func()
}

func (c recorded) Sleep(_ context.Context, until time.Time) error {
	if *c.waits = append(*c.waits, until.Sub(c.Now()).Round(time.Second)); len(*c.waits) == 12 {
		c.end()
	}
	return nil
}

// A feed that never comes to its end is left alone for longer and longer, also if its server closes each connection at once.
func TestWaitsGrow(t *testing.T) {
	clock := set{Machine: new(clocktest.Machine)}
	batch := func(more bool) func(func(feed.Batch) error) error {
		return func(take func(feed.Batch) error) error {
			return take(feed.Batch{Head: feed.Place{Offset: 1}, More: more})
		}
	}
	fail := func(func(feed.Batch) error) error { return errors.New("no") }
	for name, c := range map[string]struct {
		source feed.Source
		last   time.Duration
	}{
		"it closes at once":                 {steps{}, 5 * time.Minute},
		"it fails":                          {steps{fail}, 5 * time.Minute},
		"it fails after a part":             {steps{batch(true), fail}, 5 * time.Minute},
		"it fails after its end":            {steps{batch(false), fail}, time.Second},
		"it closes after a batch":           {steps{batch(false)}, time.Second},
		"it closes after some of a backlog": {steps{batch(true)}, time.Second},
		"it closes after a while": {steps{func(func(feed.Batch) error) error {
			clock.Pass(time.Minute)
			return nil
		}}, time.Second},
		"it fails after hours": {steps{batch(true), func(func(feed.Batch) error) error {
			clock.Pass(3 * time.Hour)
			return errors.New("no")
		}}, time.Second},
		"it fails after a while": {steps{batch(true), func(func(feed.Batch) error) error {
			clock.Pass(4 * time.Minute)
			return errors.New("no")
		}}, 5 * time.Minute},
	} {
		var waits []time.Duration
		ctx, cancel := context.WithCancel(t.Context())
		f := follow.New(follow.Config{
			Definition: feed.Definition{Name: "wd", Kind: feed.Wikimedia, URL: "http://x/"}, Source: c.source, Ledger: &schedulertest.Memory{},
			Clock: recorded{clock, &waits, cancel}, Endpoints: func() []registry.Endpoint { return nil },
			Heard: func(string) {}, Logger: slog.New(slog.DiscardHandler),
		})
		if err := f.Run(ctx); err != nil || len(waits) != 12 || waits[0] != time.Second || waits[11] != c.last {
			t.Errorf("%s: %v, %v", name, waits, err)
		}
		cancel()
	}
}
