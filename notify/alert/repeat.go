// This file sends firing alerts again and again, to the receivers that expect it or ask for it.

package alert

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/rule"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

// idle returns what is to be done for a receiver without messages: repeat firing alerts, or forget
// a receiver that no rule has any more.
func (t Target) idle(s *registry.Subscription, k *kind, now time.Time) (deliver.Step, error) {
	t.mu.Lock()
	rules, fires := slices.Sorted(maps.Keys(t.receivers[s.ID])), false
	for _, x := range t.receivers[s.ID] {
		fires = fires || x.fires()
	}
	at, known := t.repeated[s.ID]
	t.mu.Unlock()
	if newest := s.Newest; len(rules)+len(s.Dead) == 0 {
		return deliver.Step{Edit: func(s *registry.Subscription) error {
			if s.Newest == newest { // else there are new messages
				s.State = registry.Ended
			}
			return nil
		}}, nil
	}
	if !fires && s.Reminded != nil {
		return deliver.Step{Edit: func(s *registry.Subscription) error { s.Reminded = nil; return nil }}, nil
	}
	if !fires || s.State != registry.Active {
		return deliver.Step{}, nil
	}
	if !k.repeats {
		return t.remind(s, k, rules, at, now)
	}
	if !known && s.LastDelivery != nil {
		at = *s.LastDelivery
	}
	if at = at.Add(t.opts.Resend); at.After(now) && at.Before(now.Add(2*t.opts.Resend)) {
		return deliver.Step{At: at}, nil
	}
	list, err := t.firing(rules, s.Dead)
	if err != nil || len(list) == 0 {
		return deliver.Step{At: now.Add(t.opts.Resend)}, err
	}
	id := s.ID
	return deliver.Step{Call: &deliver.Call{Since: now, Insist: true, Asks: true, Send: func(ctx context.Context,
		c *deliver.Client) (r deliver.Reply) {
		for part := range slices.Chunk(list, k.batch) {
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

// remind returns the call that tells again what fires, if the receiver asks for it: so long after it was first told that something
// fires, or was last reminded, whatever other messages it gets. The time is stored, so the next reminder comes in time after a
// restart. given is when the last one was given up, the zero time if none was.
func (t Target) remind(s *registry.Subscription, k *kind, rules []string, given, now time.Time) (deliver.Step, error) {
	quiet, err := service.ReadQuiet(s.To.Quiet)
	if err != nil || quiet.Repeat == 0 {
		return deliver.Step{}, nil // an edit refuses such settings
	}
	at := s.CreatedAt // a new receiver of what fires already is told at once
	if told := cmp.Or(s.Reminded, s.LastDelivery); told != nil {
		at = told.Add(quiet.Repeat)
	}
	if next := given.Add(quiet.Repeat); !given.IsZero() && next.After(at) {
		at = next
	}
	if at.After(now) && at.Before(now.Add(2*quiet.Repeat)) {
		return deliver.Step{At: at}, nil
	}
	if due := quiet.Next(at, now, s.Recent); due.After(now) {
		return deliver.Step{At: due}, nil
	}
	list, err := t.firing(rules, s.Dead)
	if err != nil || len(list) == 0 {
		return deliver.Step{At: now.Add(quiet.Repeat)}, err
	}
	for i := range list { // as long as it is not delivered it is the same message
		sum := sha256.Sum256(fmt.Appendln(nil, s.ID, about(&list[i]), at.UnixNano()))
		list[i].ID, list[i].At = "msg_"+hex.EncodeToString(sum[:13]), at
	}
	id := s.ID
	return deliver.Step{Call: &deliver.Call{Since: now, Send: t.allOf(k, s.To, list), Done: func(s *registry.Subscription,
		r deliver.Reply) error {
		switch r.Verdict {
		case deliver.Taken:
			told := r.At.UTC()
			s.Recent, s.Reminded = quiet.Sent(s.Recent, r.At), &told
		case deliver.Gone:
			deliver.Disable(s, deliver.GoneReason(r))
		case deliver.GiveUp:
			t.mu.Lock()
			t.repeated[id] = t.opts.Now()
			t.mu.Unlock()
		}
		return nil
	}}}, nil
}

// allOf sends alerts of which no message is stored.
func (t Target) allOf(k *kind, to *registry.Receiver, list []registry.AlertMessage) func(context.Context, *deliver.Client) deliver.Reply {
	return func(ctx context.Context, c *deliver.Client) (r deliver.Reply) {
		for len(list) > 0 {
			part := list[:min(len(list), k.batch)]
			send, err := k.send(&t.opts, to, part)
			if err != nil {
				return deliver.Reply{Err: err}
			}
			if r = send(ctx, c); !r.OK() {
				break
			}
			list = list[max(r.Settled, 1):]
		}
		r.Settled = 0
		return r
	}
}

// firing returns the firing alerts of rules, without those that the receiver refuses. They are those that
// the store knows: the end of one that fires in memory may have been sent already.
func (t Target) firing(rules []string, dead []registry.DeadLetter) (list []registry.AlertMessage, err error) {
	for _, id := range rules {
		r, err := t.opts.Store.Rule(id)
		if errors.Is(err, registry.ErrNotFound) {
			continue
		} else if err != nil {
			return nil, err
		}
		if q, err := t.opts.Query(r.Query); err != nil || t.opts.deprived(&r.Rule, &q) != nil {
			continue
		}
		common := rule.Common(r.Labels)
		for _, key := range slices.Sorted(maps.Keys(r.State.Alerts)) {
			a := r.State.Alerts[key]
			m := registry.AlertMessage{Rule: r.ID, Name: r.Name, Query: r.Query, State: a.State, Alert: key, Summary: a.Summary,
				StartsAt: a.FiredAt, Position: r.State.At}
			if a.State == registry.AlertFiring && !slices.ContainsFunc(dead,
				func(d registry.DeadLetter) bool { return d.Info == about(&m) && d.Type == "alert.firing" }) {
				m.Labels = rule.Complete(common, a.Labels)
				list = append(list, m)
			}
		}
	}
	return list, nil
}

// join makes the subscriptions of receivers that are sent firing alerts again: one that has joined a
// rule, and one whose subscription was dropped.
func (e *Engine) join() {
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
			to := x.To[slices.Index(x.receivers, id)]
			if k := kinds[to.Kind]; k != nil && (k.repeats || to.Repeat != "") && x.fires() {
				missing = append(missing, to.Subscription(x.Caller, e.opts.Now()))
				break
			}
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
	if !r.Refused() {
		return r
	}
	if r.Status = http.StatusOK; len(list) > 1 {
		for part := range slices.Chunk(list, (len(list)+1)/2) {
			if r = t.repeat(ctx, c, k, to, part); !r.OK() {
				return r
			}
		}
	}
	return r
}
