// Package people tells people the changes of results, in words, by the services of package service.
//
// A message is the exact net change of a query between two positions of its log, and the link to it. What
// is to be told is not stored: a subscription holds the position up to which its people know everything,
// and before the first attempt the position up to which the next message goes. So a digest of a night is
// the sum of what the log has, a killed process loses and repeats nothing, and a message that was under
// way is sent again with the same id and the same words. Only words with labels are stored with it, as
// labels come and go: a message waits for them for a few seconds, and other messages do not wait for it.
//
// What waits while a receiver fails, or while it wants quiet, comes in one message. When messages are sent
// again and when they are given up is up to deliver.Schedule. One that is given up is set aside, and the
// next begins after it.
package people

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/notify/webhook"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
)

const (
	// mostSum is about the largest size in bytes of the rows of a net change that is written in words.
	mostSum = 8 << 20
	// labelWait is how long a message waits for labels, and labelPause the first pause before it looks for them.
	labelWait, labelPause = 5 * time.Second, 50 * time.Millisecond
)

// Options hold the dependencies of a Target. All are required.
type Options struct {
	Log       notify.Log
	Query     func(id string) (registry.Query, error)
	Caller    func(name string) (registry.Caller, error) // without a role if the name has no token any more
	PublicURL string
	Mail      *service.Mail
	// PushKey returns the key that signs messages to browsers.
	PushKey func() (string, error)
	// Names returns the labels that are known of what a watch at an endpoint shows, and whether others of the
	// IRIs will come soon. It does not wait for them.
	Names func(endpoint string, languages, iris []string) (names watch.Namer, coming bool)
	Now   func() time.Time
}

// A Target decides what people are told. It implements deliver.Target.
type Target struct {
	opts   Options
	reader cursor.Reader
}

var _ deliver.Target = (*Target)(nil)

// New returns a Target.
func New(o Options) *Target {
	return &Target{opts: o, reader: cursor.Reader{Log: o.Log}}
}

// Next implements deliver.Target.
func (t *Target) Next(ctx context.Context, s *registry.Subscription, now time.Time) (deliver.Step, error) {
	switch {
	case s.To != nil && s.Caller == Visitors && s.State == registry.Pending:
		return t.ask(s, now)
	case s.To == nil:
		return deliver.Step{}, fmt.Errorf("%w: it has no address; drop it", deliver.ErrUnsupported)
	case deliver.BackingOff(s, now):
		return deliver.Step{Hold: *s.NextTry}, nil
	case s.State != registry.Active:
		return deliver.Step{}, nil
	}
	quiet, err := service.ReadQuiet(s.To.Quiet)
	if err != nil {
		return deliver.Step{}, fmt.Errorf("%w: %w", deliver.ErrUnsupported, err)
	}
	wake := quiet.Wake(now)
	q, err := t.opts.Query(s.Query)
	who, failed := t.caller(s.Caller)
	switch gone := errors.Is(err, registry.ErrNotFound); {
	case err != nil && !gone:
		return deliver.Step{}, err
	case failed != nil:
		return deliver.Step{}, failed
	case !gone && !who.MayRead(&q) && s.Caller != Visitors:
		return deliver.Step{Edit: func(s *registry.Subscription) { stop(s, "its token may not read this any more") }}, nil
	case gone || !who.MayRead(&q): // a visitor cannot tell one from the other
		if wake.After(now) {
			return deliver.Step{Hold: wake}, nil
		}
		return t.ended(s)
	}
	for i := range s.Dead {
		if s.Dead[i].Replay {
			return t.send(ctx, s, &q, s.Dead[i].OutboxMessage, true)
		}
	}
	switch {
	case s.Outbox != nil && wake.After(now): // it failed before
		return deliver.Step{Hold: wake}, nil
	case s.Outbox != nil:
		return t.send(ctx, s, &q, *s.Outbox, false)
	}
	return t.plan(s, quiet, now)
}

// Due returns when a receiver may be told what has waited since a time: later than now, or since when it may.
func Due(s *registry.Subscription, since, now time.Time) time.Time {
	quiet, err := service.ReadQuiet(s.To.Quiet)
	if err != nil {
		return since
	}
	if due := quiet.Next(since, now, s.Recent); due.After(now) {
		return due
	}
	return quiet.Next(since, since, s.Recent)
}

// stop disables a subscription. That of a visitor ends, as visitors cannot resume theirs.
func stop(s *registry.Subscription, reason string) {
	if deliver.Disable(s, reason); s.Caller == Visitors {
		s.State = registry.Ended
	}
}

// caller returns who follows. A visitor may read what is public.
func (t *Target) caller(name string) (registry.Caller, error) {
	if name == Visitors {
		return registry.Caller{Name: name}, nil
	}
	return t.opts.Caller(name)
}

// plan fixes up to where the next message goes, once it may be sent.
func (t *Target) plan(s *registry.Subscription, quiet service.Quiet, now time.Time) (deliver.Step, error) {
	st, _, err := t.opts.Log.Current(s.Query, false)
	if errors.Is(err, registry.ErrNotFound) {
		return deliver.Step{}, nil // it is asked about again when the query has ended
	}
	if err != nil || st.Position.Seq == 0 || st.Position == s.Cursor {
		return deliver.Step{}, err
	}
	since := now
	first, err := t.opts.Log.After(s.Query, s.Cursor, 1)
	switch gap := (*registry.GapError)(nil); {
	case errors.As(err, &gap): // nothing tells any more since when it waits
		quiet = quiet.Prompt()
	case err != nil:
		return deliver.Step{}, err
	case len(first) > 0:
		since = first[0].Time
	}
	if due := quiet.Next(since, now, s.Recent); due.After(now) {
		return deliver.Step{Hold: due}, nil
	}
	return deliver.Prepare(s, registry.OutboxMessage{Type: webhook.TypeChanged, Until: st.Position}, now), nil
}

// ended tells that a query has ended, and then ends the subscription. A receiver may have a message about
// changes whose log is gone, so this one has its own id.
func (t *Target) ended(s *registry.Subscription) (deliver.Step, error) {
	if s.Outbox == nil || s.Outbox.Type != webhook.TypeEnded {
		return deliver.Prepare(s, registry.OutboxMessage{Type: webhook.TypeEnded, Until: s.Cursor}, t.opts.Now()), nil
	}
	m, text := *s.Outbox, "There will be no more messages about it from "+t.opts.PublicURL+"."
	if s.Caller == Visitors {
		text = "It was removed, or is not public any more. " + text
	}
	return t.call(s, m, service.Message{ID: m.ID, At: m.At, Title: called(s) + " has ended", Text: text}, false)
}

// called is what the query of a subscription was called.
func called(s *registry.Subscription) string { return cmp.Or(s.Title, "the query "+s.Query) }

// send returns the call that tells a net change, or an edit if there is nothing to tell.
func (t *Target) send(ctx context.Context, s *registry.Subscription, q *registry.Query, m registry.OutboxMessage,
	again bool) (deliver.Step, error) {
	if m.Type == webhook.TypeEnded { // it is registered again
		return deliver.Step{Edit: func(s *registry.Subscription) { s.Outbox = nil }}, nil
	}
	net, count, err := cursor.Sum(ctx, &t.reader, s.Query, m.From, m.Until, mostSum)
	words, link := "", t.link(q)
	switch gap := (*registry.GapError)(nil); {
	case errors.As(err, &gap):
		words, err = t.total(s.Query, "Changes were missed: the server does not have all of them any more.")
		if m.From == (registry.Position{}) {
			words, err = t.total(s.Query, "There is a first result.")
		}
	case errors.Is(err, cursor.ErrTooLarge):
		words, err = t.total(s.Query, "It has changed too much for a list.")
	case err != nil:
	case net.Delta == nil:
		return deliver.Step{Edit: func(s *registry.Subscription) { finishMessage(s, m) }}, nil
	default:
		link = changed(link, m, count)
	}
	if err != nil {
		return deliver.Step{}, err
	}
	said := m
	if step := t.words(q, s.Caller, words, &net, &said, again); step != nil {
		return *step, nil
	}
	return t.call(s, m, service.Message{ID: m.ID, At: m.At, Title: said.Title, Text: said.Text, Link: link}, again)
}

// words writes a message about a net change, of which it says something else if words are given. A message with labels
// comes with a step first: one that waits for the labels, or stores it.
func (t *Target) words(q *registry.Query, caller, words string, net *registry.Change, m *registry.OutboxMessage, again bool) *deliver.Step {
	if m.Text != "" {
		m.Title = cmp.Or(m.Title, title(q, caller, watch.Plain))
		return nil
	}
	w, watched := watch.Of(q, caller)
	say := func(n watch.Namer) {
		switch m.Title, m.Text = title(q, caller, n), words; {
		case words != "":
		case watched:
			m.Text = watch.InWords(net.Delta, &w, n).By(net.Edits).Screen()
		default:
			m.Text = watch.InWords(net.Delta, nil, watch.Plain).By(net.Edits).Screen()
		}
	}
	iris := irisOf(say) // in the order of the lines
	if len(iris) == 0 {
		return nil
	}
	names, coming := t.opts.Names(q.Endpoint, w.Labels, iris)
	now := t.opts.Now()
	if waited := now.Sub(m.At); coming && !again && 0 <= waited && waited < labelWait {
		return &deliver.Step{Hold: now.Add(min(max(waited, labelPause), labelWait-waited))}
	}
	if say(names); again {
		return nil
	}
	return &deliver.Step{Edit: func(s *registry.Subscription) {
		if deliver.Pending(s) == m.ID && s.Outbox.Text == "" {
			s.Outbox = m
		}
	}}
}

// irisOf returns the IRIs for whose labels a function asks.
func irisOf(say func(watch.Namer)) (iris []string) {
	say(func(iri string) string {
		if iri != "" {
			iris = append(iris, iri)
		}
		return ""
	})
	return iris
}

// total says why changes are not listed, and how much there is.
func (t *Target) total(query, why string) (string, error) {
	_, r, err := t.opts.Log.Current(query, true)
	if err != nil || r == nil {
		return why, err
	}
	return fmt.Sprintf("%s Rows now: %d", why, r.Len()), nil
}

// title is the name of a query, else what it watches, or the beginning of its text. Visitors see public names only, and no text.
func title(q *registry.Query, caller string, names watch.Namer) string {
	name := q.NameFor(caller)
	if caller == Visitors {
		name = q.PublicName()
	}
	if name == "" {
		w, ok := watch.Of(q, caller)
		if !ok {
			w = watch.Watch{Kind: watch.ByQuery, Text: q.Text}
		}
		if name = w.Describe(names); caller == Visitors && w.Kind == watch.ByQuery { // who may not see its text
			name = "the query " + q.ID
		}
	}
	return watch.Line(name, 120)
}

// title is the title with the labels that are known. Others are asked for.
func (t *Target) title(q *registry.Query, caller string) string {
	names := watch.Namer(watch.Plain)
	if iris := irisOf(func(n watch.Namer) { title(q, caller, n) }); len(iris) > 0 {
		w, _ := watch.Of(q, caller)
		names, _ = t.opts.Names(q.Endpoint, w.Labels, iris)
	}
	return title(q, caller, names)
}

// link is the page of a public query, "" for others.
func (t *Target) link(q *registry.Query) string {
	if !(registry.Caller{}).MayRead(q) {
		return ""
	}
	return t.opts.PublicURL + "/queries/" + url.PathEscape(q.ID)
}

// changed is the page of what a message is about: a change, or the comparison of two results.
func changed(page string, m registry.OutboxMessage, count int) string {
	switch {
	case page == "":
		return ""
	case count == 1:
		return fmt.Sprintf("%s/changes/%d", page, m.Until.Seq)
	}
	return fmt.Sprintf("%s?a=%d&b=%d", page, m.From.Seq, m.Until.Seq)
}

func (t *Target) call(s *registry.Subscription, m registry.OutboxMessage, said service.Message, again bool) (deliver.Step, error) {
	send, err := t.sending(s, said)
	if err != nil {
		return deliver.Step{}, err
	}
	c := &deliver.Call{Send: send, Since: m.At, Done: func(s *registry.Subscription, r deliver.Reply) {
		m.Summary = registry.FirstLine(said.Title + ": " + said.Text)
		t.done(s, m, r)
	}}
	if again { // a replay is one attempt
		c.Since, c.Done = time.Time{}, func(s *registry.Subscription, r deliver.Reply) { deliver.Replayed(s, m.ID, r) }
	}
	return deliver.Step{Call: c}, nil
}

// email is the kind of receivers of e-mail.
const email = "email"

func (t *Target) sending(s *registry.Subscription, m service.Message) (func(context.Context, *deliver.Client) deliver.Reply, error) {
	to := s.To
	m.From, m.Key = t.opts.PublicURL, t.opts.PushKey
	if to.Kind != email {
		return service.Send(to.Kind, to.Address, m)
	}
	sum := sha256.Sum256([]byte(m.ID))
	text := m.Text
	if m.Link != "" {
		text += "\n\n" + m.Link
	}
	stop := ""
	switch {
	case s.Outbox != nil && s.Outbox.Type == webhook.TypeEnded, s.ID == "": // nothing more comes; or it is a test
	case s.Caller == Visitors:
		stop = t.visitorLink(s)
		text += "\n\nYou get this because you asked for it. To stop it: " + stop
	default:
		text += "\n\nThis comes from " + t.opts.PublicURL + ". To stop it, ask the one who set it up, or use " +
			t.opts.PublicURL + "/deliveries?q=" + s.ID
	}
	first, _, more := strings.Cut(m.Text, "\n")
	if more {
		first += " …"
	}
	return t.opts.Mail.Call(service.Letter{ID: hex.EncodeToString(sum[:16]), At: m.At, To: to.Address, Stop: stop, Asked: s.Caller == Visitors,
		Subject: service.Cut(m.Title+": "+first, mostSubject), Text: strings.ReplaceAll(text, "\n", "\r\n") + "\r\n"}, t.opts.Now), nil
}

// mostSubject is the largest number of characters of the subject of an e-mail.
const mostSubject = 150

func (t *Target) done(s *registry.Subscription, m registry.OutboxMessage, r deliver.Reply) {
	mine := s.Outbox != nil && s.Outbox.ID == m.ID
	switch r.Verdict {
	case deliver.Taken:
		if quiet, err := service.ReadQuiet(s.To.Quiet); err == nil {
			s.Recent = quiet.Sent(s.Recent, r.At)
		}
		if mine {
			finishMessage(s, m)
		}
		return
	case deliver.Gone:
		stop(s, deliver.GoneReason(r))
		return
	case deliver.GiveUp:
		if mine {
			deliver.Bury(s, m, 0, r)
			finishMessage(s, m)
		}
	}
	if deliver.FailedLong(s, r) {
		stop(s, "the receiver failed for five days")
	}
}

// finishMessage moves a subscription to the end of a message.
func finishMessage(s *registry.Subscription, m registry.OutboxMessage) {
	if s.Outbox != nil && s.Outbox.ID == m.ID {
		s.Cursor, s.Outbox = m.Until, nil
		if m.Type == webhook.TypeEnded {
			s.State = registry.Ended
		}
	}
	for i := range s.Dead {
		if s.Dead[i].ID == m.ID && s.Dead[i].Replay { // there is nothing to tell any more
			s.Dead[i].Replay, s.Dead[i].Error = false, "the changes cancelled out"
		}
	}
}

// Prefix begins the ids of subscriptions of people.
const Prefix = "nt_"

// id is the same for the same receiver of a query's changes.
func id(caller, query, address string) string {
	sum := sha256.Sum256([]byte(caller + "\x00" + query + "\x00" + address))
	return Prefix + hex.EncodeToString(sum[:13])
}
