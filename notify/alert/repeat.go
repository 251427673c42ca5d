// This file tells again what still fires, to the receivers that expect it or ask for it.

package alert

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

// idle returns what is to be done for a receiver without messages: tell again what fires, or forget
// a receiver that no rule has any more.
func (t Target) idle(s *registry.Subscription, k *kind, now time.Time) (deliver.Step, error) {
	t.mu.Lock()
	rules, fires := slices.Sorted(maps.Keys(t.receivers[s.ID])), false
	for _, x := range t.receivers[s.ID] {
		fires = fires || x.fires()
	}
	t.mu.Unlock()
	newest := s.Newest
	switch {
	case len(rules)+len(s.Dead) == 0:
		return deliver.Step{Edit: func(s *registry.Subscription) {
			if s.Newest == newest { // else there are new messages
				s.State = registry.Ended
			}
		}}, nil
	case !fires && s.Reminded != nil:
		return deliver.Step{Edit: func(s *registry.Subscription) { s.Reminded, s.RemindedTo = nil, "" }}, nil
	case !fires || s.State != registry.Active:
		return deliver.Step{}, nil
	}
	return t.remind(s, k, rules, now)
}

// pause is how long after a receiver was told that something fires it is told again, 0 for never.
func (o *Options) pause(k *kind, quiet service.Quiet) time.Duration {
	if k.repeats {
		return o.Resend
	}
	return quiet.Repeat
}

// remind returns the call that tells again what fires: so long after the receiver was first told that something fires, or
// was last reminded, whatever other messages it gets. The time is stored, and up to which alert it was told, so the next
// reminder comes in time after a restart, and one that was under way comes again with the same ids.
func (t Target) remind(s *registry.Subscription, k *kind, rules []string, now time.Time) (deliver.Step, error) {
	quiet, err := service.ReadQuiet(s.To.Quiet)
	pause := t.opts.pause(k, quiet)
	if err != nil || pause == 0 {
		return deliver.Step{}, nil // an edit refuses such settings
	}
	at := s.CreatedAt // a new receiver of what fires already is told at once
	if told := cmp.Or(s.Reminded, s.LastDelivery); told != nil {
		at = told.Add(pause)
	}
	if at.After(now) && at.Before(now.Add(2*pause)) {
		return deliver.Step{At: at}, nil
	}
	if due := quiet.Next(at, now, s.Recent); due.After(now) {
		return deliver.Step{At: due}, nil
	}
	list, err := t.firing(rules, s.Dead)
	if err != nil || len(list) == 0 {
		return deliver.Step{At: now.Add(pause)}, err
	}
	list = slices.DeleteFunc(list, func(m registry.AlertMessage) bool { return about(&m) <= s.RemindedTo })
	if len(list) == 0 { // the others have ended meanwhile
		return deliver.Step{Edit: func(s *registry.Subscription) { reminded(s, now, "") }}, nil
	}
	for i := range list { // as long as it is not delivered it is the same message
		sum := sha256.Sum256(fmt.Appendln(nil, s.ID, about(&list[i]), at.UnixNano()))
		list[i].ID, list[i].At = "msg_"+hex.EncodeToString(sum[:13]), at
	}
	part := list[:min(len(list), k.size(s))]
	send, err := k.send(&t.opts, s.To, part)
	if err != nil {
		return deliver.Step{}, err
	}
	return deliver.Step{Call: &deliver.Call{Since: at, Asks: k.repeats, Send: send, Done: func(s *registry.Subscription, r deliver.Reply) {
		over := k.countDelivered(part, r)
		switch {
		case k.resize(s, len(part), r):
		case r.Verdict == deliver.Taken:
			s.Recent = quiet.Sent(s.Recent, r.At)
		case r.Verdict == deliver.Gone:
			deliver.Disable(s, deliver.GoneReason(r))
		case r.Refused() && (r.Verdict == deliver.GiveUp || k.repeats):
			over++
			s.NextTry = nil
		case r.Verdict == deliver.GiveUp:
			over = len(list)
		}
		switch {
		case over == len(list):
			reminded(s, r.At, "")
		case over > 0:
			reminded(s, at.Add(-pause), about(&list[over-1])) // the rest is due
		}
	}}}, nil
}

// reminded records when a receiver was told what fires, and up to which alert if the rest is still to be told.
func reminded(s *registry.Subscription, at time.Time, to string) {
	s.Reminded, s.RemindedTo = new(at.UTC()), to
}

// firing returns the firing alerts of rules, in order, without those that the receiver has refused. They are those that
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
		for _, a := range listAlerts(&r.State, r.Labels) {
			m := registry.AlertMessage{Rule: r.ID, Name: r.Name, Query: r.Query, State: a.State, Alert: a.ID, Labels: a.Labels,
				Summary: a.Summary, StartsAt: a.FiredAt, Position: r.State.At}
			refused := slices.ContainsFunc(dead, func(d registry.DeadLetter) bool {
				return d.Info == about(&m) && strings.HasSuffix(d.ID, fmt.Sprintf("_%d_%s", a.Firing, registry.AlertFiring))
			})
			if a.State == registry.AlertFiring && !refused {
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
