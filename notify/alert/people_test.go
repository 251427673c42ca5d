package alert_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// texts takes messages as text.
type texts struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	got    []string
}

func newTexts(t *testing.T) *texts {
	h := &texts{status: 204}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.got = append(h.got, string(body))
		w.WriteHeader(h.status)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *texts) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.got...)
}

// A rule tells people in words. The address alone says by which service, and alerts that wait for it come
// in one message.
func TestPeople(t *testing.T) {
	r, h := newRig(t), newTexts(t)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=1")
	v := r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", Summary: "?s is ?value minutes late\x1b",
		To: []registry.Receiver{{Kind: registry.Notify, Address: "text+" + h.URL + "/SECRET"}}})
	if to := v.Receivers[0]; to.To.Kind != "text" || strings.Contains(to.Callback, "SECRET") || strings.Contains(to.To.Masked(), "SECRET") {
		t.Errorf("%+v", to)
	}
	r.record(q, "a=11")
	until(t, "a message", func() bool { return len(h.list()) == 1 })
	if got := h.list()[0]; got != "[FIRING] late\na is 11 minutes late\ns a\nhttp://fresh.example/queries/"+q {
		t.Errorf("%q", got)
	}
	h.mu.Lock()
	h.status = 500
	h.mu.Unlock()
	rows := []string{"a=1"}
	for i := range 15 {
		rows = append(rows, string(rune('b'+i))+"=20")
	}
	r.record(q, rows...)
	until(t, "a failure", func() bool { return r.rule("late").Receivers[0].Failures > 0 })
	h.mu.Lock()
	h.status, h.got = 204, nil
	h.mu.Unlock()
	until(t, "the rest", func() bool { return r.rule("late").Receivers[0].Waiting() == 0 })
	if got := h.list(); len(got) != 1 || !strings.Contains(got[0], "FIRING:15 RESOLVED:1") || !strings.Contains(got[0],
		"and 6 more") || strings.Count(got[0], "\n") > 13 {
		t.Errorf("%q", got)
	}
	h.mu.Lock()
	h.status = 410
	h.mu.Unlock()
	r.record(q, "a=1")
	until(t, "it is disabled", func() bool { return r.rule("late").Receivers[0].State == registry.Disabled })
}

// Quiet hours hold alerts back, and then they come together.
func TestQuietAlerts(t *testing.T) {
	r, h := newRig(t), newTexts(t)
	var mu sync.Mutex
	ahead := time.Duration(0)
	r.stop()
	r.options.Now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return time.Now().Add(ahead)
	}
	r.start()
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=1")
	to := registry.Receiver{Kind: "text", Address: h.URL, Quiet: registry.Quiet{Digest: "24h"}}
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{to}})
	r.record(q, "a=11")
	r.record(q, "a=11", "b=12")
	until(t, "two messages wait", func() bool { return r.rule("late").Receivers[0].Waiting() == 2 })
	time.Sleep(50 * time.Millisecond)
	if got := h.list(); len(got) != 0 {
		t.Errorf("%q", got)
	}
	mu.Lock()
	ahead = 24 * time.Hour
	mu.Unlock()
	r.stop()
	r.start()
	until(t, "the digest", func() bool { return len(h.list()) == 1 })
	if got := h.list()[0]; !strings.HasPrefix(got, "[FIRING:2] late\nfiring late: s a\nfiring late: s b\n") {
		t.Errorf("%q", got)
	}
	for _, bad := range []registry.Receiver{{Kind: "text", Address: h.URL, Quiet: registry.Quiet{Hours: "late"}},
		{Kind: "webhook", Address: h.URL, Quiet: registry.Quiet{Most: "1"}}} {
		if _, err := r.Create(t.Context(), app, registry.RuleSettings{Name: "x", Query: q, When: "rows > 0",
			To: []registry.Receiver{bad}}); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
