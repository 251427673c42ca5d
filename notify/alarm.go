package notify

import "time"

// An alarm fires at the earliest of the times that it is set to.
type alarm struct {
	timer *time.Timer
	at    time.Time // zero: it has fired
}

func (a *alarm) set(at time.Time, fire func()) {
	a.at, a.timer = at, time.AfterFunc(time.Until(at), fire)
}

// earlier moves the alarm to at, unless it fires before that.
func (a *alarm) earlier(at time.Time) {
	if a.off() || at.Before(a.at) {
		a.at = at
		a.timer.Reset(time.Until(at))
	}
}

func (a *alarm) off() bool { return a.at.IsZero() }

// reset records that the alarm has fired or needs a new time.
func (a *alarm) reset() { a.at = time.Time{} }

func (a *alarm) stop() { a.timer.Stop() }
