// Package webhook sends changes to registered URLs after the Standard Webhooks
// specification: headers webhook-id, webhook-timestamp and webhook-signature
// (v1, HMAC-SHA256), and 410 for "no more".
//
// A message is {"type", "timestamp", "data"}; its type is one of
//
//	webhook.verify  {"webhook","challenge"}: sent until the endpoint answers 2xx;
//	                nothing else is sent before that
//	query.changed   a change, in the JSON form of a change in the API;
//	                prev is the last position that this webhook received, so that
//	                folded or filtered changes are visible as a difference
//	query.snapshot  {"query","epoch","seq","time","checked_at","form","hash",
//	                "reason","results"}: the whole result. It is the first message, and
//	                replaces changes that cannot be sent: reason is start,
//	                too_old, other_epoch, ahead, too_large, given_up or replay
//	query.moved     {"query","epoch","seq"}: the waiting changes of the query
//	                cancelled out; for webhooks of many queries
//	query.ended     {"query"}: the query has no holder any more; the last message
//	log.gap         {"epoch","offset","reason"}: for webhooks of many queries, in
//	                place of query.snapshot; {"query","epoch","seq","reason"} if one
//	                query is concerned: the receiver should read its result. reason is
//	                given_up if a message about the query was given up
//
// A filter's thresholds apply to the net change since the last message. For a webhook
// of many queries, thresholds and rate apply to each query separately: the waiting
// changes of a query are sent as one net change, one query after another, and the log
// is read again no sooner than the rate after the last message. Changes of at most 64
// queries are withheld at a time. Beyond that, the query that has waited longest is
// sent regardless of its filter.
//
// The content of a message is fixed in the store before its first attempt: all
// attempts have the same id and content, even after a crash. Messages of one webhook
// follow each other. A failing message delays the next. Of one query, up to 16 changes that
// wait meanwhile are sent one by one, more as one net change, and always as one with a filter
// or a rate. When a message is sent again and when it is given up
// is up to deliver.Schedule. A message that is given up is added to the dead letters, and a
// snapshot or a gap replaces it. A snapshot or a gap that the receiver refuses is not set aside, because no
// other message replaces it. A gap is never given up.
package webhook

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// Types of messages.
const (
	TypeVerify   = "webhook.verify"
	TypeChanged  = "query.changed"
	TypeSnapshot = "query.snapshot"
	TypeEnded    = "query.ended"
	TypeGap      = "log.gap"
	TypeMoved    = "query.moved"
)

const (
	// foldAbove is the largest number of waiting changes that are sent one by one.
	foldAbove = 16
	// maxMessage is the approximate maximum size of a message's rows in bytes. Larger
	// ones are replaced by a link. The specification asks for small messages.
	maxMessage = 256 << 10
)

// Options holds the dependencies of a Target. All are required.
type Options struct {
	Log    notify.Log
	Head   func() (registry.Offset, error)
	Query  func(id string) (registry.Query, error)
	Caller func(name string) (registry.Caller, error) // without a role if the name has no token any more
	Format notify.Format
	Now    func() time.Time
}

// A Target decides what webhooks are sent. It implements deliver.Target.
type Target struct {
	opts   Options
	reader cursor.Reader
	rules  cursor.Rules
}

var _ deliver.Target = (*Target)(nil)

// New returns a Target.
func New(o Options) *Target {
	if o.Format.MaxChange == 0 || o.Format.MaxChange > maxMessage {
		o.Format.MaxChange = maxMessage
	}
	return &Target{opts: o, reader: cursor.Reader{Log: o.Log, Head: o.Head, Memory: cursor.NewMemory()},
		rules: cursor.Rules{Fold: foldAbove, Limit: o.Format.MaxChange}}
}

// Next implements deliver.Target.
func (w *Target) Next(ctx context.Context, s *registry.Subscription, now time.Time) (deliver.Step, error) {
	switch {
	case deliver.BackingOff(s, now):
		return deliver.Step{Hold: *s.NextTry}, nil
	case s.Intent != nil && s.State == registry.Pending:
		return w.verify(s)
	case s.State != registry.Active:
		return deliver.Step{}, nil
	}
	q := registry.Query{}
	if s.Query != "" {
		var err error
		if q, err = w.opts.Query(s.Query); errors.Is(err, registry.ErrNotFound) {
			return w.ended(ctx, s)
		} else if err != nil {
			return deliver.Step{}, err
		}
	}
	if who, err := w.opts.Caller(s.Caller); err != nil {
		return deliver.Step{}, err
	} else if !who.MayRead(&q) {
		return disableStep("its token may not read this any more"), nil
	}
	for i := range s.Dead {
		if s.Dead[i].Replay {
			step, err := w.send(ctx, s, s.Dead[i].OutboxMessage, func(s *registry.Subscription, p registry.OutboxMessage, r deliver.Reply) {
				deliver.Replayed(s, p.ID, r)
			})
			if step.Call != nil {
				step.Call.Since = time.Time{} // a replay is one attempt
			}
			return step, err
		}
	}
	if s.Outbox != nil {
		return w.send(ctx, s, *s.Outbox, w.done)
	}
	if s.Query == "" {
		return w.planAll(ctx, s, now)
	}
	return w.plan(ctx, s, now)
}

func disableStep(reason string) deliver.Step {
	return deliver.Step{Edit: func(s *registry.Subscription) { deliver.Disable(s, reason) }}
}

// ended sends the last message, once the query has no holders.
func (w *Target) ended(ctx context.Context, s *registry.Subscription) (deliver.Step, error) {
	if s.Outbox == nil || s.Outbox.Type != TypeEnded {
		return deliver.Prepare(s, registry.OutboxMessage{Type: TypeEnded, Until: s.Cursor}, w.opts.Now()), nil
	}
	return w.send(ctx, s, *s.Outbox, w.done)
}

// snapshotReason returns why a result is sent in place of changes, "" for other
// errors.
func snapshotReason(err error) string {
	var gap *registry.GapError
	switch {
	case errors.As(err, &gap):
		return gap.Reason
	case errors.Is(err, cursor.ErrTooLarge), errors.Is(err, diff.ErrMismatch):
		return "too_large"
	}
	return ""
}

func (w *Target) send(ctx context.Context, s *registry.Subscription, p registry.OutboxMessage, done func(*registry.Subscription,
	registry.OutboxMessage, deliver.Reply)) (deliver.Step, error) {
	data, other, err := w.data(ctx, s, p)
	if err != nil {
		return deliver.Step{}, err
	}
	if other != nil {
		return deliver.Step{Edit: func(s *registry.Subscription) { replace(s, p.ID, other) }}, nil
	}
	return w.post(s, p, data, func(s *registry.Subscription, r deliver.Reply) {
		if r.Verdict == deliver.GiveUp && p.Type == TypeGap { // no other message says what is missing
			r.Verdict = deliver.Retry
		}
		if r.Verdict != deliver.GiveUp {
			done(s, p, r)
			return
		}
		kept := deliver.Pending(s) == p.ID
		line, gap := lost(p, data, r.At)
		p.Summary = line
		if done(s, p, r); kept && s.Query == "" {
			s.Outbox = gap
		}
	})
}

// lost returns the first line of a message about a change that is given up, "" of others, and the message that
// takes its place at a webhook of many queries, nil for none.
func lost(p registry.OutboxMessage, data []byte, now time.Time) (line string, gap *registry.OutboxMessage) {
	var v struct {
		Query, Epoch, Summary string
		Seq                   uint64
	}
	_ = json.Unmarshal(data, &v) // it is JSON; messages that are not about a query have no such members
	if v.Query != "" {
		gap = &registry.OutboxMessage{ID: "msg_" + rand.Text(), Type: TypeGap, Query: v.Query,
			Until: registry.Position{Epoch: v.Epoch, Seq: v.Seq}, At: now.UTC(), Info: "given_up"}
	}
	return registry.FirstLine(v.Summary), gap
}

// replace replaces a message that cannot be sent by another one.
func replace(s *registry.Subscription, id string, other *registry.OutboxMessage) {
	if s.Outbox != nil && s.Outbox.ID == id {
		s.Outbox = nil
		switch {
		case other.Type != "":
			s.Outbox = other
		case s.Query != "":
			s.Seen = other.Until // nothing is sent, so that the next message begins where the last one ended
		default:
			s.Cursor = other.Until
		}
	}
	for i := range s.Dead {
		switch {
		case s.Dead[i].ID != id:
		case s.Query != "":
			s.Dead[i].Type, s.Dead[i].Until, s.Dead[i].Info, s.Dead[i].Check = TypeSnapshot, other.Until, "replay", other.Check
		case other.Type != "":
			s.Dead[i].Type, s.Dead[i].Until, s.Dead[i].Info = other.Type, other.Until, other.Info
		default: // there is nothing to send any more
			s.Dead = slices.Delete(s.Dead, i, i+1)
			return
		}
	}
}

func (w *Target) post(s *registry.Subscription, p registry.OutboxMessage, data []byte,
	done func(*registry.Subscription, deliver.Reply)) (deliver.Step, error) {
	body, header := Message(p.ID, p.Type, p.At, data, s.Secrets, w.opts.Now())
	return deliver.Step{Call: &deliver.Call{
		Send: deliver.HTTP(http.MethodPost, s.Callback, header, body, 0), Since: p.At, Done: done,
		Insist: p.Type == TypeSnapshot || p.Type == TypeGap,
	}}, nil
}

// Message returns the body of a message of Standard Webhooks, and its headers.
func Message(id, typ string, at time.Time, data []byte, secrets []registry.Secret, now time.Time) ([]byte, http.Header) {
	body := fmt.Appendf(nil, `{"type":%q,"timestamp":%q,"data":%s}`, typ, at.UTC().Format(time.RFC3339Nano), data)
	sent := strconv.FormatInt(now.Unix(), 10)
	return body, http.Header{"Content-Type": {"application/json"}, "Webhook-Id": {id}, "Webhook-Timestamp": {sent},
		"Webhook-Signature": {Sign(secrets, id, sent, body, now)}}
}

func (w *Target) verify(s *registry.Subscription) (deliver.Step, error) {
	data, err := json.Marshal(map[string]string{"webhook": s.ID, "challenge": s.Intent.Secret})
	if err != nil {
		return deliver.Step{}, err
	}
	p := registry.OutboxMessage{ID: "msg_" + s.Intent.Secret, Type: TypeVerify, At: s.Intent.At}
	step, err := w.post(s, p, data, func(s *registry.Subscription, r deliver.Reply) {
		if s.State != registry.Pending || s.Intent == nil {
			return
		}
		switch r.Verdict {
		case deliver.Taken:
			s.State, s.Intent, s.Reason = registry.Active, nil, ""
		case deliver.Gone:
			deliver.Disable(s, deliver.ReasonGone)
		case deliver.GiveUp:
			deliver.Disable(s, "the endpoint never answered 2xx")
		}
	})
	if err == nil {
		step.Call.Asks = true
	}
	return step, err
}

func (w *Target) done(s *registry.Subscription, p registry.OutboxMessage, r deliver.Reply) {
	kept := s.Outbox != nil && s.Outbox.ID == p.ID
	switch r.Verdict {
	case deliver.Taken:
		if !kept {
			return
		}
		if s.Outbox = nil; p.Query != "" {
			release(s, p.Query, p.Until)
			return
		}
		s.Cursor, s.Seen = p.Until, registry.Position{}
		if p.Type == TypeEnded {
			s.State = registry.Ended
		}
		return
	case deliver.Gone:
		deliver.Disable(s, deliver.ReasonGone)
		return
	case deliver.GiveUp:
		if kept {
			giveUp(s, p, r)
		}
	}
	if deliver.FailedLong(s, r) {
		deliver.Disable(s, "the endpoint failed for five days")
	}
}

// giveUp moves a message to the dead letters. A snapshot or a gap follows.
func giveUp(s *registry.Subscription, p registry.OutboxMessage, r deliver.Reply) {
	if p.Type == TypeEnded {
		s.State = registry.Ended
		return
	}
	deliver.Bury(s, p, 0, r)
	s.Outbox, s.Seen = nil, registry.Position{}
	if p.Query != "" {
		release(s, p.Query, p.Until)
		return
	}
	if s.Cursor = p.Until; s.Query != "" {
		s.Cursor = registry.Position{}
	}
}

// Sign returns the value of webhook-signature: one v1 signature for each secret that
// has not expired.
func Sign(secrets []registry.Secret, id, timestamp string, body []byte, now time.Time) string {
	var all []string
	for _, s := range secrets {
		if s.Until != nil && !now.Before(*s.Until) {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(s.Key, SecretPrefix))
		if err != nil {
			continue // refused when it was registered
		}
		m := hmac.New(sha256.New, key)
		m.Write([]byte(id + "." + timestamp + "."))
		m.Write(body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(m.Sum(nil)))
	}
	return strings.Join(all, " ")
}
