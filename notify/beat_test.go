package notify

import (
	"testing"
	"time"
)

// A heartbeat that ends while tokens change leaves the check that the change has asked for.
func TestBeatKeepsRecheck(t *testing.T) {
	checks := make(chan struct{}, 1)
	c := &liveConn{login: login{ready: true}, ctx: t.Context(), nextBeat: time.Now().Add(time.Hour)}
	c.timer = time.AfterFunc(time.Hour, func() { checks <- struct{}{} })
	c.mu.Lock()
	c.changed.Store(true)
	c.timer.Reset(0) // as recheck does, while beat waits for the lock
	c.setTimer()     // as beat does
	c.mu.Unlock()
	select {
	case <-checks:
	case <-time.After(10 * time.Second):
		t.Error("the token is not checked before the next heartbeat")
	}
}
