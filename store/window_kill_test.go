//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// The points at which the child of TestKillInTheWindow kills itself.
const (
	childRun, childPoint = "FRESHET_STORE_RUN", "FRESHET_STORE_POINT"

	inTheWindow    = "in the window"         // two changes are accepted, and the third query is running
	beforeCommit   = "before the commit"     // of the first change, and perhaps of others
	beforeAnnounce = "before the announcing" // of committed changes
	afterAnnounce  = "after the announcing"
	never          = "never"
)

// A killLoop runs one slot in which every query has a new result, and kills its own process at
// a given point. It is both ledger and executor of the slot.
type killLoop struct {
	*Ledger
	catalog *Catalog
	point   string
	run     string
	begun   int
}

func (m *killLoop) dieAt(points ...string) {
	if slices.Contains(points, m.point) {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

func (m *killLoop) Health() registry.Health { return registry.Health{} }

func (m *killLoop) Execute(_ context.Context, q *registry.Query, _ scheduler.Memory, _ time.Duration) scheduler.Answer {
	if m.begun++; m.begun == len(childQueries) {
		m.dieAt(inTheWindow)
	}
	r, err := rows("run "+m.run, q.ID)
	if err != nil {
		panic(err)
	}
	return scheduler.Answer{Outcome: registry.Changed, Result: r, Elapsed: time.Millisecond}
}

func (m *killLoop) Record(endpoint string, b scheduler.Batch) ([]registry.Change, error) {
	change := slices.ContainsFunc(b.Outcomes, func(o scheduler.Outcome) bool { return o.Delta != nil })
	if change {
		m.dieAt(inTheWindow, beforeCommit) // the window may end before the third query begins
	}
	changes, err := m.Ledger.Record(endpoint, b)
	if change && err == nil {
		m.dieAt(beforeAnnounce)
	}
	return changes, err
}

// announce prints the positions of the queries that have changed.
func (m *killLoop) announce(notes []scheduler.Note) {
	for _, n := range notes {
		s, err := m.catalog.Stats(n.Query)
		fmt.Println(n.Query, s.Position.Seq, err)
	}
	m.dieAt(afterAnnounce)
}

func runKillLoop(d *DB) error {
	if err := registerChild(d); err != nil {
		return err
	}
	m := &killLoop{Ledger: d.Ledger, catalog: d.Catalog, point: os.Getenv(childPoint), run: os.Getenv(childRun)}
	e := registry.Endpoint{Name: "city", URL: "http://127.0.0.1/sparql", Slot: "never", Budget: registry.Duration(time.Hour),
		Timeout: registry.Duration(time.Minute), Policy: "rr"}
	l, err := scheduler.NewLoop(scheduler.Config{Endpoint: e, Ledger: m, Executor: m, Wake: m.announce})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	_, err = l.Tick(ctx)
	cancel()
	return errors.Join(err, <-done)
}

// TestKillInTheWindow kills a loop around the commit of changes that were found together. What
// is announced is committed, no change is stored in part, and the next process finds again what
// was not committed.
func TestKillInTheWindow(t *testing.T) {
	dir := t.TempDir()
	points := []string{never, inTheWindow, beforeCommit, beforeAnnounce, afterAnnounce, inTheWindow, inTheWindow, never}
	seq := map[string]uint64{}
	for run, point := range points {
		c := child(t, "window", dir)
		c.Env = append(c.Env, childPoint+"="+point, fmt.Sprint(childRun, "=", run))
		out, err := c.Output()
		if (err == nil) != (point == never) {
			t.Fatalf("killed %s: %v\n%s", point, err, out)
		}
		d := open(t, dir, Options{})
		check(t, d)
		found := 0
		for _, id := range childQueries {
			expectPast(t, d, id)
			c, err := d.History.Latest(id)
			kept, err2 := d.Ledger.Result(id)
			if err != nil || err2 != nil || c.Delta.NewHash != kept.Hash() {
				t.Fatalf("killed %s: the result of %s is not that of its last change: %v, %v", point, id, err, err2)
			}
			if kept.Hash() == bag(t, fmt.Sprint("run ", run), id).Hash() {
				found++
				seq[id]++
			}
			if c.Seq != seq[id] {
				t.Errorf("killed %s: the last change of %s is %d, want %d", point, id, c.Seq, seq[id])
			}
		}
		committed := map[string]int{inTheWindow: 0, beforeCommit: 0, never: len(childQueries)}
		if want, known := committed[point]; known && found != want || !known && found == 0 {
			t.Errorf("killed %s: %d changes are committed", point, found)
		}
		for line := range strings.Lines(string(out)) {
			var id string
			var at uint64
			if _, err := fmt.Sscan(line, &id, &at); err != nil || at == 0 || at != seq[id] {
				t.Errorf("killed %s: announced %q, committed %d", point, line, seq[id])
			}
		}
		if announced := len(out) > 0; announced != (point == never || point == afterAnnounce) {
			t.Errorf("killed %s: announced %q", point, out)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
