package store

import (
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/registry"
)

// A SubscriptionStore stores subscriptions and their progress. It implements deliver.Store.
type SubscriptionStore struct{ *boltFile }

// Subscription returns one subscription. It wraps registry.ErrNotFound.
func (d *SubscriptionStore) Subscription(id string) (registry.Subscription, error) {
	return fetch(d.boltFile, func(tx *bbolt.Tx) (registry.Subscription, error) {
		v := tx.Bucket(bSubscriptions).Get([]byte(id))
		if v == nil || id == "" {
			return registry.Subscription{}, fmt.Errorf("subscription %s: %w", id, registry.ErrNotFound)
		}
		return parseSubscription(id, v)
	})
}

// Subscriptions returns at most limit subscriptions after an id, in id order.
func (d *SubscriptionStore) Subscriptions(after string, limit int) (list []registry.Subscription, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bSubscriptions).Cursor()
		k, v := c.Seek([]byte(after))
		if k != nil && string(k) == after {
			k, v = c.Next()
		}
		for ; k != nil && len(list) < limit; k, v = c.Next() {
			s, err := parseSubscription(string(k), v)
			if err != nil {
				return err
			}
			list = append(list, s)
		}
		return nil
	})
	return list, err
}

// EditSubscriptions applies all edits in order in one transaction. If it returns an
// error, none of them takes effect.
func (d *SubscriptionStore) EditSubscriptions(edits []*registry.SubscriptionEdit) error {
	return d.edit(func(tx *bbolt.Tx) (frees bool, err error) {
		frees = true
		for _, e := range edits {
			kept, err := d.editSubscription(tx.Bucket(bSubscriptions), e)
			if err != nil {
				return false, fmt.Errorf("subscription %s: %w", e.ID, err)
			}
			frees = frees && !kept
		}
		return frees, nil
	})
}

// editSubscription applies one edit; kept reports whether it wrote a subscription.
func (d *SubscriptionStore) editSubscription(b *bbolt.Bucket, e *registry.SubscriptionEdit) (kept bool, err error) {
	s := registry.Subscription{ID: e.ID}
	v := b.Get([]byte(e.ID))
	if v != nil {
		if s, err = parseSubscription(e.ID, v); err != nil {
			return false, err
		}
	}
	if e.Err = e.Do(&s, v != nil); e.Err != nil {
		return false, nil
	}
	s.ID = e.ID
	e.After = s
	if s.State == registry.Ended || s.State == "" {
		return false, b.Delete([]byte(e.ID))
	}
	if v == nil {
		if e.Err = d.disk.room(); e.Err != nil {
			return false, nil
		}
	}
	if v, err = json.Marshal(s); err != nil {
		return false, err
	}
	return true, b.Put([]byte(e.ID), v)
}

func parseSubscription(id string, v []byte) (s registry.Subscription, err error) {
	if err := json.Unmarshal(v, &s); err != nil {
		return s, fmt.Errorf("subscription %s: %w: %w", id, ErrDamaged, err)
	}
	return s, nil
}
