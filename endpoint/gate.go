package endpoint

import (
	"context"
	"sync"
	"time"
)

// A requestLimiter keeps the number of requests under way and the gap between them. The
// scheduler plans within the same bounds; this holds whoever calls.
type requestLimiter struct {
	places chan struct{}
	gap    time.Duration
	last   *lastRequest
}

// lastRequest is when the lastRequest request ended.
type lastRequest struct {
	mu    sync.Mutex
	ended time.Time
}

func newRequestLimiter(concurrency int, gap time.Duration) *requestLimiter {
	return &requestLimiter{places: make(chan struct{}, max(concurrency, 1)), gap: gap, last: &lastRequest{}}
}

// acquire waits for a place and for the gap, no longer than ctx.
func (g *requestLimiter) acquire(ctx context.Context) error {
	select {
	case g.places <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	// Others may end while we wait, which starts the gap anew.
	for {
		d := g.remaining()
		if d <= 0 {
			break
		}
		if err := sleep(ctx, d); err != nil {
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

// release frees the place. sent tells whether a request was made at all.
func (g *requestLimiter) release(sent bool) {
	if sent {
		g.last.mu.Lock()
		g.last.ended = time.Now()
		g.last.mu.Unlock()
	}
	<-g.places
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
