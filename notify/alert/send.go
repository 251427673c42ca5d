// This file decides what receivers of alerts are sent.

package alert

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

const (
	batch        = 100 // alerts in one request to Alertmanager or in one e-mail
	row          = 20  // messages to a webhook, one after another, until their delivery is recorded
	rowTime      = time.Second
	endsInResend = 4 // a firing alert ends after as many pauses, unless it is sent again
)

// Deliver makes deliveries of package deliver send the messages. It is called before Run.
func (e *Engine) Deliver(d *deliver.Engine) {
	e.deliveries = d
	for name := range kinds {
		d.CountKind(registry.Alerts, name)
	}
}

// A Target decides what the receivers of alerts are sent. It implements deliver.Target.
type Target struct{ *Engine }

var _ deliver.Target = Target{}

// Next implements deliver.Target.
func (t Target) Next(_ context.Context, s *registry.Subscription, now time.Time) (deliver.Step, error) {
	var k *kind
	if s.To != nil {
		k = kinds[s.To.Kind]
	}
	switch {
	case k == nil:
		return deliver.Step{}, fmt.Errorf("%w: its kind of receiver is unknown; run the version that stored it, or drop it",
			deliver.ErrUnsupported)
	case s.State == registry.SubscriptionPaused, s.State == registry.Active && deliver.BackingOff(s, now):
		step := deliver.Step{}
		if s.NextTry != nil && s.State == registry.Active {
			step.Hold = *s.NextTry
		}
		return step, nil
	}
	if letter := slices.IndexFunc(s.Dead, func(d registry.DeadLetter) bool { return d.Replay }); letter >= 0 && s.State == registry.Active {
		return t.again(s, k, s.Dead[letter])
	}
	list, err := t.waiting(s, k)
	switch {
	case err != nil:
		return deliver.Step{}, err
	case len(list) == 0:
		return t.idle(s, k, now)
	case s.State == registry.Disabled:
		return bury(list, deliver.Reply{Err: errDisabled, At: now}), nil
	}
	list, denied, err := t.readable(s.Caller, list)
	switch {
	case err != nil:
		return deliver.Step{}, err
	case denied:
		return bury(list, deliver.Reply{Err: errDenied, At: now}), nil
	}
	if quiet, err := service.ReadQuiet(s.To.Quiet); err == nil {
		if due := quiet.Next(list[0].At, now, s.Recent); due.After(now) {
			return deliver.Step{Hold: due}, nil
		}
	}
	return t.call(s, k, list)
}

var (
	errDenied   = errors.New("its token may not read the query any more")
	errDisabled = errors.New("the receiver is disabled: resume it")
)

func (t Target) waiting(s *registry.Subscription, k *kind) ([]registry.AlertMessage, error) {
	for after := uint64(0); ; {
		list, err := t.opts.Queue.Messages(s.ID, after, k.size(s))
		if err != nil || len(list) == 0 {
			return nil, err
		}
		after = list[len(list)-1].Seq
		list = slices.DeleteFunc(list, func(m registry.AlertMessage) bool {
			return slices.ContainsFunc(s.Dead, func(d registry.DeadLetter) bool { return d.Seq == m.Seq })
		})
		if len(list) > 0 {
			return list, nil
		}
	}
}

// readable returns the first messages of a list, either those that may be sent or those that may not,
// because the token of their rules may not read their queries any more.
func (t Target) readable(caller string, list []registry.AlertMessage) (some []registry.AlertMessage, denied bool, err error) {
	who, err := t.opts.Caller(caller)
	if err != nil || who.Role.Includes(registry.RoleRead) {
		return list, false, err
	}
	for i := range list {
		q, err := t.opts.Query(list[i].Query)
		if err != nil && !errors.Is(err, registry.ErrNotFound) {
			return nil, false, err
		}
		if no := !who.MayRead(&q); i == 0 {
			denied = no
		} else if no != denied {
			return list[:i], denied, nil
		}
	}
	return list, denied, nil
}

func (t Target) call(s *registry.Subscription, k *kind, list []registry.AlertMessage) (deliver.Step, error) {
	send, err := k.send(&t.opts, s.To, list)
	if err != nil {
		return deliver.Step{}, err
	}
	return deliver.Step{Call: &deliver.Call{Send: send, Since: list[0].At, Done: func(s *registry.Subscription, r deliver.Reply) {
		taken := k.countDelivered(list, r)
		dropDelivered(s, list[:taken])
		if s.Again = 0; k.together && r.Verdict == deliver.Retry && r.Err != nil {
			s.Again = len(list) // it may have them
		}
		list := list[taken:]
		switch {
		case k.resize(s, len(list), r):
		case r.Verdict == deliver.Taken:
			if quiet, err := service.ReadQuiet(s.To.Quiet); err == nil {
				s.Recent = quiet.Sent(s.Recent, r.At)
				if s.Reminded == nil && t.opts.pause(k, quiet) > 0 {
					reminded(s, r.At, "")
				}
			}
		case r.Verdict == deliver.Gone:
			deliver.Disable(s, deliver.GoneReason(r))
		case r.Verdict == deliver.GiveUp && r.Refused():
			bury(list[:1], r).Edit(s)
		case r.Verdict == deliver.GiveUp:
			young := slices.IndexFunc(list[1:], func(m registry.AlertMessage) bool { return m.At.After(r.Expired) })
			if young++; young == 0 {
				young = len(list)
			}
			bury(list[:young], r).Edit(s)
		}
	}}}, nil
}

// dropDelivered records that messages are delivered.
func dropDelivered(s *registry.Subscription, list []registry.AlertMessage) {
	for i := range list {
		s.Drop = append(s.Drop, list[i].Seq)
	}
	if len(list) > 1 {
		s.Deliveries += uint64(len(list) - 1) // the engine has counted one
	}
}

// bury returns an edit that sets messages aside.
func bury(list []registry.AlertMessage, r deliver.Reply) deliver.Step {
	return deliver.Step{Edit: func(s *registry.Subscription) {
		for i := range list {
			m := &list[i]
			if slices.ContainsFunc(s.Dead, func(d registry.DeadLetter) bool { return d.Seq == m.Seq }) {
				continue
			}
			letter := registry.OutboxMessage{ID: m.ID, Type: "alert." + string(m.State), Query: m.Query, Until: m.Position, At: m.At,
				Summary: registry.FirstLine(m.Name + strings.TrimSuffix(": "+m.Summary, ": "))}
			if r.Refused() {
				letter.Info = about(m)
			}
			deliver.Bury(s, letter, m.Seq, r)
		}
		s.Refusals = 0
	}}
}

func about(m *registry.AlertMessage) string { return m.Rule + " " + m.Alert }

// again sends a dead letter once.
func (t Target) again(s *registry.Subscription, k *kind, d registry.DeadLetter) (deliver.Step, error) {
	list, err := t.opts.Queue.Messages(s.ID, d.Seq-1, 1)
	if err != nil {
		return deliver.Step{}, err
	}
	if len(list) == 0 || list[0].Seq != d.Seq {
		return deliver.Step{Edit: func(s *registry.Subscription) {
			s.Dead = slices.DeleteFunc(s.Dead, func(x registry.DeadLetter) bool { return x.ID == d.ID })
		}}, nil
	}
	if _, denied, err := t.readable(s.Caller, list); err != nil {
		return deliver.Step{}, err
	} else if denied {
		r := deliver.Reply{Err: errDenied, At: t.opts.Now()}
		return deliver.Step{Edit: func(s *registry.Subscription) { deliver.Replayed(s, d.ID, r) }}, nil
	}
	send, err := k.send(&t.opts, s.To, list)
	return deliver.Step{Call: &deliver.Call{Send: send, Done: func(s *registry.Subscription, r deliver.Reply) {
		if deliver.Replayed(s, d.ID, r) {
			s.Drop = append(s.Drop, d.Seq)
		}
	}}}, err
}

// receiver returns the subscription of a receiver, a new one if it has had no alert.
func (e *Engine) receiver(caller string, to registry.Receiver) registry.Subscription {
	s := to.Subscription(caller, time.Time{})
	if e.deliveries.Has(s.ID) {
		if stored, err := e.opts.Queue.Subscription(s.ID); err == nil {
			return stored
		}
	}
	s.State = ""
	return s
}

func withName(m *registry.AlertMessage) map[string]string {
	labels := make(map[string]string, len(m.Labels)+1)
	maps.Copy(labels, m.Labels)
	labels["alertname"] = m.Name
	return labels
}

func (o *Options) page(query string) string {
	return o.PublicURL + "/queries/" + url.PathEscape(query)
}
