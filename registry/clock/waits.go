package clock

import (
	"context"
	"sync"
	"time"
)

// Waits adds up the time in which an execution waits for the gap between two requests, which is no time of its query. An executor
// finds it in its context. A nil *Waits is always zero.
type Waits struct {
	mu    sync.Mutex
	sum   time.Duration
	since time.Time // when the present wait began, zero if there is none
}

type waitsKey struct{}

// In returns a context for one execution, which adds its waits to w.
func (w *Waits) In(ctx context.Context) context.Context { return context.WithValue(ctx, waitsKey{}, w) }

// WaitsOf returns what the context of an execution has, and otherwise a new one.
func WaitsOf(ctx context.Context) *Waits {
	if w, ok := ctx.Value(waitsKey{}).(*Waits); ok {
		return w
	}
	return &Waits{}
}

// During adds the time that wait takes.
func (w *Waits) During(wait func() error) error {
	w.mu.Lock()
	w.since = time.Now()
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.sum, w.since = w.sum+time.Since(w.since), time.Time{}
	}()
	return wait()
}

// Total returns the sum so far, the present wait included.
func (w *Waits) Total() time.Duration {
	if w == nil {
		return 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		return w.sum
	}
	return w.sum + time.Since(w.since)
}
