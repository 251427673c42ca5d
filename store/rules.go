// This file stores alert rules, their states, and the messages about their alerts.

package store

import (
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/freshet/freshet/registry"
)

// The buckets of rules exist only in stores that have had a rule.
var (
	bRules      = []byte("rules")      // by id
	bRuleStates = []byte("rulestates") // by id
	bAlerts     = []byte("alerts")     // messages that are not delivered, by number
)

// A RuleStore stores alert rules. It implements alert.Store.
type RuleStore struct{ *boltFile }

// Rules returns all rules with their states, in id order, and all messages that are not
// delivered, oldest first.
func (d *RuleStore) Rules() (rules []registry.StoredRule, messages []registry.AlertMessage, err error) {
	err = d.view(func(tx *bbolt.Tx) error {
		if tx.Bucket(bRules) == nil {
			return nil
		}
		err := tx.Bucket(bRules).ForEach(func(id, v []byte) error {
			r, err := parseRule(id, v, tx.Bucket(bRuleStates).Get(id))
			rules = append(rules, r)
			return err
		})
		if err != nil {
			return err
		}
		return tx.Bucket(bAlerts).ForEach(func(k, v []byte) error {
			m, err := parseAlert(k, v)
			messages = append(messages, m)
			return err
		})
	})
	return rules, messages, err
}

func parseRule(id, v, state []byte) (r registry.StoredRule, err error) {
	if err := json.Unmarshal(v, &r.Rule); err != nil {
		return r, fmt.Errorf("rule %s: %w: %w", id, ErrDamaged, err)
	}
	if r.ID != string(id) {
		return r, fmt.Errorf("rule %s: %w: it is stored under another id", id, ErrDamaged)
	}
	if state != nil {
		if err := json.Unmarshal(state, &r.State); err != nil {
			return r, fmt.Errorf("state of rule %s: %w: %w", id, ErrDamaged, err)
		}
	}
	return r, nil
}

func parseAlert(k, v []byte) (m registry.AlertMessage, err error) {
	if err := json.Unmarshal(v, &m); err != nil {
		return m, fmt.Errorf("alert %d: %w: %w", number(k), ErrDamaged, err)
	}
	m.Seq = number(k)
	return m, nil
}

// EditRules makes all changes of an edit in one transaction, and numbers its messages.
func (d *RuleStore) EditRules(e *registry.RuleEdit) error {
	return d.edit(func(tx *bbolt.Tx) (frees bool, err error) {
		for _, name := range [][]byte{bRules, bRuleStates, bAlerts} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return false, err
			}
		}
		rules, states, alerts := tx.Bucket(bRules), tx.Bucket(bRuleStates), tx.Bucket(bAlerts)
		for i := range e.Put {
			if err := d.disk.room(); err != nil {
				return false, err
			}
			if err := putJSON(rules, []byte(e.Put[i].ID), &e.Put[i]); err != nil {
				return false, err
			}
		}
		for id, s := range e.States {
			if rules.Get([]byte(id)) == nil {
				continue
			}
			if err := putJSON(states, []byte(id), s); err != nil {
				return false, err
			}
		}
		for i := range e.Queue {
			if e.Queue[i].Seq, err = alerts.NextSequence(); err != nil {
				return false, err
			}
			if err := putJSON(alerts, key8(e.Queue[i].Seq), &e.Queue[i]); err != nil {
				return false, err
			}
		}
		for _, seq := range e.Sent {
			if err := alerts.Delete(key8(seq)); err != nil {
				return false, err
			}
		}
		for _, id := range e.Remove {
			if err := rules.Delete([]byte(id)); err != nil {
				return false, err
			}
			if err := states.Delete([]byte(id)); err != nil {
				return false, err
			}
		}
		return len(e.Put)+len(e.States)+len(e.Queue) == 0, nil
	})
}

func putJSON(b *bbolt.Bucket, key []byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(key, text)
}
