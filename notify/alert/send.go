// This file sends messages to receivers and repeats what failed.

package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/webhook"
	"github.com/freshet/freshet/registry"
)

const (
	mostSending  = 64  // requests at a time
	batch        = 100 // alerts in one request to Alertmanager or in one e-mail
	row          = 20  // messages to a webhook, one after another, until their delivery is recorded
	mostRetry    = 5 * time.Minute
	giveUpAfter  = 24 * time.Hour
	mostWaiting  = 100_000 // messages of a receiver that fails; the oldest are given up beyond
	maxAnswer    = 4 << 10
	mostLate     = 1000 // messages that one command deletes
	endsInResend = 4    // a firing alert ends after as many pauses, unless it is sent again
)

// A receiver is an address with the messages that wait for it. The engine's mu guards it.
type receiver struct {
	to      registry.Receiver
	users   map[string]*entry // rules
	queue   []registry.AlertMessage
	busy    bool
	retry   time.Time // no request before
	resend  time.Time // when firing alerts are sent again
	sent    uint64
	givenUp uint64
	fails   int
	problem string
	last    time.Time
}

// receiver returns the receiver of an address. The caller holds mu.
func (e *Engine) receiver(to registry.Receiver) *receiver {
	r := e.receivers[to.Key()]
	if r == nil {
		r = &receiver{to: to, users: map[string]*entry{}}
		e.receivers[to.Key()] = r
	}
	return r
}

func (r *receiver) status(to registry.Receiver) registry.ReceiverStatus {
	return registry.ReceiverStatus{Receiver: to, Waiting: len(r.queue), Sent: r.sent, GivenUp: r.givenUp, Failures: r.fails, LastError: r.problem, LastSent: r.last}
}

// enqueue takes stored messages. The caller holds mu.
func (e *Engine) enqueue(list []registry.AlertMessage) {
	for _, m := range list {
		r := e.receiver(m.To)
		r.queue = append(r.queue, m)
	}
}

// send starts the requests that may run now.
func (e *Engine) send(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, held := e.opts.Lease(); !held { // see Sending
		return
	}
	now, running := e.opts.Now(), busy(e.receivers)
	for key, r := range e.receivers {
		due := len(r.queue) > 0 || r.to.Alertmanager != "" && !r.resend.After(now) && r.firing()
		switch {
		case !due && !r.busy && len(r.users) == 0:
			delete(e.receivers, key)
			continue
		case r.busy || !due || r.retry.After(now) || running >= mostSending:
			continue
		}
		r.busy = true
		running++
		t := e.prepare(r, now)
		e.sending.Go(func() {
			n, err := e.deliver(ctx, r, t)
			e.finish(ctx, r, t, n, err)
		})
	}
}

// busy returns how many receivers are being sent something.
func busy(receivers map[string]*receiver) (n int) {
	for _, r := range receivers {
		if r.busy {
			n++
		}
	}
	return n
}

// Sending reports whether requests to receivers run, or their outcome is not recorded yet. Without
// the lease it does not become true again. Until then the next owner of the lease must not begin,
// because it would send the same messages.
func (e *Engine) Sending() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return busy(e.receivers) > 0
}

// firing reports whether a rule of the receiver has a firing alert.
func (r *receiver) firing() bool {
	for _, x := range r.users {
		for _, a := range x.State.Alerts {
			if a.State == registry.AlertFiring {
				return true
			}
		}
	}
	return false
}

// A transfer is what one turn of a receiver sends.
type transfer struct {
	messages []registry.AlertMessage
	again    []registry.AlertMessage // firing alerts that are sent to Alertmanager again
	givenUp  []uint64                // messages that are too old or too many
}

// prepare takes what is sent next. The messages stay in the queue. The caller holds mu.
func (e *Engine) prepare(r *receiver, now time.Time) (t transfer) {
	for len(r.queue) > 0 && r.fails > 0 && (now.Sub(r.queue[0].At) > giveUpAfter || len(r.queue) > mostWaiting) {
		t.givenUp = append(t.givenUp, r.queue[0].Seq)
		r.queue = r.queue[1:]
	}
	n := batch
	if r.to.Webhook != "" {
		n = row
	}
	t.messages = slices.Clone(r.queue[:min(n, len(r.queue))])
	if r.to.Alertmanager == "" || r.resend.After(now) || len(t.messages) == n {
		return t
	}
	for _, id := range slices.Sorted(maps.Keys(r.users)) {
		x := r.users[id]
		if q, err := e.opts.Query(x.Query); err != nil || e.opts.deprived(x, &q) != nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(x.State.Alerts)) {
			if a := x.State.Alerts[key]; a.State == registry.AlertFiring {
				t.again = append(t.again, registry.AlertMessage{Rule: x.ID, Name: x.Name, Query: x.Query, To: r.to, State: a.State, Alert: key, Labels: a.Labels, Summary: a.Summary, StartsAt: a.FiredAt})
			}
		}
	}
	return t
}

// errGone reports that a receiver wants no more messages.
var errGone = errors.New("it answered 410 Gone")

// deliver sends a transfer and returns how many of its messages are settled.
func (e *Engine) deliver(ctx context.Context, r *receiver, t transfer) (settled int, err error) {
	if r.to.Alertmanager != "" {
		for list := range slices.Chunk(slices.Concat(t.again, t.messages), batch) { // a resolved alert comes after its repetition
			if _, held := e.opts.Lease(); !held {
				return 0, ErrAway
			}
			if err := e.toAlertmanager(ctx, r.to.Alertmanager, list); err != nil {
				return 0, err
			}
		}
		return len(t.messages), nil
	}
	if r.to.Email != "" && len(t.messages) > 0 {
		if err := e.toMail(ctx, r.to.Email, t.messages); err != nil {
			return 0, err
		}
		return len(t.messages), nil
	}
	for i := range t.messages {
		if _, held := e.opts.Lease(); !held { // another node sends the rest
			return i, ErrAway
		}
		err := e.toWebhook(ctx, &t.messages[i])
		if errors.Is(err, errGone) {
			return i + 1, err
		}
		if err != nil {
			return i, err
		}
	}
	return len(t.messages), nil
}

// finish records the outcome of a transfer.
func (e *Engine) finish(ctx context.Context, r *receiver, t transfer, settled int, err error) {
	sent := t.givenUp
	for i := range t.messages[:settled] {
		sent = append(sent, t.messages[i].Seq)
	}
	if fail := e.receipts.record(sent); fail != nil {
		select {
		case e.failed <- fail:
		default:
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	defer e.signal()
	now, count := e.opts.Now().UTC(), e.count.messages[r.to.Kind()]
	r.busy = false
	if n := len(t.givenUp); n > 0 {
		count.Dropped += uint64(n)
		r.givenUp += uint64(n)
		e.opts.Logger.Error("alerts could not be delivered for too long and were given up", "receiver", host(r.to), "messages", n, "problem", r.problem)
	}
	for len(r.queue) > 0 && slices.Contains(sent, r.queue[0].Seq) { // Reload may have taken them already
		r.queue = r.queue[1:]
	}
	r.sent += uint64(settled)
	count.Delivered += uint64(settled)
	if settled > 0 {
		r.fails, r.problem, r.last = 0, "", now
	}
	if errors.Is(err, errGone) {
		r.sent--
		r.givenUp++
		count.Delivered--
		count.Dropped++
		r.problem = err.Error()
		return
	}
	if err != nil && (ctx.Err() != nil || errors.Is(err, ErrAway)) {
		return // the process or the lease ends; the message may have arrived and is sent again
	}
	if err != nil {
		r.fails++
		count.Failed++
		r.problem = err.Error()
		r.retry = now.Add(min(e.opts.Retry<<min(r.fails-1, 10), mostRetry))
		e.opts.Logger.Warn("alerts could not be delivered", "receiver", host(r.to), "problem", r.problem, "again", r.retry)
		return
	}
	r.fails, r.problem, r.last, r.retry = 0, "", now, time.Time{}
	if r.to.Alertmanager != "" && len(t.messages) < batch && !r.resend.After(now) {
		r.resend = now.Add(e.opts.Resend)
	}
}

// receipts deletes messages that were sent from the store. Those that the store refuses to delete are
// remembered, so that they are not sent again.
type receipts struct {
	store Store
	mu    sync.Mutex
	late  []uint64 // messages that were sent, and are in the store still
}

// record deletes messages, now or later.
func (r *receipts) record(sent []uint64) error {
	if len(sent) == 0 {
		return nil
	}
	err := r.store.EditRules(&registry.RuleEdit{Sent: sent})
	if errors.Is(err, registry.ErrUnusable) {
		return fmt.Errorf("delete delivered alerts: %w", err)
	}
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.late = append(r.late, sent...)
	}
	return nil
}

// retry deletes what the store refused to delete, under any lease. Only Run calls it.
func (r *receipts) retry() error {
	r.mu.Lock()
	sent := slices.Clone(r.late)
	r.mu.Unlock()
	if len(sent) == 0 {
		return nil
	}
	sent = sent[:min(len(sent), mostLate)]
	if err := r.store.EditRules(&registry.RuleEdit{Sent: sent}); errors.Is(err, registry.ErrUnusable) {
		return fmt.Errorf("delete delivered alerts: %w", err)
	} else if err != nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = slices.Delete(r.late, 0, len(sent))
	return nil
}

// unsent returns those of the stored messages that were not sent.
func (r *receipts) unsent(list []registry.AlertMessage) []registry.AlertMessage {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(list, func(m registry.AlertMessage) bool { return slices.Contains(r.late, m.Seq) })
}

// host names a receiver in logs, without the path of its URL, which may be a secret.
func host(to registry.Receiver) string {
	if to.Email != "" {
		return to.Email
	}
	u, err := url.Parse(to.Webhook + to.Alertmanager)
	if err != nil {
		return ""
	}
	return u.Host
}

// A webhookAlert is the data of a message to a webhook.
type webhookAlert struct {
	Rule     string              `json:"rule"`
	Name     string              `json:"name"`
	Alert    string              `json:"alert"` // the same for all messages about this set of labels
	State    registry.AlertState `json:"state"`
	Labels   map[string]string   `json:"labels"`
	Summary  string              `json:"summary,omitempty"`
	StartsAt time.Time           `json:"starts_at"`
	EndsAt   *time.Time          `json:"ends_at,omitempty"`
	Query    string              `json:"query"`
	Epoch    string              `json:"epoch"`
	Seq      uint64              `json:"seq"`
	URL      string              `json:"url"`
}

// toWebhook sends a message after Standard Webhooks.
func (e *Engine) toWebhook(ctx context.Context, m *registry.AlertMessage) error {
	data := webhookAlert{Rule: m.Rule, Name: m.Name, Alert: m.Alert, State: m.State, Labels: withName(m), Summary: m.Summary, StartsAt: m.StartsAt.UTC(),
		Query: m.Query, Epoch: m.Position.Epoch, Seq: m.Position.Seq, URL: e.page(m.Query)}
	if !m.EndsAt.IsZero() {
		ends := m.EndsAt.UTC()
		data.EndsAt = &ends
	}
	body, err := json.Marshal(map[string]any{"type": "alert." + string(m.State), "timestamp": m.At.UTC().Format(time.RFC3339Nano), "data": data})
	if err != nil {
		return err
	}
	now := e.opts.Now()
	at := strconv.FormatInt(now.Unix(), 10)
	return e.post(ctx, m.To.Webhook, body, http.Header{"Webhook-Id": {m.ID}, "Webhook-Timestamp": {at},
		"Webhook-Signature": {webhook.Sign([]registry.Secret{{Key: m.To.Secret}}, m.ID, at, body, now)}})
}

func withName(m *registry.AlertMessage) map[string]string {
	labels := make(map[string]string, len(m.Labels)+1)
	maps.Copy(labels, m.Labels)
	labels["alertname"] = m.Name
	return labels
}

func (e *Engine) page(query string) string {
	return e.opts.PublicURL + "/queries/" + url.PathEscape(query)
}

// A postableAlert is an alert in Alertmanager's API v2.
type postableAlert struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
}

// toAlertmanager sends alerts to Alertmanager.
func (e *Engine) toAlertmanager(ctx context.Context, base string, list []registry.AlertMessage) error {
	alerts := make([]postableAlert, len(list))
	for i := range list {
		m := &list[i]
		a := postableAlert{Labels: withName(m), Annotations: map[string]string{"query": m.Query}, StartsAt: m.StartsAt.UTC(), EndsAt: m.EndsAt.UTC(), GeneratorURL: e.page(m.Query)}
		if m.Summary != "" {
			a.Annotations["summary"] = m.Summary
		}
		if m.State == registry.AlertFiring {
			a.EndsAt = e.opts.Now().Add(endsInResend * e.opts.Resend).UTC()
		}
		alerts[i] = a
	}
	body, err := json.Marshal(alerts)
	if err != nil {
		return err
	}
	return e.post(ctx, base+"/api/v2/alerts", body, http.Header{})
}

// post sends one request. Errors do not contain what the receiver sent.
func (e *Engine) post(ctx context.Context, to string, body []byte, header http.Header) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return err
	}
	maps.Copy(req.Header, header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", e.opts.UserAgent)
	resp, err := e.client.Do(req)
	if err != nil {
		return errors.New(deliver.Reply{Err: err}.Problem())
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
	if resp.StatusCode == http.StatusGone {
		return errGone
	}
	if r := (deliver.Reply{Status: resp.StatusCode}); !r.OK() {
		return errors.New(r.Problem())
	}
	return nil
}
