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
	"strings"
	"time"

	"github.com/freshet/freshet/notify/deliver"
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
		return deliver.Step{Edit: func(s *registry.Subscription) {
			if s.Newest == newest { // else there are new messages
				s.State = registry.Ended
			}
		}}, nil
	}
	if !fires && s.Reminded != nil {
		return deliver.Step{Edit: func(s *registry.Subscription) { s.Reminded = nil }}, nil
	}
	if !fires || s.State != registry.Active {
		return deliver.Step{}, nil
	}
	if !k.repeats {
		return t.remind(s, k, rules, now)
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

// A reminder is one in several messages that is under way.
type reminder struct {
	due  time.Time
	told map[string]bool // the alerts that need no message any more
}

// remind returns the call that tells again what fires, if the receiver asks for it: so long after it was first told that
// something fires, or was last reminded, whatever other messages it gets. The time is stored, so the next reminder comes in
// time after a restart, and one that was under way comes again with the same ids.
func (t Target) remind(s *registry.Subscription, k *kind, rules []string, now time.Time) (deliver.Step, error) {
	quiet, err := service.ReadQuiet(s.To.Quiet)
	if err != nil || quiet.Repeat == 0 {
		return deliver.Step{}, nil // an edit refuses such settings
	}
	at := s.CreatedAt // a new receiver of what fires already is told at once
	if told := cmp.Or(s.Reminded, s.LastDelivery); told != nil {
		at = told.Add(quiet.Repeat)
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
	t.mu.Lock()
	r := t.reminders[s.ID]
	if r == nil || !r.due.Equal(at) {
		r = &reminder{at, map[string]bool{}}
		t.reminders[s.ID] = r
	}
	list = slices.DeleteFunc(list, func(m registry.AlertMessage) bool { return r.told[about(&m)] })
	t.mu.Unlock()
	if len(list) == 0 { // the others have ended meanwhile
		told := now.UTC()
		return deliver.Step{Edit: func(s *registry.Subscription) { s.Reminded = &told }}, nil
	}
	for i := range list { // as long as it is not delivered it is the same message
		sum := sha256.Sum256(fmt.Appendln(nil, s.ID, about(&list[i]), at.UnixNano()))
		list[i].ID, list[i].At = "msg_"+hex.EncodeToString(sum[:13]), at
	}
	part := list[:min(len(list), k.batch)]
	send, err := k.send(&t.opts, s.To, part)
	if err != nil {
		return deliver.Step{}, err
	}
	return deliver.Step{Call: &deliver.Call{Since: at, Send: send, Done: func(s *registry.Subscription, reply deliver.Reply) {
		over := k.taken(part, reply)
		switch reply.Verdict {
		case deliver.Taken:
			s.Recent = quiet.Sent(s.Recent, reply.At)
		case deliver.Gone:
			deliver.Disable(s, deliver.GoneReason(reply))
		case deliver.GiveUp:
			if over = len(list); reply.Refused() && k.together {
				over = len(part)
			} else if reply.Refused() {
				over = reply.Settled + 1
			}
		}
		t.mu.Lock()
		for i := range list[:over] {
			r.told[about(&list[i])] = true
		}
		t.mu.Unlock()
		told := at.Add(-quiet.Repeat).UTC() // the rest is due
		if over == len(list) {
			told = reply.At.UTC()
		}
		s.Reminded = &told
	}}}, nil
}

// firing returns the firing alerts of rules, without those that the receiver has refused. They are those that
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
