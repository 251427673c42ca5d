package ui

import (
	"fmt"
	"strings"
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
	Title  string
	About  string
	Waits  bool
	// Unfinished reports whether there were slots in which no execution finished.
	Unfinished bool
}

type healthBar struct {
	Class, X, Width string
	Y, Height       int
	Title           string
}

const (
	healthBins = 96
	fewestBins = 12
	apart      = 0.5 // minimum distance of two frames, in per cent of the width
)

type verdict int

const (
	asleep     verdict = iota // no slot, or no request in it
	waiting                   // no request because the endpoint asked to wait
	answered                  // every request that had time
	unfinished                // no request, because the budget ran out first
	partly                    // some requests
	failed                    // no request
)

// verdictWords describe the worst slot of a bar.
var verdictWords = map[verdict]string{waiting: "it had asked us to wait", answered: "answered", unfinished: "nothing was finished within the budget", partly: "answered in part", failed: "failed"}

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
	for i, s := range slots {
		if now.Sub(s.Started) > 24*time.Hour {
			slots = slots[:i]
			break
		}
	}
	if len(slots) == 0 {
		return health{}
	}
	begin := slots[len(slots)-1].Started
	bins := min(healthBins, max(len(slots)/2, fewestBins))
	width := max(now.Sub(begin)/time.Duration(bins), time.Second)
	begin = now.Add(-width * time.Duration(bins))
	worst := make([]verdict, bins)
	n := map[verdict]int{}
	for _, s := range slots {
		w := judgeSlot(s)
		n[w]++
		i := min(max(int(s.Started.Sub(begin)/width), 0), bins-1)
		worst[i] = max(worst[i], w)
	}
	h := health{Title: "How it answered, the last " + span(now.Sub(slots[len(slots)-1].Started).Truncate(time.Second))}
	for i, w := range worst {
		bar := healthBar{X: fmt.Sprintf("%.2f%%", float64(i)/float64(bins)*100), Width: fmt.Sprintf("%.2f%%", 0.8/float64(bins)*100)}
		switch w {
		case asleep:
			continue
		case waiting:
			bar.Class, bar.Y, bar.Height, h.Waits = "wait", 28, 4, true
		case answered:
			bar.Class, bar.Y, bar.Height = "ok", 20, 12
		case unfinished:
			bar.Class, bar.Y, bar.Height, h.Unfinished = "cut", 24, 8, true
		case partly:
			bar.Class, bar.Y, bar.Height = "part", 12, 20
		case failed:
			bar.Class, bar.Y, bar.Height = "err", 2, 30
		}
		bar.Title = begin.Add(width*time.Duration(i)).UTC().Format("15:04:05") + " to " + begin.Add(width*time.Duration(i+1)).UTC().Format("15:04:05") + ": " + verdictWords[w]
		h.Bars = append(h.Bars, bar)
	}
	h.About = healthWords(len(slots), n)
	h.darken(dark, begin, now)
	h.label(begin, now)
	return h
}

// darken draws the frames of blackouts. Blackouts that are too close to be
// distinguished share a frame.
func (h *health) darken(dark []registry.Blackout, begin, now time.Time) {
	all, n := now.Sub(begin).Seconds(), 0
	for _, b := range dark {
		s, err := scheduler.ParseSlot(b.Start)
		if err != nil { // settings in force always parse
			continue
		}
		from, to := 0.0, -1.0 // the current frame, in per cent
		frame := func() {
			if to >= from {
				h.Dark = append(h.Dark, healthBar{Class: "none", X: fmt.Sprintf("%.2f%%", from), Width: fmt.Sprintf("%.2f%%", to-from), Y: 2, Height: 30, Title: "blackout"})
			}
		}
		for t := s.Next(begin.Add(-time.Duration(b.For))); !t.IsZero() && t.Before(now); t = s.Next(t) {
			n++
			start, end := max(t.Sub(begin).Seconds()/all*100, 0), min(t.Add(time.Duration(b.For)).Sub(begin).Seconds()/all*100, 100)
			if to < 0 || start-to > apart {
				frame()
				from = start
			}
			to = end
		}
		frame()
	}
	if n > 0 {
		h.About += " In " + plural(n, "blackout time", "blackout times") + " no slot began."
	}
}

func healthWords(all int, n map[verdict]int) string {
	switch {
	case n[asleep] == all:
		return "Nothing was due in " + plural(all, "slot", "slots") + "."
	case n[answered] == all && all == 1:
		return "The one slot was answered."
	case n[answered] == all:
		return "All " + plural(all, "slot was answered.", "slots were answered.")
	}
	var words []string
	for _, x := range []struct {
		verdict verdict
		words   string
	}{{answered, "answered"}, {unfinished, "in which nothing was finished within the budget"}, {partly, "answered in part"}, {failed, "failed"}, {waiting, "in which it had asked us to wait"}, {asleep, "with nothing due"}} {
		if n[x.verdict] > 0 {
			words = append(words, count(n[x.verdict])+" "+x.words)
		}
	}
	return "Of " + plural(all, "slot", "slots") + ": " + strings.Join(words, ", ") + "."
}

func (h *health) label(begin, now time.Time) {
	layout := "15:04"
	if now.Sub(begin) < 10*time.Minute {
		layout = "15:04:05"
	}
	at := func(part int) string { return begin.Add(now.Sub(begin) * time.Duration(part) / 4).UTC().Format(layout) }
	h.Labels = []label{{"0%", "start", at(0)}, {"50%", "middle", at(2)}, {"100%", "end", "now"}}
}
