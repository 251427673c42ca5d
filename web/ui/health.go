package ui

import (
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// Health is a plot of an endpoint's answers over time: low bars mean answered, higher
// ones partly answered, full ones failed. The meaning does not depend on colour. A
// dashed frame marks a blackout; a gap marks a time without requests.
type health struct {
	Bars   []healthBar
	Dark   []healthBar // blackout times
	Labels []label
	Covers time.Duration
	All    int // number of slots
	Counts map[verdict]int
	Darks  int // number of blackout times
}

type healthBar struct {
	Class, X, Width string
	Y, Height       int
	From, To        string // time of day
}

const (
	healthBins = 96
	fewestBins = 12
	apart      = 0.5 // minimum distance of two frames, in per cent of the width
)

// A verdict is the class of a bar; the templates have the words.
type verdict string

const (
	asleep     verdict = "asleep" // no slot, or no request in it
	waiting    verdict = "wait"   // no request because the endpoint asked to wait
	answered   verdict = "ok"     // every request that had time
	unfinished verdict = "cut"    // no request, because the budget ran out first
	partly     verdict = "part"   // some requests
	failed     verdict = "err"    // no request
)

// bars are the shapes of the verdicts, the best first.
var bars = []healthBar{{Class: string(asleep)}, {Class: string(waiting), Y: 28, Height: 4}, {Class: string(answered), Y: 20,
	Height: 12}, {Class: string(unfinished), Y: 24, Height: 8},
	{Class: string(partly), Y: 12, Height: 20}, {Class: string(failed), Y: 2, Height: 30}}

func (v verdict) rank() int {
	return slices.IndexFunc(bars, func(b healthBar) bool { return b.Class == string(v) })
}

// Of returns the number of slots with a verdict.
func (h health) Of(v verdict) int { return h.Counts[v] }

// judgeSlot counts an execution cut by the budget neither as an answer nor as a
// failure.
func judgeSlot(s scheduler.Slot) verdict {
	wrong := s.Error != "" || s.Failed > 0
	switch {
	case s.Throttled && s.Complete == 0:
		return waiting
	case s.Complete == 0 && wrong:
		return failed
	case wrong:
		return partly
	case s.Complete == 0 && s.Cut > 0:
		return unfinished
	case s.Complete == 0:
		return asleep
	}
	return answered
}

// healthOf plots up to a day of slots, given newest first, in equal intervals. The
// intervals are wide enough that slots at their usual distance leave no gap.
func healthOf(slots []scheduler.Slot, dark []registry.Blackout, now time.Time) health {
	if slots = lastDay(slots, now); len(slots) == 0 {
		return health{}
	}
	begin := slots[len(slots)-1].Started
	bins := min(healthBins, max(len(slots)/2, fewestBins))
	width := max(now.Sub(begin)/time.Duration(bins), time.Second)
	begin = now.Add(-width * time.Duration(bins))
	worst := make([]int, bins)
	h := health{All: len(slots), Covers: now.Sub(slots[len(slots)-1].Started).Truncate(time.Second), Counts: map[verdict]int{}}
	for _, s := range slots {
		w := judgeSlot(s)
		h.Counts[w]++
		i := min(max(int(s.Started.Sub(begin)/width), 0), bins-1)
		worst[i] = max(worst[i], w.rank())
	}
	for i, w := range worst {
		if w == 0 {
			continue
		}
		bar := bars[w]
		bar.X, bar.Width = fmt.Sprintf("%.2f%%", float64(i)/float64(bins)*100), fmt.Sprintf("%.2f%%", 0.8/float64(bins)*100)
		bar.From, bar.To = begin.Add(width*time.Duration(i)).UTC().Format("15:04:05"),
			begin.Add(width*time.Duration(i+1)).UTC().Format("15:04:05")
		h.Bars = append(h.Bars, bar)
	}
	h.darken(dark, begin, now)
	h.Labels = timeLabels(begin, now, 0, "start", "middle", "end")
	h.Labels[2].Text = "now"
	return h
}

// lastDay returns the slots, given newest first, of the last 24 hours.
func lastDay(slots []scheduler.Slot, now time.Time) []scheduler.Slot {
	if i := slices.IndexFunc(slots, func(s scheduler.Slot) bool { return now.Sub(s.Started) > 24*time.Hour }); i >= 0 {
		return slots[:i]
	}
	return slots
}

// darken draws the frames of blackouts. Blackouts that are too close to be
// distinguished share a frame.
func (h *health) darken(dark []registry.Blackout, begin, now time.Time) {
	all := now.Sub(begin).Seconds()
	for _, b := range dark {
		s, err := scheduler.ParseSlot(b.Start)
		if err != nil { // settings in force always parse
			continue
		}
		from, last := 0.0, -1.0 // the current frame, in per cent
		draw := func() {
			if last >= from {
				h.Dark = append(h.Dark, healthBar{Class: "none", X: fmt.Sprintf("%.2f%%", from), Width: fmt.Sprintf("%.2f%%", last-from),
					Y: 2, Height: 30})
			}
		}
		for t := s.Next(begin.Add(-time.Duration(b.For))); !t.IsZero() && t.Before(now); t = s.Next(t) {
			h.Darks++
			start, end := max(t.Sub(begin).Seconds()/all*100, 0), min(t.Add(time.Duration(b.For)).Sub(begin).Seconds()/all*100, 100)
			if last < 0 || start-last > apart {
				draw()
				from = start
			}
			last = end
		}
		draw()
	}
}

// A sum adds up slots.
type sum struct {
	slots, failed, run, cut, failures int
	Changed, Skipped                  int
	Failed, Waits                     int // slots with an error, and those in which the endpoint had asked to wait
	Least, Most                       float64
	used, budget                      float64
	first                             time.Time
}

// total adds up slots, given newest first.
func total(slots []scheduler.Slot) sum {
	var t sum
	for i, s := range slots {
		if t.first, t.Most = s.Started, max(t.Most, s.Used); i == 0 || s.Used < t.Least {
			t.Least = s.Used
		}
		t.slots++
		t.run, t.Changed, t.Skipped, t.cut, t.failures = t.run+s.Run, t.Changed+s.Changed, t.Skipped+s.Skipped, t.cut+s.Cut, t.failures+s.Failed
		t.used += s.Used
		if judgeSlot(s) == failed {
			t.failed++
		}
		if s.Throttled {
			t.Waits++
		} else if s.Error != "" {
			t.Failed++
		}
		if s.Error == "" || s.Run > 0 {
			t.budget += s.Budget
		}
	}
	return t
}
