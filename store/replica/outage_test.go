package replica

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
	"go.etcd.io/bbolt"
)

// open returns a replica of a journal whose commands do nothing.
func open(t *testing.T, j journal.Journal) *Replica {
	t.Helper()
	file, err := bbolt.Open(filepath.Join(t.TempDir(), "file"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() }) // its error matters to no test
	bucket := []byte("meta")
	if err := file.Update(func(tx *bbolt.Tx) error { _, err := tx.CreateBucket(bucket); return err }); err != nil {
		t.Fatal(err)
	}
	r, err := Start(Options{
		Journal: j, Log: slog.New(slog.DiscardHandler), Bucket: bucket, View: file.View, Edit: file.Update,
		Refusal: func() error { return nil },
		Encode:  func(Command) ([]byte, error) { return []byte("nothing"), nil },
		Decode:  func([]byte) (Command, error) { return barrier{}, nil },
		First:   func() (Command, error) { return barrier{}, nil },
		Digest:  func(b []byte, _ *bbolt.Tx, _ Answer) []byte { return b },
		Ends:    func(error) bool { return false },
		Applied: func([]Answer) {}, Foreign: func([]Answer) {},
		Failed: func(err error) {
			if !errors.Is(err, journal.ErrUnreadable) { // a test ends the replica with it
				t.Error(err)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

// A command may be applied between the end of its caller's patience and the moment at which it is noted that
// its outcome is unknown. The outage ends all the same.
func TestOutageOfAppliedCommand(t *testing.T) {
	r := open(t, memory.New("test").Open())
	if err := r.Once("late", barrier{}); err != nil {
		t.Fatal(err)
	}
	if err := r.suspend("late", []byte("nothing"), time.Second, journal.ErrUnknown); !errors.Is(err, ErrNoJournal) {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); r.Refusal() != nil; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the outage does not end")
		}
	}
	if _, err := r.Submit([]byte("nothing")); err != nil {
		t.Errorf("after the outage: %v", err)
	}
}

// A node whose journal turns out to be damaged ends. Until then it says that another node may answer.
func TestCallsOfANodeThatEnds(t *testing.T) {
	r := open(t, memory.New("test").Open())
	r.stop(journal.ErrUnreadable)
	for name, call := range map[string]func() error{
		"a command": func() error { _, err := r.Submit([]byte("nothing")); return err },
		"a wait":    func() error { return r.Confirm() },
	} {
		var p *registry.Problem
		if err := call(); !errors.Is(err, journal.ErrUnreadable) || !errors.As(err, &p) || p.Kind != registry.KindUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}
