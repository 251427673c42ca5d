package notify

import "time"

// An alarm fires at the earliest of the moments that it is set to.
type alarm struct {
	timer *time.Timer
	at    time.Time // zero: it has fired
}

func (a *alarm) set(at time.Time, fire func()) {
	a.at, a.timer = at, time.AfterFunc(time.Until(at), fire)
}

// earlier makes the alarm fire at a time unless it fires before.
func (a *alarm) earlier(at time.Time) {
	if a.off() || at.Before(a.at) {
		a.at = at
		a.timer.Reset(time.Until(at))
	}
}

func (a *alarm) off() bool { return a.at.IsZero() }

// reset notes that the alarm has fired, or is to be set to another moment.
func (a *alarm) reset() { a.at = time.Time{} }

func (a *alarm) stop() { a.timer.Stop() }
