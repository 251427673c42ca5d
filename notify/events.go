package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

// events writes an event stream. A write that makes no progress for the timeout
// ends it.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	lagging bool // the last write took long
	slow    bool // a write was blocked for the timeout
}

func newEvents(w http.ResponseWriter, timeout time.Duration) *events {
	return &events{w: w, control: http.NewResponseController(w), timeout: timeout}
}

func (e *events) open(retry time.Duration) error {
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy that collects would make it pointless
	e.w.WriteHeader(http.StatusOK)
	return e.retry(retry)
}

// retry says when to come back after the stream ended.
func (e *events) retry(after time.Duration) error {
	return e.write(fmt.Sprintf("retry: %d\n\n", after.Milliseconds()))
}

// event sends data, which is JSON on one line.
func (e *events) event(kind, id string, data []byte) error {
	head := "event: " + kind + "\n"
	if id != "" {
		head += "id: " + id + "\n"
	}
	return e.write(head, "data: ", string(data), "\n\n")
}

func (e *events) comment() error { return e.write(":\n\n") }

func (e *events) write(texts ...string) error {
	start := time.Now()
	for _, text := range texts {
		for len(text) > 0 {
			n := min(len(text), chunk)
			if err := e.piece(text[:n]); err != nil {
				return err
			}
			text = text[n:]
		}
	}
	err := e.try(e.control.Flush)
	e.lagging = time.Since(start) > lag
	return err
}

func (e *events) piece(text string) error {
	return e.try(func() error {
		_, err := e.w.Write([]byte(text))
		return err
	})
}

func (e *events) try(write func() error) error {
	// Without support for deadlines (a recorder in a test) there is nobody to wait for.
	_ = e.control.SetWriteDeadline(time.Now().Add(e.timeout))
	err := write()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e.slow = true
	}
	return err
}

// frameless is a JSON object without a type.
func frameless(fields ...field) []byte {
	b := []byte{}
	for _, f := range fields {
		b = appendField(b, f)
	}
	if len(b) > 0 {
		b[0] = '{'
	} else {
		b = append(b, '{')
	}
	return append(b, '}')
}

// problem answers with an RFC 9457 document.
func problem(w http.ResponseWriter, status int, kind, detail string) {
	body, err := json.Marshal(map[string]any{
		"type": "/problems/" + kind, "title": http.StatusText(status), "status": status, "detail": detail,
	})
	if err != nil {
		http.Error(w, detail, status)
		return
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	w.Write(body)
}
