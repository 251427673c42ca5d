// This file makes calls that somebody waits for.

package deliver

import (
	"context"
	"time"

	"golang.org/x/time/rate"

	"github.com/freshet/freshet/registry"
)

// What one caller may try, and how many callers are remembered.
const (
	tryEvery   = 5 * time.Second
	tryBurst   = 5
	mostTriers = 10_000
)

// Try makes a call at once that is about no subscription, such as a test message. A caller can try five
// times, and then every 5 seconds.
func (e *Engine) Try(ctx context.Context, caller string, send func(context.Context, *Client) Reply) (Reply, error) {
	now := e.opts.Now()
	e.mu.Lock()
	if len(e.triers) >= mostTriers {
		clear(e.triers)
	}
	limit := e.triers[caller]
	if limit == nil {
		limit = rate.NewLimiter(rate.Every(tryEvery), tryBurst)
		e.triers[caller] = limit
	}
	e.mu.Unlock()
	if !limit.AllowN(now, 1) {
		return Reply{}, &registry.Problem{Kind: registry.KindRate, Detail: "you have sent several test messages just now: wait 5 seconds"}
	}
	return send(ctx, e.client), nil
}
