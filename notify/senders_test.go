package notify

import (
	"testing"

	"go.uber.org/goleak"
)

type jobFunc func() bool

func (f jobFunc) work() bool { return f() }

// A job that waits for its client holds nobody up once it has detached, and the
// senders are never more than they may be.
func TestSendersGoOn(t *testing.T) {
	defer goleak.VerifyNone(t)
	s := &senders{most: 1}
	waiting, client := make(chan struct{}), make(chan struct{})
	s.push(jobFunc(func() bool {
		s.detach()
		close(waiting)
		<-client
		return true
	}))
	<-waiting
	const n = 5000
	order := make(chan int, n)
	for i := range n {
		s.push(jobFunc(func() bool {
			order <- i
			return false
		}))
	}
	for i := range n {
		if got := <-order; got != i {
			t.Fatalf("job %d was done as number %d", got, i)
		}
	}
	close(client)
	s.close()
	s.push(jobFunc(func() bool { t.Error("a job was done after close"); return false }))
	if s.active != 0 || s.first != len(s.queue) {
		t.Errorf("%d senders are left, and %d jobs", s.active, len(s.queue)-s.first)
	}
}
