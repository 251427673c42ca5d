// This file stores the messages about alerts, and the subscriptions of their receivers.

package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/registry"
)

// mostAlerts and mostAlertBytes bound the messages to a receiver. The oldest are dropped beyond.
const (
	mostAlerts     = 100_000
	mostAlertBytes = 64 << 20
	alertPage      = 1 << 20 // bytes of messages that are read at a time, and one message
)

// alertKey is the key of a message: the id of the receiver's subscription and the number.
func alertKey(receiver string, seq uint64) []byte { return append([]byte(receiver), key8(seq)...) }

func parseAlert(k, v []byte) (m registry.AlertMessage, err error) {
	if len(k) < 8 {
		return m, fmt.Errorf("alert %x: %w: its key is too short", k, ErrDamaged)
	}
	seq := number(k[len(k)-8:])
	if err := json.Unmarshal(v, &m); err != nil {
		return m, fmt.Errorf("alert %d: %w: %w", seq, ErrDamaged, err)
	}
	m.Seq = seq
	return m, nil
}

// queueAlerts numbers messages and stores them, and makes the subscriptions of new receivers.
func queueAlerts(tx *bbolt.Tx, list []registry.AlertMessage) (err error) {
	alerts := tx.Bucket(bAlerts)
	receivers := map[string]*registry.Subscription{}
	var order []string
	for i := range list {
		m := &list[i]
		id := m.To.ID(m.Caller)
		if receivers[id] == nil {
			if receivers[id], err = receiver(tx, id, m); err != nil {
				return err
			}
			order = append(order, id)
		}
		if m.Seq, err = alerts.NextSequence(); err != nil {
			return err
		}
		text, err := compactJSON(m)
		if err == nil {
			err = alerts.Put(alertKey(id, m.Seq), text)
		}
		if err != nil {
			return err
		}
		receivers[id].Newest = m.Seq
		receivers[id].Stored++
		receivers[id].Bytes += int64(len(text))
	}
	for _, id := range order {
		s := receivers[id]
		if err := dropOldest(alerts, s); err != nil {
			return err
		}
		if err := putJSON(tx.Bucket(bSubscriptions), []byte(id), s); err != nil {
			return err
		}
	}
	return nil
}

// receiver returns the subscription of a message's receiver, or a new one.
func receiver(tx *bbolt.Tx, id string, m *registry.AlertMessage) (*registry.Subscription, error) {
	if v := tx.Bucket(bSubscriptions).Get([]byte(id)); v != nil {
		s, err := parseSubscription(id, v)
		return &s, err
	}
	s := m.To.Subscription(m.Caller, m.At)
	return &s, nil
}

// dropOldest gives up the oldest messages of a receiver that has too many.
func dropOldest(alerts *bbolt.Bucket, s *registry.Subscription) error {
	c := alerts.Cursor()
	for k, v := c.Seek([]byte(s.ID)); (s.Stored > mostAlerts || s.Bytes > mostAlertBytes) && bytes.HasPrefix(k, []byte(s.ID)); k, v = c.Seek([]byte(s.ID)) {
		s.Bytes -= int64(len(v))
		if err := c.Delete(); err != nil {
			return err
		}
		s.Stored--
		s.GaveUp++
		s.LastError = fmt.Sprintf("more than %d messages or %d MiB wait: the oldest were given up", mostAlerts, mostAlertBytes>>20)
	}
	return nil
}

// Messages returns at most limit messages to a receiver after a number, oldest first, and fewer if
// they are large.
func (d *SubscriptionStore) Messages(receiver string, after uint64, limit int) (list []registry.AlertMessage, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		if tx.Bucket(bAlerts) == nil {
			return nil
		}
		size, c := 0, tx.Bucket(bAlerts).Cursor()
		for k, v := c.Seek(alertKey(receiver, after+1)); bytes.HasPrefix(k, []byte(receiver)) && len(list) < limit && size < alertPage; k, v = c.Next() {
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

// dropAlerts counts the messages that an edit of a receiver deletes and adds their keys. A
// receiver that ends loses all its messages.
func dropAlerts(tx *bbolt.Tx, s *registry.Subscription, keys []string) []string {
	alerts := tx.Bucket(bAlerts)
	if s.Way != registry.Alerts || alerts == nil {
		return keys
	}
	if s.State == registry.Ended {
		c := alerts.Cursor()
		for k, _ := c.Seek([]byte(s.ID)); bytes.HasPrefix(k, []byte(s.ID)); k, _ = c.Next() {
			keys = append(keys, string(k))
		}
		return keys
	}
	for _, seq := range s.Drop {
		k := alertKey(s.ID, seq)
		if v := alerts.Get(k); v != nil && !slices.Contains(keys, string(k)) {
			keys = append(keys, string(k))
			s.Stored, s.Bytes = s.Stored-1, s.Bytes-int64(len(v))
		}
	}
	return keys
}
