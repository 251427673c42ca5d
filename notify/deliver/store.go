package deliver

import (
	"context"
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
	// EditSubscriptions applies all edits in order in one durable transaction. If it
	// returns an error, none of them takes effect. After one that wraps registry.ErrTooLarge,
	// fewer edits may fit. One that is registry.ErrUnusable ends the engine. Any other is
	// temporary.
	EditSubscriptions([]*registry.SubscriptionEdit) error
}

// A waitingEdit is an edit whose transaction has not committed yet.
type waitingEdit struct {
	registry.SubscriptionEdit
	done chan error
}

// maxEdits is the largest number of edits in a transaction.
const maxEdits = 1000

// A writer groups the edits of many goroutines into few transactions.
type writer struct {
	store Store
	in    chan *waitingEdit
	ended chan struct{}
	fail  func(error) // called when the store fails
}

func newWriter(s Store, fail func(error)) *writer {
	return &writer{store: s, in: make(chan *waitingEdit, maxEdits), ended: make(chan struct{}), fail: fail}
}

// run writes until ctx ends. Callers that wait for an edit then get ErrStopped.
func (w *writer) run(ctx context.Context) {
	defer close(w.ended)
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.in:
			w.write(w.gather(e))
		}
	}
}

func (w *writer) gather(first *waitingEdit) []*waitingEdit {
	batch := []*waitingEdit{first}
	for len(batch) < maxEdits {
		select {
		case e := <-w.in:
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}

// write writes edits in one transaction, or in several if they are too large for one.
func (w *writer) write(batch []*waitingEdit) {
	edits := make([]*registry.SubscriptionEdit, len(batch))
	for i, e := range batch {
		edits[i] = &e.SubscriptionEdit
	}
	err := w.store.EditSubscriptions(edits)
	if n := len(batch); errors.Is(err, registry.ErrTooLarge) && n > 1 {
		w.write(batch[:n/2])
		w.write(batch[n/2:])
		return
	}
	if errors.Is(err, registry.ErrUnusable) {
		w.fail(fmt.Errorf("keep subscriptions: %w", err))
	}
	for _, e := range batch {
		if err != nil {
			e.done <- err
		} else {
			e.done <- e.Err
		}
	}
}

// edit applies one edit and returns the subscription after it.
func (w *writer) edit(id string, do func(*registry.Subscription, bool) error) (registry.Subscription, error) {
	e := &waitingEdit{registry.SubscriptionEdit{ID: id, Do: do}, make(chan error, 1)}
	select {
	case w.in <- e:
	case <-w.ended:
		return registry.Subscription{}, ErrStopped
	}
	select {
	case err := <-e.done:
		return e.After, err
	case <-w.ended:
		select {
		case err := <-e.done:
			return e.After, err
		default:
			return registry.Subscription{}, ErrStopped
		}
	}
}
