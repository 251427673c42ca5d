// Tests of receivers that several tokens have, and of receivers that refuse a message.

package alert_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/webhook"
	"github.com/freshet/freshet/registry"
)

// createFor makes a rule of another caller.
func (r *rig) createFor(caller string, s registry.RuleSettings) registry.ListedRule {
	r.t.Helper()
	v, err := r.Create(r.t.Context(), registry.Caller{Name: caller, Role: registry.RoleApp}, s)
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// A rule of another token with the same address and another secret does not stop the alerts that
// the receiver accepts.
func TestSameAddressOfTwoTokens(t *testing.T) {
	const secret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
	var took, refused atomic.Int32
	url := newServer(t, func(r *http.Request) int {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		id, at := r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp")
		if r.Header.Get("Webhook-Signature") != webhook.Sign([]registry.Secret{{Key: secret}}, id, at, body, time.Now()) {
			refused.Add(1)
			return http.StatusUnauthorized
		}
		took.Add(1)
		return http.StatusNoContent
	})
	r := newRig(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q)
	settings := registry.RuleSettings{Name: "a", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "webhook", Address: url, Secret: secret}}}
	a := r.createFor("a", settings)
	settings.Name, settings.To = "b", []registry.Receiver{{Kind: "webhook", Address: url}}
	b := r.createFor("b", settings)
	for i := range 5 {
		r.record(q, fmt.Sprintf("r%d=11", i))
	}
	until(t, "all messages of a", func() bool { return r.rule(a.ID).Receivers[0].Deliveries == 9 }) // the last one fires
	until(t, "the dead letters of b", func() bool { return r.rule(b.ID).Receivers[0].GaveUp == 9 })
	to := r.rule(b.ID).Receivers[0]
	s, err := r.deliver.Subscription(to.ID)
	if err != nil || to.Waiting() != 0 || len(s.Dead) != 9 || s.Dead[0].Error != "the callback answered 401" ||
		slices.ContainsFunc(s.Dead, func(d registry.DeadLetter) bool { return d.Attempts != 2 }) || took.Load() != 9 || refused.Load() != 18 {
		t.Errorf("%d taken, %d refused: %+v %+v %v", took.Load(), refused.Load(), to, s.Dead, err)
	}
	if _, err := r.deliver.DropLetter(to.ID, s.Dead[0].ID); err != nil || r.stored() != 8 {
		t.Errorf("%d messages are stored after one was dropped: %v", r.stored(), err)
	}
	if err := r.Remove(b.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := r.deliver.DropLetter(to.ID, ""); err != nil && !errors.Is(err, registry.ErrNotFound) {
		t.Error(err)
	}
	until(t, "the end of a receiver without rules", func() bool {
		if s, err := r.deliver.Subscription(to.ID); err == nil {
			_, _ = r.deliver.DropLetter(s.ID, "")
			return false
		}
		return r.stored() == 0
	})
}

// A message that its receiver refuses is sent twice and set aside, and the next ones follow.
func TestRefusedMessage(t *testing.T) {
	r, h := newRig(t), newHook(t)
	h.refuse = func(m message) bool { return strings.Contains(string(m.body), `"s":"bad"`) }
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=11", "bad=11", "c=11")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	until(t, "the good messages", func() bool { return r.rule("late").Receivers[0].Deliveries == 2 })
	until(t, "the dead letter", func() bool { return r.rule("late").Receivers[0].GaveUp == 1 })
	seen := h.seen()
	slices.Sort(seen)
	if fmt.Sprint(seen) != "[firing a firing bad firing bad firing c]" {
		t.Errorf("%v", seen)
	}
	to := r.rule("late").Receivers[0]
	r.stop()
	r.start()
	h.mu.Lock()
	h.refuse = nil
	h.mu.Unlock()
	s, err := r.deliver.Resend(to.ID, "")
	if err != nil || len(s.Dead) != 1 || s.Dead[0].Error != "the callback answered 400" || !strings.HasPrefix(s.Dead[0].Summary, "late") {
		t.Fatalf("%+v %v", s.Dead, err)
	}
	until(t, "the dead letter that is sent again", func() bool { return r.rule("late").Receivers[0].Deliveries == 3 && r.stored() == 0 })
	list := h.messages()
	if last := list[len(list)-1]; last.Get("Webhook-Id") != s.Dead[0].ID {
		t.Errorf("the id %s, want %s", last.Get("Webhook-Id"), s.Dead[0].ID)
	}
}

// An alert that Alertmanager refuses does not keep the others of its request from it, also not when
// firing alerts are sent again.
func TestRefusedAlertOfABatch(t *testing.T) {
	var mu sync.Mutex
	got := map[string]int{}
	url := newServer(t, func(r *http.Request) int {
		var list []struct{ Labels map[string]string }
		if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, a := range list {
			if a.Labels["s"] == "r77" {
				got["refused"]++
				return http.StatusBadRequest
			}
		}
		for _, a := range list {
			got[a.Labels["s"]]++
		}
		return http.StatusOK
	})
	r := newRig(t)
	q := r.log.Add("q", diff.Select, false)
	var rows []string
	for i := range 150 {
		rows = append(rows, fmt.Sprintf("r%d=11", i))
	}
	r.record(q, rows...)
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "alertmanager", Address: url}}})
	until(t, "the dead letter", func() bool {
		v := r.rule("late").Receivers[0]
		return v.GaveUp == 1 && v.Deliveries == 149 && v.Waiting() == 0
	})
	mu.Lock()
	if got["refused"] > 20 {
		t.Errorf("%d refused requests until one of 100 alerts was found", got["refused"])
	}
	clear(got)
	mu.Unlock()
	until(t, "all others again", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(got) == 149 && got["refused"] == 0
	})
}

// Receivers of one token that hang delay the alerts of another by no request.
func TestHangingReceiversOfAnotherToken(t *testing.T) {
	release := make(chan struct{})
	var hanging atomic.Int32
	bad := newServer(t, func(*http.Request) int {
		hanging.Add(1)
		<-release
		return http.StatusNoContent
	})
	defer close(release)
	h := newHook(t)
	r := newRig(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=11")
	for i := range 60 {
		s := registry.RuleSettings{Name: fmt.Sprint("bad", i), Query: q, When: "?value > 10"}
		for k := range 10 {
			s.To = append(s.To, registry.Receiver{Kind: "webhook", Address: fmt.Sprintf("%s/%d/%d", bad, i, k)})
		}
		r.createFor("a", s)
	}
	until(t, "receivers that hang", func() bool { return hanging.Load() >= 32 })
	good := r.createFor("b", registry.RuleSettings{Name: "good", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "webhook", Address: h.URL}}})
	for i := range 3 {
		r.record(q, "a=11", fmt.Sprintf("b%d=11", i))
	}
	until(t, "all alerts of the other token", func() bool { return r.rule(good.ID).Receivers[0].Deliveries == 6 })
	if n := hanging.Load(); n != 32 {
		t.Errorf("%d requests hang, want half of the places", n)
	}
}

// A token has a limited number of receivers.
func TestReceiversOfOneToken(t *testing.T) {
	r := newRig(t)
	r.stop()
	r.options.Addresses = 2
	r.start()
	q := r.log.Add("q", diff.Select, false)
	r.record(q)
	ids := map[string]string{}
	make := func(caller, name string, to ...string) error {
		s := registry.RuleSettings{Name: name, Query: q, When: "?value > 10"}
		for _, x := range to {
			s.To = append(s.To, registry.Receiver{Kind: "alertmanager", Address: "http://127.0.0.1:1/" + x})
		}
		v, err := r.Create(t.Context(), registry.Caller{Name: caller, Role: registry.RoleApp}, s)
		ids[name] = v.ID
		return err
	}
	if err := errors.Join(make("a", "a1", "x", "y"), make("a", "a2", "x"), make("b", "b1", "z")); err != nil {
		t.Fatal(err)
	}
	err := make("a", "a3", "z")
	if p := (*registry.Problem)(nil); !errors.As(err, &p) || p.Kind != registry.KindQuota || !strings.Contains(p.Detail,
		"limits.token_receivers") {
		t.Errorf("a receiver too many: %v", err)
	}
	if err := errors.Join(r.Remove(ids["a1"]), make("a", "a3", "z")); err != nil {
		t.Error(err)
	}
}

// Receivers that no rule has any more count as long as messages wait for them. A token cannot store
// any number of them.
func TestReceiversWithoutRules(t *testing.T) {
	url := newServer(t, func(*http.Request) int { return http.StatusServiceUnavailable })
	r := newRig(t)
	r.stop()
	r.options.Addresses = 1
	r.start()
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=11")
	made := 0
	for i := range 10 {
		v, err := r.Create(t.Context(), app, registry.RuleSettings{Name: "late", Query: q, When: "?value > 10",
			To: []registry.Receiver{{Kind: "webhook", Address: fmt.Sprint(url, "/", i)}}})
		if p := (*registry.Problem)(nil); errors.As(err, &p) && p.Kind == registry.KindQuota && strings.Contains(p.Detail, "drop some") {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		made++
		if err := r.Remove(v.ID); err != nil {
			t.Fatal(err)
		}
	}
	if made != 2 {
		t.Errorf("%d receivers are stored", made)
	}
}
