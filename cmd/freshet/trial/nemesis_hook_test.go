// The webhook of the nemesis test.

package trial

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/freshet/freshet/notify/webhook"
)

// A judgingHook receives the messages of a webhook and judges their order. A message that was under
// way at a node that died or stopped comes again, under the same id and with the same content.
type judgingHook struct {
	http *httptest.Server

	mu      sync.Mutex
	last    uint64
	bodies  map[string]string // by id
	repeats int
	wrong   []string
}

func newJudgingHook(t *testing.T) *judgingHook {
	h := &judgingHook{bodies: map[string]string{}}
	h.http = httptest.NewServer(h)
	t.Cleanup(h.http.Close)
	return h
}

// ServeHTTP implements http.Handler.
func (h *judgingHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the node was killed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.receive(r.Header.Get("Webhook-Id"), string(body))
	w.WriteHeader(http.StatusNoContent)
}

func (h *judgingHook) receive(id, body string) {
	var m struct {
		Type string
		Data struct{ Prev, Seq uint64 }
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		h.object("%v: %.300s", err, body)
		return
	}
	if m.Type == webhook.TypeVerify {
		return
	}
	if before, ok := h.bodies[id]; ok {
		if h.repeats++; before != body {
			h.object("the message %s came again after position %d with another content: %.300s", id, h.last, body)
		}
		return
	}
	h.bodies[id] = body
	switch {
	case m.Type == webhook.TypeSnapshot && h.last == 0:
	case m.Type != webhook.TypeChanged || m.Data.Prev != h.last:
		h.object("after position %d came %.300s", h.last, body)
	}
	h.last = m.Data.Seq
}

func (h *judgingHook) object(format string, args ...any) {
	h.wrong = append(h.wrong, "webhook: "+fmt.Sprintf(format, args...))
}

// at returns the last position that was received.
func (h *judgingHook) at() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}
