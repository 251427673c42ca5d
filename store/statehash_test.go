// Tests of the comparison of nodes. All tests of this package compare often.

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
	"github.com/freshet/freshet/store/replica"
	"go.etcd.io/bbolt"
)

func init() { compareEvery = 20 }

// A node whose file differs from those of the others stops when they compare, and is refused
// until it is rebuilt. The others go on.
func TestDivergedReplica(t *testing.T) {
	log := memory.New("test")
	var dirs []string
	var stores []*DB
	for range 3 {
		dirs = append(dirs, t.TempDir())
		stores = append(stores, open(t, dirs[len(dirs)-1], Options{Journal: openJournal(t, log)}))
	}
	a, c := stores[0], stores[2]
	work := func(n int) {
		t.Helper()
		for i := range n {
			expectReports(t, log, stores[:2])
			put(t, a, fmt.Sprint("q_", i), "city")
			step(t, a, "city", fmt.Sprint("q_", i), 1, fmt.Sprint("x", n))
		}
	}
	work(30)
	settle(t, stores...)
	for i, d := range stores {
		if d.Applied() < compareEvery || d.breakage() != nil {
			t.Fatalf("node %d has not compared, or has stopped: %v", i, d.breakage())
		}
	}
	err := c.bolt.Update(func(tx *bbolt.Tx) error {
		n := loadCounters(tx)
		n.logBytes++
		return n.save(tx)
	})
	if err != nil {
		t.Fatal(err)
	}
	work(40)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := c.Watch(ctx); !errors.Is(err, replica.ErrDiverged) {
		t.Fatalf("the damaged node: %v", err)
	}
	if err := c.Tokens.PutToken(registry.Token{Name: "t"}); !errors.Is(err, ErrBroken) {
		t.Errorf("a write at the damaged node: %v", err)
	}
	work(40)
	settle(t, stores[:2]...)
	for i, d := range stores[:2] {
		if err := d.breakage(); err != nil {
			t.Errorf("node %d has stopped: %v", i, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dirs[2], Options{Journal: openJournal(t, log)}); !errors.Is(err, replica.ErrDiverged) ||
		!strings.Contains(err.Error(), "rebuild") {
		t.Errorf("the damaged file was opened: %v", err)
	}
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, File))
	if err == nil {
		_, err = a.Backup(f)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	c = open(t, dir, Options{Journal: openJournal(t, log)})
	work(40)
	settle(t, a, c)
	expectSame(t, a, c)
	if err := c.breakage(); err != nil {
		t.Errorf("the rebuilt node has stopped: %v", err)
	}
}

// A node that differed may go on as one server, and begin another cluster later.
func TestDivergedServer(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{Journal: openJournal(t, memory.New("one"))})
	put(t, d, "q_a", "city")
	if err := d.update(func(tx *bbolt.Tx) error { return tx.Bucket(bMeta).Put(replica.Diverged, []byte{1}) }); err != nil {
		t.Fatal(err)
	}
	d = reopen(t, d, dir, Options{})
	d = reopen(t, d, dir, Options{Journal: openJournal(t, memory.New("two"))})
	step(t, d, "city", "q_a", 1, "x")
}

// expectReports waits until the reports that stores owe are in the journal. A store that compares while
// only the damaged one has reported cannot tell which of both is damaged.
func expectReports(t *testing.T, log *memory.Log, stores []*DB) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		list := entriesOf(t, log)
		due := uint64(len(list)) / compareEvery * compareEvery
		missing := 0
		for _, d := range stores {
			id := fmt.Sprintf("state-%d-%s", due, d.replica.Name())
			if due > 0 && !slices.ContainsFunc(list, func(e journal.Entry) bool { return e.ID == id }) {
				missing++
			}
		}
		if missing == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d stores have not reported entry %d", missing, due)
		}
	}
}
