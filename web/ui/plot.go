package ui

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
)

// Plots are SVG with x in the units of a stretched viewBox and y in pixels. They fill
// any width while their text keeps its size. This file computes paths; the templates
// write the elements and escape the text.

// A drawing collects SVG path commands with two decimals at most.
type drawing struct{ strings.Builder }

func (p *drawing) num(x float64) {
	s := strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64)
	if strings.HasPrefix(s, "0.") {
		s = s[1:]
	}
	p.WriteString(s)
}

// bar adds a rectangle with a corner at (x, y).
func (p *drawing) bar(x, y, w, h float64) {
	if h <= 0 || w <= 0 {
		return
	}
	p.to('M', x, y)
	p.WriteByte('h')
	p.num(w)
	p.WriteByte('v')
	p.num(h)
	p.WriteString("h-")
	p.num(w)
	p.WriteByte('z')
}

// cross adds the mark of a failure in a strip.
func (p *drawing) cross(x float64) {
	p.WriteString("M")
	p.num(x - .5)
	p.WriteString(" 12l4 5m0-5l-4 5")
}

func (p *drawing) to(cmd byte, x, y float64) {
	p.WriteByte(cmd)
	p.num(x)
	p.WriteByte(' ')
	p.num(y)
}

// A spark is a trend line without axes; a dot marks its last value.
type spark struct {
	Line, Area, End string   // paths in a viewBox of 100 × 22
	Low, High       string   // the smallest and the largest value
	Values, Times   []string // of each point; Times may be empty
	Covers          time.Duration
}

// sparkline draws values from left to right; it needs at least two. The scale goes from zero to
// full, or to the largest value.
func sparkline(values []float64, full float64, write func(float64) string) *spark {
	if len(values) < 2 {
		return nil
	}
	low, high := slices.Min(values), slices.Max(values)
	const top, bottom = 3.0, 20.0
	scale := max(full, high)
	y := func(v float64) float64 {
		if scale == 0 {
			return bottom
		}
		return bottom - v/scale*(bottom-top)
	}
	var line, area, end drawing
	for i, v := range values {
		cmd := byte('L')
		if i == 0 {
			cmd = 'M'
		}
		line.to(cmd, float64(i)/float64(len(values)-1)*100, y(v))
	}
	area.WriteString(line.String() + "L100 22L0 22z")
	end.to('M', 100, y(values[len(values)-1]))
	end.WriteString("h0")
	s := &spark{Line: line.String(), Area: area.String(), End: end.String(), Low: write(low), High: write(high)}
	for _, x := range values {
		s.Values = append(s.Values, write(x))
	}
	return s
}

// A levelGauge is the small gauge in the navigation: the budget use of the last slot.
type levelGauge struct {
	Y, Height       float64
	Failing, Paused bool
}

func (l *levelGauge) fill(part float64) {
	part = max(0, min(1, part))
	l.Height = math.Round(part*200) / 10
	l.Y = 20 - l.Height
}

// A meter is a bar of 100 × 8 filled to a fraction.
func meter(part float64) string {
	return strconv.FormatFloat(math.Round(max(0, min(1, part))*1000)/10, 'f', -1, 64)
}

type label struct{ X, Anchor, Text string }

// timeLayout returns the layout of the times on an axis.
func timeLayout(from, until time.Time) string {
	switch width := until.Sub(from); {
	case width > 48*time.Hour:
		return "2 Jan"
	case width > 20*time.Hour:
		return "2 Jan, 15:04"
	case width < 10*time.Minute:
		return "15:04:05"
	}
	return "15:04"
}

// timeLabels writes equally spaced times from left, in per cent, to the right end.
func timeLabels(from, until time.Time, left float64, anchors ...string) []label {
	out := make([]label, len(anchors))
	for i, a := range anchors {
		part := float64(i) / float64(len(anchors)-1)
		out[i] = label{fmt.Sprintf("%.1f%%", left+part*(100-left)), a,
			from.Add(time.Duration(part * float64(until.Sub(from)))).UTC().Format(timeLayout(from, until))}
	}
	return out
}

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
	if s.LastRun.At.IsZero() && len(s.Samples) == 0 {
		return strip{Empty: true}
	}
	var run, changed, failed, partial drawing
	out := strip{}
	for i, v := range stripValues(s, last) { // the last slot is at the right
		if v.Slot > 0 {
			out.Slots++
		}
		if !v.Ran {
			continue
		}
		out.Runs++
		switch x := float64(i)*4 + .5; {
		case v.Failed == registry.Partial, v.Failed == registry.Cut:
			partial.bar(x+.5, 12.5, 2, 5)
		case v.Failed != "":
			failed.cross(x)
		case v.Changed && !v.First:
			out.Changes++
			h := math.Round((5+13*math.Sqrt(v.Jaccard))*10) / 10 // the root keeps small changes visible
			changed.bar(x, 18-h, 3, h)
		default:
			run.bar(x, 15, 3, 3)
		}
	}
	out.Passed = out.Slots - out.Runs
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
		known[m.Slot] = stripSlot{Ran: true, First: i == 0 && s.Executions == uint64(len(s.Samples)), Changed: m.Changed,
			Jaccard: m.Jaccard, Elapsed: m.Elapsed}
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

// Trends of values that no log records: one point per minute for the last 24 hours.
// They are kept in memory only.
type trends struct {
	mu   sync.Mutex
	list []point
}

type point struct {
	at        time.Time
	fresh     float64 // fraction of the results
	age       time.Duration
	followers int
}

const (
	pointEvery  = time.Minute
	pointsKept  = 24 * 60
	pointsLine  = 48 // number drawn
	pointsLeast = 5  // minimum for a trend
)

func (t *trends) add(p point) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.list) == pointsKept {
		t.list = slices.Delete(t.list, 0, 1)
	}
	t.list = append(t.list, p)
}

func (t *trends) points() []point {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.list)
}

// trendLine draws one value of the points; each point drawn represents several. The last one is
// now. The scale goes at least up to full.
func trendLine(past []point, full float64, of func(point) float64, write func(float64) string) *spark {
	if len(past) < pointsLeast {
		return nil
	}
	step := max(1, len(past)/pointsLine)
	var values []float64
	var times []string
	for i := (len(past) - 1) % step; i < len(past); i += step {
		values, times = append(values, of(past[i])), append(times, past[i].at.UTC().Format("15:04"))
	}
	line := sparkline(values, full, write)
	line.Times, line.Covers = times, past[len(past)-1].at.Sub(past[0].at).Round(time.Second)
	return line
}

// A hydrograph shows an endpoint's last slots in the style of gauging stations: bars
// from the top are changes found, bars from the bottom are seconds used (with the plan
// in a paler colour behind them) against a dashed line for the budget. Skipped
// executions are drawn below the ground line.
type hydrograph struct {
	clock
	ID, Name               string
	Link                   string // the page of the endpoint
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
	h := &hydrograph{clock: v.clock, ID: "hydro-" + name, Name: name, Link: endpointPath(name), Width: hydroSlots, Sum: total(slots)}
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
	h.Labels = slotLabels(slots, first)
	h.Last, h.Rows = slots[len(slots)-1], slices.Clone(slots[max(0, len(slots)-8):])
	slices.Reverse(h.Rows)
	return h
}

// slotLabels writes the times of the first, the middle and the last slot, as far as there is room.
func slotLabels(slots []scheduler.Slot, first int) []label {
	from, until, n := slots[0].Started, slots[len(slots)-1].Started, len(slots)
	all := timeLabels(from, until, float64(first)/hydroSlots*100, "start", "middle", "end")
	all[1].Text = slots[n/2].Started.UTC().Format(timeLayout(from, until)) // slots need not be equally spaced
	switch {
	case n < 12:
		return all[2:]
	case n < 24:
		return slices.Delete(all, 1, 2)
	}
	return all
}
