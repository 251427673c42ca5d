// This file stores the messages about alerts, and the subscriptions of their receivers.

package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/registry"
)

const (
	mostAlerts     = 100_000  // messages to a receiver; the oldest are dropped beyond, as for the bytes
	mostAlertBytes = 64 << 20 // of messages to a receiver
	alertPage      = 1 << 20  // bytes of messages that are read at a time, and one message
)

// mostCallerBytes bounds the messages to all receivers of a caller. The oldest to the receiver with the
// most bytes are dropped beyond. Tests lower it.
var mostCallerBytes int64 = 256 << 20

// alertKey is the key of a message: the id of the receiver's subscription and the number.
func alertKey(receiver string, seq uint64) []byte { return append([]byte(receiver), key8(seq)...) }

func parseAlert(k, v []byte) (m registry.AlertMessage, err error) {
	if len(k) < 8 {
		return m, fmt.Errorf("alert %x: %w: its key is too short", k, ErrDamaged)
	}
	seq := number(k[len(k)-8:])
	if err := parseJSON(v, &m, fmt.Sprint("alert ", seq)); err != nil {
		return m, err
	}
	m.Seq = seq
	return m, nil
}

// queueAlerts numbers messages and stores each for its receivers, and makes the subscriptions of new ones.
func queueAlerts(tx *bbolt.Tx, list []registry.AlertMessage) (err error) {
	alerts := tx.Bucket(bAlerts)
	receivers, callers := map[string]*registry.Subscription{}, map[string]bool{}
	var to []registry.Receiver
	for _, m := range list {
		callers[m.Caller] = true
		if len(m.To) > 0 {
			to = m.To
		}
		m.To = nil
		for _, to := range to {
			s := receivers[to.ID(m.Caller)]
			if s == nil {
				if s, err = receiver(tx, to, &m); err != nil {
					return err
				}
				receivers[s.ID] = s
			}
			if m.Seq, err = alerts.NextSequence(); err != nil {
				return err
			}
			text, err := compactJSON(m)
			if err == nil {
				err = alerts.Put(alertKey(s.ID, m.Seq), text)
			}
			if err != nil {
				return err
			}
			s.Newest = m.Seq
			s.Stored++
			s.Bytes += int64(len(text))
		}
	}
	for _, s := range receivers {
		if err := dropOldest(alerts, s, fmt.Sprintf("more than %d messages or %d MiB wait", mostAlerts, mostAlertBytes>>20), func() bool {
			return s.Stored > mostAlerts || s.Bytes > mostAlertBytes
		}); err != nil {
			return err
		}
		if err := putReceiver(tx, s); err != nil {
			return err
		}
	}
	for _, caller := range slices.Sorted(maps.Keys(callers)) {
		if err := boundCaller(tx, caller); err != nil {
			return err
		}
	}
	return nil
}

// putReceiver stores the subscription of a receiver, and how many bytes of messages wait for it.
func putReceiver(tx *bbolt.Tx, s *registry.Subscription) error {
	return errors.Join(putJSON(tx.Bucket(bSubscriptions), []byte(s.ID), s), countBytes(tx, s))
}

// countBytes stores how many bytes of messages wait for a receiver.
func countBytes(tx *bbolt.Tx, s *registry.Subscription) error {
	b, key := tx.Bucket(bAlertBytes), []byte(s.Caller+"\x00"+s.ID)
	if s.Bytes <= 0 {
		return b.Delete(key)
	}
	return b.Put(key, key8(uint64(s.Bytes)))
}

// boundCaller drops the oldest messages to the receiver with the most bytes while those of a caller
// take too much.
func boundCaller(tx *bbolt.Tx, caller string) error {
	for {
		var total, most int64
		largest, prefix := "", []byte(caller+"\x00")
		c := tx.Bucket(bAlertBytes).Cursor()
		for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
			n := int64(number(v))
			if total += n; n > most {
				most, largest = n, string(k[len(prefix):])
			}
		}
		if total <= mostCallerBytes {
			return nil
		}
		s, err := parseSubscription(largest, tx.Bucket(bSubscriptions).Get([]byte(largest)))
		if err != nil {
			return err
		}
		why := fmt.Sprintf("more than %d MiB wait for the receivers of its token", mostCallerBytes>>20)
		err = dropOldest(tx.Bucket(bAlerts), &s, why, func() bool { return s.Stored > 0 && total-most+s.Bytes > mostCallerBytes })
		if err := errors.Join(err, putReceiver(tx, &s)); err != nil {
			return err
		}
		if max(0, s.Bytes) >= most { // else this would never end
			return fmt.Errorf("receiver %s: %w: its messages are counted wrongly: %s", largest, ErrDamaged, putBackup)
		}
	}
}

// receiver returns the subscription of a receiver of a message, or a new one.
func receiver(tx *bbolt.Tx, to registry.Receiver, m *registry.AlertMessage) (*registry.Subscription, error) {
	s := to.Subscription(m.Caller, m.At)
	if v := tx.Bucket(bSubscriptions).Get([]byte(s.ID)); v != nil {
		stored, err := parseSubscription(s.ID, v)
		return &stored, err
	}
	return &s, nil
}

// dropOldest gives up the oldest messages to a receiver while too many wait.
func dropOldest(alerts *bbolt.Bucket, s *registry.Subscription, why string, tooMany func() bool) error {
	c, prefix := alerts.Cursor(), []byte(s.ID)
	for k, v := c.Seek(prefix); tooMany() && bytes.HasPrefix(k, prefix); k, v = c.Seek(prefix) {
		s.Bytes -= int64(len(v))
		if err := c.Delete(); err != nil {
			return err
		}
		s.Stored--
		dead, seq := len(s.Dead), number(k[len(k)-8:])
		s.Dead = slices.DeleteFunc(s.Dead, func(d registry.DeadLetter) bool { return d.Seq == seq })
		if len(s.Dead) < dead { // it was given up before
			continue
		}
		s.GaveUp++
		s.LastError = why + ": the oldest were given up"
	}
	return nil
}

// dropAlerts counts the messages that an edit of a receiver deletes and returns their numbers. With a
// receiver that ends all go.
func dropAlerts(tx *bbolt.Tx, s *registry.Subscription) (list []uint64) {
	if s.Way != registry.Alerts || s.State == registry.Ended {
		return nil
	}
	for _, seq := range s.Drop {
		if v := tx.Bucket(bAlerts).Get(alertKey(s.ID, seq)); v != nil && !slices.Contains(list, seq) {
			list = append(list, seq)
			s.Stored, s.Bytes = s.Stored-1, s.Bytes-int64(len(v))
		}
	}
	return list
}
