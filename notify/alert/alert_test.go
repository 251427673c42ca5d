// Tests of rules with webhooks: what is sent, what is stored, and what goes wrong.

package alert_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/webhook"
	"github.com/freshet/freshet/registry"
)

func TestWebhook(t *testing.T) {
	r, h := newRig(t), newHook(t)
	q := r.log.Add("late", diff.Select, false)
	v := r.create(registry.RuleSettings{Name: "late", Query: "late", When: "?value > 10", Labels: map[string]string{"s": "?s"},
		Summary: "?s is ?value late", To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	if v.Status != registry.RuleWaiting || v.To[0].Secret == "" || v.Query != q {
		t.Errorf("%+v", v)
	}
	r.record(q, "a=5", "b=11")
	until(t, "the first alert", func() bool { return len(h.messages()) == 1 })
	r.record(q, "a=5", "b=12")
	r.record(q, "a=5")
	until(t, "its end", func() bool { return len(h.messages()) == 2 })
	if d := cmp.Diff([]string{"firing b", "resolved b"}, h.seen()); d != "" {
		t.Error(d)
	}
	m := h.messages()[0]
	id, at := m.Get("Webhook-Id"), m.Get("Webhook-Timestamp")
	if want := webhook.Sign([]registry.Secret{{Key: v.To[0].Secret}}, id, at, m.body, time.Now()); m.Get("Webhook-Signature") != want {
		t.Errorf("signature %s, want %s", m.Get("Webhook-Signature"), want)
	}
	if m.data["summary"] != "b is 11 late" || m.data["name"] != "late" || m.data["url"] != "http://fresh.example/queries/"+q {
		t.Errorf("%v", m.data)
	}
	until(t, "the deletion of both messages", func() bool { return r.stored() == 0 })
	r.delivered("late")
	if v = r.rule("late"); v.Status != registry.RuleInactive || v.State.Fired != 1 || len(v.State.Events) != 2 ||
		v.Receivers[0].Deliveries != 2 {
		t.Errorf("%+v", v)
	}
}

// A stopped server goes on where it was: what it announced is not announced again, and what
// happened meanwhile is.
func TestRestart(t *testing.T) {
	r, h := newRig(t), newHook(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	until(t, "a", func() bool { return len(h.messages()) == 1 })
	r.delivered("late")
	r.stop()
	r.record(q, "a=11", "b=11")
	r.record(q, "a=11", "c=11")
	r.start()
	until(t, "b and c", func() bool { return len(h.messages()) == 4 })
	r.delivered("late")
	if d := cmp.Diff([]string{"firing a", "firing b", "resolved b", "firing c"}, h.seen()); d != "" {
		t.Error(d)
	}
	r.stop()
	r.start()
	if v := r.rule("late"); v.Status != registry.RuleFiring || alerts(v) != 2 || v.State.Fired != 3 {
		t.Errorf("%+v", v)
	}
	r.record(q, "c=11")
	until(t, "the end of a", func() bool { return len(h.messages()) == 5 })
}

// A message that is not accepted is sent again with the same id and content, also after a
// restart. It delays the next ones.
func TestRetry(t *testing.T) {
	r, h := newRig(t), newHook(t)
	h.answer(http.StatusServiceUnavailable)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	r.record(q)
	until(t, "two attempts", func() bool { return len(h.messages()) >= 2 })
	if s := r.rule("late").Receivers[0]; s.Failures == 0 || !strings.Contains(s.LastError, "503") || s.Waiting() == 0 {
		t.Errorf("%+v", s)
	}
	r.stop()
	before := len(h.messages())
	r.start()
	until(t, "an attempt after the restart", func() bool { return len(h.messages()) > before })
	h.answer(http.StatusOK)
	until(t, "both messages", func() bool { return r.rule("late").Receivers[0].Deliveries == 2 })
	list := h.messages()
	for i, m := range list[:len(list)-1] {
		if m.Get("Webhook-Id") != list[0].Get("Webhook-Id") || string(m.body) != string(list[0].body) {
			t.Errorf("attempt %d differs: %s", i, m.body)
		}
	}
	if last := list[len(list)-1]; last.data["state"] != "resolved" || last.Get("Webhook-Id") == list[0].Get("Webhook-Id") {
		t.Errorf("%s", last.body)
	}
}

// A receiver that answers 410 gets no further message until it is resumed. Its messages are set
// aside, and can be sent again.
func TestGone(t *testing.T) {
	r, h := newRig(t), newHook(t)
	h.answer(http.StatusGone)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11", "b=11")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	until(t, "both messages", func() bool { return r.rule("late").Receivers[0].GaveUp == 2 })
	to := r.rule("late").Receivers[0]
	if len(h.messages()) != 1 || to.State != registry.Disabled || !strings.Contains(to.Reason, "410") || to.Waiting() != 0 {
		t.Errorf("%v %+v", h.seen(), to)
	}
	h.answer(http.StatusOK)
	if _, err := r.deliver.Resume(to.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := r.deliver.Resend(to.ID, ""); err != nil {
		t.Fatal(err)
	}
	until(t, "both messages after they are sent again", func() bool { return r.rule("late").Receivers[0].Deliveries == 2 })
	if s, err := r.deliver.Subscription(to.ID); err != nil || len(s.Dead) != 0 || r.stored() != 0 {
		t.Errorf("%+v %v", s, err)
	}
}

// For runs on complete answers: a failing query neither fires nor resolves.
func TestStale(t *testing.T) {
	r, h := newRig(t), newHook(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", For: registry.Duration(2 * time.Minute),
		To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	if v := r.rule("late"); v.Status != registry.RulePending {
		t.Errorf("%+v", v)
	}
	r.log.Fail(q, "it is down")
	r.waker.Wake(q)
	until(t, "the status stale", func() bool { return r.rule("late").Status == registry.RuleStale })
	if v := r.rule("late"); !strings.Contains(v.Reason, "it is down") || alerts(v) != 1 {
		t.Errorf("%+v", v)
	}
	r.record(q, "a=11") // a minute later, and not enough
	r.record(q, "a=11")
	until(t, "the alert", func() bool { return len(h.messages()) == 1 })
	if v := r.rule("late"); v.Status != registry.RuleFiring || !v.State.CheckedAt.Equal(time.Unix(1_790_000_000+180, 0)) {
		t.Errorf("%+v", v)
	}
}

// An answer without a change wakes no follower. The alert that waits for it fires all the same.
func TestConfirmation(t *testing.T) {
	r, h := newRig(t), newHook(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", For: registry.Duration(time.Minute),
		To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	if r.log.Record(q, table(t, "a=11"), time.Unix(1_790_000_000+120, 0)) {
		t.Fatal("the result has changed")
	}
	until(t, "the alert", func() bool { return len(h.messages()) == 1 })
	if v := r.rule("late"); v.Status != registry.RuleFiring || v.State.At.Seq != 1 {
		t.Errorf("%+v", v)
	}
}

// A result that a feed proves needs no answer: the alert that waits for time to pass fires.
func TestProofConfirms(t *testing.T) {
	r, h := newRig(t), newHook(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", For: registry.Duration(time.Minute),
		To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	r.proved.Store(1_790_000_000 + 30)
	r.waker.Wake(q)
	if v := r.rule("late"); v.Status != registry.RulePending {
		t.Errorf("%+v", v)
	}
	r.proved.Store(1_790_000_000 + 300)
	until(t, "the alert", func() bool { r.waker.Wake(q); return len(h.messages()) == 1 })
	if v := r.rule("late"); v.Status != registry.RuleFiring || !v.State.CheckedAt.Equal(time.Unix(1_790_000_000+300, 0)) {
		t.Errorf("%+v", v)
	}
}

// An alert that is removed with its rule or its query is resolved.
func TestEnds(t *testing.T) {
	r, h := newRig(t), newHook(t)
	q, p := r.log.Add("late", diff.Select, false), r.log.Add("other", diff.Select, false)
	for i, id := range []string{q, p} {
		r.record(id, "a=11")
		r.create(registry.RuleSettings{Name: []string{"one", "two"}[i], Query: id, When: "?value > 10",
			To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	}
	until(t, "both alerts", func() bool { return len(h.messages()) == 2 })
	if err := r.Remove(r.rule("one").ID); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of one", func() bool { return len(h.messages()) == 3 })
	if _, err := r.Rule(app, "one"); !errors.Is(err, registry.ErrNotFound) {
		t.Error(err)
	}
	r.log.Remove(p)
	r.waker.Wake(p)
	until(t, "the end of two", func() bool { return len(h.messages()) == 4 })
	if v := r.rule("two"); v.Status != registry.RuleEnded || !strings.Contains(v.Reason, "was removed") {
		t.Errorf("%+v", v)
	}
	r.stop()
	r.start()
	if err := r.Remove(r.rule("two").ID); err != nil {
		t.Fatal(err)
	}
	if list, err := r.Rules("", 10); err != nil || len(list) != 0 {
		t.Errorf("%v %v", list, err)
	}
}

// A rule whose owner may no longer read is not evaluated, and says so.
func TestDeprived(t *testing.T) {
	r, h := newRig(t), newHook(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q)
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "rows > 0", To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	r.withdrawn.Store(true)
	r.record(q, "a=1")
	if v := r.rule("late"); v.Status != registry.RuleFailing || !strings.Contains(v.Reason, "renew the token") {
		t.Errorf("%+v", v)
	}
	r.withdrawn.Store(false)
	r.record(q, "a=1", "b=1")
	until(t, "the alert", func() bool { return len(h.messages()) == 1 })
	if m := h.messages()[0]; m.data["seq"] != 2.0 {
		t.Errorf("the alert is of change %v, want the first one that meets the condition", m.data["seq"])
	}
}

// A rule whose owner may read again goes on, though its query stays as it is.
func TestDeprivedForAMoment(t *testing.T) {
	r := newRig(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q)
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "rows > 0"})
	r.withdrawn.Store(true)
	asked := r.asked.Load()
	r.record(q, "a=1")
	until(t, "the rule is not evaluated", func() bool { return r.asked.Load() > asked })
	time.Sleep(20 * time.Millisecond)
	r.withdrawn.Store(false)
	if v := r.rule("late"); v.Status != registry.RuleInactive {
		t.Errorf("it is %s", v.Status)
	}
	r.passed.Add(2)
	until(t, "the alert", func() bool { return r.rule("late").Status == registry.RuleFiring })
}

// A message that waits is set aside, and not sent, if its owner may no longer read the query.
func TestDeprivedMessage(t *testing.T) {
	r, h := newRig(t), newHook(t)
	h.answer(http.StatusServiceUnavailable)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	until(t, "a failure", func() bool { return len(h.messages()) > 0 })
	r.withdrawn.Store(true)
	until(t, "a dead letter", func() bool {
		r.deliver.Recheck()
		return r.rule("late").Receivers[0].GaveUp == 1
	})
	s, err := r.deliver.Subscription(r.rule("late").Receivers[0].ID)
	if err != nil || len(s.Dead) != 1 || !strings.Contains(s.Dead[0].Error, "may not read") || s.Deliveries != 0 {
		t.Errorf("%+v %v", s, err)
	}
	h.answer(http.StatusNoContent)
	n := len(h.messages())
	if _, err := r.deliver.Resend(s.ID, s.Dead[0].ID); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the attempt", func() bool {
		s, err = r.deliver.Subscription(s.ID)
		return err == nil && (len(s.Dead) == 0 || !s.Dead[0].Replay)
	})
	if len(h.messages()) != n || len(s.Dead) != 1 || !strings.Contains(s.Dead[0].Error, "may not read") || s.Deliveries != 0 {
		t.Errorf("sent again without the right: %d messages, %+v", len(h.messages())-n, s)
	}
}

// Where retention has dropped changes, the current result decides.
func TestGap(t *testing.T) {
	r, h := newRig(t), newHook(t)
	q := r.log.Add("late", diff.Select, false)
	r.record(q, "a=11", "b=11")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	until(t, "both alerts", func() bool { return len(h.messages()) == 2 })
	r.delivered("late")
	r.stop()
	r.record(q, "a=11", "c=11")
	r.record(q, "a=11", "d=11")
	r.log.Trim(q, 1)
	r.start()
	until(t, "one end and one alert", func() bool { return len(h.messages()) == 4 })
	seen := h.seen()
	slices.Sort(seen)
	if d := cmp.Diff([]string{"firing a", "firing b", "firing d", "resolved b"}, seen); d != "" {
		t.Error(d)
	}
}

func TestBadRules(t *testing.T) {
	r := newRig(t)
	q := r.log.Add("late", diff.Select, false)
	good := registry.RuleSettings{Name: "late", Query: q, When: "rows > 0"}
	r.create(good)
	for _, c := range []struct {
		says string
		edit func(*registry.RuleSettings)
	}{
		{"named late already", func(*registry.RuleSettings) {}},
		{"query is missing", func(s *registry.RuleSettings) { s.Query = "" }},
		{"no query has", func(s *registry.RuleSettings) { s.Query = "nothing" }},
		{"one of alertmanager, email, webhook", func(s *registry.RuleSettings) { s.To = []registry.Receiver{{}} }},
		{"one of alertmanager, email, webhook", func(s *registry.RuleSettings) {
			if err := json.Unmarshal([]byte(`[{"webhook": "http://127.0.0.1/", "alertmanager": "http://127.0.0.1/"}]`), &s.To); err != nil {
				t.Error(err)
			}
		}},
		{"given twice", func(s *registry.RuleSettings) {
			s.To = []registry.Receiver{{Kind: "webhook", Address: "http://127.0.0.1/"}, {Kind: "webhook", Address: "http://127.0.0.1/"}}
		}},
		{"websub.allow_callback_networks", func(s *registry.RuleSettings) {
			s.To = []registry.Receiver{{Kind: "webhook", Address: "http://10.0.0.1/"}}
		}},
		{"websub.allow_callback_networks", func(s *registry.RuleSettings) {
			s.To = []registry.Receiver{{Kind: "alertmanager", Address: "http://10.0.0.1/"}}
		}},
		{"without a query string", func(s *registry.RuleSettings) {
			s.To = []registry.Receiver{{Kind: "alertmanager", Address: "http://127.0.0.1/?a"}}
		}},
		{"whsec_", func(s *registry.RuleSettings) {
			s.To = []registry.Receiver{{Kind: "webhook", Address: "http://127.0.0.1/", Secret: "x"}}
		}},
		{"has no secret", func(s *registry.RuleSettings) {
			s.To = []registry.Receiver{{Kind: "alertmanager", Address: "http://127.0.0.1/", Secret: "x"}}
		}},
		{"at most 10 receivers (limits.rule_receivers)", func(s *registry.RuleSettings) { s.To = make([]registry.Receiver, 11) }},
	} {
		s := good
		c.edit(&s)
		_, err := r.Create(context.Background(), app, s)
		if p := (*registry.Problem)(nil); !errors.As(err, &p) || !strings.Contains(p.Detail, c.says) {
			t.Errorf("%+v: %v, want %q", s, err, c.says)
		}
	}
	r.stop()
	r.options.Most, r.options.MostEach = 2, 1
	r.start()
	other := good
	other.Name = "other"
	if _, err := r.Create(context.Background(), app, other); err == nil || !strings.Contains(err.Error(), "limits.token_rules") {
		t.Error(err)
	}
	if _, err := r.Create(context.Background(), registry.Caller{Name: "b", Role: registry.RoleAdmin}, other); err != nil {
		t.Error(err)
	}
	other.Name = "third"
	if _, err := r.Create(context.Background(), registry.Caller{Name: "c", Role: registry.RoleAdmin}, other); err == nil ||
		!strings.Contains(err.Error(), "limits.rules") {
		t.Error(err)
	}
}
