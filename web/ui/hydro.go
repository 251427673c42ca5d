package ui

import (
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/scheduler"
)

// A hydrograph shows an endpoint's last slots in the style of gauging stations: bars
// from the top are changes found, bars from the bottom are seconds used (with the plan
// in a paler colour behind them) against a dashed line for the budget. Skipped
// executions are drawn below the ground line.
type hydrograph struct {
	clock
	ID, Name               string
	Link                   string // the page of the endpoint, "" for none
	Width                  int    // number of slots drawn
	Plan, Used, Rain, Over string
	Cuts, Waits            []string // x of crosses, and of bars where the endpoint had asked to wait, in per cent
	Hits                   []hit
	Labels                 []label
	Rows                   []scheduler.Slot // the last ones as a table, newest first
	Last                   scheduler.Slot
	Sum                    sum
}

// Failed reports whether the last slot failed.
func (h *hydrograph) Failed() bool { return h.Last.Error != "" && !h.Last.Throttled }

type hit struct {
	X    int
	Slot scheduler.Slot
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
	h := &hydrograph{clock: v.clock, ID: "hydro-" + name, Name: name, Width: hydroSlots, Sum: total(slots[:min(len(slots), hydroSlots)])}
	if v.sections["endpoints"] {
		h.Link = endpointPath(name)
	}
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
		h.Hits = append(h.Hits, hit{first + i, s})
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
	h.Last, h.Rows = slots[len(slots)-1], slices.Clone(slots[max(0, len(slots)-8):])
	slices.Reverse(h.Rows)
	return h
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
