package loan

import (
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// A write that lasts drops the value, and no other does.
func TestDuring(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var l Loan[int]
		l.Put(new(7))
		l.During(func() { time.Sleep(Lag / 2) })
		time.Sleep(2 * Lag)
		if v := l.Get(); v == nil || *v != 7 {
			t.Error("the value is dropped after a quick write")
		}
		l.During(func() {
			time.Sleep(2 * Lag)
			if l.Get() != nil {
				t.Error("the value is kept during a write that lasts")
			}
		})
	})
}
