package trial

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
)

// A transcript is what one follower has received about one query: the messages that rule 1 of the
// protocol lets it apply, in order and unchanged.
type transcript struct {
	fact    *fact
	by      string // name of the follower
	known   bool   // epoch and seq are a position to resume from
	epoch   string
	seq     uint64
	records []record
	parts   []json.RawMessage // of an incomplete snapshot

	repeats, resumed int
	wrong            []string // violations
}

type record struct {
	kind      string // snapshot, delta or alive
	prev, seq uint64
	raw       []json.RawMessage // the message, or the parts of a snapshot
}

// A notice holds the fields that all messages about positions have.
type notice struct {
	Type, ID, Query, Epoch string
	Prev, Seq              uint64
	Part                   int
	Last, Resumed          bool
	Reason, Code, Message  string
	State, Error           string
}

func (s *transcript) object(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// begun applies the answer to a subscription.
func (s *transcript) begun(n notice) {
	s.parts = nil
	switch {
	case n.Resumed && (n.Epoch != s.epoch || n.Seq != s.seq):
		s.object("resumed at %s:%d instead of %s:%d", n.Epoch, n.Seq, s.epoch, s.seq)
	case n.Resumed:
		s.resumed++
	case s.known:
		s.object("at %s:%d the stream began again: %s", s.epoch, s.seq, n.Reason)
	case n.Seq == 0: // no snapshot follows
		s.known, s.epoch, s.seq = true, n.Epoch, 0
	}
}

func (s *transcript) snapshot(n notice, raw []byte) {
	if len(s.records) > 0 {
		s.object("a snapshot at %d in the middle of the stream", n.Seq)
		return
	}
	s.parts = append(s.parts, raw)
	if n.Part > 0 && !n.Last {
		return
	}
	s.add(record{"snapshot", 0, n.Seq, s.parts}, n.Epoch)
	s.parts = nil
}

func (s *transcript) change(n notice, raw []byte) {
	switch {
	case s.known && n.Epoch == s.epoch && n.Seq <= s.seq:
		s.repeats++
	case s.known && n.Epoch != s.epoch:
		s.object("a change of epoch %s after %s:%d", n.Epoch, s.epoch, s.seq)
	case n.Prev != s.seq || n.Seq <= n.Prev:
		s.object("the change (%d, %d] after position %d", n.Prev, n.Seq, s.seq)
	default:
		s.add(record{"delta", n.Prev, n.Seq, []json.RawMessage{raw}}, n.Epoch)
	}
}

func (s *transcript) alive(n notice) {
	switch {
	case !s.known:
	case n.Epoch != s.epoch || n.Seq < s.seq:
		s.object("alive at %s:%d after %s:%d", n.Epoch, n.Seq, s.epoch, s.seq)
	case n.Seq > s.seq:
		s.add(record{"alive", s.seq, n.Seq, nil}, n.Epoch)
	}
}

func (s *transcript) add(r record, epoch string) {
	s.known, s.epoch, s.seq = true, epoch, r.seq
	s.records = append(s.records, r)
}

// forget drops the last few messages, but never all of them, like a client that dies before it
// has stored them.
func (s *transcript) forget(r *rand.Rand) {
	if len(s.records) < 2 {
		return
	}
	n := 1 + r.IntN(min(3, len(s.records)-1))
	s.records = slices.Delete(s.records, len(s.records)-n, len(s.records))
	s.seq = s.records[len(s.records)-1].seq
}

func (s *transcript) arrived() bool { return s.known && s.seq >= s.fact.final }
