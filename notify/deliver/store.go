package deliver

import (
	"context"
	"errors"
	"fmt"

	"github.com/freshet/freshet/registry"
)

// A Store keeps subscriptions. Methods may be called concurrently; what they
// return is the caller's.
type Store interface {
	// Subscription returns one; it wraps registry.ErrNotFound.
	Subscription(id string) (registry.Subscription, error)
	// Subscriptions returns those after an id, in the order of ids, at most limit.
	Subscriptions(after string, limit int) ([]registry.Subscription, error)
	// EditSubscriptions makes all edits, in their order, in one durable
	// transaction. When it returns an error none of them is in effect; one that
	// wraps registry.ErrReadOnly passes, after any other nothing can be delivered.
	EditSubscriptions([]*registry.SubscriptionEdit) error
}

// A waitingEdit waits for its transaction.
type waitingEdit struct {
	registry.SubscriptionEdit
	done chan error
}

// mostEdits is how many edits share a transaction at most.
const mostEdits = 1000

// A writer groups edits of many goroutines into few transactions, since each
// costs the disk the same.
type writer struct {
	store Store
	in    chan *waitingEdit
	ended chan struct{}
	fail  func(error) // the store is broken
}

func newWriter(s Store, fail func(error)) *writer {
	return &writer{store: s, in: make(chan *waitingEdit, mostEdits), ended: make(chan struct{}), fail: fail}
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
	for len(batch) < mostEdits {
		select {
		case e := <-w.in:
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}

func (w *writer) write(batch []*waitingEdit) {
	edits := make([]*registry.SubscriptionEdit, len(batch))
	for i, e := range batch {
		edits[i] = &e.SubscriptionEdit
	}
	err := w.store.EditSubscriptions(edits)
	if err != nil && !errors.Is(err, registry.ErrReadOnly) {
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

// edit makes one edit and returns what it left.
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
