package notify

import (
	"testing"

	"github.com/freshet/freshet/scheduler/schedulertest/leak"
)

type taskFunc func() bool

func (f taskFunc) work() bool { return f() }

// A task that hands off before it waits delays no other task, and the number of
// workers stays limited.
func TestSendersGoOn(t *testing.T) {
	defer leak.Check(t)
	s := &workerPool{limit: 1}
	waiting, client := make(chan struct{}), make(chan struct{})
	s.push(taskFunc(func() bool {
		s.handOff()
		close(waiting)
		<-client
		return true
	}))
	<-waiting
	const n = 5000
	order := make(chan int, n)
	for i := range n {
		s.push(taskFunc(func() bool {
			order <- i
			return false
		}))
	}
	for i := range n {
		if got := <-order; got != i {
			t.Fatalf("task %d was done as number %d", got, i)
		}
	}
	close(client)
	s.close()
	s.push(taskFunc(func() bool { t.Error("a task was done after close"); return false }))
	if s.active != 0 || s.first != len(s.queue) {
		t.Errorf("%d senders are left, and %d tasks", s.active, len(s.queue)-s.first)
	}
}
