// This file sends firing alerts again and again, to the receivers that expect it.

package alert

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/rule"
	"github.com/freshet/freshet/registry"
)

// idle returns what is to be done for a receiver without messages: repeat firing alerts, or forget
// a receiver that no rule has any more.
func (t Target) idle(s *registry.Subscription, k *kind, now time.Time) (deliver.Step, error) {
	firing, used := t.firing(s)
	if newest := s.Newest; !used && len(s.Dead) == 0 {
		return deliver.Step{Edit: func(s *registry.Subscription) error {
			if s.Newest == newest { // else there are new messages
				s.State = registry.Ended
			}
			return nil
		}}, nil
	}
	if !k.repeats || len(firing) == 0 || s.State != registry.Active {
		return deliver.Step{}, nil
	}
	t.mu.Lock()
	at, known := t.repeated[s.ID]
	t.mu.Unlock()
	if !known && s.LastDelivery != nil {
		at = *s.LastDelivery
	}
	if at = at.Add(t.opts.Resend); at.After(now) && at.Before(now.Add(2*t.opts.Resend)) {
		return deliver.Step{At: at}, nil
	}
	firing, err := t.confirmed(firing)
	if err != nil || len(firing) == 0 {
		return deliver.Step{}, err
	}
	id := s.ID
	return deliver.Step{Call: &deliver.Call{Since: now, Insist: true, Asks: true, Send: func(ctx context.Context, c *deliver.Client) (r deliver.Reply) {
		for part := range slices.Chunk(firing, k.batch) {
			if r = t.repeat(ctx, c, k, s.To, part); !r.OK() {
				return r
			}
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.repeated[id] = t.opts.Now()
		return r
	}}}, nil
}

// confirmed returns the alerts that still fire, as the store knows. The end of an alert may have been
// sent already that is not in memory yet.
func (t Target) confirmed(list []registry.AlertMessage) ([]registry.AlertMessage, error) {
	var r registry.StoredRule
	var err error
	list = slices.DeleteFunc(list, func(m registry.AlertMessage) bool {
		if m.Rule != r.ID && err == nil {
			r, err = t.opts.Store.Rule(m.Rule)
			if errors.Is(err, registry.ErrNotFound) {
				r, err = registry.StoredRule{Rule: registry.Rule{ID: m.Rule}}, nil
			}
		}
		a := r.State.Alerts[m.Alert]
		return a == nil || a.State != registry.AlertFiring
	})
	return list, err
}

// repeatAll makes the subscriptions of receivers that are sent firing alerts again: one that has
// joined a rule, and one whose subscription was dropped.
func (t Target) repeatAll() {
	e := t.Engine
	if _, held := e.opts.Lease(); !held {
		return
	}
	var missing []registry.Subscription
	e.mu.Lock()
	for id, rules := range e.receivers {
		if e.deliveries.Has(id) {
			continue
		}
		for _, x := range rules {
			if !x.fires() {
				continue
			}
			at := slices.IndexFunc(x.To, func(to registry.Receiver) bool { return to.ID(x.Caller) == id })
			if kinds[x.To[at].Kind].repeats {
				missing = append(missing, x.To[at].Subscription(x.Caller, e.opts.Now()))
			}
			break
		}
	}
	e.mu.Unlock()
	for i := range missing {
		_, err := e.deliveries.Edit(missing[i].ID, func(s *registry.Subscription, found bool) error {
			if !found {
				*s = missing[i]
			}
			return nil
		})
		if err != nil && !passing(err) && !errors.Is(err, deliver.ErrStopped) {
			e.opts.Logger.Error("a receiver is not sent the alerts that fire, it is tried again", "receiver", missing[i].ID, "error", err)
		}
	}
}

func (x *entry) fires() bool {
	for _, a := range x.State.Alerts {
		if a.State == registry.AlertFiring {
			return true
		}
	}
	return false
}

// repeat sends firing alerts again. Where one is refused, it sends the others.
func (t Target) repeat(ctx context.Context, c *deliver.Client, k *kind, to *registry.Receiver, list []registry.AlertMessage) deliver.Reply {
	send, err := k.send(&t.opts, to, list)
	if err != nil {
		return deliver.Reply{Err: err}
	}
	r := send(ctx, c)
	switch n := len(list); {
	case !r.Refused():
		return r
	case n == 1:
		r.Status = 200
		return r
	default:
		if r := t.repeat(ctx, c, k, to, list[:n/2]); !r.OK() {
			return r
		}
		return t.repeat(ctx, c, k, to, list[n/2:])
	}
}

// firing returns the firing alerts of a receiver's rules, without those that it refuses, and
// whether it has any rules.
func (t Target) firing(s *registry.Subscription) (list []registry.AlertMessage, used bool) {
	t.mu.Lock()
	rules := slices.Collect(maps.Values(t.receivers[s.ID]))
	t.mu.Unlock()
	slices.SortFunc(rules, func(a, b *entry) int { return strings.Compare(a.ID, b.ID) })
	for _, x := range rules {
		q, err := t.opts.Query(x.Query)
		if err != nil || t.opts.deprived(x, &q) != nil {
			continue
		}
		common := rule.Common(x.Labels)
		t.mu.Lock()
		for _, key := range slices.Sorted(maps.Keys(x.State.Alerts)) {
			if a := x.State.Alerts[key]; a.State == registry.AlertFiring {
				list = append(list, registry.AlertMessage{Rule: x.ID, Name: x.Name, Query: x.Query, State: a.State, Alert: key, Labels: rule.Complete(common, a.Labels), Summary: a.Summary, StartsAt: a.FiredAt})
			}
		}
		t.mu.Unlock()
	}
	return slices.DeleteFunc(list, func(m registry.AlertMessage) bool {
		return slices.ContainsFunc(s.Dead, func(d registry.DeadLetter) bool { return d.Info == about(&m) && d.Type == "alert.firing" })
	}), len(rules) > 0
}
