package bubble_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// Under the race detector these tests crash the process if they run on more than
// one thread; the first does so nearly always.
func TestTimersDueAtOnce(t *testing.T) {
	threads := runtime.GOMAXPROCS(0)
	for name, wait := range map[string]func(){
		"made": func() {
			done := make(chan struct{})
			time.AfterFunc(0, func() { close(done) })
			<-done
		},
		"read": func() {
			timer := time.NewTimer(time.Millisecond)
			time.Sleep(time.Millisecond)
			<-timer.C
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				bubble.Test(t, func(t *testing.T) {
					var all sync.WaitGroup
					for range 50 {
						all.Go(func() {
							for range 100 {
								wait()
							}
						})
					}
					all.Wait()
				})
			}
		})
	}
	if n := runtime.GOMAXPROCS(0); n != threads {
		t.Errorf("%d threads, before the bubbles %d", n, threads)
	}
}
