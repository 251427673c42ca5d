package clock_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/freshet/freshet/registry/clock"
	"github.com/freshet/freshet/registry/clock/clocktest"
)

const day = 24 * time.Hour

// wall returns the time between two times as clocks on the wall show it.
func wall(from, to time.Time) time.Duration { return to.Round(0).Sub(from.Round(0)) }

// near reports whether a duration is as long as it should be, or longer by what a test takes.
func near(d, want time.Duration) bool { return d >= want && d < want+time.Minute }

// The helper of the tests sets what a machine's clock shows, and nothing else.
func TestMachine(t *testing.T) {
	var m clocktest.Machine
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour, 40 * day} {
		m.Set(ahead)
		before := time.Now()
		if now := m.Now(); !near(now.Sub(before), 0) || !near(wall(before, now), ahead) {
			t.Errorf("%v ahead: %v later the clock shows a time that is %v later", ahead, now.Sub(before), wall(before, now))
		}
	}
}

// Time passes as it does, whatever the clock of the machine shows for a while.
func TestTimePasses(t *testing.T) {
	for name, ahead := range map[string]func(second int) time.Duration{
		"a day ahead for a second":   func(s int) time.Duration { return time.Duration(s%100/99) * day },
		"40 days ahead for 4 s":      func(s int) time.Duration { return time.Duration(s%100/96) * 40 * day },
		"back and forth each minute": func(s int) time.Duration { return time.Duration(s/60%2) * time.Hour },
		"another time at each look":  func(s int) time.Duration { return time.Duration(s*s%977) * time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			var m clocktest.Machine
			c := clock.New(m.Now, clock.Patience, slog.New(slog.DiscardHandler))
			began := c.Now()
			for s := range 1000 {
				m.Set(ahead(s))
				now, passed := c.Now(), time.Duration(s)*time.Second
				if !near(now.Sub(began), passed) || !near(wall(began, now), passed) {
					t.Fatalf("second %d: it is %v", s, now)
				}
				m.Pass(time.Second)
			}
		})
	}
}

// A clock that was corrected is believed in the end, and one that is adjusted gradually always.
func TestCorrectedClock(t *testing.T) {
	var m clocktest.Machine
	c := clock.New(m.Now, clock.Patience, slog.New(slog.DiscardHandler))
	for _, ahead := range []time.Duration{-time.Hour, 0, 300 * day} {
		m.Set(ahead)
		was := c.Now()
		m.Pass(clock.Patience / 2)
		if now := c.Now(); !near(wall(was, now), clock.Patience/2) {
			t.Errorf("%v ahead: it was believed after %v", ahead, now.Sub(was))
		}
		m.Pass(clock.Patience / 2)
		if now := c.Now(); !near(wall(now, m.Now()), 0) {
			t.Errorf("%v ahead: it is %v", ahead, now)
		}
	}
	for s := range time.Duration(100) { // a tenth faster
		m.Set(300*day + s*time.Second)
		if now := c.Now(); !near(wall(now, m.Now()), 0) {
			t.Fatalf("second %d: it is %v", s, now)
		}
		m.Pass(10 * time.Second)
	}
}

// Sleep ends when the time has come, whatever the machine shows.
func TestSleep(t *testing.T) {
	var m clocktest.Machine
	c := clock.New(m.Now, clock.Patience, slog.New(slog.DiscardHandler))
	until := c.Now().Round(0).Add(10 * time.Millisecond)
	m.Set(-time.Hour)
	if err := c.Sleep(t.Context(), until); err != nil || c.Now().Before(until) {
		t.Errorf("%v at %v, before %v", err, c.Now(), until)
	}
}
