package live

import (
	"log/slog"
	"testing"
	"time"

	"github.com/freshet/freshet/notify"
)

// A beating is a protocol whose first heartbeat takes until tokens have changed.
type beating struct {
	c      *Conn
	begun  bool
	checks chan bool
}

func (b *beating) Take([]byte) error { return nil }

func (b *beating) Wait() {}

func (b *beating) Beat(now time.Time, check bool) (time.Time, error) {
	if !b.begun {
		b.begun = true
		b.c.mu.Lock()
		b.c.recheck = true // as checkToken does, whose timer this heartbeat sets
		b.c.mu.Unlock()
	} else {
		b.checks <- check
	}
	return time.Time{}, nil
}

// A heartbeat that ends while tokens change leaves the check that the change has asked for.
func TestBeatKeepsRecheck(t *testing.T) {
	c := &Conn{srv: New(notify.NewServer(notify.Options{Logger: slog.New(slog.DiscardHandler)})),
		ctx: t.Context(), nextPing: time.Now().Add(time.Hour)}
	b := &beating{c: c, checks: make(chan bool, 1)}
	c.protocol = b
	c.timer = time.AfterFunc(time.Hour, c.beat)
	c.beat()
	select {
	case check := <-b.checks:
		if !check {
			t.Error("the next heartbeat does not check the token")
		}
	case <-time.After(10 * time.Second):
		t.Error("the token is not checked before the next heartbeat")
	}
	c.timer.Stop()
}
