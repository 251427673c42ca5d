package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// registered returns queries of eight constants each, one of which all share.
func registered(n int) []policy.Entry {
	list := make([]policy.Entry, n)
	for i := range list {
		q := query(fmt.Sprintf("q%07d", i))
		q.Constants = []string{"http://example.org/all"}
		for k := range 7 {
			q.Constants = append(q.Constants, fmt.Sprintf("http://example.org/some/%d", (i+k*k*31)%n))
		}
		slices.Sort(q.Constants)
		s := policy.Stats{Policy: "rr", Executions: 3, Last: uint64(1 + i%900), CheckedAt: time.Date(2026, 1, 1, 0, 0, 0, i*1e6, time.UTC)}
		s.Remember(policy.Sample{Elapsed: time.Duration(1+i%1000) * time.Millisecond})
		list[i] = policy.Entry{Query: q, Stats: s}
	}
	return list
}

// A shelf is a ledger that holds queries.
type shelf struct {
	Ledger
	entries []policy.Entry
	read    func()      // before each answer
	write   func(Batch) // before each commit, which succeeds
}

func (s *shelf) Record(_ string, b Batch) ([]registry.Change, error) {
	s.write(b)
	return nil, nil
}

func (s *shelf) Since(_ string, revision uint64) (News, error) {
	if s.read != nil {
		s.read()
	}
	n := News{Revision: uint64(len(s.entries)), Entries: s.entries[revision:]}
	return n, nil
}

// shelved returns a loop that runs no slot.
func shelved(t *testing.T, policy string, s *shelf) *Loop {
	t.Helper()
	e := registry.Endpoint{Name: "city", URL: "http://127.0.0.1/sparql", Slot: "@every 1h", Policy: policy}.WithDefaults()
	l, err := NewLoop(Config{Endpoint: e, Ledger: s, Executor: healthy{}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// callAll calls the methods that may be called at any time, while the plan is
// incomplete.
func callAll(t *testing.T, l *Loop) {
	if s := l.State(); s.Endpoint != "city" {
		t.Errorf("the state is %+v", s)
	}
	l.Answers()
	if due, err := l.Due([]string{"q0000007"}); err != nil || !due[0].IsZero() {
		t.Errorf("due %v, %v, want an unknown time", due, err)
	}
	if x, err := l.Explain("q0000007"); err != nil || x.Why == "" || x.Rank > 0 {
		t.Errorf("explained as %+v, %v", x, err)
	}
	if _, err := l.Hint(registry.Hint{Touched: []string{"http://example.org/some/2"}}); err != nil {
		t.Error(err)
	}
	e := l.set.endpoint
	e.Budget = registry.Duration(7 * time.Second)
	if err := l.reconfigure(e, healthy{}); err != nil {
		t.Error(err)
	}
	l.NextRound(registry.Profile{ID: "p", Endpoint: "city"})
}

// TestOthersHaveTurnsWhileTheLedgerIsRead calls the same methods while the ledger does
// not answer.
func TestOthersHaveTurnsWhileTheLedgerIsRead(t *testing.T) {
	s := &shelf{entries: registered(9)}
	l := shelved(t, "rr", s)
	reads := 0
	s.read = func() {
		if reads++; reads > 1 {
			return
		}
		callAll(t, l)
	}
	if err := l.news(); err != nil {
		t.Fatal(err)
	}
	if reads != 1 {
		t.Errorf("they read the ledger %d times meanwhile", reads-1)
	}
	if got := l.State(); got.Queries != 9 {
		t.Errorf("%d queries", got.Queries)
	}
}

// weary is an endpoint that asks for a back-off after its first request.
type weary struct{ health registry.Health }

func (w *weary) Health() registry.Health { return w.health }

func (w *weary) Execute(context.Context, *registry.Query, Memory, time.Duration) Answer {
	w.health = registry.Health{State: registry.HealthThrottled, Until: time.Now().Add(time.Hour)}
	return Answer{Outcome: registry.Throttled, Elapsed: 1}
}

// TestOthersHaveTurnsWhileHealthIsRecorded reads the state of a loop while the ledger
// writes the health of its endpoint, after a trial run or for a new client.
func TestOthersHaveTurnsWhileHealthIsRecorded(t *testing.T) {
	for name, do := range map[string]func(*testing.T, *Loop){
		"a trial run": func(t *testing.T, l *Loop) {
			if err := l.news(); err != nil {
				t.Fatal(err)
			}
			if a, err := l.Trial(t.Context(), &registry.Query{ID: "q", Endpoint: "city"}); err != nil || a.Outcome != registry.Throttled {
				t.Errorf("the trial run brings %+v, %v", a, err)
			}
		},
		"another client": func(t *testing.T, l *Loop) {
			if _, err := runSlot(t.Context(), l.loopData, true, false); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shelf{}
			l := shelved(t, "rr", s)
			client := &weary{}
			l.executor = client
			writes := 0
			s.write = func(b Batch) {
				writes++
				if !l.mu.TryLock(0) {
					t.Errorf("the loop is locked during write %d", writes)
					return
				}
				running := l.running
				l.mu.Unlock()
				if running && b.Slot != nil { // the slot's last: the edit is in force after it
					client = &weary{registry.Health{State: registry.HealthThrottled}}
					if err := l.reconfigure(l.set.endpoint, client); err != nil {
						t.Error(err)
					}
				}
			}
			do(t, l)
			if writes == 0 || l.health != client.health || l.health.State != registry.HealthThrottled {
				t.Errorf("%+v after %d writes, want %+v", l.health, writes, client.health)
			}
		})
	}
}

// TestLockIsFair releases the lock for a moment while another goroutine waits for it.
func TestLockIsFair(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLock()
		l.Lock()
		turns := 0
		for n := range 9 {
			go func() {
				l.Lock()
				turns++
				l.Unlock()
			}()
			synctest.Wait()
			l.Unlock()
			l.Lock()
			if turns != n+1 {
				t.Fatalf("the one who waits has had %d turns, want %d", turns, n+1)
			}
		}
		l.let(func() {
			if l.TryLockPlan(time.Second) {
				t.Error("a plan that is half done is given away")
			}
			if !l.TryLock(0) {
				t.Error("the lock is not let go")
			}
			l.Unlock()
		})
		if l.TryLock(time.Second) {
			t.Error("the lock is given to two")
		}
		l.Unlock()
		l.LockPlan()
	})
}

// TestDueSharesUpdates asks when queries are due while the ledger is read for another
// caller. All of these callers share one more reading, in which each finds its query.
func TestDueSharesUpdates(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const callers = 10
		entries, readings, release := registered(callers+1), 0, make(chan struct{})
		s := &shelf{entries: entries[:1]}
		s.read = func() {
			switch readings++; readings {
			case 1:
				<-release
			case 2:
				s.entries = entries
			}
		}
		l := shelved(t, "rr", s)
		ask := func(id string) {
			if due, err := l.Due([]string{id}); err != nil || due[0].IsZero() {
				t.Errorf("%s is due %v, %v", id, due, err)
			}
		}
		go ask(entries[0].Query.ID)
		synctest.Wait()
		for i := range callers {
			go ask(entries[i+1].Query.ID)
		}
		synctest.Wait()
		close(release)
		synctest.Wait()
		if readings != 2 {
			t.Errorf("the ledger was read %d times, want 2", readings)
		}
		ask(entries[0].Query.ID)
		if readings != 3 {
			t.Errorf("a later call did not read the ledger: %d readings", readings)
		}
	})
}

// TestReadable checks that what decides a rank is written for people.
func TestReadable(t *testing.T) {
	got := readable(map[string]float64{"price": 7.888e-31, "chance": 1.0 / 3, "slot": 1234567, "worth": 12345.678901})
	if want := map[string]float64{"price": 0, "chance": 0.333333, "slot": 1234567, "worth": 12345.7}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
