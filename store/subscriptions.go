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

// EditSubscriptions applies all edits in order in one transaction. If it returns an
// error, none of them takes effect.
func (d *SubscriptionStore) EditSubscriptions(edits []*registry.SubscriptionEdit) error {
	_, err := d.execute(func(tx *bbolt.Tx) (command, error) {
		w := &subscriptionWrites{List: make([]subscriptionWrite, 0, len(edits))}
		for _, e := range edits {
			if err := w.edit(tx, e, d.disk.room); err != nil {
				return nil, fmt.Errorf("subscription %s: %w", e.ID, err)
			}
		}
		if len(w.List) == 0 {
			return nil, errUnchanged
		}
		return w, nil
	})
	return err
}

// A subscriptionWrite replaces a subscription, or deletes it if Value is nil.
type subscriptionWrite struct {
	ID    string
	Value json.RawMessage `json:",omitempty"`
	Seen  revision        // of what was edited
	Drop  []uint64        `json:",omitempty"` // messages that are deleted. All are, if the subscription is
}

// subscriptionWrites are the results of edits. Each id is in the list once. They are a command.
type subscriptionWrites struct {
	List []subscriptionWrite
	at   map[string]int // index in List, by id
}

// edit runs one edit and adds its result.
func (w *subscriptionWrites) edit(tx *bbolt.Tx, e *registry.SubscriptionEdit, room func() error) (err error) {
	i, again := w.at[e.ID]
	var v []byte
	if again {
		v = w.List[i].Value
	} else {
		v = tx.Bucket(bSubscriptions).Get([]byte(e.ID))
	}
	s := registry.Subscription{ID: e.ID}
	if v != nil {
		if s, err = parseSubscription(e.ID, v); err != nil {
			return err
		}
	}
	if e.Err = e.Do(&s, v != nil); e.Err != nil {
		return nil
	}
	s.ID = e.ID
	var drop []uint64
	if again {
		drop = w.List[i].Drop
	}
	drop = dropAlerts(tx, &s, drop)
	e.After = s
	var value []byte
	if s.State != registry.Ended && s.State != "" {
		if v == nil {
			if e.Err = room(); e.Err != nil {
				return nil
			}
		}
		if value, err = json.Marshal(s); err != nil {
			return err
		}
	}
	if again {
		w.List[i].Value, w.List[i].Drop = value, drop
		return nil
	}
	if w.at == nil {
		w.at = make(map[string]int, cap(w.List))
	}
	w.at[e.ID] = len(w.List)
	w.List = append(w.List, subscriptionWrite{ID: e.ID, Seen: revisionOf(v), Value: value, Drop: drop})
	return nil
}

func (w *subscriptionWrites) kind() byte { return kindSubscriptions }

func (w *subscriptionWrites) frees() bool {
	return !slices.ContainsFunc(w.List, func(x subscriptionWrite) bool { return x.Value != nil })
}

func (w *subscriptionWrites) Resume(tx *bbolt.Tx) error {
	for i := range w.List {
		if x := &w.List[i]; revisionOf(tx.Bucket(bSubscriptions).Get([]byte(x.ID))) != x.Seen {
			return errMoved
		}
	}
	return nil
}

func (w *subscriptionWrites) Apply(tx *bbolt.Tx) (err error) {
	b := tx.Bucket(bSubscriptions)
	for _, x := range w.List {
		if strings.HasPrefix(x.ID, registry.AlertPrefix) {
			err = x.dropAlerts(tx)
		}
		if x.Value == nil {
			err = errors.Join(err, b.Delete([]byte(x.ID)))
		} else {
			err = errors.Join(err, b.Put([]byte(x.ID), x.Value))
		}
		if err != nil {
			return fmt.Errorf("subscription %s: %w", x.ID, err)
		}
	}
	return nil
}

// dropAlerts deletes messages to a receiver of alerts, and stores how many bytes wait for it.
func (x *subscriptionWrite) dropAlerts(tx *bbolt.Tx) error {
	alerts, text := tx.Bucket(bAlerts), []byte(x.Value)
	var err error
	if text == nil {
		text = tx.Bucket(bSubscriptions).Get([]byte(x.ID))
		err = deleteUntil(alerts, alertKey(x.ID, 0), alertKey(x.ID, math.MaxUint64))
	}
	for _, seq := range x.Drop {
		err = errors.Join(err, alerts.Delete(alertKey(x.ID, seq)))
	}
	var s registry.Subscription
	if err != nil || json.Unmarshal(text, &s) != nil {
		return err // it is damaged, and dropped
	}
	if x.Value == nil {
		s.Bytes = 0
	}
	return countBytes(tx, &s)
}

func parseSubscription(id string, v []byte) (s registry.Subscription, err error) {
	if err := json.Unmarshal(v, &s); err != nil {
		return s, fmt.Errorf("subscription %s: %w: %w", id, ErrDamaged, err)
	}
	return s, nil
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
		if err := json.Unmarshal(v, &t); err != nil {
			return fmt.Errorf("token %s: %w: %w", name, ErrDamaged, err)
		}
		list = append(list, t)
		return nil
	})
	return list, err
}

// Newest implements web.TokenStore.
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

func (e *tokenEdit) touch(o *others) { o.tokens = true }

func (w *subscriptionWrites) touch(o *others) {
	for i := range w.List {
		o.subscriptions.add(w.List[i].ID)
	}
}

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
