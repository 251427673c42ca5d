package people_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// A digest whose changes the log does not have any more is told at once, and the next goes on from there.
func TestMissed(t *testing.T) {
	for name, cut := range map[string]func(*rig, string){
		"retention":     func(r *rig, q string) { r.log.Trim(q, 2) },
		"another epoch": func(r *rig, q string) { r.log.Renumber(q, "e2") },
	} {
		t.Run(name, func(t *testing.T) {
			r, h := newRig(t), newRoom(t)
			q := r.log.Add("free spaces", diff.Select, false)
			r.record(q, "a")
			s := r.create(registry.ReceiverRequest{Address: h.address(), Query: q, Quiet: registry.Quiet{Digest: "08:00"}})
			for i := range 5 {
				r.record(q, "a", fmt.Sprint("b", i))
			}
			if got := h.messages(); len(got) > 0 {
				t.Fatalf("%q", got)
			}
			cut(r, q)
			r.again(s.ID)
			until(t, "the message", func() bool { return len(h.messages()) == 1 && r.get(s.ID).Outbox == nil })
			if got := h.messages()[0]; !strings.Contains(got, missed) || !strings.Contains(got, "Rows now: 2") {
				t.Errorf("%q", got)
			}
			r.record(q, "a", "c")
			r.clock.Add(int64(24 * time.Hour))
			r.again(s.ID)
			until(t, "the next digest", func() bool { return len(h.messages()) == 2 })
			if got := h.messages()[1]; !strings.Contains(got, "+ c") && !strings.Contains(got, "→ c") {
				t.Errorf("%q", got)
			}
		})
	}
}

// pause pauses a receiver and waits until no turn that began before plans a message.
func (r *rig) pause(id string) {
	r.t.Helper()
	if _, err := r.Engine.Pause(id); err != nil {
		r.t.Fatal(err)
	}
	r.idle()
}

// idle waits until no turn is under way.
func (r *rig) idle() {
	until(r.t, "an idle engine", func() bool { n := r.Engine.Stats(); return n.Running+n.Queued == 0 })
}

// again looks at a subscription again, at another time.
func (r *rig) again(id string) {
	r.t.Helper()
	if _, err := r.Engine.Resume(id); err != nil {
		r.t.Fatal(err)
	}
}

// at sets the clock to a time of tomorrow.
func (r *rig) at(hour, minute int) {
	now := time.Now().UTC()
	r.clock.Store(int64(time.Until(time.Date(now.Year(), now.Month(), now.Day()+1, hour, minute, 0, 0, time.UTC))))
}

// A message that failed before the quiet hours is not sent in them, but when a person asks for it.
func TestQuietRetry(t *testing.T) {
	r, h := newRig(t), newRoom(t)
	r.stop()
	r.schedule.Pauses = []time.Duration{30 * time.Minute}
	r.start()
	r.at(21, 50)
	q := r.log.Add("free spaces", diff.Select, false)
	r.record(q, "a")
	s := r.create(registry.ReceiverRequest{Address: h.address(), Query: q, Quiet: registry.Quiet{Hours: "22:00-07:00"}})
	h.mu.Lock()
	h.answer = func(int) (int, string) { return 500, "" }
	h.mu.Unlock()
	r.record(q, "a", "b")
	until(t, "a failure", func() bool { return r.get(s.ID).Failures >= 1 })
	h.mu.Lock()
	h.answer, h.calls = nil, 0
	h.mu.Unlock()
	r.at(22, 50)
	r.again(s.ID)
	time.Sleep(100 * time.Millisecond)
	if got := h.messages(); len(got) > 0 {
		t.Fatalf("in the quiet hours: %q", got)
	}
	r.at(30, 50)
	if _, err := r.Engine.Edit(s.ID, func(s *registry.Subscription, _ bool) error {
		deliver.Bury(s, registry.OutboxMessage{ID: "msg_x", From: s.Outbox.From, Until: s.Outbox.Until}, 0, deliver.Reply{})
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Engine.Resend(s.ID, "msg_x"); err != nil {
		t.Fatal(err)
	}
	until(t, "the replay", func() bool { return len(h.messages()) == 1 })
	r.at(31, 0)
	r.again(s.ID)
	until(t, "the message", func() bool { return len(h.messages()) == 2 })
}

// The end of a query is told after the quiet hours.
func TestEndInQuietHours(t *testing.T) {
	r, h := newRig(t), newRoom(t)
	r.at(23, 0)
	q := r.log.Add("free spaces", diff.Select, false)
	r.record(q, "a")
	s := r.create(registry.ReceiverRequest{Address: h.address(), Query: q, Quiet: registry.Quiet{Hours: "22:00-07:00"}})
	r.log.Remove(q)
	r.waker.Wake(q)
	time.Sleep(100 * time.Millisecond)
	if got := h.messages(); len(got) > 0 {
		t.Errorf("in the quiet hours: %q", got)
	}
	r.at(31, 0)
	r.again(s.ID)
	until(t, "the end", func() bool { return len(h.messages()) == 1 && !r.Engine.Has(s.ID) })
}

// The end of a query has its own id: the message before it may have arrived although its answer did not.
func TestEndAfterLostAnswer(t *testing.T) {
	r, h := newRig(t), newRoom(t)
	q := r.log.Add("free spaces", diff.Select, false)
	r.record(q, "a")
	s := r.create(registry.ReceiverRequest{Address: h.address(), Query: q})
	h.lost = true
	r.record(q, "a", "b")
	until(t, "a failure", func() bool { return r.get(s.ID).Failures >= 1 })
	r.log.Remove(q)
	h.mu.Lock()
	h.lost = false
	h.mu.Unlock()
	r.again(s.ID)
	until(t, "the end", func() bool { return !r.Engine.Has(s.ID) })
	if got := h.messages(); len(got) != 2 || !strings.Contains(got[1], "has ended") {
		t.Errorf("%q", got)
	}
}

// A receiver that is added again begins without the failures from before.
func TestAddAgain(t *testing.T) {
	r, h := newRig(t), newRoom(t)
	q := r.log.Add("free spaces", diff.Select, false)
	r.record(q, "a")
	req := registry.ReceiverRequest{Address: h.address(), Query: q}
	ago := time.Now().Add(-5*24*time.Hour - time.Minute).UTC()
	if _, err := r.Engine.Edit(r.create(req).ID, func(s *registry.Subscription, _ bool) error {
		s.FailingSince, s.Failures, s.NextTry = &ago, 100, &ago
		deliver.Disable(s, "the receiver failed for five days")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	h.answer = func(n int) (int, string) { return map[bool]int{true: 500, false: 200}[n == 1], "" }
	if s := r.create(req); s.State != registry.Active || s.FailingSince != nil || s.Failures != 0 || s.NextTry != nil {
		t.Errorf("%+v", s)
	}
	r.record(q, "a", "b")
	until(t, "the message after a failure", func() bool { return len(h.messages()) == 1 })
}

// A message links what it is about: a change, or the comparison of the results before and after several.
func TestLinks(t *testing.T) {
	r, h := newRig(t), newRoom(t)
	q := r.log.Add("free spaces", diff.Select, false)
	r.public.Store(&q)
	r.record(q, "a")
	s := r.create(registry.ReceiverRequest{Address: h.address(), Query: q})
	r.record(q, "a", "b")
	until(t, "a message", func() bool { return len(h.messages()) == 1 && r.get(s.ID).Outbox == nil })
	r.pause(s.ID)
	r.record(q, "a", "b", "c")
	r.record(q, "a", "b", "c", "d")
	r.again(s.ID)
	until(t, "another message", func() bool { return len(h.messages()) == 2 })
	at := "http://fresh.example/queries/" + url.PathEscape(q)
	for i, want := range []string{at + "/changes/2", at + "?a=2&b=4"} {
		if got := h.messages()[i]; !strings.HasSuffix(got, want) {
			t.Errorf("%q, want %s", got, want)
		}
	}
}
