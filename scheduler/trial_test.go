package scheduler_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/schedulertest"
)

// An endpoint is left alone in a blackout time, by trial runs too.
func TestTrialInBlackout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := endpoint("never", 10*time.Second, "rr")
		e.Blackout = []registry.Blackout{{Start: "5 0 * * *", For: registry.Duration(3 * time.Minute)}}
		w := newWorld(t, e, same(t, time.Second))
		w.run()
		until(6 * time.Minute)
		q := schedulertest.Query(city, "trial")
		_, err := w.loop.Trial(t.Context(), &q)
		if !errors.Is(err, scheduler.ErrBlackout) || !strings.Contains(err.Error(), "until 2000-01-01T00:08:00Z") {
			t.Errorf("a trial run in a blackout: %v", err)
		}
		if n := w.service.ran(q.ID); n != 0 {
			t.Errorf("the endpoint was asked %d times in a blackout", n)
		}
		until(8 * time.Minute)
		if a, err := w.loop.Trial(t.Context(), &q); err != nil || a.Result == nil {
			t.Errorf("a trial run after the blackout: %+v, %v", a, err)
		}
		w.stop()
	})
}
