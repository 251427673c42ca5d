package ui

import (
	"slices"
	"sync"
	"time"
)

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
