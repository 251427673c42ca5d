package scheduler

import "time"

// Limits on how many changes share a commit and how long the first one waits:
// shortWindow, or up to longWindow while changes keep coming.
const (
	maxWindow   = 64
	shortWindow = 10 * time.Millisecond
	longWindow  = 8 * shortWindow
)

// A window collects changes and ends of rounds for a common commit. The first one opens
// it. It closes when it is full, when its time is over, or when no execution is in
// progress, because then no other change can come.
type window struct {
	changes int
	until   time.Time     // valid while the window is open
	lasts   time.Duration // length of the next window
}

func (w *window) open() bool { return w.changes > 0 }

func (w *window) add(now time.Time) {
	if !w.open() {
		w.until = now.Add(max(w.lasts, shortWindow))
	}
	w.changes++
}

// close empties the window. If it held several changes, the next one lasts twice as
// long, and otherwise shortWindow.
func (w *window) close() {
	switch {
	case w.changes > 1:
		w.lasts = min(2*max(w.lasts, shortWindow), longWindow)
	case w.changes == 1:
		w.lasts = shortWindow
	}
	w.changes = 0
}
