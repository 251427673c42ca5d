//go:build unix

// Tests of a store that is killed while it applies a journal.

package store

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
	"go.etcd.io/bbolt"
)

// childJournal names the file with the entries of a child's journal.
const childJournal = "FRESHET_STORE_JOURNAL"

func writeJournal(path string, list []journal.Entry) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(gob.NewEncoder(f).Encode(list), f.Close())
}

// readJournal returns a journal with the entries of a file. Its reader gets one entry at a
// time, so that there are many transactions.
func readJournal(path string) (journal.Journal, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []journal.Entry
	if err := gob.NewDecoder(f).Decode(&list); err != nil {
		return nil, err
	}
	j := memory.New("test").Open()
	for _, e := range list {
		if _, err := j.Append(context.Background(), e.ID, e.Command); err != nil {
			return nil, err
		}
	}
	return slowJournal{j}, nil
}

type slowJournal struct{ *memory.Journal }

func (j slowJournal) Read(ctx context.Context, after journal.Position, f func(journal.Entry) error) error {
	return j.Journal.Read(ctx, after, func(e journal.Entry) error {
		time.Sleep(500 * time.Microsecond)
		return f(e)
	})
}

// followForever is called once everything is applied.
func followForever(*DB) error {
	fmt.Println(1)
	select {}
}

// TestKillReplica kills a process at random moments while it applies a journal. It continues
// where it was, and its store ends like one that was never killed.
func TestKillReplica(t *testing.T) {
	const seed = 20261123
	t.Logf("seed %d", seed)
	c := newCluster(t, seed, 2)
	for n := range 300 {
		c.step(n)
	}
	settle(t, c.stores...)
	path := filepath.Join(t.TempDir(), "journal")
	list := entriesOf(t, c.log)
	c.must(writeJournal(path, list))
	t.Setenv(childJournal, path)
	random := rand.New(rand.NewPCG(seed, 2))
	dir := t.TempDir()
	at, kills := uint64(0), 0
	for tries := 0; at < uint64(len(list)) && tries < 200; tries++ {
		killOnce(t, "replay", dir, 0, time.Duration(20+random.IntN(80))*time.Millisecond)
		if now := appliedOf(t, filepath.Join(dir, File)); now < at {
			t.Fatalf("entry %d was applied, now only %d", at, now)
		} else if now > at && now < uint64(len(list)) {
			kills++
			at = now
		} else {
			at = now
		}
	}
	if kills < 3 {
		t.Fatalf("only %d kills while entries were applied", kills)
	}
	d := open(t, dir, Options{Journal: openJournal(t, c.log)})
	check(t, d)
	settle(t, d)
	expectSame(t, c.stores[0], d)
	t.Logf("%d entries, %d kills", len(list), kills)
}

// appliedOf returns the number of the last entry that a closed store has applied.
func appliedOf(t *testing.T, path string) uint64 {
	t.Helper()
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var p journal.Position
	err = b.View(func(tx *bbolt.Tx) (err error) {
		if tx.Bucket(bMeta) != nil {
			p, err = loadApplied(tx)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.Seq
}
