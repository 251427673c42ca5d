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
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// Alerts that come after a lost answer reach a room that takes each id once.
func TestAlertsAfterLostAnswer(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	room, lost := map[string]string{}, true
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		raw, _ := io.ReadAll(q.Body)
		var m struct{ Body string }
		_ = json.Unmarshal(raw, &m)
		mu.Lock()
		defer mu.Unlock()
		if id := path.Base(q.URL.Path); room[id] == "" {
			room[id] = m.Body
		}
		if lost {
			w.WriteHeader(http.StatusGatewayTimeout)
		}
	}))
	defer h.Close()
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=1")
	address := "matrix+http://tok@" + strings.TrimPrefix(h.URL, "http://") + "/!r:x"
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10",
		To: []registry.Receiver{{Kind: registry.Notify, Address: address}}})
	r.record(q, "a=11")
	until(t, "a failure", func() bool { return r.rule("late").Receivers[0].Failures > 0 })
	r.record(q, "a=11", "b=12")
	until(t, "two wait", func() bool { return r.rule("late").Receivers[0].Waiting() == 2 })
	mu.Lock()
	lost = false
	mu.Unlock()
	until(t, "nothing waits", func() bool { return r.rule("late").Receivers[0].Waiting() == 0 })
	mu.Lock()
	defer mu.Unlock()
	said := fmt.Sprint(room)
	if !strings.Contains(said, "s a") || !strings.Contains(said, "s b") {
		t.Errorf("the room has %s", said)
	}
}

// Many alerts that wait come in one message, with the last state of each.
func TestAlertsTogether(t *testing.T) {
	r, h := newRig(t), newTexts(t)
	answer := func(status int) {
		h.mu.Lock()
		h.status, h.got = status, nil
		h.mu.Unlock()
	}
	waiting := func() int { return r.rule("late").Receivers[0].Waiting() }
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a=1")
	answer(500)
	r.create(registry.RuleSettings{Name: "late", Query: q, When: "?value > 10", To: []registry.Receiver{{Kind: "text", Address: h.URL}}})
	r.record(q, "a=11")
	until(t, "one waits", func() bool { return waiting() == 1 })
	r.record(q, "a=1")
	until(t, "two wait", func() bool { return waiting() == 2 })
	answer(204)
	until(t, "they are told", func() bool { return waiting() == 0 })
	got := h.list()
	// An attempt that began before the end was known tells the beginning alone.
	alone := len(got) == 2 && strings.HasPrefix(got[0], "[FIRING] late\n") && strings.HasPrefix(got[1], "[RESOLVED] late\n")
	if !alone && (len(got) != 1 || !strings.HasPrefix(got[0], "[RESOLVED] late\n")) {
		t.Errorf("%q", got)
	}
	answer(500)
	var rows []string
	for i := range 30 {
		rows = append(rows, fmt.Sprintf("x%d=20", i))
	}
	r.record(q, rows...)
	until(t, "all wait", func() bool { return waiting() == 30 })
	r.record(q, append(rows[1:], "x0=1")...)
	until(t, "an end waits", func() bool { return waiting() == 31 })
	answer(204)
	until(t, "the rest", func() bool { return waiting() == 0 })
	got = h.list()
	// After an attempt without an answer, those that the receiver may have come again as they were, and the end by itself.
	again := len(got) == 2 && strings.HasPrefix(got[0], "[FIRING:30] late\n") && strings.HasPrefix(got[1], "[RESOLVED] late\n")
	if !again && (len(got) != 1 || !strings.HasPrefix(got[0], "[FIRING:29 RESOLVED:1] late\n")) {
		t.Errorf("%q", got)
	}
}
