package alert_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

// A chatRoom is a room of Matrix, which shows each id once.
type chatRoom struct {
	*httptest.Server
	mu  sync.Mutex
	n   int
	ids map[string]bool
	got []string
}

func newRoom(t *testing.T) *chatRoom {
	h := &chatRoom{ids: map[string]bool{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var m struct{ Body string }
		_ = json.Unmarshal(raw, &m)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.n++
		if id := path.Base(r.URL.Path); !h.ids[id] {
			h.ids[id], h.got = true, append(h.got, m.Body)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *chatRoom) address() string {
	return "matrix+http://tok@" + strings.TrimPrefix(h.URL, "http://") + "/!r:x"
}

func (h *chatRoom) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.got...)
}

func (h *chatRoom) calls() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

// later starts the server again when its clock has gone on. A server that stops before it has recorded a delivery makes it again.
func (r *rig) later(ahead *atomic.Int64, d time.Duration) {
	until(r.t, "all deliveries are recorded", func() bool { return r.deliver.Stats().Running == 0 })
	r.stop()
	ahead.Add(int64(d))
	r.start()
}

func newLateRig(t *testing.T) (*rig, *atomic.Int64) {
	r, ahead := newRig(t), new(atomic.Int64)
	r.stop()
	r.options.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	r.start()
	return r, ahead
}

// What still fires is told again after the pause that a receiver asks for, as one message in words, and once: also after a restart.
func TestRepeatWhileFiring(t *testing.T) {
	r, ahead := newLateRig(t)
	h, w := newTexts(t), newHook(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=1")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{
		{Kind: "text", Address: h.URL, Quiet: registry.Quiet{Repeat: "4h"}}, {Kind: "webhook", Address: w.URL,
			Quiet: registry.Quiet{Repeat: "6h"}}}})
	r.record(q, "a=11", "b=12")
	until(t, "the messages", func() bool { return strings.Contains(strings.Join(h.list(), ""), "s b") && len(w.messages()) == 2 })
	first := len(h.list())
	r.later(ahead, 3*time.Hour)
	time.Sleep(50 * time.Millisecond)
	if got := h.list()[first:]; len(got) != 0 {
		t.Errorf("too early: %q", got)
	}
	for i := range 2 {
		r.later(ahead, 4*time.Hour)
		until(t, "it comes again", func() bool { return len(h.list()) == first+1+i })
		r.later(ahead, time.Minute)
		time.Sleep(50 * time.Millisecond)
		if got := h.list()[first:]; len(got) != 1+i || !strings.HasPrefix(got[i], "Still [FIRING:2] late\n") ||
			strings.Count(got[i], "firing late: s ") != 2 {
			t.Fatalf("%q", got)
		}
	}
	until(t, "the webhook is told again", func() bool { return len(w.messages()) == 4 })
	ids := map[string]bool{}
	for _, m := range w.messages() {
		ids[m.Get("webhook-id")] = true
	}
	if len(ids) != 4 {
		t.Errorf("%d ids", len(ids))
	}
	first = len(h.list())
	r.record(q, "b=12")
	until(t, "one is resolved", func() bool { return len(h.list()) == first+1 })
	r.later(ahead, 4*time.Hour)
	until(t, "the other comes again", func() bool { return len(h.list()) == first+2 })
	if got := h.list()[first+1]; !strings.HasPrefix(got, "Still [FIRING] late\ns b\n") {
		t.Errorf("%q", got)
	}
	r.record(q, "b=1")
	until(t, "both are resolved", func() bool { return len(h.list()) == first+3 })
	r.later(ahead, 12*time.Hour)
	time.Sleep(50 * time.Millisecond)
	if got := h.list()[first+3:]; len(got) != 0 {
		t.Errorf("nothing fires: %q", got)
	}
}

// A receiver that joins a rule that fires is told what fires, and one that refuses a repetition is asked twice, until the next is due.
func TestRepeatToNewAndRefusing(t *testing.T) {
	r, ahead := newLateRig(t)
	var asked atomic.Int32
	url := newServer(t, func(*http.Request) int { asked.Add(1); return http.StatusForbidden })
	h := newTexts(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=11")
	s := registry.RuleSettings{Name: "late", Query: q, When: "?value > 10"}
	v := r.create(s)
	s.To = []registry.Receiver{{Kind: "text", Address: h.URL, Quiet: registry.Quiet{Repeat: "1h"}}, {Kind: "text", Address: url,
		Quiet: registry.Quiet{Repeat: "1h"}}}
	if _, err := r.Replace(t.Context(), app, v.ID, s); err != nil {
		t.Fatal(err)
	}
	until(t, "the new one is told", func() bool { return len(h.list()) == 1 && asked.Load() == 2 })
	time.Sleep(100 * time.Millisecond)
	if got := h.list(); asked.Load() != 2 || len(got) != 1 || !strings.HasPrefix(got[0], "Still [FIRING] late\ns a\n") {
		t.Errorf("asked %d times; %q", asked.Load(), got)
	}
	r.later(ahead, time.Hour+time.Minute)
	until(t, "again", func() bool { return len(h.list()) == 2 && asked.Load() == 4 })
	for _, bad := range []registry.Receiver{{Kind: "text", Address: h.URL, Quiet: registry.Quiet{Repeat: "1s"}},
		{Kind: "text", Address: h.URL, Quiet: registry.Quiet{Repeat: "often"}},
		{Kind: "alertmanager", Address: h.URL, Quiet: registry.Quiet{Repeat: "1h"}}} {
		if _, err := r.Create(t.Context(), app, registry.RuleSettings{Name: "x", Query: q, When: "rows > 0",
			To: []registry.Receiver{bad}}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

// No repetition comes in quiet hours.
func TestRepeatIsQuiet(t *testing.T) {
	r, ahead := newLateRig(t)
	day := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	ahead.Store(int64(time.Until(day.Add(20 * time.Hour))))
	r.later(ahead, 0)
	h := newTexts(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=1")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "text", Address: h.URL, Quiet: registry.Quiet{Repeat: "4h", Hours: "22:00-07:00"}}}})
	r.record(q, "a=11")
	until(t, "a message", func() bool { return len(h.list()) == 1 })
	r.later(ahead, 5*time.Hour) // at 1:00
	time.Sleep(50 * time.Millisecond)
	if got := h.list(); len(got) != 1 {
		t.Errorf("%q", got)
	}
	r.later(ahead, 6*time.Hour+time.Minute)
	until(t, "the message of the morning", func() bool { return len(h.list()) == 2 })
}

// A receiver that gets other messages all the time is told again what still fires, and one with a digest is told with the digest.
func TestRepeatToBusyAndDaily(t *testing.T) {
	r, ahead := newLateRig(t)
	day := time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)
	ahead.Store(int64(time.Until(day.Add(6 * time.Hour))))
	r.later(ahead, 0)
	busy, daily := newTexts(t), newTexts(t)
	q, steady := r.log.Add("q", diff.Select, false), r.log.Add("steady", diff.Select, false)
	r.record(q, "a=1")
	r.record(steady, "c=1")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "text", Address: busy.URL, Quiet: registry.Quiet{Repeat: "4h"}}}})
	r.create(registry.RuleSettings{Name: "steady", Query: steady, When: "?value > 10", To: []registry.Receiver{
		{Kind: "text", Address: daily.URL, Quiet: registry.Quiet{Digest: "08:00", Repeat: "4h"}}}})
	r.record(q, "a=11")
	r.record(steady, "c=11")
	for i := range 5 {
		until(t, "a message", func() bool { return len(busy.list()) >= 1+i })
		if got := strings.Join(busy.list(), ""); i < 4 && strings.Contains(got, "Still") {
			t.Fatalf("too early: %q", got)
		}
		r.later(ahead, time.Hour)
		r.record(q, "a=11", []string{"b=12", "b=1"}[i%2])
	}
	until(t, "what still fires", func() bool { return strings.Contains(strings.Join(busy.list(), ""), "Still [FIRING") })
	until(t, "the digest", func() bool { return len(daily.list()) == 1 })
	r.later(ahead, 12*time.Hour) // at 23:00
	time.Sleep(50 * time.Millisecond)
	if got := daily.list(); len(got) != 1 {
		t.Errorf("more than a digest: %q", got)
	}
	r.later(ahead, 10*time.Hour)
	until(t, "the next morning", func() bool { return len(daily.list()) == 2 })
}

// A server that is killed after it has sent a reminder and before that is recorded sends it again: the same message, so a room of
// Matrix shows it once and a webhook knows its id. Then nothing comes before the next one is due.
func TestRepeatAfterKill(t *testing.T) {
	r, ahead := newLateRig(t)
	h, w, room := newTexts(t), newHook(t), newRoom(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=1")
	again := registry.Quiet{Repeat: "4h"}
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{
		{Kind: "text", Address: h.URL, Quiet: again}, {Kind: "webhook", Address: w.URL, Quiet: again},
		{Kind: "matrix", Address: room.address(), Quiet: again}}})
	r.record(q, "a=11")
	until(t, "the messages", func() bool { return len(h.list()) == 1 && len(w.messages()) == 1 && len(room.list()) == 1 })
	until(t, "all deliveries are recorded", func() bool { return r.deliver.Stats().Running == 0 })
	for i, m := range w.messages() {
		if _, ok := m.data["repeated"]; ok {
			t.Errorf("message %d says that it is repeated: %s", i, m.body)
		}
	}
	r.stop()
	ahead.Add(int64(4*time.Hour + time.Minute))
	r.readOnly.Store(true) // nothing is recorded from now on
	r.start()
	until(t, "the reminders", func() bool { return len(h.list()) == 2 && len(w.messages()) == 2 && len(room.list()) == 2 })
	r.stop()
	r.readOnly.Store(false)
	r.start()
	until(t, "the same again", func() bool { return len(h.list()) == 3 && len(w.messages()) == 3 && room.calls() == 3 })
	r.later(ahead, time.Hour)
	time.Sleep(50 * time.Millisecond)
	texts, hooks := h.list(), w.messages()
	if len(texts) != 3 || texts[1] != texts[2] || !strings.HasPrefix(texts[1], "Still [FIRING] late\n") {
		t.Errorf("%q", texts)
	}
	if len(hooks) != 3 || hooks[1].Get("webhook-id") != hooks[2].Get("webhook-id") ||
		hooks[0].Get("webhook-id") == hooks[1].Get("webhook-id") ||
		hooks[1].data["repeated"] != true || hooks[2].data["repeated"] != true {
		t.Errorf("%d messages, the last is %s", len(hooks), hooks[len(hooks)-1].body)
	}
	if got := room.list(); len(got) != 2 {
		t.Errorf("the room has %q", got)
	}
	r.later(ahead, 4*time.Hour)
	until(t, "the next ones", func() bool { return len(h.list()) == 4 && len(w.messages()) == 4 && len(room.list()) == 3 })
}

// Many alerts that still fire go in several e-mails, each of them once: what the mail server refuses comes later, without the rest.
func TestRepeatInParts(t *testing.T) {
	r, ahead := newLateRig(t)
	b := notifytest.NewMailbox(t, nil)
	r.mailing(alert.Mail{Server: b.Addr, Security: service.NoTLS})
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=1")
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: "email", Address: "ops@example.org", Quiet: registry.Quiet{Repeat: "4h"}}}})
	var rows []string
	for i := range 250 {
		rows = append(rows, fmt.Sprintf("x%d=20", i))
	}
	r.record(q, rows...)
	until(t, "the e-mails", func() bool { return len(b.Letters()) > 2 && r.rule("late").Receivers[0].Waiting() == 0 })
	first := len(b.Letters())
	var refused atomic.Int32
	b.Answer(func(l notifytest.Letter) error {
		if len(b.Letters()) > first && refused.Add(1) <= 4 {
			return notifytest.Refuse(451, "later")(l)
		}
		return nil
	})
	r.later(ahead, 4*time.Hour+time.Minute)
	until(t, "all parts", func() bool { return len(b.Letters()) >= first+3 })
	r.later(ahead, time.Hour)
	time.Sleep(50 * time.Millisecond)
	told := map[string]int{}
	for _, l := range b.Letters()[first:] {
		if !strings.HasPrefix(l.Header.Get("Subject"), "Still [FIRING:") {
			t.Errorf("%s", l.Header.Get("Subject"))
		}
		for _, line := range strings.Split(l.Body, "\r\n") {
			if _, x, ok := strings.Cut(line, "  s="); ok {
				told[x]++
			}
		}
	}
	if n := len(b.Letters()) - first; n != 3 || len(told) != 250 || refused.Load() < 5 {
		t.Errorf("%d letters about %d alerts, after %d attempts", n, len(told), refused.Load())
	}
	for x, n := range told {
		if n != 1 {
			t.Fatalf("%s is told %d times", x, n)
		}
	}
	r.later(ahead, 4*time.Hour)
	until(t, "all come again", func() bool { return len(b.Letters()) == first+6 })
}
