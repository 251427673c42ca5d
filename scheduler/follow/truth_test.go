package follow_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/follow"
	"github.com/freshet/freshet/scheduler/schedulertest"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

const (
	entities = 40
	lagBound = 2 * time.Minute
	position = "SELECT ?n { <http://x/dump> <http://x/next> ?n }"
)

// A world is a stream of events, one a second or so, and an endpoint that applies them late.
type world struct {
	mu      sync.Mutex
	r       *rand.Rand
	begin   time.Time
	events  []event // by offset, from 1
	asked   int
	changed int // changes that are no baselines
	named   int // changes that have the edit that caused them
	told    bool
	servers int       // that answer for the endpoint, each with a lag of its own
	stale   bool      // planted: the feed says nothing about the events of one entity
	end     time.Time // of the stream
}

type event struct {
	at      time.Time
	applied []time.Time // at each server, not before those before it
	entity  int
}

// grow adds the events up to now.
func (w *world) grow(now time.Time) {
	for {
		n := len(w.events)
		at := w.begin
		if n > 0 {
			at = w.events[n-1].at.Add(time.Duration(200+w.r.IntN(2500)) * time.Millisecond)
		}
		if at.After(now) || !w.end.IsZero() && at.After(w.end) {
			return
		}
		e := event{at: at, entity: w.r.IntN(entities * 20)}
		if w.stale && w.r.IntN(50) == 0 {
			e.entity = 7
		}
		for s := range w.servers {
			lag := time.Duration(w.r.Int64N(int64(lagBound) * 9 / 10))
			if w.r.IntN(2) == 0 {
				lag /= 20
			}
			applied := at.Add(lag)
			if n > 0 && applied.Before(w.events[n-1].applied[s]) {
				applied = w.events[n-1].applied[s]
			}
			e.applied = append(e.applied, applied)
		}
		w.events = append(w.events, e)
	}
}

// valueAt is the value of an entity in the data before an offset.
func (w *world) valueAt(entity, next int) int {
	for n := min(next, len(w.events)+1) - 1; n > 0; n-- {
		if w.events[n-1].entity == entity {
			return n
		}
	}
	return 0
}

// next is the first offset that a server lacks.
func (w *world) next(server int, now time.Time) int {
	n := 0
	for n < len(w.events) && !w.events[n].applied[server].After(now) {
		n++
	}
	return n + 1
}

func (w *world) Health() registry.Health { return registry.Health{} }

func (w *world) Execute(ctx context.Context, q *registry.Query, _ scheduler.Memory, _ time.Duration) scheduler.Answer {
	time.Sleep(20 * time.Millisecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return scheduler.Answer{Outcome: registry.Cut}
	}
	now := time.Now()
	w.grow(now)
	next := w.next(w.r.IntN(w.servers), now)
	value := next
	if q.ID != "position" {
		w.asked++
		n, _ := strconv.Atoi(strings.TrimPrefix(q.ID, "q"))
		value = w.valueAt(n, next)
	}
	doc := fmt.Sprintf(`{"head":{"vars":["n"]},"results":{"bindings":[{"n":{"type":"literal","value":"%d",`+
		`"datatype":"http://www.w3.org/2001/XMLSchema#integer"}}]}}`, value)
	r, err := diff.DecodeJSON([]byte(doc), diff.Select, diff.Options{})
	if err != nil {
		panic(err)
	}
	return scheduler.Answer{Outcome: registry.Changed, Result: r, Elapsed: 20 * time.Millisecond}
}

// Follow implements feed.Source.
func (w *world) Follow(ctx context.Context, cursor string, take func(feed.Batch) error) error {
	n, err := strconv.Atoi(cursor)
	if err != nil { // it begins now
		w.mu.Lock()
		w.grow(time.Now())
		n = len(w.events)
		w.mu.Unlock()
	}
	for {
		time.Sleep(time.Second)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.mu.Lock()
		w.grow(time.Now())
		b := feed.Batch{}
		for ; n < len(w.events); n++ {
			if w.r.IntN(1500) == 0 { // retention has passed
				n = min(len(w.events), n+w.r.IntN(20))
				b.Gap = "retention"
				b.Events = nil
				if n == len(w.events) {
					break
				}
			}
			e := w.events[n]
			x := feed.Event{Place: feed.Place{Topic: "t", Offset: int64(n + 1), Time: e.at}, Entity: fmt.Sprintf("http://x/Q%d", e.entity)}
			subject := "<" + x.Entity + ">"
			switch w.r.IntN(10) {
			case 0:
				x.Loose = []feed.Loose{{Subjects: []string{subject}}}
			default:
				x.Added = []sparql.Pattern{{Subject: subject, Predicate: "<http://x/p>", Object: "_"}}
				x.Edit = feed.Edit{Text: fmt.Sprint("revision ", n+1)}
			}
			if w.stale && e.entity == 7 {
				x = feed.Event{Place: x.Place}
			}
			b.Events = append(b.Events, x)
		}
		b.Cursor = strconv.Itoa(n)
		cut := w.r.IntN(100) == 0
		w.mu.Unlock()
		if len(b.Events) > 0 || b.Gap != "" {
			if err := take(b); err != nil {
				return err
			}
		}
		if cut {
			return nil
		}
	}
}

// play runs a world for a time and judges it every second: a result that is said to be proved until a
// position must be that of the data there.
func play(t *testing.T, seed uint64, w *world, length time.Duration) (proved, claims int, ledger *schedulertest.Memory) {
	t.Helper()
	w.r, w.begin = rand.New(rand.NewPCG(seed, 5)), time.Now()
	e := registry.Endpoint{Name: "city", URL: "http://x/", Slot: "@every 10s", Budget: registry.Duration(4 * time.Second),
		Policy: "rr", Feed: "wd", Lag: registry.Duration(lagBound), Merge: registry.MergeOff}
	if w.told {
		e.Position = position
	}
	ledger = &schedulertest.Memory{}
	register := func(i int) {
		q := registry.Query{ID: fmt.Sprint("q", i), Endpoint: "city", Form: diff.Select,
			Text: fmt.Sprintf("SELECT ?n { <http://x/Q%d> <http://x/p> ?n }", i), Holders: []registry.Holder{{Caller: "me"}}, CreatedAt: time.Now()}
		if err := ledger.Register(q); err != nil {
			t.Error(err)
		}
	}
	for i := range entities {
		register(i)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var done sync.WaitGroup
	m := scheduler.NewManager(scheduler.Config{Ledger: ledger})
	if err := m.Add(e, w); err != nil {
		t.Fatal(err)
	}
	done.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	definition := feed.Definition{Name: "wd", Kind: feed.Wikimedia, URL: "http://x/"}
	done.Go(func() {
		for ctx.Err() == nil { // killed and begun again
			w.mu.Lock()
			long := time.Duration(1+w.r.IntN(600)) * time.Second
			w.mu.Unlock()
			life, kill := context.WithTimeout(ctx, long)
			f := follow.New(follow.Config{Definition: definition, Source: w, Ledger: ledger, Clock: sleeper{},
				Endpoints: func() []registry.Endpoint { return []registry.Endpoint{e} }, Heard: m.Heard, Logger: slog.New(slog.DiscardHandler)})
			if err := f.Run(life); err != nil {
				t.Error(err)
			}
			kill()
		}
	})
	results := map[string]int{}
	seen := 0
	for end := time.Now().Add(length); time.Now().Before(end); {
		time.Sleep(time.Second)
		changes := ledger.Changes()
		for ; seen < len(changes); seen++ {
			c := changes[seen]
			n, _ := strconv.Atoi(valueOf(c.Delta.Added[0]))
			if !c.Baseline {
				w.changed++
			}
			if !c.Baseline && slices.Contains(c.Edits, registry.DataEdit{Text: fmt.Sprint("revision ", n)}) {
				w.named++
			}
			if was, ok := results[c.Query]; ok && was == n {
				t.Errorf("seed %d: %s changes to %d twice", seed, c.Query, n)
			}
			results[c.Query] = n
		}
		if i := int(time.Since(w.begin) / time.Second); i%41 == 0 { // it is registered again
			i %= entities
			id := fmt.Sprint("q", i)
			delete(results, id)
			if err := ledger.Remove(id); err != nil {
				t.Error(err)
			}
			register(i)
		}
		for i := range entities {
			id := fmt.Sprint("q", i)
			p := ledger.Proof(e, id, time.Now())
			if claims++; p.Until.IsZero() {
				continue
			}
			proved++
			w.mu.Lock()
			if want := w.valueAt(i, int(p.Position.Offset)+1); results[id] != want && !w.stale {
				w.mu.Unlock()
				cancel()
				done.Wait()
				t.Fatalf("seed %d after %v: %s is said to be %d at %d and is %d: %+v", seed, time.Since(w.begin), id, results[id],
					p.Position.Offset, want, p)
			}
			w.mu.Unlock()
		}
	}
	w.mu.Lock()
	w.end = time.Now()
	w.mu.Unlock()
	time.Sleep(lagBound + 3*time.Minute)
	for _, c := range ledger.Changes()[seen:] {
		results[c.Query], _ = strconv.Atoi(valueOf(c.Delta.Added[0]))
	}
	for i := range entities {
		if got, want := results[fmt.Sprint("q", i)], w.valueAt(i, len(w.events)+1); got != want && !w.stale {
			t.Errorf("seed %d: q%d is %d at the end, and not %d", seed, i, got, want)
		}
	}
	cancel()
	done.Wait()
	return proved, claims, ledger
}

type sleeper struct{}

func (sleeper) Now() time.Time { return time.Now() }

func (sleeper) Sleep(ctx context.Context, until time.Time) error {
	select {
	case <-time.After(time.Until(until)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// seeds is how many worlds each test plays.
const seeds = uint64(3)

// A feed that says nothing about some events makes a proof wrong. An audit finds that, and nothing is
// proved any more.
func TestLongAuditsFindWrongProofs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := &world{told: true, servers: 1, stale: true}
		_, _, ledger := play(t, 1, w, 90*time.Minute)
		n, err := ledger.Since("city", 0)
		if err != nil {
			t.Fatal(err)
		}
		if x := n.Proof; x.Wrong == nil || x.Wrong.Query != "q7" || x.Off.Before(time.Now()) || x.Wrong.Was == "" || x.Wrong.Now == "" {
			t.Errorf("%+v", x)
		}
		for _, s := range ledger.Slots("city")[len(ledger.Slots("city"))-3:] {
			if s.Proved > 0 || s.Run < entities {
				t.Errorf("%d queries were asked, and %d not", s.Run, s.Proved)
			}
		}
	})
}

func TestLongProofsAreTrue(t *testing.T) {
	for _, c := range []struct {
		name    string
		told    bool
		servers int
		least   int // percent of the results that are proved
		most    int // percent of the executions of polling
	}{{"told", true, 1, 50, 40}, {"assumed", false, 1, 40, 65}, {"several servers", true, 3, 15, 95}} {
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/%d", c.name, seed), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					w := &world{told: c.told, servers: c.servers}
					proved, claims, ledger := play(t, seed, w, 40*time.Minute)
					slots := len(ledger.Slots("city"))
					t.Logf("%d of %d proved, %d changes, %d executions, %d if all were asked in %d slots", proved, claims, len(ledger.Changes()),
						w.asked, slots*entities, slots)
					if proved < claims*c.least/100 {
						t.Errorf("less than %d %% is proved", c.least)
					}
					if w.named < w.changed/2 {
						t.Errorf("%d of %d changes have their edits", w.named, w.changed)
					}
					if most := slots * entities * c.most / 100; w.asked > most {
						t.Errorf("more than %d %% of the executions are made", c.most)
					}
				})
			})
		}
	}
}

var number = regexp.MustCompile(`"(\d+)"`)

// valueOf is the number in a row.
func valueOf(row []byte) string {
	m := number.FindSubmatch(row)
	if m == nil {
		panic(string(row))
	}
	return string(m[1])
}
