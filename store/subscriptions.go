package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
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
		w := &subscriptionWrites{list: make([]subscriptionWrite, 0, len(edits))}
		for _, e := range edits {
			if err := w.edit(tx, e, d.disk.room); err != nil {
				return nil, fmt.Errorf("subscription %s: %w", e.ID, err)
			}
		}
		if len(w.list) == 0 {
			return nil, errUnchanged
		}
		return w, nil
	})
	return err
}

// A subscriptionWrite replaces a subscription, or deletes it if value is nil.
type subscriptionWrite struct {
	id    string
	old   []byte // what was edited, as stored
	value []byte
	seen  revision // in a decoded command: of what was edited
	drop  []string // keys of messages that are deleted with it
}

// subscriptionWrites are the results of edits. Each id is in the list once. They are a command.
type subscriptionWrites struct {
	list []subscriptionWrite
	at   map[string]int // index in list, by id
}

// edit runs one edit and adds its result.
func (w *subscriptionWrites) edit(tx *bbolt.Tx, e *registry.SubscriptionEdit, room func() error) (err error) {
	i, again := w.at[e.ID]
	var v []byte
	if again {
		v = w.list[i].value
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
	var drop []string
	if again {
		drop = w.list[i].drop
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
		w.list[i].value, w.list[i].drop = value, drop
		return nil
	}
	if w.at == nil {
		w.at = make(map[string]int, cap(w.list))
	}
	w.at[e.ID] = len(w.list)
	w.list = append(w.list, subscriptionWrite{id: e.ID, old: v, value: value, drop: drop})
	return nil
}

func (w *subscriptionWrites) kind() byte { return kindSubscriptions }

func (w *subscriptionWrites) frees() bool {
	return !slices.ContainsFunc(w.list, func(x subscriptionWrite) bool { return x.value != nil })
}

func (w *subscriptionWrites) append(b []byte) ([]byte, error) {
	b = binary.AppendUvarint(b, uint64(len(w.list)))
	for _, x := range w.list {
		seen := revisionOf(x.old)
		b = append(putText(b, x.id), seen[:]...)
		b = putTexts(putText(b, string(x.value)), x.drop)
	}
	return b, nil
}

func (w *subscriptionWrites) decode(in *scan) {
	w.list = make([]subscriptionWrite, in.count())
	for i := range w.list {
		x := &w.list[i]
		x.id, x.seen = in.text(), in.revision()
		if v := in.bytes(); len(v) > 0 {
			x.value = v
		}
		x.drop = in.texts()
	}
}

func (w *subscriptionWrites) Resume(tx *bbolt.Tx) error {
	for i := range w.list {
		if revisionOf(tx.Bucket(bSubscriptions).Get([]byte(w.list[i].id))) != w.list[i].seen {
			return errMoved
		}
	}
	return nil
}

func (w *subscriptionWrites) Apply(tx *bbolt.Tx) (err error) {
	b := tx.Bucket(bSubscriptions)
	for _, x := range w.list {
		if strings.HasPrefix(x.id, registry.AlertPrefix) {
			err = x.count(tx)
		}
		if x.value == nil {
			err = errors.Join(err, b.Delete([]byte(x.id)))
		} else {
			err = errors.Join(err, b.Put([]byte(x.id), x.value))
		}
		if err != nil {
			return fmt.Errorf("subscription %s: %w", x.id, err)
		}
		for _, k := range x.drop {
			if err := tx.Bucket(bAlerts).Delete([]byte(k)); err != nil {
				return err
			}
		}
	}
	return nil
}

// count stores how many bytes of messages wait for a receiver of alerts.
func (x *subscriptionWrite) count(tx *bbolt.Tx) error {
	text := x.value
	if text == nil {
		text = tx.Bucket(bSubscriptions).Get([]byte(x.id))
	}
	var s registry.Subscription
	if json.Unmarshal(text, &s) != nil {
		return nil // it is damaged, and dropped
	}
	if x.value == nil {
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
	return d.put(tokenEdit{name: t.Name, value: v})
}

// DeleteToken removes a token. It wraps registry.ErrNotFound. With keeps, it wraps
// registry.ErrLastToken for the last one that lasts.
func (d *TokenStore) DeleteToken(name string, keeps bool) error {
	return d.put(tokenEdit{name: name, keeps: keeps})
}

func (d *TokenStore) put(e tokenEdit) error {
	_, err := d.execute(func(tx *bbolt.Tx) (command, error) { return &e, e.check(tx) })
	return err
}

// A tokenEdit adds a token, or deletes it if value is nil. It is a command, of the kind kindRevoke
// if keeps is set.
type tokenEdit struct {
	name  string
	value []byte
	keeps bool // refuse to delete the last token that lasts
}

func (e *tokenEdit) check(tx *bbolt.Tx) error {
	exists := e.name != "" && tx.Bucket(bTokens).Get([]byte(e.name)) != nil
	switch {
	case e.value != nil && exists:
		return fmt.Errorf("token %s: %w", e.name, registry.ErrExists)
	case e.value == nil && !exists:
		return fmt.Errorf("token %s: %w", e.name, registry.ErrNotFound)
	case !e.keeps:
		return nil
	}
	list, err := storedTokens(tx)
	if err != nil {
		return err
	}
	lasting := slices.DeleteFunc(list, func(t registry.Token) bool { return !t.Lasts() })
	if len(lasting) == 1 && lasting[0].Name == e.name {
		return fmt.Errorf("token %s: %w", e.name, registry.ErrLastToken)
	}
	return nil
}

func (e *tokenEdit) kind() byte {
	if e.keeps {
		return kindRevoke
	}
	return kindToken
}

func (e *tokenEdit) frees() bool { return e.value == nil }

func (e *tokenEdit) append(b []byte) ([]byte, error) {
	return putText(putText(b, e.name), string(e.value)), nil
}

func (e *tokenEdit) decode(in *scan) {
	e.name = in.text()
	if v := in.bytes(); len(v) > 0 {
		e.value = v
	}
}

func (e *tokenEdit) Resume(tx *bbolt.Tx) error {
	if e.check(tx) != nil {
		return errMoved
	}
	return nil
}

func (e *tokenEdit) Apply(tx *bbolt.Tx) error {
	if e.value == nil {
		return tx.Bucket(bTokens).Delete([]byte(e.name))
	}
	return tx.Bucket(bTokens).Put([]byte(e.name), e.value)
}
