//go:build unix

// Tests of a store that is killed while it applies a journal.

package store

import (
	"context"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
	"github.com/freshet/freshet/store/replica"
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

// writeWhileFull lets the file grow only a little and records a result that is too large. The
// command is in the journal by then, so Record waits until there is room.
func writeWhileFull(d *DB) error {
	if err := errors.Join(registerChild(d), recordSlot(d, 1)); err != nil {
		return err
	}
	i, err := os.Stat(d.path)
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ) // writes then return EFBIG
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(i.Size()), Max: before.Max}); err != nil {
		return err
	}
	noise := make([]byte, 4<<20)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	stats, err1 := d.Catalog.Stats("q_a")
	old, err2 := d.Ledger.Result("q_a")
	big, err3 := rows(hex.EncodeToString(noise))
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	recorded := make(chan error, 1)
	go func() {
		changes, err := d.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(stats, old, "q_a", 2, big)}})
		if err == nil && (len(changes) != 1 || changes[0].Seq != 2) {
			err = fmt.Errorf("the changes are %+v", changes)
		}
		recorded <- err
	}()
	for d.Writable() == nil {
		select {
		case err := <-recorded:
			return fmt.Errorf("recorded on a full disk: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	if err := recordSlot(d, 3); !errors.Is(err, registry.ErrReadOnly) {
		return fmt.Errorf("a write on a full disk: %v", err)
	}
	select {
	case err := <-recorded:
		return fmt.Errorf("recorded on a full disk: %v", err)
	case <-time.After(3 * 100 * time.Millisecond):
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	if err := <-recorded; err != nil {
		return err
	}
	fmt.Println("recorded")
	return d.Check()
}

// A store whose disk is full applies the journal once there is room, and passes over nothing.
func TestReplicaOnFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal")
	if err := writeJournal(path, nil); err != nil {
		t.Fatal(err)
	}
	t.Setenv(childJournal, path)
	if out, err := child(t, "wait", t.TempDir()).Output(); err != nil || string(out) != "recorded\n" {
		t.Fatalf("%v\n%s", err, out)
	}
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
	at, kills, all := uint64(0), 0, uint64(len(list))
	start := 20 * time.Millisecond // of the process, which takes longer on a busy machine
	for tries := 0; (at < all || kills < 3) && tries < 1000; tries++ {
		if at == all { // the process was faster than its kills
			dir, at, start = t.TempDir(), 0, start*3/4
		}
		killOnce(t, "replay", dir, 0, start+time.Duration(random.IntN(80))*time.Millisecond)
		switch now := appliedOf(t, filepath.Join(dir, File)); {
		case now > all: // the process had the time to delete what was removed, and so has an entry of its own
			dir, at, start = t.TempDir(), 0, start*3/4
		case now < at:
			t.Fatalf("entry %d was applied, now only %d", at, now)
		case now == at:
			start += start / 10
		case now < all:
			kills++
			fallthrough
		default:
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
	var seq uint64
	err = b.View(func(tx *bbolt.Tx) (err error) {
		if m := tx.Bucket(bMeta); m != nil {
			seq = number(m.Get(replica.Applied))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return seq
}
