// Tests of stores whose journal does not answer for a while.

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
	"github.com/freshet/freshet/store/replica"
)

// A cutJournal is a journal whose connection can be cut: before a command arrives there, or
// before its answer arrives here.
type cutJournal struct {
	journal.Journal
	mu            sync.Mutex
	before, after bool
	most          int // bytes of a command; 0: any number
}

func (j *cutJournal) cut(before, after bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.before, j.after = before, after
}

func (j *cutJournal) state() (before, after bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.before, j.after
}

func (j *cutJournal) limit() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.most
}

func (j *cutJournal) Append(ctx context.Context, id string, cmd []byte) (seq uint64, err error) {
	before, after := j.state()
	if most := j.limit(); !before && most > 0 && len(cmd) > most {
		return 0, fmt.Errorf("%w: %d bytes", journal.ErrTooLarge, len(cmd))
	}
	if !before {
		seq, err = j.Journal.Append(ctx, id, cmd)
	}
	if before || after {
		<-ctx.Done()
		return 0, fmt.Errorf("%w: %w", journal.ErrUnknown, ctx.Err())
	}
	return seq, err
}

func (j *cutJournal) Head(ctx context.Context) (journal.Position, error) {
	if before, after := j.state(); before || after {
		return journal.Position{}, errors.New("no connection")
	}
	return j.Journal.Head(ctx)
}

func (j *cutJournal) Read(ctx context.Context, after journal.Position, f func(journal.Entry) error) error {
	return j.Journal.Read(ctx, after, func(e journal.Entry) error {
		for {
			if before, after := j.state(); !before && !after {
				return f(e)
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Millisecond):
			}
		}
	})
}

// await waits until f is true. Its limit is that of a test that hangs.
func await(t testing.TB, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// A write during an outage ends with an error that a client can act on. It takes effect once,
// whether it was an entry before the outage or becomes one after it, and only then the store
// takes further writes.
func TestOutage(t *testing.T) {
	for _, name := range []string{"before", "after"} {
		t.Run(name, func(t *testing.T) {
			log := memory.New("test")
			cut := &cutJournal{Journal: openJournal(t, log)}
			a, b := open(t, t.TempDir(), Options{Journal: cut}), open(t, t.TempDir(), Options{Journal: openJournal(t, log)})
			put(t, a, "q_a", "city")
			step(t, a, "city", "q_a", 1, "x")
			batch := scheduler.Batch{Outcomes: []scheduler.Outcome{next(t, a, "q_a", 2, bag(t, "y"))}}
			a.replica.SetPatience(20 * time.Millisecond)
			cut.cut(name == "before", name == "after")
			expect := func(what string, err error) {
				t.Helper()
				var p *registry.Problem
				if !errors.Is(err, registry.ErrReadOnly) || !errors.Is(err, replica.ErrNoJournal) || !errors.As(err, &p) ||
					p.Kind != registry.KindUnavailable || p.RetryAfter <= 0 {
					t.Errorf("%s: %v", what, err)
				}
			}
			var g sync.WaitGroup
			g.Go(func() {
				_, err := a.Ledger.Record("city", batch)
				expect("a record", err)
			})
			g.Go(func() {
				_, err := a.Queries.EditQuery("q_a", mustExist)
				expect("an edit", err)
			})
			g.Go(func() {
				expect("a message", a.Rules.EditRules(&registry.RuleEdit{Queue: []registry.AlertMessage{alertTo("a", "m")}}))
			})
			g.Wait()
			expect("a second edit", errors.Join(a.Tokens.PutToken(registry.Token{Name: "t"})))
			_, err := a.Queries.Query("q_unknown")
			expect("a query that this node may not know yet", err)
			expect("the state", a.Writable())
			if q, err := a.Queries.Query("q_a"); err != nil || q.ID != "q_a" {
				t.Errorf("a query that is known cannot be read: %v", err)
			}
			cut.cut(false, false)
			await(t, "the end of the outage", func() bool { return a.Writable() == nil })
			settle(t, a, b)
			expectSame(t, a, b)
			q, err := b.Queries.Query("q_a")
			if err != nil || q.Refreshes > 1 {
				t.Errorf("the edit took effect %d times: %v", q.Refreshes, err)
			}
			if messages, err := b.Subscriptions.Messages(alertReceiver("a"), 0, 10); err != nil || len(messages) > 1 {
				t.Errorf("the message was stored %d times: %v", len(messages), err)
			}
			a.replica.SetPatience(time.Minute)
			if _, err := a.Ledger.Record("city", batch); err != nil {
				t.Error(err)
			}
			latest, err := b.History.Latest("q_a")
			if settle(t, a, b); err != nil || latest.Seq != 2 {
				t.Errorf("change %d, want 2: %v", latest.Seq, err)
			}
			expectSame(t, a, b)
		})
	}
}

// A command of an unknown outcome that the servers of the journal take no more does not keep a node
// from writing. It has no effect, and the node knows what they take.
func TestOutageThatLowersTheLimit(t *testing.T) {
	log := memory.New("test")
	cut := &cutJournal{Journal: openJournal(t, log)}
	a := open(t, t.TempDir(), Options{Journal: cut})
	put(t, a, "q_a", "city")
	a.replica.SetPatience(20 * time.Millisecond)
	cut.cut(true, false)
	m := alertTo("a", "m")
	m.Summary = strings.Repeat("x", 8<<10)
	large := &registry.RuleEdit{Queue: []registry.AlertMessage{m}}
	if err := a.Rules.EditRules(large); !errors.Is(err, registry.ErrReadOnly) {
		t.Fatal(err)
	}
	cut.mu.Lock()
	cut.before, cut.most = false, 4<<10
	cut.mu.Unlock()
	await(t, "the end of the outage", func() bool { return a.Writable() == nil })
	a.replica.SetPatience(time.Minute)
	if _, err := a.Queries.EditQuery("q_a", mustExist); err != nil {
		t.Error(err)
	}
	if err := a.Rules.EditRules(large); !errors.Is(err, registry.ErrTooLarge) {
		t.Errorf("the large command: %v", err)
	}
	if list, err := a.Subscriptions.Messages(alertReceiver("a"), 0, 10); err != nil || len(list) != 0 {
		t.Errorf("%d messages: %v", len(list), err)
	}
}

// A process that ends does not wait for a journal that does not answer.
func TestHurry(t *testing.T) {
	for _, name := range []string{"before", "after"} {
		t.Run(name, func(t *testing.T) {
			cut := &cutJournal{Journal: openJournal(t, memory.New("test"))}
			a := open(t, t.TempDir(), Options{Journal: cut, JournalWait: time.Hour})
			put(t, a, "q_a", "city")
			cut.cut(name == "before", name == "after")
			edited := make(chan error, 1)
			go func() {
				_, err := a.Queries.EditQuery("q_a", mustExist)
				edited <- err
			}()
			a.Hurry(10 * time.Millisecond)
			select {
			case err := <-edited:
				if !errors.Is(err, registry.ErrReadOnly) || !errors.Is(err, replica.ErrNoJournal) {
					t.Errorf("an edit: %v", err)
				}
			case <-time.After(time.Minute):
				t.Error("an edit still waits")
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Open says that it waits for a journal, and then how to go on.
func TestOpenWithoutJournal(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		log, dir := memory.New("test"), t.TempDir()
		cut := &cutJournal{Journal: openJournal(t, log)}
		if !fresh {
			if err := open(t, dir, Options{Journal: cut}).Close(); err != nil {
				t.Fatal(err)
			}
		}
		cut.cut(true, false)
		var said bytes.Buffer
		_, err := Open(dir, Options{Journal: cut, JournalWait: 10 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		if !errors.Is(err, replica.ErrNoJournal) || !strings.Contains(err.Error(), "cluster.peers") ||
			!strings.Contains(err.Error(), "no connection") {
			t.Errorf("%v", err)
		}
		if !strings.Contains(said.String(), "waiting for the journal") {
			t.Errorf("it was silent: %s", said.String())
		}
		cut.cut(false, false)
		open(t, dir, Options{Journal: cut})
	}
}
