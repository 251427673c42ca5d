package scheduler

import (
	"time"

	"github.com/freshet/freshet/registry"
)

// Reconfigure changes the endpoint's settings, and leaves its executor.
func (l *Loop) Reconfigure(e registry.Endpoint) error { return l.reconfigure(e, nil) }

// Charge makes the next slots pay d, each at most a whole budget after its repayment of
// a debt.
func (l *Loop) Charge(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.account.charge += max(0, d)
}
