package deliver

import (
	"errors"
	"fmt"

	"github.com/freshet/freshet/registry"
)

// A Store stores subscriptions. Methods may be called concurrently. The caller owns
// what they return.
type Store interface {
	// Subscription returns one; it wraps registry.ErrNotFound.
	Subscription(id string) (registry.Subscription, error)
	// Subscriptions returns at most limit subscriptions after an id, in id order.
	Subscriptions(after string, limit int) ([]registry.Subscription, error)
	// EditSubscription edits one in a durable transaction, which edits that come at the same time share, and
	// returns it. do receives the stored one, or one with only its id if found is false. A subscription that do
	// leaves ended or without a state is deleted. An error of do undoes the edit and is returned. do may be called
	// again with a subscription that has changed, so it has no effect but on its argument. An error that is
	// registry.ErrUnusable ends the engine. Any other is temporary.
	EditSubscription(id string, do func(s *registry.Subscription, found bool) error) (registry.Subscription, error)
}

// edit edits a stored subscription. It returns ErrStopped once the engine has ended.
func (e *Engine) edit(id string, do func(*registry.Subscription, bool) error) (registry.Subscription, error) {
	if e.ended.Load() {
		return registry.Subscription{}, ErrStopped
	}
	s, err := e.opts.Store.EditSubscription(id, do)
	if errors.Is(err, registry.ErrUnusable) {
		e.fail(fmt.Errorf("keep subscriptions: %w", err))
	}
	return s, err
}
