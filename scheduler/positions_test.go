package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/proof"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// numberRow is a result with one number.
func numberRow(t *testing.T, n int) *diff.Result { return literalRow(t, fmt.Sprint(n), "integer") }

func literalRow(t *testing.T, value, datatype string) *diff.Result {
	doc := fmt.Sprintf(`{"head":{"vars":["n"]},"results":{"bindings":[{"n":{"type":"literal","value":%q,
		"datatype":"http://www.w3.org/2001/XMLSchema#%s"}}]}}`, value, datatype)
	r, err := diff.DecodeJSON([]byte(doc), diff.Select, diff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// positionWorld is an endpoint that tells its position, with a slot a minute and a budget of 8 s.
func positionWorld(t *testing.T, reply func(q *registry.Query, n int) reply) *world {
	e := endpoint("@every 1m", 8*time.Second, "rr")
	e.Feed, e.Position, e.Lag = "wd", "SELECT ?n { <http://x/d> <http://x/next> ?n }", registry.Duration(time.Minute)
	w := newWorld(t, e, reply)
	w.tell(1, nil)
	w.register("a")
	w.run()
	return w
}

// tell records that a feed has told the events up to a number, of which the last one reached queries.
func (w *world) tell(n int64, touched map[string]proof.Touch) {
	w.t.Helper()
	f, _, err := w.ledger.Feed("wd")
	if err != nil {
		w.t.Fatal(err)
	}
	now := time.Now().UTC()
	at := feed.Place{Offset: n, Time: now}
	f.Source, f.Head, f.Heard, f.Silence, f.Members = "wikimedia http://x/", at, now, time.Hour, map[string]uint64{city: 1}
	if f.Base == (feed.Place{}) {
		f.Base = at
	}
	if err := w.ledger.RecordFeed(scheduler.FeedBatch{Feed: "wd", State: f, Touched: touched}); err != nil {
		w.t.Fatal(err)
	}
	if w.loop != nil {
		w.loop.Heard()
	}
}

func reached(n int64) proof.Touch {
	t := proof.Touch{Feed: "wd"}
	t.Add(&feed.Event{Place: feed.Place{Offset: n, Time: time.Now().UTC()}}, feed.Matched)
	return t
}

// While an event waits for the endpoint's position, that is asked for: in at most a quarter of the budget between
// two slots, and a slot begins in time.
func TestPositionsHaveAShare(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		slow := false
		w := positionWorld(t, func(q *registry.Query, n int) reply {
			switch {
			case q.ID != "position":
				return reply{10 * time.Millisecond, registry.Changed, numberRow(t, 1)}
			case slow:
				return reply{1500 * time.Millisecond, registry.Changed, numberRow(t, 50)}
			}
			return reply{10 * time.Millisecond, registry.Changed, numberRow(t, 50)}
		})
		w.tell(40, map[string]proof.Touch{"q_a": {Feed: "wd", Reached: feed.Place{Offset: 2, Time: time.Now().UTC()}}})
		for i := range 20 {
			w.tell(50+int64(i), nil)
			time.Sleep(time.Minute)
		}
		slow = true
		began := time.Now()
		for i := range 20 {
			w.tell(100+int64(i), map[string]proof.Touch{"q_a": reached(100 + int64(i))})
			time.Sleep(15 * time.Second)
		}
		spent := map[time.Duration]time.Duration{} // by minute
		polls := 0
		for _, x := range w.service.executions() {
			if minute := x.start.Sub(began) / time.Minute; x.query == "position" && !x.start.Before(began) {
				spent[minute] += x.end.Sub(x.start)
				polls++
			}
		}
		for minute, took := range spent {
			if took > 3600*time.Millisecond { // one in the slot, and a quarter after it
				t.Errorf("in minute %d positions took %v", minute, took)
			}
		}
		if polls < 6 {
			t.Errorf("%d positions were asked for", polls)
		}
		if n := len(w.ledger.Slots(city)); n < 24 {
			t.Errorf("%d slots", n)
		}
		w.stop()
	})
}

// A slot, the positions that are asked for after it and what runs then because of these use one budget together.
func TestPositionsAndQueriesShareTheBudget(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		began := time.Now()
		w := positionWorld(t, func(q *registry.Query, n int) reply {
			minute, in := int(time.Since(began)/time.Minute), time.Since(began)%time.Minute
			took, position := 10*time.Millisecond, 50+minute
			switch {
			case q.ID == "q_a":
				took = time.Second
			case q.ID == "q_b":
				took = 5 * time.Second
			case in > 10*time.Second && in < 40*time.Second:
				took = 2 * time.Second
			case in >= 40*time.Second:
				position++
			}
			return reply{took, registry.Changed, numberRow(t, position)}
		})
		w.register("b")
		for i := range int64(3) {
			time.Sleep(15 * time.Second)
			w.tell(50+i, map[string]proof.Touch{"q_a": reached(50 + i), "q_b": {Feed: "wd", Reached: feed.Place{Offset: 2}}})
			time.Sleep(45 * time.Second)
		}
		spent := map[time.Duration]time.Duration{} // by minute
		for _, x := range w.service.executions() {
			spent[x.start.Sub(began)/time.Minute] += x.end.Sub(x.start)
		}
		for minute, took := range spent {
			if took > 8*time.Second+10*time.Millisecond {
				t.Errorf("minute %d took %v", minute, took)
			}
		}
		if spent[2] < 8*time.Second {
			t.Errorf("the third minute took %v, which leaves something for a query", spent[2])
		}
		w.stop()
	})
}

// An answer without a position says which setting is wrong and what to do, and queries go on.
func TestPositionErrorsNameTheRemedy(t *testing.T) {
	for _, c := range []struct {
		reply reply
		want  string
	}{
		{reply{time.Minute, registry.Changed, numberRow(t, 1)}, "raise budget"},
		{reply{time.Millisecond, registry.Timeout, nil}, "raise timeout"},
		{reply{time.Millisecond, registry.Changed, literalRow(t, "2000-01-01T02:00:00", "dateTime")}, "in UTC"}, // at about midnight
		{reply{time.Millisecond, registry.Failed, nil}, "correct the setting position"},
		{reply{time.Millisecond, registry.Changed, schedulertest.Rows(t, "1", "2")}, "2 rows and 1 columns; write a SELECT with one of each"},
	} {
		bubble.Test(t, func(t *testing.T) {
			w := positionWorld(t, func(q *registry.Query, n int) reply {
				if q.ID == "position" {
					return c.reply
				}
				return reply{10 * time.Millisecond, registry.Changed, numberRow(t, 1)}
			})
			time.Sleep(3 * time.Minute)
			n, err := w.ledger.Since(city, 0)
			if err != nil || !strings.HasPrefix(n.Proof.Failing, "position: ") || !strings.Contains(n.Proof.Failing, c.want) {
				t.Errorf("%q, want %q: %v", n.Proof.Failing, c.want, err)
			}
			if w.service.ran("q_a") < 2 || n.Health.State == registry.HealthFailing {
				t.Errorf("ran %d, %+v", w.service.ran("q_a"), n.Health)
			}
			w.stop()
		})
	}
}

// Where events have the times at which they were read, an endpoint whose clock is ahead includes none that was read after the
// request for its position. Times of publication are compared with its position as it tells it.
func TestPositionOfAClockThatIsAhead(t *testing.T) {
	for source, dated := range map[string]bool{"rdf-patch http://x/ ": false, "ldes http://x/ ": false, "wikimedia http://x/ ": true} {
		bubble.Test(t, func(t *testing.T) {
			const ahead = 40 * time.Second
			w := positionWorld(t, func(q *registry.Query, n int) reply {
				if q.ID == "position" {
					return reply{time.Second, registry.Changed, literalRow(t, time.Now().Add(ahead).UTC().Format(time.RFC3339Nano), "dateTime")}
				}
				return reply{10 * time.Millisecond, registry.Changed, numberRow(t, 1)}
			})
			f, _, err := w.ledger.Feed("wd")
			if err != nil {
				t.Fatal(err)
			}
			f.Source = source
			if err := w.ledger.RecordFeed(scheduler.FeedBatch{Feed: "wd", State: f}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute)
			var sent, ran time.Time
			for _, x := range w.service.executions() {
				switch {
				case x.query == "position" && x.end.After(x.start):
					sent = x.start
				case x.query == "q_a":
					ran = sent
				}
			}
			if got := w.stats("q_a").Before.Time; ran.IsZero() || got.IsZero() || got.After(ran) != dated {
				t.Errorf("%s: the position is %v, and was asked for at %v", source, got, ran)
			}
			w.stop()
		})
	}
}

// Where slots are rare, an endpoint is believed once it has told its position often enough, and that is recorded.
// A query whose answer came before the feed was heard runs after an event, too.
func TestPositionsBetweenRareSlots(t *testing.T) {
	for _, heard := range []bool{true, false} {
		bubble.Test(t, func(t *testing.T) {
			e := endpoint("@every 1h", 8*time.Second, "rr")
			e.Feed, e.Position, e.Lag = "wd", "SELECT ?n { <http://x/d> <http://x/next> ?n }", registry.Duration(time.Minute)
			position := 50
			w := newWorld(t, e, func(q *registry.Query, n int) reply {
				return reply{10 * time.Millisecond, registry.Changed, numberRow(t, position)}
			})
			if heard {
				w.tell(1, nil)
			}
			w.register("a")
			w.run()
			time.Sleep(time.Second)
			w.tell(30, nil)
			time.Sleep(time.Minute)
			if n, err := w.ledger.Since(city, 0); err != nil || n.Proof.Told != 20 {
				t.Errorf("told its position %d times: %v", n.Proof.Told, err)
			}
			asked := func() (n int) {
				for _, x := range w.service.executions() {
					if x.query != "position" {
						n++
					}
				}
				return n
			}
			slots := len(w.ledger.Slots(city))
			before := asked()
			position = 70
			w.tell(60, map[string]proof.Touch{"q_a": reached(60)})
			time.Sleep(time.Minute)
			if n := asked(); n == before || len(w.ledger.Slots(city)) > slots {
				t.Errorf("heard %v: asked %d times, and %d times before the event", heard, n, before)
			}
			w.stop()
		})
	}
}

// A proof that was wrong is recorded at once, although the next slot is far, because what is said to be proved goes by that.
func TestWrongProofBetweenRareSlots(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("@every 1h", 8*time.Second, "rr")
		e.Feed, e.Position, e.Lag = "wd", "SELECT ?n { <http://x/d> <http://x/next> ?n }", registry.Duration(time.Minute)
		value := 1
		w := newWorld(t, e, func(q *registry.Query, n int) reply {
			if q.ID != "position" {
				return reply{10 * time.Millisecond, registry.Changed, numberRow(t, value)}
			}
			return reply{10 * time.Millisecond, registry.Changed, numberRow(t, 50)}
		})
		w.tell(1, nil)
		w.register("a")
		w.run()
		time.Sleep(time.Second)
		w.tell(60, map[string]proof.Touch{"q_a": {Feed: "wd", Reached: feed.Place{Offset: 2, Time: time.Now().UTC()}}})
		time.Sleep(121 * time.Minute)
		w.tell(61, nil)
		value = 2
		time.Sleep(time.Second)
		w.hint(registry.Hint{All: true})
		time.Sleep(3 * time.Minute)
		slots := len(w.ledger.Slots(city))
		w.tell(62, nil)
		time.Sleep(time.Minute)
		n, err := w.ledger.Since(city, 0)
		if x := n.Proof; err != nil || x.Wrong == nil || x.Off.Before(time.Now()) || len(w.ledger.Slots(city)) > slots {
			t.Errorf("after %d slots: %+v, %v", len(w.ledger.Slots(city))-slots, x, err)
		}
		w.stop()
	})
}

// Several servers behind one address are noticed before the endpoint is believed, also where they are as far behind each
// other as the time between two slots, so that positions that are asked for once in a slot never go back.
func TestServersAreNoticed(t *testing.T) {
	for seed := range uint64(5) {
		bubble.Test(t, func(t *testing.T) {
			e := endpoint("@every 1s", 500*time.Millisecond, "rr")
			e.Feed, e.Position, e.Lag = "wd", "SELECT ?n { <http://x/d> <http://x/next> ?n }", registry.Duration(5*time.Second)
			r, began := rand.New(rand.NewPCG(seed, 0)), time.Now()
			w := newWorld(t, e, func(q *registry.Query, n int) reply {
				behind := time.Duration(r.IntN(2)) * time.Second
				return reply{time.Millisecond, registry.Changed, numberRow(t, 50+int((time.Since(began)-behind)/(200*time.Millisecond)))}
			})
			w.tell(1, nil)
			w.register("a")
			w.run()
			defer w.stop()
			for range 60 {
				time.Sleep(time.Second)
				n, err := w.ledger.Since(city, 0)
				if err != nil || n.Proof.Told >= 20 && n.Proof.Back.IsZero() {
					t.Fatalf("seed %d: after %v it is believed as one server: %+v, %v", seed, time.Since(began), n.Proof, err)
				}
				if !n.Proof.Back.IsZero() {
					return
				}
			}
			t.Fatal("it is never believed")
		})
	}
}

// Where positions take long, the share for them is soon used up, and what is left of a burst waits.
func TestSlowPositionsBetweenSlots(t *testing.T) {
	for _, took := range []time.Duration{300 * time.Millisecond, 700 * time.Millisecond} {
		bubble.Test(t, func(t *testing.T) {
			e := endpoint("@every 1h", 8*time.Second, "rr")
			e.Feed, e.Position, e.Lag = "wd", "SELECT ?n { <http://x/d> <http://x/next> ?n }", registry.Duration(time.Minute)
			w := newWorld(t, e, func(q *registry.Query, n int) reply { return reply{took, registry.Changed, numberRow(t, 50)} })
			w.tell(1, nil)
			w.register("a")
			w.run()
			time.Sleep(time.Second)
			w.tell(30, nil)
			time.Sleep(2 * time.Hour)
			if n := w.service.ran("position"); n < 3 || n > 30 {
				t.Errorf("positions that take %v were asked for %d times", took, n)
			}
			w.stop()
		})
	}
}

// The gap between two requests is kept for positions, too. It does not make a slot ask for several of them first.
func TestPositionsKeepTheGap(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const gap = 10 * time.Second
		e := endpoint("@every 1m", 8*time.Second, "rr")
		e.Feed, e.Position, e.Lag, e.MinGap = "wd", "SELECT ?n { <http://x/d> <http://x/next> ?n }", registry.Duration(time.Minute),
			registry.Duration(gap)
		w := newWorld(t, e, func(q *registry.Query, n int) reply {
			return reply{10 * time.Millisecond, registry.Changed, numberRow(t, 50)}
		})
		w.tell(1, nil)
		w.register("a")
		w.run()
		for range 10 {
			w.tell(60, nil)
			time.Sleep(time.Minute)
		}
		list := w.service.executions()
		for i, x := range list {
			if i > 0 && x.start.Sub(list[i-1].end) < gap {
				t.Fatalf("request %d begins %v after the one before", i, x.start.Sub(list[i-1].end))
			}
		}
		if list[1].query != "q_a" {
			t.Error("the first slot asks for several positions before it executes a query")
		}
		if n, err := w.ledger.Since(city, 0); err != nil || n.Proof.Told != 20 {
			t.Errorf("told its position %d times: %v", n.Proof.Told, err)
		}
		w.stop()
	})
}

// A position that waits for the gap is not asked for once the endpoint is paused.
func TestNoPositionAfterAPause(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("@every 1m", 8*time.Second, "rr")
		e.Feed, e.Position, e.Lag = "wd", "SELECT ?n { <http://x/d> <http://x/next> ?n }", registry.Duration(time.Minute)
		e.MinGap = registry.Duration(50 * time.Second)
		w := newWorld(t, e, func(q *registry.Query, _ int) reply {
			if q.ID == "position" {
				return reply{time.Second, registry.Changed, literalRow(t, time.Now().UTC().Format(time.RFC3339Nano), "dateTime")}
			}
			return reply{10 * time.Millisecond, registry.Changed, numberRow(t, 1)}
		})
		w.tell(1, nil)
		w.register("a")
		w.run()
		for w.loop.State().Last.Number < 1 {
			time.Sleep(time.Second)
		}
		for !w.loop.State().Running {
			time.Sleep(time.Second)
		}
		before := len(w.service.executions())
		e.Pause = &registry.Pause{By: "ops", At: time.Now()}
		if err := w.loop.Reconfigure(e); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if x := w.service.executions(); before == 0 || len(x) != before {
			t.Errorf("%d requests before the pause, then %+v", before, x[before:])
		}
		w.stop()
	})
}

// While a trial run uses the only place, nothing waits to ask for a position, and a slot begins in time.
func TestPositionsDoNotWaitForTrials(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := endpoint("@every 1m", 40*time.Second, "rr")
		e.Feed, e.Position, e.Lag, e.Timeout = "wd", "SELECT ?n { <http://x/d> <http://x/next> ?n }", registry.Duration(time.Minute),
			registry.Duration(10*time.Second)
		w := newWorld(t, e, func(q *registry.Query, n int) reply {
			if q.ID == "trial" {
				return reply{7 * time.Second, registry.Changed, numberRow(t, 1)}
			}
			return reply{10 * time.Millisecond, registry.Changed, numberRow(t, 50)}
		})
		w.tell(1, nil)
		w.register("a")
		w.run()
		w.tell(60, map[string]proof.Touch{"q_a": {Feed: "wd", Reached: feed.Place{Offset: 2, Time: time.Now().UTC()}}})
		time.Sleep(10 * time.Minute)
		w.tell(100, map[string]proof.Touch{"q_a": reached(100)})
		time.Sleep(55 * time.Second)
		polls := w.service.ran("position")
		if _, err := w.loop.Trial(t.Context(), &registry.Query{ID: "trial", Endpoint: city}); err != nil || polls < 40 {
			t.Errorf("%d positions were asked for, %v", polls, err)
		}
		time.Sleep(time.Minute)
		for _, s := range w.slots() {
			if late := s.Started.Sub(s.Started.Truncate(time.Minute)); late > 100*time.Millisecond {
				t.Errorf("slot %d begins %v late", s.Number, late)
			}
		}
		w.stop()
	})
}

// A position query that fails is not sent every few seconds.
func TestFailingPositionsAreRare(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := positionWorld(t, func(q *registry.Query, n int) reply {
			if q.ID == "position" {
				return reply{time.Millisecond, registry.Changed, schedulertest.Rows(t, "1", "2")}
			}
			return reply{10 * time.Millisecond, registry.Changed, numberRow(t, 1)}
		})
		time.Sleep(30 * time.Minute)
		if n := w.service.ran("position"); n < 30 || n > 65 { // one in a slot, and one between two slots
			t.Errorf("it was sent %d times", n)
		}
		w.stop()
	})
}

// A result that has changed although it was proved is known after a restart, too, and the proof is called wrong once the
// feed has told what the answer can include.
func TestSuspectsOutliveARestart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		value := 1
		w := positionWorld(t, func(q *registry.Query, n int) reply {
			if q.ID != "position" {
				return reply{10 * time.Millisecond, registry.Changed, numberRow(t, value)}
			}
			return reply{10 * time.Millisecond, registry.Changed, numberRow(t, 50)}
		})
		w.tell(60, map[string]proof.Touch{"q_a": {Feed: "wd", Reached: feed.Place{Offset: 2, Time: time.Now().UTC()}}})
		time.Sleep(10 * time.Minute)
		w.tell(61, nil)
		value = 2
		time.Sleep(time.Second)
		w.hint(registry.Hint{All: true})
		time.Sleep(2 * time.Minute)
		n, err := w.ledger.Since(city, 0)
		if err != nil || n.Proof.Wrong != nil || n.Entries[0].Stats.Hash != numberRow(t, 2).Hash() {
			t.Fatalf("%+v, %v", n.Proof, err)
		}
		w.stop()
		w.open(w.as)
		w.run()
		time.Sleep(time.Second)
		w.tell(62, nil)
		time.Sleep(2 * time.Minute)
		n, err = w.ledger.Since(city, 0)
		if x := n.Proof; err != nil || x.Wrong == nil || x.Wrong.Query != "q_a" || x.Off.Before(time.Now()) {
			t.Errorf("%+v, %v", n.Proof, err)
		}
		w.stop()
	})
}
