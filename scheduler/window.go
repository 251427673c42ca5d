package scheduler

import "time"

// Limits on how many changes share a commit, and on how long the first one waits for
// others: shortWindow, or up to longWindow while changes keep coming.
const (
	maxWindow   = 64
	shortWindow = 10 * time.Millisecond
	longWindow  = 8 * shortWindow
)

// A window collects changes, and ends of rounds, for a common commit. The first one
// opens it. It closes when it is full, when its time is over, or as soon as no
// execution is in progress: a change waits for others only while others can come.
type window struct {
	changes int
	until   time.Time     // valid while it is open
	lasts   time.Duration // the next one
}

func (w *window) open() bool { return w.changes > 0 }

func (w *window) add(now time.Time) {
	if !w.open() {
		w.until = now.Add(max(w.lasts, shortWindow))
	}
	w.changes++
}

// close empties the window. The next one lasts twice as long if this one held several
// changes.
func (w *window) close() {
	switch {
	case w.changes > 1:
		w.lasts = min(2*max(w.lasts, shortWindow), longWindow)
	case w.changes == 1:
		w.lasts = shortWindow
	}
	w.changes = 0
}
