package ui

import (
	"math"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// A strip shows a query's last slots as ticks: low = ran, tall = changed (the height
// grows with the change), gap = did not run, cross = failed, hollow = uncertain or cut
// by the budget.
type strip struct {
	Run, Changed, Failed, Partial string // paths in a viewBox of 145 × 20
	Empty                         bool
	Slots                         int // number of slots drawn
	Runs, Changes, Passed         int
	Values                        []stripSlot // of each slot, for strips that show them
	Rounds                        map[registry.RoundState]int
	Of                            int // number of rounds, of strips that show rounds
}

// Round returns the number of rounds in a state.
func (s strip) Round(state registry.RoundState) int { return s.Rounds[state] }

const stripSlots = 36

// stripOf draws the recorded executions of a query up to its endpoint's last slot.
func stripOf(s policy.Stats, last uint64) strip {
	last = max(last, s.Last, s.LastRun.Slot)
	if s.LastRun.At.IsZero() && len(s.Samples) == 0 {
		return strip{Empty: true}
	}
	var run, changed, failed, partial drawing
	first := last - min(last, stripSlots)
	out := strip{Slots: int(last - first)}
	x := func(slot uint64) float64 { return float64(stripSlots-1-int(last-slot))*4 + .5 } // the last slot is at the right
	for i, m := range s.Samples {
		if m.Slot <= first {
			continue
		}
		if out.Runs++; !m.Changed || i == 0 && s.Executions == uint64(len(s.Samples)) {
			run.bar(x(m.Slot), 15, 3, 3)
			continue
		}
		out.Changes++
		h := math.Round((5+13*math.Sqrt(m.Jaccard))*10) / 10 // the root keeps small changes visible
		changed.bar(x(m.Slot), 18-h, 3, h)
	}
	if r := s.LastRun; r.Slot > first && r.Outcome != "" && !r.Outcome.Complete() {
		if out.Runs++; r.Outcome == registry.Partial || r.Outcome == registry.Cut {
			partial.bar(x(r.Slot)+.5, 12.5, 2, 5)
		} else {
			failed.WriteString("M")
			failed.num(x(r.Slot) - .5)
			failed.WriteString(" 12l4 5m0-5l-4 5")
		}
	}
	out.Passed = int(last-first) - out.Runs
	out.Run, out.Changed, out.Failed, out.Partial = run.String(), changed.String(), failed.String(), partial.String()
	return out
}

// A stripSlot is one slot of a query; the templates have the words.
type stripSlot struct {
	Slot           uint64 // 0 before the first slot
	Ran            bool
	First, Changed bool
	Jaccard        float64
	Elapsed        time.Duration
	Failed         registry.Outcome // of an execution that was not complete
}

// stripValues describes each slot of a strip, oldest first.
func stripValues(s policy.Stats, last uint64) []stripSlot {
	last = max(last, s.Last, s.LastRun.Slot)
	known := map[uint64]stripSlot{}
	for i, m := range s.Samples {
		known[m.Slot] = stripSlot{Ran: true, First: i == 0 && s.Executions == uint64(len(s.Samples)), Changed: m.Changed, Jaccard: m.Jaccard, Elapsed: m.Elapsed}
	}
	if r := s.LastRun; r.Outcome != "" && !r.Outcome.Complete() {
		known[r.Slot] = stripSlot{Ran: true, Failed: r.Outcome}
	}
	values := make([]stripSlot, stripSlots)
	for i := range values {
		if n := int64(last) - stripSlots + 1 + int64(i); n > 0 {
			values[i] = known[uint64(n)]
			values[i].Slot = uint64(n)
		}
	}
	return values
}
