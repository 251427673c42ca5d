package journal_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
)

// Replaying a journal: each entry is applied once, and the position is kept with what it changed.
func Example() {
	log := memory.New("example") // nats.Open or postgres.Open in a cluster
	j := log.Open()
	defer j.Close()
	for _, id := range []string{"a", "b", "a"} { // a is appended again, as after a timeout
		if _, err := j.Append(context.Background(), id, []byte("command "+id)); err != nil {
			fmt.Println(err)
		}
	}
	applied := journal.Position{} // of the state that is kept
	done := errors.New("done")
	err := j.Read(context.Background(), applied, func(e journal.Entry) error {
		fmt.Printf("%d: %s\n", e.Seq, e.Command)
		if applied = e.Position; applied.Seq == 2 {
			return done
		}
		return nil
	})
	fmt.Println(err, applied.Seq)
	// Output:
	// 1: command a
	// 2: command b
	// done 2
}

// The hash covers every part of an entry, and the limits between them.
func TestChain(t *testing.T) {
	at := journal.Genesis("n").Next("first", nil).Position
	e := at.Next("id", []byte("command"))
	if err := e.Follows(at); err != nil {
		t.Fatal(err)
	}
	for name, alter := range map[string]func(e *journal.Entry){
		"number":           func(e *journal.Entry) { e.Seq++ },
		"hash":             func(e *journal.Entry) { e.Hash[31] ^= 1 },
		"hash before":      func(e *journal.Entry) { e.Prev[0] ^= 1 },
		"id":               func(e *journal.Entry) { e.ID = "Id" },
		"command":          func(e *journal.Entry) { e.Command = []byte("Command") },
		"limit":            func(e *journal.Entry) { e.ID, e.Command = "idc", []byte("ommand") },
		"command to id":    func(e *journal.Entry) { e.ID, e.Command = "idcommand", nil },
		"empty":            func(e *journal.Entry) { e.Command = nil },
		"bytes at the end": func(e *journal.Entry) { e.Command = append(e.Command[:len(e.Command):len(e.Command)], 0) },
	} {
		altered := e
		alter(&altered)
		if err := altered.Follows(at); !errors.Is(err, journal.ErrAltered) {
			t.Errorf("another %s: %v", name, err)
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{"freshet-1": true, "A_b": true, "": false, "a.b": false, "a b": false, "ä": false,
		string(make([]byte, 33)): false} {
		if err := journal.CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A grownJournal has entries up to head.
type grownJournal struct {
	journal.Journal
	bytes uint64 // the last entry beyond the limit of bytes
	head  uint64
}

func (j grownJournal) Old(context.Context, int64) (uint64, error) { return j.bytes, nil }

func (j grownJournal) Head(context.Context) (p journal.Position, _ error) {
	p.Seq = j.head
	return p, nil
}

func TestDroppable(t *testing.T) {
	const head = 6
	for _, c := range []struct {
		applied []uint64
		bytes   uint64
		head    uint64    // at first
		want    [3]uint64 // at first, after an hour, and after a day
	}{
		{nil, 0, head, [3]uint64{0, 0, 6}},               // no member is known: what is too old for any
		{[]uint64{6, 6, 6}, 0, head, [3]uint64{0, 6, 6}}, // ids are kept for an hour
		{[]uint64{6, 6, 6}, 0, 3, [3]uint64{0, 3, 6}},    // those of entries that came later, too
		{[]uint64{6, 3, 6}, 0, head, [3]uint64{0, 3, 6}}, // what the slowest needs is kept
		{[]uint64{6, 1, 6}, 0, 3, [3]uint64{0, 1, 3}},    // but not for longer than a day
		{[]uint64{6, 1, 6}, 5, head, [3]uint64{5, 5, 6}}, // nor beyond the limit of bytes
		{[]uint64{0}, 0, head, [3]uint64{0, 0, 6}},
	} {
		bubble.Test(t, func(t *testing.T) {
			var r journal.Retention
			j := grownJournal{bytes: c.bytes, head: c.head}
			for i, pause := range []time.Duration{0, journal.KeepIDs, journal.KeepAge - journal.KeepIDs} {
				time.Sleep(pause)
				if got, err := r.Droppable(t.Context(), j, c.applied...); err != nil || got != c.want[i] {
					t.Errorf("members at %d, %d beyond the bytes, %d at first: look %d: %d, %v; want %d", c.applied, c.bytes, c.head, i, got,
						err, c.want[i])
				}
				j.head = head
			}
		})
	}
}
