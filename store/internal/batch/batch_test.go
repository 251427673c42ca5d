package batch

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// After a run that took long, such as one that waited for a journal in vain, no caller waits long for others.
func TestGathersBriefly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var q Queue[int]
		run := func(d time.Duration) func() {
			return func() {
				q.Take(math.MaxInt)
				time.Sleep(d)
			}
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() { q.Do(0, run(10*time.Second)) })
			synctest.Wait()
		}
		all.Wait()
		began := time.Now()
		q.Do(0, run(0))
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("one caller waited %v for others", waited)
		}
	})
}
