package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// A SubscriptionStore stores subscriptions and their progress. It implements deliver.Store.
type SubscriptionStore struct{ *boltFile }

// Subscription returns one subscription. It wraps registry.ErrNotFound.
func (d *SubscriptionStore) Subscription(id string) (registry.Subscription, error) {
	return newest(d.boltFile, func(tx *bbolt.Tx) (registry.Subscription, error) {
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

// EditSubscription calls edit with a stored subscription, or with one that has only its id, and stores what edit
// makes of it. One that is left ended or without a state is deleted. edit may be called again with a subscription
// that has changed since, so it has no effect but on its argument. Its error undoes the edit.
func (d *SubscriptionStore) EditSubscription(id string, edit func(s *registry.Subscription,
	found bool) error) (registry.Subscription, error) {
	var e *subscriptionEdit
	_, err := d.execute(func(tx *bbolt.Tx) (command, error) {
		e = &subscriptionEdit{ID: id, now: registry.Subscription{ID: id}}
		return e, e.prepare(tx, edit, d.disk.room)
	})
	if err != nil {
		return registry.Subscription{}, err
	}
	return e.now, nil
}

// A subscriptionEdit replaces a subscription, or deletes it if Value is nil. It is a command.
type subscriptionEdit struct {
	ID    string
	Value json.RawMessage `json:",omitempty"`
	Seen  revision        // of what was edited
	Drop  []uint64        `json:",omitempty"` // messages that are deleted. All are, if the subscription is
	now   registry.Subscription
}

// prepare reads the subscription and edits it in memory.
func (e *subscriptionEdit) prepare(tx *bbolt.Tx, edit func(s *registry.Subscription, found bool) error, room func() error) (err error) {
	v := tx.Bucket(bSubscriptions).Get([]byte(e.ID))
	if e.Seen = revisionOf(v); v != nil {
		if e.now, err = parseSubscription(e.ID, v); err != nil {
			return err
		}
	}
	if err := edit(&e.now, v != nil); err != nil {
		return err
	}
	s := &e.now
	s.ID, e.Drop = e.ID, dropAlerts(tx, s)
	if s.State == registry.Ended || s.State == "" {
		return nil
	}
	if v == nil {
		if err := room(); err != nil {
			return err
		}
	}
	e.Value, err = json.Marshal(s)
	return err
}

func (e *subscriptionEdit) kind() byte { return kindSubscription }

func (e *subscriptionEdit) frees() bool { return e.Value == nil }

func (e *subscriptionEdit) Resume(tx *bbolt.Tx) error {
	if revisionOf(tx.Bucket(bSubscriptions).Get([]byte(e.ID))) != e.Seen {
		return errMoved
	}
	return nil
}

func (e *subscriptionEdit) Apply(tx *bbolt.Tx) (err error) {
	if strings.HasPrefix(e.ID, registry.AlertPrefix) {
		err = e.dropAlerts(tx)
	}
	b := tx.Bucket(bSubscriptions)
	if e.Value == nil {
		return errors.Join(err, b.Delete([]byte(e.ID)))
	}
	return errors.Join(err, b.Put([]byte(e.ID), e.Value))
}

func (e *subscriptionEdit) touch(o *Others) { o.Subscriptions.add(e.ID) }

// dropAlerts deletes messages to a receiver of alerts, and stores how many bytes wait for it.
func (e *subscriptionEdit) dropAlerts(tx *bbolt.Tx) error {
	alerts, text := tx.Bucket(bAlerts), []byte(e.Value)
	var err error
	if text == nil {
		text = tx.Bucket(bSubscriptions).Get([]byte(e.ID))
		err = deleteUntil(alerts, alertKey(e.ID, 0), alertKey(e.ID, math.MaxUint64))
	}
	for _, seq := range e.Drop {
		err = errors.Join(err, alerts.Delete(alertKey(e.ID, seq)))
	}
	var s registry.Subscription
	if err != nil || json.Unmarshal(text, &s) != nil {
		return err // it is damaged, and dropped
	}
	if e.Value == nil {
		s.Bytes = 0
	}
	return countBytes(tx, &s)
}

func parseSubscription(id string, v []byte) (s registry.Subscription, err error) {
	err = parseJSON(v, &s, "subscription "+id)
	return s, err
}

// A TokenStore stores the tokens of callers. It implements web.TokenStore.
type TokenStore struct{ *boltFile }

// Tokens returns all tokens, sorted by name.
func (d *TokenStore) Tokens() ([]registry.Token, error) {
	return fetch(d.boltFile, storedTokens)
}

func storedTokens(tx *bbolt.Tx) (list []registry.Token, err error) {
	err = tx.Bucket(bTokens).ForEach(func(name, v []byte) error {
		var t registry.Token
		if err := parseJSON(v, &t, "token "+string(name)); err != nil {
			return err
		}
		list = append(list, t)
		return nil
	})
	return list, err
}

func (d *TokenStore) Newest(stranger bool) ([]registry.Token, error) {
	confirm := d.Confirm
	if stranger {
		confirm = d.confirmStranger
	}
	if err := confirm(); err != nil {
		return nil, err
	}
	return d.Tokens()
}

// PutToken adds a token. It returns registry.ErrExists if the name is taken.
func (d *TokenStore) PutToken(t registry.Token) error {
	v, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("token %s: %w", t.Name, err)
	}
	if t.Name == "" {
		return fmt.Errorf("a token needs a name")
	}
	return d.put(tokenEdit{Name: t.Name, Value: v})
}

// DeleteToken removes a token. It wraps registry.ErrNotFound. With keeps, it wraps
// registry.ErrLastToken for the last one that lasts.
func (d *TokenStore) DeleteToken(name string, keeps bool) error {
	return d.put(tokenEdit{Name: name, Keeps: keeps})
}

func (d *TokenStore) put(e tokenEdit) error {
	_, err := d.execute(func(tx *bbolt.Tx) (command, error) { return &e, e.check(tx) })
	return err
}

// A tokenEdit adds a token, or deletes it if Value is nil. It is a command.
type tokenEdit struct {
	Name  string
	Value json.RawMessage `json:",omitempty"`
	Keeps bool            `json:",omitempty"` // refuse to delete the last token that lasts
}

func (e *tokenEdit) check(tx *bbolt.Tx) error {
	exists := e.Name != "" && tx.Bucket(bTokens).Get([]byte(e.Name)) != nil
	switch {
	case e.Value != nil && exists:
		return fmt.Errorf("token %s: %w", e.Name, registry.ErrExists)
	case e.Value == nil && !exists:
		return fmt.Errorf("token %s: %w", e.Name, registry.ErrNotFound)
	case !e.Keeps:
		return nil
	}
	list, err := storedTokens(tx)
	if err != nil {
		return err
	}
	lasting := slices.DeleteFunc(list, func(t registry.Token) bool { return !t.Lasts() })
	if len(lasting) == 1 && lasting[0].Name == e.Name {
		return fmt.Errorf("token %s: %w", e.Name, registry.ErrLastToken)
	}
	return nil
}

func (e *tokenEdit) kind() byte { return kindToken }

func (e *tokenEdit) frees() bool { return e.Value == nil }

func (e *tokenEdit) Resume(tx *bbolt.Tx) error {
	if e.check(tx) != nil {
		return errMoved
	}
	return nil
}

func (e *tokenEdit) Apply(tx *bbolt.Tx) error {
	if e.Value == nil {
		return tx.Bucket(bTokens).Delete([]byte(e.Name))
	}
	return tx.Bucket(bTokens).Put([]byte(e.Name), e.Value)
}

func (e *tokenEdit) touch(o *Others) { o.Tokens = true }

// Messages returns at most limit messages to a receiver after a number, oldest first, and fewer if
// they are large.
func (d *SubscriptionStore) Messages(receiver string, after uint64, limit int) (list []registry.AlertMessage, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		size, c := 0, tx.Bucket(bAlerts).Cursor()
		for k, v := c.Seek(alertKey(receiver, after+1)); bytes.HasPrefix(k, []byte(receiver)) && len(list) < limit &&
			size < alertPage; k, v = c.Next() {
			size += len(v)
			m, err := parseAlert(k, v)
			if err != nil {
				return err
			}
			list = append(list, m)
		}
		return nil
	})
	return list, err
}
