package loan

import "testing"

// A timer that fires while a write ends does not drop what the next write relies on.
func TestTimerAfterTheWrite(t *testing.T) {
	var l Loan[int]
	l.Put(7)
	l.Lend()
	l.Back()
	l.expire() // as the timer does that could not be stopped any more
	if v, ok := l.Get(); v != 7 || !ok {
		t.Error("the value is dropped after the write")
	}
	l.Lend()
	l.expire()
	if _, ok := l.Get(); ok {
		t.Error("the value is kept during a write that lasts")
	}
}
