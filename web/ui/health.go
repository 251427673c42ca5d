package ui

import (
	"fmt"
	"strings"
	"time"

	"github.com/freshet/freshet/scheduler"
)

// Health shows how an endpoint answered over time: low bars answered, higher
// ones in part, full ones failed. Shape says it without colour.
type health struct {
	Bars   []healthBar
	Labels []label
	Title  string
	About  string
}

type healthBar struct {
	Class, X, Width string
	Y, Height       int
}

const healthBins = 96

type verdict int

const (
	asleep   verdict = iota // nothing was asked
	answered                // everything that was asked
	partly                  // some of it
	failed                  // nothing
)

func judgeSlot(s scheduler.Slot) verdict {
	switch {
	case s.Error != "" || s.Run > 0 && s.Failed == s.Run:
		return failed
	case s.Failed > 0:
		return partly
	case s.Run == 0:
		return asleep
	}
	return answered
}

// healthOf draws at most a day of slots, the newest first, in equal times.
func healthOf(slots []scheduler.Slot, now time.Time) health {
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
	width := max(now.Sub(begin)/healthBins, time.Second)
	begin = now.Add(-width * healthBins)
	worst := make([]verdict, healthBins)
	n := map[verdict]int{}
	for _, s := range slots {
		w := judgeSlot(s)
		n[w]++
		i := min(max(int(s.Started.Sub(begin)/width), 0), healthBins-1)
		worst[i] = max(worst[i], w)
	}
	h := health{Title: "How it answered, the last " + span(now.Sub(slots[len(slots)-1].Started).Truncate(time.Second))}
	for i, w := range worst {
		bar := healthBar{X: fmt.Sprintf("%.2f%%", float64(i)/healthBins*100), Width: fmt.Sprintf("%.2f%%", 0.8/healthBins*100)}
		switch w {
		case asleep:
			continue
		case answered:
			bar.Class, bar.Y, bar.Height = "ok", 20, 12
		case partly:
			bar.Class, bar.Y, bar.Height = "part", 12, 20
		case failed:
			bar.Class, bar.Y, bar.Height = "err", 2, 30
		}
		h.Bars = append(h.Bars, bar)
	}
	h.About = healthWords(len(slots), n)
	h.label(begin, now)
	return h
}

func healthWords(all int, n map[verdict]int) string {
	words := []string{plural(n[answered], "slot was answered", "slots were answered")}
	if n[partly] > 0 {
		words = append(words, count(n[partly])+" in part")
	}
	if n[failed] > 0 {
		words = append(words, count(n[failed])+" failed")
	}
	if n[asleep] > 0 {
		words = append(words, count(n[asleep])+" had nothing to ask")
	}
	if n[answered] == all && all == 1 {
		return "The one slot was answered."
	}
	if n[answered] == all {
		return "All " + plural(all, "slot was answered.", "slots were answered.")
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
