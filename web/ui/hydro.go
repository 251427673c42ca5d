package ui

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/scheduler"
)

// A hydrograph shows an endpoint's last slots in the style of gauging stations: bars
// from the top are changes found, bars from the bottom are seconds used (with the plan
// in a paler colour behind them) against a dashed line for the budget. Skipped
// executions are drawn below the ground line.
type hydrograph struct {
	ID, Name               string
	Width                  int // number of slots drawn
	Plan, Used, Rain, Over string
	Cuts, Waits            []string // x of crosses, and of bars where the endpoint had asked to wait, in per cent
	Hits                   []hit
	Labels                 []label
	About                  string
	Rows                   []slotRow // the same data as a table
	Found, Seconds, Passed string    // of the last slot
	Failed                 bool      // the last slot failed
	Budget                 string
}

type hit struct {
	X     int
	Title string
}

type label struct{ X, Anchor, Text string }

type slotRow struct {
	Number                         string
	Error                          string
	Used, Planned, Changed, Passed string
	When                           template.HTML
}

const (
	hydroSlots = 48
	rainHeight = 36.0
	capLine    = 44.0
	ground     = 112.0
	overHeight = 14.0
)

// hydro draws slots, given newest first as in the history.
func (v endpointHandler) hydro(name string, slots []scheduler.Slot) *hydrograph {
	slots = slices.Clone(slots[:min(len(slots), hydroSlots)])
	slices.Reverse(slots)
	h := &hydrograph{ID: "hydro-" + name, Name: name, Width: hydroSlots}
	if len(slots) == 0 {
		return h
	}
	var plan, used, rain, over drawing
	changes, passed := 1, 1
	for _, s := range slots {
		changes, passed = max(changes, s.Found()), max(passed, s.Skipped)
	}
	first := hydroSlots - len(slots)
	for i, s := range slots {
		x := float64(first + i)
		h.Hits = append(h.Hits, hit{first + i, slotTitle(s)})
		if s.Error != "" {
			at := fmt.Sprintf("%.2f%%", (x+0.5)/hydroSlots*100)
			if s.Throttled {
				h.Waits = append(h.Waits, at)
			} else {
				h.Cuts = append(h.Cuts, at)
			}
			continue
		}
		level := func(seconds float64) float64 {
			if s.Budget <= 0 {
				return 0
			}
			return min(seconds/s.Budget, 1.2) * (ground - capLine)
		}
		u, p := level(s.Used), level(s.PlannedSeconds)
		if p > u {
			plan.bar(x+.14, ground-p, .72, p-u)
		}
		used.bar(x+.14, ground-u, .72, u)
		if s.Found() > 0 {
			rain.bar(x+.14, 0, .72, max(4, float64(s.Found())/float64(changes)*rainHeight))
		}
		if s.Skipped > 0 {
			over.bar(x+.36, ground+3, .28, max(2, float64(s.Skipped)/float64(passed)*overHeight))
		}
	}
	h.Plan, h.Used, h.Rain, h.Over = plan.String(), used.String(), rain.String(), over.String()
	h.label(slots, first)
	h.describe(v, slots)
	return h
}

func slotTitle(s scheduler.Slot) string {
	if s.Error != "" {
		return fmt.Sprintf("slot %s: %s", count(s.Number), clip(s.Error, 200))
	}
	title := fmt.Sprintf("slot %s: %s of %s, %s, %s passed over", count(s.Number), seconds(s.Used), seconds(s.Budget), plural(s.Found(), "change", "changes"), count(s.Skipped))
	if s.Repaid > 0 {
		title += ", " + seconds(s.Repaid) + " repaid"
	}
	if s.Debt > 0 {
		title += ", " + seconds(s.Debt) + " owed"
	}
	return title
}

// label writes the times of the first, the middle and the last slot.
func (h *hydrograph) label(slots []scheduler.Slot, first int) {
	at := func(s scheduler.Slot, other time.Time) string {
		t := s.Started.UTC()
		if t.YearDay() != other.UTC().YearDay() || t.Year() != other.UTC().Year() {
			return t.Format("2 Jan, 15:04")
		}
		return t.Format("15:04")
	}
	last := slots[len(slots)-1]
	layout := at(last, last.Started)
	if last.Started.Sub(slots[0].Started) < 5*time.Minute {
		at = func(s scheduler.Slot, _ time.Time) string { return s.Started.UTC().Format("15:04:05") }
		layout = at(last, last.Started)
	}
	if len(slots) < 12 { // no room for three
		h.Labels = []label{{"100%", "end", layout}}
		return
	}
	mid := slots[len(slots)/2]
	h.Labels = []label{
		{fmt.Sprintf("%.2f%%", float64(first)/hydroSlots*100), "start", at(slots[0], last.Started)},
		{fmt.Sprintf("%.2f%%", (float64(first)+float64(len(slots))/2)/hydroSlots*100), "middle", at(mid, last.Started)},
		{"100%", "end", layout},
	}
	if len(slots) < 24 {
		h.Labels = slices.Delete(h.Labels, 1, 2)
	}
}

func (h *hydrograph) describe(v endpointHandler, slots []scheduler.Slot) {
	least, most := slots[0].Used, slots[0].Used
	changes, passed, failed, waits := 0, 0, 0, 0
	for _, s := range slots {
		least, most = min(least, s.Used), max(most, s.Used)
		changes, passed = changes+s.Found(), passed+s.Skipped
		switch {
		case s.Throttled:
			waits++
		case s.Error != "":
			failed++
		}
	}
	last := slots[len(slots)-1]
	var b strings.Builder
	fmt.Fprintf(&b, "%s found. Between %s and %s of %s used in a slot. ", plural(changes, "change", "changes"), seconds(least), seconds(most), seconds(last.Budget))
	fmt.Fprintf(&b, "%s passed over.", plural(passed, "query was", "queries were"))
	if failed > 0 {
		fmt.Fprintf(&b, " %s failed.", plural(failed, "slot", "slots"))
	}
	if waits > 0 {
		fmt.Fprintf(&b, " In %s nothing more was asked because it wanted that.", plural(waits, "slot", "slots"))
	}
	h.About = b.String()
	h.Budget = seconds(last.Budget)
	if h.Failed = last.Error != "" && !last.Throttled; last.Throttled {
		h.Found, h.Seconds, h.Passed = none, seconds(last.Used), count(last.Skipped)
	} else if h.Failed {
		h.Found, h.Seconds, h.Passed = none, "failed", count(last.Skipped)
	} else {
		h.Found, h.Seconds, h.Passed = count(last.Found()), seconds(last.Used), count(last.Skipped)
	}
	for i := len(slots) - 1; i >= max(0, len(slots)-8); i-- {
		s := slots[i]
		h.Rows = append(h.Rows, slotRow{Number: count(s.Number), Error: clip(s.Error, 200), Used: seconds(s.Used), Planned: seconds(s.PlannedSeconds),
			Changed: count(s.Found()), Passed: count(s.Skipped), When: v.Fixed(s.Started)})
	}
}
