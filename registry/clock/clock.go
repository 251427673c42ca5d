// Package clock tells a server what time it is, though somebody sets the clock of the machine.
package clock

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Patience is how long the machine's clock must show another time than the one expected until a server
// believes it.
const Patience = 2 * time.Minute

// A Clock tells the time by which a server counts, numbers and deletes. That is the time of the machine
// while it agrees with the time that has passed. If the machine's clock is set, the time goes on as if it
// were not, until the machine has shown the other time for Patience: a clock that is wrong for a moment,
// such as that of a virtual machine that resumes, ends no lease and deletes nothing. Sleep of the machine
// counts as time that passes where the system reports it; elsewhere it looks like a clock that was set.
//
// The times have a monotonic reading, so the difference of two of one process is the time that passed.
type Clock struct {
	// Machine reads the clock of the machine, whatever it shows.
	Machine  func() time.Time
	asleep   func() time.Duration
	patience time.Duration
	log      *slog.Logger

	mu    sync.Mutex
	last  time.Time     // the last reading that was believed
	slept time.Duration // asleep then
	odd   time.Duration // by how much the clock is ahead of what is expected, 0 if it agrees
	since time.Time     // when that began
}

// New returns a clock that reads the machine's by read, which is time.Now unless a test moves it.
func New(read func() time.Time, patience time.Duration, log *slog.Logger) *Clock {
	c := &Clock{Machine: read, patience: patience, log: log, last: read()}
	c.asleep = func() time.Duration {
		d, _ := Asleep()
		return d
	}
	c.slept = c.asleep()
	return c
}

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Machine()
	passed := now.Sub(c.last)  // by the monotonic readings
	far := now == now.Round(0) // after 2157, times have none: no machine that runs this is there
	if far {
		passed = time.Since(c.last)
	}
	odd := now.Round(0).Sub(c.last.Round(0)) - passed
	tolerance := time.Second + min(passed/8, 10*time.Second) // clocks that are adjusted gradually run faster or slower
	if odd.Abs() > time.Second {
		slept := (c.asleep() - c.slept).Truncate(time.Second) // what is reported varies by nanoseconds
		if odd, passed = odd-slept, passed+slept; odd.Abs() > tolerance && (!c.lasts(now, odd) || far) {
			return c.last.Add(passed)
		}
		c.slept += slept
	}
	if c.odd != 0 {
		c.log.Warn("the server goes by the clock of this machine again")
	}
	c.last, c.odd = now, 0
	return now
}

// lasts reports whether the clock has been ahead by about as much for long enough.
func (c *Clock) lasts(now time.Time, odd time.Duration) bool {
	if c.odd == 0 {
		c.log.Warn("the clock of this machine was set: the server goes by the time that passes, until the clock has shown the "+
			"other time for long enough",
			"ahead", odd.Round(time.Second), "for", c.patience)
	}
	if (odd - c.odd).Abs() > time.Second {
		c.since = now
	}
	c.odd = odd
	return now.Sub(c.since) >= c.patience
}

// Sleep waits until t, or returns the error of ctx.
func (c *Clock) Sleep(ctx context.Context, until time.Time) error {
	t := time.NewTimer(until.Sub(c.Now()))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
