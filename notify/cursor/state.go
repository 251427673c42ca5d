package cursor

// This file writes and reads the position of a MultiCursor: as the id of an event, and as it is
// stored.

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

var errEventID = errors.New("not the id of an event")

// EventID returns the cursor's position: its offset, and the queries with withheld changes
// up to there, each with the reader's position in it: epoch:offset~query:seq~… The epoch of
// a query is not included, because a query with a new epoch has a change after the offset.
func (m *MultiCursor) EventID() string {
	var b strings.Builder
	b.WriteString(m.at.String())
	for _, q := range slices.Sorted(maps.Keys(m.held)) {
		b.WriteString("~" + q + ":" + strconv.FormatUint(m.held[q].base.Seq, 10))
	}
	return b.String()
}

// Resume moves the cursor to the position of an event id.
func (m *MultiCursor) Resume(id string) error {
	if strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return errEventID // it becomes part of event ids, which a line break would end
	}
	parts := strings.Split(id, "~")
	at, err := registry.ParsePosition(parts[0])
	if err != nil || len(parts) > MaxWithheld+1 {
		return errEventID
	}
	m.Jump(at)
	m.held = make(map[string]*held)
	for _, p := range parts[1:] {
		colon := strings.LastIndexByte(p, ':')
		if colon <= 0 || colon > 200 {
			return errEventID
		}
		seq, err := strconv.ParseUint(p[colon+1:], 10, 53)
		if err != nil {
			return errEventID
		}
		m.held[p[:colon]] = &held{base: registry.Position{Seq: seq}} // Next completes it
	}
	return nil
}

// A State is the stored form of a MultiCursor between steps.
type State struct {
	At, Round registry.Offset
	Withheld  []registry.Withheld // longest waiting first
	Sent      time.Time           // time of the last message to the reader
}

// State returns what has to be stored to resume later.
func (m *MultiCursor) State() State {
	s := State{At: m.at, Round: m.round, Sent: m.sent}
	for q, h := range m.held {
		s.Withheld = append(s.Withheld, registry.Withheld{Query: q, From: h.base, Until: h.last.Position(), First: h.first, Fresh: h.fresh})
	}
	slices.SortFunc(s.Withheld, func(a, b registry.Withheld) int { return cmp.Compare(a.First, b.First) })
	return s
}

// Restore moves the cursor to a stored state.
func (m *MultiCursor) Restore(s State) {
	m.Jump(s.At)
	m.round, m.sent = s.Round, s.Sent
	m.held = make(map[string]*held, len(s.Withheld))
	for _, h := range s.Withheld {
		last := registry.Change{Query: h.Query, Epoch: h.Until.Epoch, Seq: h.Until.Seq}
		m.held[h.Query] = &held{base: h.From, first: h.First, last: last, fresh: h.Fresh}
	}
}
