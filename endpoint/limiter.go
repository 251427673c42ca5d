package endpoint

import (
	"context"
	"sync"
	"time"
)

// A requestLimiter bounds the number of concurrent requests and the gap between
// them, for all callers. The scheduler plans within the same bounds.
type requestLimiter struct {
	places chan struct{}
	gap    time.Duration
	last   *lastRequest
}

// lastRequest records when the last request ended.
type lastRequest struct {
	mu    sync.Mutex
	ended time.Time
}

func newRequestLimiter(concurrency int, gap time.Duration) *requestLimiter {
	return &requestLimiter{places: make(chan struct{}, max(concurrency, 1)), gap: gap, last: &lastRequest{}}
}

// acquire waits until a request may be sent, or until ctx ends.
func (g *requestLimiter) acquire(ctx context.Context) error {
	select {
	case g.places <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	// Other requests may end while this one waits, which restarts the gap.
	for {
		d := g.remaining()
		if d <= 0 {
			break
		}
		if err := Sleep(ctx, d); err != nil {
			<-g.places
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		<-g.places
		return err
	}
	return nil
}

func (g *requestLimiter) remaining() time.Duration {
	g.last.mu.Lock()
	defer g.last.mu.Unlock()
	if g.gap <= 0 || g.last.ended.IsZero() {
		return 0
	}
	return g.gap - time.Since(g.last.ended)
}

// again waits until a request may be sent that follows the answer to another one of the same execution.
func (g *requestLimiter) again(ctx context.Context) error {
	g.end()
	for d := g.remaining(); d > 0; d = g.remaining() {
		if err := Sleep(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

// end records that a request has ended.
func (g *requestLimiter) end() {
	g.last.mu.Lock()
	defer g.last.mu.Unlock()
	g.last.ended = time.Now()
}

// release ends a request. sent reports whether it was sent at all.
func (g *requestLimiter) release(sent bool) {
	if sent {
		g.end()
	}
	<-g.places
}

// Sleep waits, or returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
