package webhook_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/webhook"
	"github.com/freshet/freshet/registry"
)

// The signature example of the specification, and the form of a message.
func TestSignature(t *testing.T) {
	got := webhook.Sign([]registry.Secret{{Key: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}, "msg_p5jXN8AQM9LWM0D4loKWxJek",
		"1614265330", []byte(`{"test": 2432232314}`), time.Now())
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

func TestMessages(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	id := r.log.Add("q", diff.Select, false)
	r.record(id, notifytest.Rows("a"))
	s := r.create(h, registry.WebhookRequest{Query: "q", Name: "mine"})
	until(t, "the first result", func() bool { return h.holds(id, notifytest.Rows("a")) })
	r.record(id, notifytest.Rows("a", "b"))
	until(t, "the change", func() bool { return h.holds(id, notifytest.Rows("a", "b")) })
	all := h.messages(webhook.TypeVerify, webhook.TypeSnapshot, webhook.TypeChanged)
	if len(all) != 3 || all[0].Type != webhook.TypeVerify || all[1].Type != webhook.TypeSnapshot || all[2].Type != webhook.TypeChanged {
		t.Fatalf("messages: %v", all)
	}
	for _, m := range all {
		if !strings.HasPrefix(m.ID, "msg_") || m.header.Get("Content-Type") != "application/json" || m.Timestamp.IsZero() ||
			m.header.Get("User-Agent") != "freshet/test" {
			t.Errorf("%s: %v", m.Type, m.header)
		}
		if sent, err := strconv.ParseInt(m.header.Get("Webhook-Timestamp"), 10, 64); err != nil ||
			time.Since(time.Unix(sent, 0)).Abs() > patience {
			t.Errorf("webhook-timestamp %s", m.header.Get("Webhook-Timestamp"))
		}
		if want := webhook.Sign(s.Secrets, m.ID, m.header.Get("Webhook-Timestamp"), []byte(m.raw),
			time.Now()); m.header.Get("Webhook-Signature") != want {
			t.Errorf("%s: signature %s, want %s", m.Type, m.header.Get("Webhook-Signature"), want)
		}
	}
	var b body
	if err := json.Unmarshal(all[2].Data, &b); err != nil || b.Prev != 1 || b.Seq != 2 || b.Query != id || b.Hash == nil {
		t.Errorf("the change: %s, %v", all[2].Data, err)
	}
	r.log.Remove(id)
	r.waker.Wake(id)
	until(t, "the end", func() bool { _, err := r.store.Subscription(s.ID); return errors.Is(err, registry.ErrNotFound) })
	if len(h.messages(webhook.TypeEnded)) != 1 {
		t.Error("the receiver is not notified of the end")
	}
}

// Only the verification is sent before the endpoint answers 2xx.
func TestVerification(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	id := r.log.Add("q", diff.Select, false)
	r.record(id, notifytest.Rows("a"))
	h.on(func(n int, m message) int {
		if n <= 2 {
			return 500
		}
		return 200
	}, nil)
	r.create(h, registry.WebhookRequest{Query: "q"})
	until(t, "the result", func() bool { return h.holds(id, notifytest.Rows("a")) })
	if n := len(h.messages(webhook.TypeVerify)); n != 3 {
		t.Errorf("%d questions, want 3", n)
	}
	r.hasten()
	never := newReceiver(t)
	never.on(func(int, message) int { return 404 }, nil)
	s, err := r.Create(admin, registry.WebhookRequest{URL: never.http.URL, Query: "q"})
	if err != nil {
		t.Fatal(err)
	}
	until(t, "giving up", func() bool { return r.get(s.ID).State == registry.Disabled })
	if n := len(never.messages(webhook.TypeSnapshot)); n != 0 {
		t.Errorf("%d messages before it is verified", n)
	}
	never.on(nil, nil)
	if _, err := r.Engine.Resume(s.ID); err != nil {
		t.Fatal(err)
	}
	until(t, "the result after resuming", func() bool { return never.holds(id, notifytest.Rows("a")) })
}

// All attempts of a message are the same, and the next one waits.
func TestAttemptsAreTheSame(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	id := r.log.Add("q", diff.Select, false)
	r.create(h, registry.WebhookRequest{Query: "q", Filter: json.RawMessage(`{"min_rows":1}`)})
	h.on(nil, func(n int, m message) int {
		if n%3 != 0 {
			return 502 // it was taken, but we cannot know
		}
		return 200
	})
	for i := range 12 {
		r.record(id, notifytest.Rows(fmt.Sprint(i), "x"))
		time.Sleep(3 * time.Millisecond)
	}
	until(t, "the end state", func() bool { return h.holds(id, notifytest.Rows("11", "x")) })
	until(t, "another attempt", func() bool {
		ids := map[string]bool{}
		all := h.messages(webhook.TypeChanged, webhook.TypeSnapshot)
		for _, m := range all {
			ids[m.ID] = true
		}
		return len(ids) < len(all)
	})
	first := map[string]string{}
	for _, m := range h.messages(webhook.TypeChanged, webhook.TypeSnapshot) {
		if was, ok := first[m.ID]; ok && was != m.raw {
			t.Errorf("two contents of %s:\n%s\n%s", m.ID, was, m.raw)
		}
		first[m.ID] = m.raw
	}
}

// All attempts of a snapshot are the same, also if its result is confirmed between them.
func TestAttemptsOfSnapshot(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	id := r.log.Add("q", diff.Select, false)
	r.record(id, notifytest.Rows("a"))
	h.on(func(_ int, m message) int {
		if m.Type == webhook.TypeSnapshot {
			return 503
		}
		return 200
	}, nil)
	r.create(h, registry.WebhookRequest{Query: "q"})
	until(t, "an attempt", func() bool { return len(h.messages(webhook.TypeSnapshot)) > 0 })
	r.record(id, notifytest.Rows("a"))
	n := len(h.messages(webhook.TypeSnapshot))
	until(t, "an attempt after the confirmation", func() bool { return len(h.messages(webhook.TypeSnapshot)) > n+1 })
	h.on(nil, nil)
	until(t, "the snapshot", func() bool { return h.holds(id, notifytest.Rows("a")) })
	all := h.messages(webhook.TypeSnapshot)
	if first, last := all[0], all[len(all)-1]; first.ID != last.ID || first.raw != last.raw {
		t.Errorf("%s\n%s, and then\n%s\n%s", first.ID, first.raw, last.ID, last.raw)
	}
}

func TestGone(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	id := r.log.Add("q", diff.Select, false)
	s := r.create(h, registry.WebhookRequest{Query: "q"})
	h.on(func(int, message) int { return 410 }, nil)
	r.record(id, notifytest.Rows("a"))
	until(t, "disabled", func() bool { return r.get(s.ID).State == registry.Disabled })
	if x := r.get(s.ID); !strings.Contains(x.Reason, "410") {
		t.Errorf("reason %q", x.Reason)
	}
	h.on(nil, nil)
	if _, err := r.Engine.Resume(s.ID); err != nil {
		t.Fatal(err)
	}
	until(t, "what waited", func() bool { return h.holds(id, notifytest.Rows("a")) })
}

// Nothing is sent again to an address that has not confirmed the webhook.
func TestReplayBeforeTheConfirmation(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	r.log.Add("q", diff.Select, false)
	h.on(func(int, message) int { return 500 }, nil)
	s, err := r.Create(admin, registry.WebhookRequest{URL: h.http.URL + "/hook", Query: "q"})
	if err != nil {
		t.Fatal(err)
	}
	for _, again := range []registry.Replay{{}, {After: &registry.Position{Epoch: "e1-q", Seq: 1}}} {
		if _, err := r.Replay(s.ID, again); err == nil || !strings.Contains(err.Error(), "its address has not answered webhook.verify yet") {
			t.Errorf("%+v: %v", again, err)
		}
	}
}

// A message that no endpoint accepts becomes a dead letter; a snapshot takes its place,
// and the letter can be sent again.
func TestDeadLettersAndReplay(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	id := r.log.Add("q", diff.Select, false)
	s := r.create(h, registry.WebhookRequest{Query: "q"})
	r.record(id, notifytest.Rows("a"))
	until(t, "the first result", func() bool { return h.holds(id, notifytest.Rows("a")) })
	h.on(func(_ int, m message) int {
		if m.Type == webhook.TypeChanged {
			return 422
		}
		return 200
	}, nil)
	r.record(id, notifytest.Rows("a", "b"))
	until(t, "the snapshot in its place", func() bool { return h.holds(id, notifytest.Rows("a", "b")) })
	x := r.get(s.ID)
	if len(x.Dead) != 1 || x.Dead[0].Attempts != 2 || x.Dead[0].Error != "the callback answered 422" || x.GaveUp != 1 ||
		x.Dead[0].Summary == "" {
		t.Fatalf("dead letters: %+v", x.Dead)
	}
	if m := h.messages(webhook.TypeSnapshot); !strings.Contains(m[len(m)-1].raw, `"reason":"given_up"`) {
		t.Errorf("the snapshot is %s", m[len(m)-1].raw)
	}
	if _, err := r.Replay(s.ID, registry.Replay{ID: "msg_other"}); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("another letter: %v", err)
	}
	if _, err := r.Replay(s.ID, registry.Replay{}); err != nil { // is refused again
		t.Fatal(err)
	}
	until(t, "the refusal", func() bool { x := r.get(s.ID); return len(x.Dead) == 1 && !x.Dead[0].Replay && x.Dead[0].Attempts == 3 })
	h.on(nil, nil)
	if _, err := r.Replay(s.ID, registry.Replay{ID: x.Dead[0].ID}); err != nil {
		t.Fatal(err)
	}
	until(t, "the letter", func() bool { return len(r.get(s.ID).Dead) == 0 })
	all := h.messages(webhook.TypeChanged)
	if last := all[len(all)-1]; last.ID != x.Dead[0].ID || last.raw != all[0].raw {
		t.Errorf("replayed as %s %s, first sent as %s", last.ID, last.raw, all[0].raw)
	}
	before := len(h.messages(webhook.TypeChanged))
	if _, err := r.Replay(s.ID, registry.Replay{After: &registry.Position{Epoch: "e1-q", Seq: 1}}); err != nil {
		t.Fatal(err)
	}
	until(t, "the change after a position", func() bool { return len(h.messages(webhook.TypeChanged)) == before+1 })
}

// A message of a webhook of many queries that is given up is replaced by a gap of its query, which leads to the next
// change. A gap is sent until it is taken.
func TestManyQueriesGiveUp(t *testing.T) {
	for name, w := range map[string]registry.WebhookRequest{"as it is": {}, "withheld": {Filter: json.RawMessage(`{"min_rows":1}`)}} {
		t.Run(name, func(t *testing.T) {
			r, h := newRig(t), newReceiver(t)
			r.log.Add("other", diff.Select, false)
			id := r.log.Add("q", diff.Select, false)
			r.record(id, notifytest.Rows("a"))
			h.many = true
			s := r.create(h, w)
			h.on(func(_ int, m message) int {
				if m.Type == webhook.TypeChanged {
					return 422
				}
				return 200
			}, nil)
			r.record(id, notifytest.Rows("b"))
			until(t, "a gap", func() bool { return len(h.messages(webhook.TypeGap)) == 1 })
			var gap body
			m := h.messages(webhook.TypeGap)[0]
			if json.Unmarshal(m.Data, &gap) != nil || gap.Query != id || gap.Epoch != "e1-q" || gap.Seq != 2 || gap.Reason != "given_up" {
				t.Errorf("%s", m.raw)
			}
			until(t, "the end of the gap", func() bool { return r.get(s.ID).Outbox == nil })
			if x := r.get(s.ID); len(x.Dead) != 1 || x.Dead[0].Type != webhook.TypeChanged || x.Dead[0].Summary == "" {
				t.Errorf("dead letters: %+v", x.Dead)
			}
			r.hasten()
			var gaps, status atomic.Int32
			status.Store(422)
			h.on(func(_ int, m message) int {
				if m.Type == webhook.TypeGap {
					gaps.Add(1)
				}
				return int(status.Load())
			}, nil)
			r.record(id, notifytest.Rows("c"))
			until(t, "a gap that is sent beyond all patience", func() bool { return gaps.Load() > 5 || len(r.get(s.ID).Dead) > 2 })
			refused := gaps.Load()
			status.Store(200)
			r.record(id, notifytest.Rows("d"))
			until(t, "the change after it", func() bool { return newest(h, id, 4) })
			if n := len(r.get(s.ID).Dead); n != 2 || gaps.Load() == refused {
				t.Errorf("%d dead letters; the gap was sent %d times, of which %d were refused", n, gaps.Load(), refused)
			}
		})
	}
}

func TestRotate(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	id := r.log.Add("q", diff.Select, false)
	s := r.create(h, registry.WebhookRequest{Query: "q"})
	rotated, err := r.Rotate(s.ID, "", time.Hour)
	if err != nil || rotated.Secrets[0].Key == s.Secrets[0].Key || len(rotated.Secrets) != 2 {
		t.Fatalf("%+v, %v", rotated.Secrets, err)
	}
	r.record(id, notifytest.Rows("a"))
	until(t, "a message", func() bool { return len(h.messages(webhook.TypeSnapshot)) == 1 })
	signatures := func() []string {
		m := h.messages(webhook.TypeSnapshot, webhook.TypeChanged)
		return strings.Split(m[len(m)-1].header.Get("Webhook-Signature"), " ")
	}
	m := h.messages(webhook.TypeSnapshot)[0]
	for i, key := range []registry.Secret{rotated.Secrets[0], s.Secrets[0]} {
		if want := webhook.Sign([]registry.Secret{key}, m.ID, m.header.Get("Webhook-Timestamp"), []byte(m.raw),
			time.Now()); signatures()[i] != want {
			t.Errorf("signature %d is not that of its secret", i)
		}
	}
	if _, err = r.Rotate(s.ID, "whsec_"+strings.Repeat("QUJD", 10), 0); err != nil {
		t.Fatal(err)
	}
	r.record(id, notifytest.Rows("a", "b"))
	until(t, "a change", func() bool { return len(h.messages(webhook.TypeChanged)) == 1 })
	if got := signatures(); len(got) != 1 {
		t.Errorf("%d signatures when there was no grace", len(got))
	}
	for _, bad := range []string{"whsec_short", "QUJD", "whsec_" + strings.Repeat("A", 200), "whsec_***",
		"whsec_" + strings.Repeat("QUJD", 10) + strings.Repeat("\n", 200)} {
		if _, err := r.Rotate(s.ID, bad, 0); err == nil {
			t.Errorf("secret %s is taken", bad)
		}
	}
}

// A webhook whose stored secrets are lost can be given a new one.
func TestRotateWithoutSecrets(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	r.log.Add("q", diff.Select, false)
	s := r.create(h, registry.WebhookRequest{Query: "q"})
	if _, err := r.Engine.Edit(s.ID, func(x *registry.Subscription, _ bool) error { x.Secrets = nil; return nil }); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Rotate(s.ID, "", time.Hour); err != nil || len(got.Secrets) != 1 {
		t.Errorf("%d secrets, %v", len(got.Secrets), err)
	}
}

// Thresholds count the net change since the last message, variables and rows
// are left out, and what cancels out is not sent.
func TestFilterAndRate(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	id := r.log.Add("q", diff.Select, false)
	r.record(id, notifytest.Rows("a"))
	s := r.create(h, registry.WebhookRequest{Query: "q",
		Filter: json.RawMessage(`{"min_rows":3,"where":[{"var":"s","op":"!=","value":"noise"}]}`)})
	until(t, "the first result", func() bool { return h.holds(id, notifytest.Rows("a")) })
	for _, rows := range [][]string{{"a", "b"}, {"a", "b", "noise"}, {"a", "b", "c"}} { // nets 1, 1 and 2 rows
		r.record(id, notifytest.Rows(rows...))
		time.Sleep(20 * time.Millisecond)
	}
	if n := len(h.messages(webhook.TypeChanged)); n != 0 {
		t.Fatalf("%d messages below the threshold", n)
	}
	r.record(id, notifytest.Rows("a", "b", "c", "d", "noise"))
	until(t, "the sum", func() bool { return h.holds(id, notifytest.Rows("a", "b", "c", "d")) })
	var b body
	if m := h.messages(webhook.TypeChanged); json.Unmarshal(m[0].Data, &b) != nil || b.Prev != 1 || b.Seq != 5 || !b.Filtered ||
		b.Hash != nil {
		t.Errorf("the sum: %s", m[0].Data)
	}
	r.record(id, notifytest.Rows("a", "b", "c", "d")) // noise goes: nothing for this webhook
	until(t, "the position to move", func() bool { return r.get(s.ID).Seen.Seq == 6 })
	r.record(id, notifytest.Rows("a"))
	until(t, "the next sum", func() bool { return h.holds(id, notifytest.Rows("a")) })

	slow := newReceiver(t)
	r.create(slow, registry.WebhookRequest{Query: "q", Rate: registry.Duration(150 * time.Millisecond)})
	until(t, "the first result", func() bool { return slow.holds(id, notifytest.Rows("a")) })
	start := time.Now()
	for i := range 10 {
		r.record(id, notifytest.Rows("a", fmt.Sprint(i)))
		time.Sleep(5 * time.Millisecond)
	}
	until(t, "the end state", func() bool { return slow.holds(id, notifytest.Rows("a", "9")) })
	if n := len(slow.messages(webhook.TypeChanged)); n > 1+int(time.Since(start)/(150*time.Millisecond)) {
		t.Errorf("%d messages within %v at one per 150 ms", n, time.Since(start))
	}
	for field, w := range map[string]registry.WebhookRequest{
		"/filter": {Query: "q", Filter: json.RawMessage(`{"vars":7}`)}, "/rate": {Rate: registry.Duration(25 * time.Hour)},
		"/url": {Query: "q"}, "/secret": {Query: "q", Secret: "x"}, "/name": {Query: "q", Name: strings.Repeat("x", 300)},
		"/tag": {Tag: strings.Repeat("x", 129)}, "/endpoint": {Endpoint: strings.Repeat("x", 65)},
	} {
		if w.URL = h.http.URL; field == "/url" {
			w.URL = "http://10.0.0.1/"
		}
		var p *registry.Problem
		if _, err := r.Create(admin, w); !errors.As(err, &p) || p.Kind != registry.KindBadSetting || p.Errors[0].Pointer != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	var p *registry.Problem
	if _, err := r.Create(admin, registry.WebhookRequest{URL: h.http.URL, Query: "unused"}); !errors.As(err, &p) ||
		p.Kind != registry.KindUnknownQuery || p.Errors[0].Pointer != "/query" || !strings.Contains(p.Detail, `"unused"`) {
		t.Errorf("a webhook of no query: %v", err)
	}
}

// A webhook without a query receives the changes of all queries, or of those with its
// tag, in the order of offsets.
func TestManyQueries(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	a, b := r.log.Add("a", diff.Select, false), r.log.Add("b", diff.Select, false)
	r.record(a, notifytest.Rows("before"))
	h.many = true
	s := r.create(h, registry.WebhookRequest{})
	other := newReceiver(t)
	r.create(other, registry.WebhookRequest{Tag: "unused"})
	for i := range 20 {
		r.record(a, notifytest.Rows(fmt.Sprint("a", i)))
		r.record(b, notifytest.Rows(fmt.Sprint("b", i)))
	}
	until(t, "all changes", func() bool { return len(h.messages(webhook.TypeChanged)) == 40 })
	last := uint64(1)
	for _, m := range h.messages(webhook.TypeChanged) {
		var d body
		if err := json.Unmarshal(m.Data, &d); err != nil || d.Offset != last+1 {
			t.Errorf("offset %d came after %d: %v", d.Offset, last, err)
		}
		last = d.Offset
	}
	if n := len(other.messages(webhook.TypeChanged)); n != 0 {
		t.Errorf("%d changes of queries without the tag", n)
	}
	r.pause(s.ID)
	r.record(a, notifytest.Rows("x"))
	r.record(a, notifytest.Rows("y"))
	r.log.TrimAll(1)
	if _, err := r.Engine.Resume(s.ID); err != nil {
		t.Fatal(err)
	}
	until(t, "word of the gap", func() bool { return len(h.messages(webhook.TypeGap)) == 1 })
	if m := h.messages(webhook.TypeGap)[0]; !strings.Contains(m.raw, `"reason":"too_old"`) {
		t.Errorf("%s", m.raw)
	}
	r.record(b, notifytest.Rows("z"))
	until(t, "what comes after", func() bool { return len(h.messages(webhook.TypeChanged)) == 41 })
}

// Thresholds and rates hold for each of many queries. Waiting changes are sent as one
// net change from the receiver's position, also after a restart.
func TestManyQueriesHeld(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	a, b := r.log.Add("a", diff.Select, false), r.log.Add("b", diff.Select, false)
	r.record(a, notifytest.Rows("1"))
	r.record(b, notifytest.Rows("1"))
	h.many = true
	s := r.create(h, registry.WebhookRequest{Filter: []byte(`{"min_rows":3}`)})
	until(t, "active", func() bool { return r.get(s.ID).State == registry.Active })
	r.record(a, notifytest.Rows("1", "2"))
	r.record(b, notifytest.Rows("1", "2"))
	r.record(a, notifytest.Rows("1", "2", "3"))
	until(t, "both held back", func() bool {
		x := r.get(s.ID)
		return len(x.Withheld) == 2 && !x.Withheld[0].Fresh && !x.Withheld[1].Fresh && x.Withheld[0].Until.Seq == 3
	})
	r.stop()
	r.start()
	r.record(a, notifytest.Rows("1", "2", "3", "4"))
	r.record(b, notifytest.Rows("1"))
	type received struct {
		Query     string
		Prev, Seq uint64
	}
	var got []received
	read := func(typ string, n int) {
		t.Helper()
		until(t, typ, func() bool { return len(h.messages(typ)) == n })
		got = got[:0]
		for _, m := range h.messages(typ) {
			var d received
			if err := json.Unmarshal(m.Data, &d); err != nil {
				t.Fatal(err)
			}
			got = append(got, d)
		}
	}
	read(webhook.TypeChanged, 1)
	if want := (received{a, 1, 4}); got[0] != want {
		t.Errorf("sent %+v, want %+v", got[0], want)
	}
	if m := h.messages(webhook.TypeChanged)[0]; !strings.Contains(m.raw, `"filtered":true`) || strings.Contains(m.raw, `"hash"`) {
		t.Errorf("a filtered change does not say so, or has a hash: %s", m.raw)
	}
	read(webhook.TypeMoved, 1) // what b had came and went
	if want := (received{b, 0, 3}); got[0] != want {
		t.Errorf("moved %+v, want %+v", got[0], want)
	}
	until(t, "nothing held back", func() bool { return len(r.get(s.ID).Withheld) == 0 })
	rate, none := registry.Duration(300*time.Millisecond), json.RawMessage("null")
	if _, err := r.Update(registry.Caller{}, s.ID, registry.WebhookEdit{Rate: &rate, Filter: &none}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for i := range 5 {
		r.record(a, notifytest.Rows(fmt.Sprint("a", i)))
		r.record(b, notifytest.Rows(fmt.Sprint("b", i)))
		time.Sleep(5 * time.Millisecond)
	}
	until(t, "the newest of both", func() bool {
		a9, b8 := false, false
		for _, m := range h.messages(webhook.TypeChanged) {
			var d received
			_ = json.Unmarshal(m.Data, &d)
			a9, b8 = a9 || d.Query == a && d.Seq == 9, b8 || d.Query == b && d.Seq == 8
		}
		return a9 && b8
	})
	rounds := 2 + int(time.Since(began)/time.Duration(rate))
	if n := len(h.messages(webhook.TypeChanged)); n > 1+2*rounds { // one before, and one of each in a round
		t.Errorf("ten changes in %d rounds came as %d messages", rounds, n-1)
	}
	// What the log has lost is said for the query that it is about.
	r.pause(s.ID)
	r.record(a, notifytest.Rows("x"))
	if _, err := r.Engine.Resume(s.ID); err != nil {
		t.Fatal(err)
	}
	until(t, "a message after the pause", func() bool { return r.get(s.ID).Cursor.Seq > 0 && len(r.get(s.ID).Withheld) == 0 })
}

// A change of one of many queries that waits for the receiver is sent although the filter is edited.
func TestFilterEditWhileChangeWaits(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, notifytest.Rows("0"))
	h.many = true
	rate := registry.Duration(time.Millisecond)
	s := r.create(h, registry.WebhookRequest{Rate: rate})
	h.on(func(int, message) int { return 503 }, nil)
	r.record(q, notifytest.Rows("1"))
	until(t, "an attempt", func() bool { return len(h.messages(webhook.TypeChanged)) > 0 })
	filter := json.RawMessage(`{"min_rows":1}`)
	if _, err := r.Update(admin, s.ID, registry.WebhookEdit{Filter: &filter}); err != nil {
		t.Fatal(err)
	}
	h.on(nil, nil)
	r.record(q, notifytest.Rows("2"))
	until(t, "the last change", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.state[q] != nil && h.state[q].seq == 3
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	if first := h.got[1]; h.took[first.ID] == 0 {
		t.Errorf("%s was not taken", first.raw)
	}
}

// A delivery that seems to be in the future, because the clock was set back, holds nothing up.
func TestRateAfterClockWasSetBack(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	h.many = true
	q := r.log.Add("q", diff.Select, false)
	r.record(q, notifytest.Rows("1"))
	for i, w := range []registry.WebhookRequest{{Rate: registry.Duration(time.Hour)}, {Rate: registry.Duration(time.Hour), Query: "q"}} {
		s := r.create(h, w)
		if w.Query != "" {
			until(t, "the result", func() bool { return len(h.messages(webhook.TypeSnapshot)) == 1 })
		}
		r.pause(s.ID)
		ahead := time.Now().Add(24 * time.Hour)
		_, err := r.Engine.Edit(s.ID, func(s *registry.Subscription, _ bool) error {
			s.LastDelivery, s.State = &ahead, registry.Active
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		before := len(h.messages(webhook.TypeChanged))
		r.record(q, notifytest.Rows(fmt.Sprint("later", i)))
		until(t, "the change", func() bool { return len(h.messages(webhook.TypeChanged)) > before })
		r.pause(s.ID)
	}
}

// A caller that may no longer read gets no messages.
func TestWithdrawn(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	id := r.log.Add("q", diff.Select, false)
	s := r.create(h, registry.WebhookRequest{Query: "q"})
	r.withdrawn.Store(true)
	r.record(id, notifytest.Rows("a"))
	until(t, "disabled", func() bool { return r.get(s.ID).State == registry.Disabled })
	if len(h.messages(webhook.TypeSnapshot)) != 0 {
		t.Error("a message was sent")
	}
}

// A node that was stopped, and goes on after another node has taken over, keeps the message that
// the other node has fixed. Otherwise a change would be sent under two ids.
func TestTakenOver(t *testing.T) {
	for _, query := range []string{"q", ""} {
		r, h := newRig(t), newReceiver(t)
		id := r.log.Add("q", diff.Select, false)
		r.record(id, notifytest.Rows("a"))
		s := r.create(h, registry.WebhookRequest{Query: query})
		if query != "" {
			until(t, "the first result", func() bool { return len(h.messages(webhook.TypeSnapshot)) == 1 && r.get(s.ID).Outbox == nil })
		}
		r.stop()
		r.record(id, notifytest.Rows("b"))
		s = r.get(s.ID)
		next := func() deliver.Step {
			seen := s
			step, err := r.Target.Next(t.Context(), &seen, time.Now())
			if err != nil || step.Edit == nil {
				t.Fatalf("query %q: %+v, %v", query, step, err)
			}
			return step
		}
		stopped, other := next(), next()
		if other.Edit(&s); s.Outbox == nil {
			t.Fatalf("query %q: %v", query, s.Outbox)
		}
		fixed := s.Outbox.ID
		if stopped.Edit(&s); s.Outbox.ID != fixed {
			t.Errorf("query %q: the message is %s instead of %s", query, s.Outbox.ID, fixed)
		}
	}
}

// A change that is too large is sent as counts, and a result as a link.
func TestLarge(t *testing.T) {
	r, h := newRig(t), newReceiver(t)
	id := r.log.Add("q", diff.Select, false)
	big := make([]string, 4000)
	for i := range big {
		big[i] = fmt.Sprint(i, strings.Repeat("x", 100))
	}
	r.record(id, notifytest.Rows(big...))
	r.create(h, registry.WebhookRequest{Query: "q"})
	until(t, "the snapshot", func() bool { return len(h.messages(webhook.TypeSnapshot)) == 1 })
	if m := h.messages(webhook.TypeSnapshot)[0].raw; !strings.Contains(m,
		`"truncated":true,"count":4000,"results":"http://fresh.example/v1/queries/`+id+`/results"`) {
		t.Errorf("%.300s", m)
	}
	r.record(id, notifytest.Rows("a"))
	until(t, "the change", func() bool { return len(h.messages(webhook.TypeChanged)) == 1 })
	if m := h.messages(webhook.TypeChanged)[0].raw; !strings.Contains(m, `"truncated":true,"added_count":1,"removed_count":4000`) {
		t.Errorf("%.300s", m)
	}
}

// Only what the filter of a webhook leaves counts towards the largest message.
func TestLargeButFiltered(t *testing.T) {
	big := make([]string, 4000)
	for i := range big {
		big[i] = fmt.Sprint("x", i, strings.Repeat("x", 100))
	}
	for name, filter := range map[string]string{"rows": `{"where":[{"var":"s","op":"starts","value":"a"}]}`,
		"threshold": `{"min_rows":9000}`} {
		t.Run(name, func(t *testing.T) {
			r, h := newRig(t), newReceiver(t)
			id := r.log.Add("q", diff.Select, false)
			first := append([]string{"a1"}, big...)
			if name != "rows" {
				first = []string{"a1"}
			}
			r.record(id, notifytest.Rows(first...))
			s := r.create(h, registry.WebhookRequest{Query: "q", Filter: json.RawMessage(filter)})
			until(t, "the first result", func() bool { return h.holds(id, notifytest.Rows("a1")) })
			for i := range 3 { // 4000 rows of which the filter shows none
				r.record(id, notifytest.Rows("a1"))
				r.record(id, notifytest.Rows(append([]string{"a1"}, big[:len(big)-i]...)...))
			}
			r.record(id, notifytest.Rows(append([]string{"a1", "a2"}, big[:10]...)...))
			if name == "rows" {
				until(t, "the change", func() bool { return h.holds(id, notifytest.Rows("a1", "a2")) })
			} else {
				until(t, "an idle engine", func() bool { n := r.Engine.Stats(); return n.Running+n.Queued == 0 && r.get(s.ID).Outbox == nil })
			}
			if all := h.messages(webhook.TypeSnapshot); len(all) != 1 {
				t.Errorf("%d snapshots, the last one of %d bytes", len(all), len(all[len(all)-1].raw))
			}
		})
	}
}

// After random failures every receiver has its query's result. No message counts twice
// or comes out of order.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("FRESHET_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("FRESHET_SEED=%d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	r := newRig(t)
	restart := func(timing deliver.Timing) {
		r.stop()
		r.timing = timing
		r.start()
	}
	r.schedule = deliver.Schedule{Pauses: []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
		10 * time.Millisecond}, Patience: 15 * time.Millisecond}
	restart(deliver.Timing{}) // the endpoints are verified without haste
	type subject struct {
		id   string
		form diff.Form
	}
	var all []subject
	var hooks []*receiver
	for i, form := range []diff.Form{diff.Select, diff.Construct, diff.Ask} {
		s := subject{r.log.Add(fmt.Sprint("q", i), form, false), form}
		all = append(all, s)
		for k := range 3 {
			h := newReceiver(t)
			h.hasty = true
			w := registry.WebhookRequest{Query: s.id}
			if k == 1 {
				w.Rate = registry.Duration(3 * time.Millisecond)
			}
			r.create(h, w)
			draw := rand.New(rand.NewPCG(seed, uint64(10*i+k)))
			rude := func(int, message) int {
				switch draw.IntN(8) {
				case 0:
					return 500
				case 1:
					return 302
				case 2:
					time.Sleep(time.Duration(draw.IntN(5)) * time.Millisecond)
				case 3:
					if draw.IntN(5) == 0 {
						time.Sleep(60 * time.Millisecond) // too late
					}
				}
				return 200
			}
			h.on(rude, rude)
			hooks = append(hooks, h)
		}
	}
	hasty := deliver.Timing{Total: 50 * time.Millisecond}
	restart(hasty)
	for range 150 {
		s := all[rnd.IntN(len(all))]
		r.record(s.id, notifytest.Random(rnd, s.form, false))
		switch rnd.IntN(30) {
		case 0:
			restart(hasty) // undelivered messages are cursors: nothing else is kept
		case 1:
			r.log.Trim(s.id, 1+rnd.IntN(3))
		case 2, 3:
			time.Sleep(time.Duration(rnd.IntN(10)) * time.Millisecond)
		}
	}
	for _, h := range hooks {
		h.on(nil, nil)
	}
	restart(deliver.Timing{})
	for i, h := range hooks {
		s := all[i/3]
		_, res, err := r.log.Current(s.id, true)
		if err != nil {
			t.Fatal(err)
		}
		until(t, fmt.Sprintf("the end state at receiver %d", i), func() bool { return h.holds(s.id, res) })
	}
}

// A rate never leaves changes behind: when it allows the next messages, all waiting
// changes are sent, of one query or of many.
func TestManyQueriesKeepUpWithTheirRate(t *testing.T) {
	for name, queries := range map[string]int{"one query": 1, "many queries": 150} {
		t.Run(name, func(t *testing.T) {
			r, h := newRig(t), newReceiver(t)
			var ids []string
			for i := range queries {
				ids = append(ids, r.log.Add(fmt.Sprint("q", i), diff.Select, false))
				r.record(ids[i], notifytest.Rows("before"))
			}
			h.many = true
			s := r.create(h, registry.WebhookRequest{Rate: registry.Duration(time.Hour)})
			r.pause(s.ID)
			for i := range 300 {
				r.record(ids[i%queries], notifytest.Rows(fmt.Sprint(i)))
			}
			gone := r.log.Add("gone", diff.Select, false) // the last that waits is there no more
			r.record(gone, notifytest.Rows("x"))
			r.log.Remove(gone)
			if _, err := r.Engine.Resume(s.ID); err != nil {
				t.Fatal(err)
			}
			until(t, "the newest of all", func() bool {
				for _, id := range ids {
					if !newest(h, id, uint64(1+300/queries)) {
						return false
					}
				}
				return true
			})
			if n := len(h.messages(webhook.TypeChanged)); queries == 1 && n != 1 {
				t.Errorf("300 changes of one query came as %d messages", n)
			}
			r.record(ids[0], notifytest.Rows("later"))
			until(t, "an idle webhook", func() bool { x := r.get(s.ID); return len(x.Withheld) == 0 && x.Outbox == nil })
			if newest(h, ids[0], uint64(2+300/queries)) {
				t.Error("the next round did not wait for the rate")
			}
		})
	}
}

// newest reports whether a receiver is at a change.
func newest(h *receiver, query string, seq uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.state[query]
	return r != nil && r.seq == seq
}
