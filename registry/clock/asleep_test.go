package clock

import (
	"log/slog"
	"testing"
	"time"

	"github.com/freshet/freshet/registry/clock/clocktest"
)

// Each suspension of the machine counts once, however short those before it were.
func TestSuspensions(t *testing.T) {
	var m clocktest.Machine
	var slept time.Duration
	c := New(m.Now, Patience, slog.New(slog.DiscardHandler))
	c.asleep, c.slept = func() time.Duration { return slept }, 0
	for n := range 101 {
		d := 5 * time.Second
		if n%50 == 49 {
			d = time.Hour
		}
		slept += d
		m.Set(slept)
		if off := c.Now().Round(0).Sub(m.Now().Round(0)); off.Abs() > time.Minute {
			t.Fatalf("after suspension %d the time is off by %v", n, off)
		}
		m.Pass(time.Minute)
	}
}

// A clock of a year for which times have no monotonic reading is not believed, and time passes meanwhile.
func TestFarYears(t *testing.T) {
	far := false
	c := New(func() time.Time {
		if far {
			return time.Now().Round(0).AddDate(200, 0, 0)
		}
		return time.Now()
	}, time.Millisecond, slog.New(slog.DiscardHandler))
	began := c.Now()
	far = true
	for range 3 {
		time.Sleep(5 * time.Millisecond)
		if passed := c.Now().Sub(began); passed < 5*time.Millisecond || passed > time.Minute {
			t.Fatalf("%v have passed", passed)
		}
	}
	far = false
	if passed := c.Now().Round(0).Sub(began.Round(0)); passed > time.Minute {
		t.Errorf("afterwards %v have passed", passed)
	}
}
