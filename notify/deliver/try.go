package deliver

import (
	"context"
	"time"

	"github.com/freshet/freshet/registry"
)

// What one caller may try.
const (
	tryEvery = 5 * time.Second
	tryBurst = 5
)

// Try makes a call at once that is about no subscription, such as a test message. A caller can try five
// times, and then every 5 seconds.
func (e *Engine) Try(ctx context.Context, caller string, send func(context.Context, *Client) Reply) (Reply, error) {
	if !e.tries.Allow(caller, e.opts.Now()) {
		return Reply{}, &registry.Problem{Kind: registry.KindRate, Detail: "you have sent several test messages just now: wait 5 seconds"}
	}
	return send(ctx, e.client), nil
}
