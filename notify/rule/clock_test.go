// Tests of rules while the clock is set.

package rule_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A clock that is set neither lets an alert wait for ever, nor fires or resolves it twice.
func TestClockIsSet(t *testing.T) {
	for name, ahead := range map[string]func(minute int) time.Duration{
		"an hour back":                 func(m int) time.Duration { return -time.Duration(min(1, m/15)) * time.Hour },
		"a day ahead for one answer":   func(m int) time.Duration { return time.Duration(m%20/19) * 24 * time.Hour },
		"back and forth each minute":   func(m int) time.Duration { return time.Duration(m%2) * time.Hour },
		"an hour back every 7 minutes": func(m int) time.Duration { return -time.Duration(m/7) * time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			r := newReplay(t, registry.RuleSettings{When: "?value > 10", For: registry.Duration(2 * time.Minute),
				KeepFiringFor: registry.Duration(2 * time.Minute)}, diff.Select)
			ids := map[string]bool{}
			fired, resolved := 0, 0
			for m := range 200 {
				result := table(t, "a=1")
				if m/10%2 == 1 {
					result = table(t, "a=11")
				}
				for _, v := range r.feed(at(m).Add(ahead(m)), result) {
					id := fmt.Sprint(v.Alert, v.Firing, v.State)
					switch v.State {
					case registry.AlertFiring:
						fired++
					case registry.AlertResolved:
						resolved++
					default:
						continue
					}
					if ids[id] {
						t.Errorf("minute %d: %s twice", m, id)
					}
					ids[id] = true
					if v.Since.After(v.Time) {
						t.Errorf("minute %d: the alert began after %s", m, v.State)
					}
				}
				if m%10 == 9 { // long enough for either
					if want := m / 20; m%20 == 9 && resolved != want || m%20 == 19 && fired != want+1 {
						t.Errorf("minute %d: fired %d times, resolved %d times", m, fired, resolved)
					}
				}
			}
		})
	}
}
