package follow_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/follow"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/proof"
	"github.com/freshet/freshet/scheduler/schedulertest"
)

type several struct{ list []func() feed.Batch }

func (s several) Follow(_ context.Context, _ string, take func(feed.Batch) error) error {
	for _, b := range s.list {
		if err := take(b()); err != nil {
			return err
		}
	}
	return errors.New("end")
}

// The feed is followed by one process, or by one that is killed just before an endpoint shows that several servers
// answer for it.
func TestNarrowedByAWorthlessAnswer(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("killed ", killed), func(t *testing.T) { narrowedByAWorthlessAnswer(t, killed) })
	}
}

func narrowedByAWorthlessAnswer(t *testing.T, killed bool) {
	ledger := &schedulertest.Memory{}
	if err := ledger.Register(registry.Query{ID: "q", Endpoint: "city", Form: diff.Select, Text: `SELECT ?s { ?s <http://x/p> <http://x/o> }`,
		Holders: []registry.Holder{{Caller: "me"}}}); err != nil {
		t.Fatal(err)
	}
	if err := ledger.Register(registry.Query{ID: "r", Endpoint: "city", Form: diff.Select, Text: `SELECT ?s { ?s <http://x/other> ?o }`,
		Holders: []registry.Holder{{Caller: "me"}}}); err != nil {
		t.Fatal(err)
	}
	definition := feed.Definition{Name: "wd", Kind: feed.Wikimedia, URL: "http://x/"}
	start := time.Now().Add(-200 * time.Second)
	at := func(n int64) feed.Place {
		return feed.Place{Topic: "t", Offset: n, Time: start.Add(time.Duration(n) * time.Second)}
	}
	state := proof.Feed{Source: proof.SourceOf(definition), Head: at(100), Base: at(1), Members: map[string]uint64{"city": 1},
		Silence: time.Hour, Heard: time.Now()}
	e := registry.Endpoint{Name: "city", URL: "http://a/", Feed: "wd", Position: "SELECT ?n {}"}
	v := proof.NewView(e, state, 1, proof.Endpoint{}, time.Now())
	v.Tell(20)
	record := func(b feed.Before, rows string) {
		res, err := diff.DecodeJSON([]byte(`{"head":{"vars":["s"]},"results":{"bindings":[`+rows+`]}}`), diff.Select, diff.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, err := diff.CompareUntil(nil, nil, res)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ledger.Record("city", scheduler.Batch{Proof: &v.Endpoint, Outcomes: []scheduler.Outcome{{Query: "q", Result: res, Delta: d,
			Stats: policy.Stats{Executions: 1, Before: b}, At: b.Answered, Checked: b.Answered}}}); err != nil {
			t.Fatal(err)
		}
	}
	b := v.Told(feed.Place{Offset: 90})
	b.Answered = at(95).Time
	record(b, "") // from a server that was at 60, and did not have Y yet, which came with event 70
	if err := ledger.RecordFeed(scheduler.FeedBatch{Feed: "wd", State: state,
		Touched: map[string]proof.Touch{"q": {Feed: "wd", Reached: at(70), Grew: at(70)}}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	proved := func() (is bool, n scheduler.News, b feed.Before) {
		n, err := ledger.Since("city", 0)
		if err != nil {
			t.Fatal(err)
		}
		k, err := ledger.Known("q")
		if err != nil {
			t.Fatal(err)
		}
		return proof.NewView(e, n.Feeds["wd"], 1, n.Proof, time.Now()).Holds(n.Touched["q"], k.Before), n, k.Before
	}
	y := sparql.Pattern{Subject: "<http://x/Y>", Predicate: "<http://x/p>", Object: "<http://x/o>"}
	other := func(n int64) feed.Event { // which is recorded at once
		return feed.Event{Place: at(n), Added: []sparql.Pattern{{Subject: "<http://x/z>", Predicate: "<http://x/other>", Object: "<http://x/o>"}}}
	}
	batches := []func() feed.Batch{
		func() feed.Batch { return feed.Batch{Head: at(101)} },
		func() feed.Batch {
			return feed.Batch{Events: []feed.Event{{Place: at(120), Removed: []sparql.Pattern{y}}}}
		},
		func() feed.Batch { // its slow server shows itself; a new answer that is at 110
			v.Change(func(e *proof.Endpoint) { e.Back, e.Rebuilt = time.Now(), e.Rebuilt+1 })
			b := v.Told(feed.Place{Offset: 110})
			b.Answered = time.Now()
			record(b, `{"s":{"type":"uri","value":"http://x/Y"}}`)
			if is, _, _ := proved(); is {
				t.Error("proved with the row Y at 110 until the next batch, although event 120 removed it")
			}
			return feed.Batch{Head: at(130)}
		},
		func() feed.Batch {
			return feed.Batch{Events: []feed.Event{{Place: at(131),
				Added: []sparql.Pattern{{Subject: "<http://x/z>", Predicate: "<http://x/other>", Object: "<http://x/o>"}}}}}
		},
	}
	run := func(list ...func() feed.Batch) {
		life, end := context.WithCancel(ctx)
		defer end()
		list = append(slices.Clip(list), func() feed.Batch { end(); return feed.Batch{Events: []feed.Event{other(121)}} })
		f := follow.New(follow.Config{Definition: definition, Ledger: ledger, Clock: sleeper{}, Source: several{list},
			Endpoints: func() []registry.Endpoint { return []registry.Endpoint{e} },
			Heard:     func(string) {}, Logger: slog.New(slog.DiscardHandler)})
		if err := f.Run(life); err != nil {
			t.Fatal(err)
		}
	}
	if killed {
		run(batches[:2]...)
		run(batches[2:]...)
	} else {
		run(batches...)
	}
	is, n, before := proved()
	t.Logf("reached %d, before %d, head %d, refusal %q", n.Touched["q"].Reached.Offset, before.Offset, n.Feeds["wd"].Head.Offset,
		proof.NewView(e, n.Feeds["wd"], 1, n.Proof, time.Now()).Refusal())
	if is {
		t.Error("proved with the row Y at 110, although event 120 removed it")
	}
}
