package ui

import (
	"math"
	"strings"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// A strip shows a query's last slots as ticks: low = ran, tall = changed (the height
// grows with the change), gap = did not run, cross = failed, hollow = uncertain or cut
// by the budget.
type strip struct {
	Run, Changed, Failed, Partial string // paths in a viewBox of 145 × 20
	About                         string
	Values                        string // of each slot, for strips that show them
	Empty                         bool
	runs, changes, passed         int
}

const stripSlots = 36

// stripOf draws the recorded executions of a query up to its endpoint's last slot.
func stripOf(s policy.Stats, last uint64) strip {
	last = max(last, s.Last, s.LastRun.Slot)
	if s.LastRun.At.IsZero() && len(s.Samples) == 0 {
		return strip{Empty: true, About: "not run yet"}
	}
	var run, changed, failed, partial drawing
	out := strip{}
	first := last - min(last, stripSlots)
	x := func(slot uint64) float64 { return float64(stripSlots-1-int(last-slot))*4 + .5 } // the last slot is at the right
	for i, m := range s.Samples {
		if m.Slot <= first {
			continue
		}
		if out.runs++; !m.Changed || i == 0 && s.Executions == uint64(len(s.Samples)) {
			run.bar(x(m.Slot), 15, 3, 3)
			continue
		}
		out.changes++
		h := math.Round((5+13*math.Sqrt(m.Jaccard))*10) / 10 // the root keeps small changes visible
		changed.bar(x(m.Slot), 18-h, 3, h)
	}
	if r := s.LastRun; r.Slot > first && r.Outcome != "" && !r.Outcome.Complete() {
		if out.runs++; r.Outcome == registry.Partial || r.Outcome == registry.Cut {
			partial.bar(x(r.Slot)+.5, 12.5, 2, 5)
		} else {
			failed.WriteString("M")
			failed.num(x(r.Slot) - .5)
			failed.WriteString(" 12l4 5m0-5l-4 5")
		}
	}
	out.passed = int(last-first) - out.runs
	out.Run, out.Changed, out.Failed, out.Partial = run.String(), changed.String(), failed.String(), partial.String()
	words := []string{"last " + plural(int(last-first), "slot", "slots") + ": ran in " + count(out.runs), plural(out.changes, "change", "changes")}
	if out.Partial != "" {
		words = append(words, "the last run was not complete")
	}
	if out.Failed != "" {
		words = append(words, "the last run failed")
	}
	out.About = strings.Join(words, ", ")
	return out
}

// slotWords describes each slot of a strip, oldest first.
func slotWords(s policy.Stats, last uint64) string {
	last = max(last, s.Last, s.LastRun.Slot)
	words := make([]string, 0, stripSlots)
	said := map[uint64]string{}
	for i, m := range s.Samples {
		said[m.Slot] = "no change, " + cost(m.Elapsed).String()
		switch first := i == 0 && s.Executions == uint64(len(s.Samples)); {
		case first:
			said[m.Slot] = "the first result, " + cost(m.Elapsed).String()
		case m.Changed:
			said[m.Slot] = "changed, Jaccard distance " + figures(m.Jaccard) + ", " + cost(m.Elapsed).String()
		}
	}
	if r := s.LastRun; r.Outcome != "" && !r.Outcome.Complete() {
		said[r.Slot] = string(r.Outcome)
	}
	for n := int64(last) - stripSlots + 1; n <= int64(last); n++ {
		switch what := said[uint64(max(n, 0))]; {
		case n <= 0:
			words = append(words, none)
		case what != "":
			words = append(words, "slot "+count(n)+": "+what)
		default:
			words = append(words, "slot "+count(n)+": did not run")
		}
	}
	return strings.Join(words, "|")
}
