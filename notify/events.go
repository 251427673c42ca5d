package notify

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/notify/loan"
	"github.com/freshet/freshet/registry"
)

// events writes an event stream. A write that makes no progress for the timeout
// ends it.
type events struct {
	w       http.ResponseWriter
	control *http.ResponseController
	timeout time.Duration
	held    bool // events wait for flush
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

// retry sets how long the client waits before it reconnects. The line belongs to the
// block of the next event: a block of its own would be an event without data to some
// readers.
func (e *events) retry(after time.Duration) error {
	return e.write(fmt.Appendf(nil, "retry: %d\n", after.Milliseconds()), nil, nil)
}

// event sends data, which is JSON on one line.
func (e *events) event(kind, id string, data []byte) error {
	return e.document(kind, id, data, nil, nil)
}

// document sends JSON with a large middle.
func (e *events) document(kind, id string, before []byte, doc *Document, after []byte) error {
	head := "event: " + kind + "\n"
	if id != "" {
		head += "id: " + id + "\n"
	}
	return e.write(append([]byte(head+"data: "), before...), doc, append(after, "\n\n"...))
}

// comment keeps the stream alive. Like retry, it is a line of the next block.
func (e *events) comment() error { return e.write([]byte(":\n"), nil, nil) }

// write sends head, doc and tail, or adds them to the events that wait for flush. The caller must not hold large values, because
// write may wait for the reader.
func (e *events) write(head []byte, doc *Document, tail []byte) error {
	start := time.Now()
	err := e.pieces(head)
	if err == nil && doc != nil {
		err = doc.Each(e.piece)
	}
	if err == nil {
		err = e.pieces(tail)
	}
	if err == nil && !e.held {
		err = e.flush()
	}
	e.lagging = time.Since(start) > loan.Lag
	return err
}

// flush sends what was written. Several events then share a write.
func (e *events) flush() error { return e.withTimeout(e.control.Flush) }

func (e *events) pieces(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), Chunk)
		if err := e.piece(b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (e *events) piece(b []byte) error {
	return e.withTimeout(func() error {
		_, err := e.w.Write(b)
		return err
	})
}

func (e *events) withTimeout(write func() error) error {
	// Without support for deadlines (a recorder in a test) there is no one to wait for.
	_ = e.control.SetWriteDeadline(time.Now().Add(e.timeout))
	err := write()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e.slow = true
	}
	return err
}

// Problem answers with an RFC 9457 document. A pointer says what is wrong, as "?rate".
func Problem(w http.ResponseWriter, status int, kind registry.Kind, detail string, pointer ...string) {
	doc := struct {
		Type   string                `json:"type"`
		Title  string                `json:"title"`
		Status int                   `json:"status"`
		Detail string                `json:"detail"`
		Errors []registry.FieldError `json:"errors,omitempty"`
	}{Type: "/problems/" + string(kind), Title: kind.Title(), Status: status, Detail: detail}
	for _, p := range pointer {
		doc.Errors = append(doc.Errors, registry.FieldError{Pointer: p, Detail: detail})
	}
	body, _ := json.Marshal(doc) // texts and a number: it cannot fail
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

func malformed(w http.ResponseWriter, err error) {
	var pointer []string
	if p, ok := errors.AsType[*cursor.ParamError](err); ok {
		pointer = []string{"?" + p.Param}
	}
	Problem(w, http.StatusBadRequest, registry.KindMalformed, err.Error(), pointer...)
}

func badPosition(w http.ResponseWriter, r *http.Request, form string) {
	var pointer []string
	if r.Header.Get("Last-Event-ID") == "" {
		pointer = []string{"?after"}
	}
	Problem(w, http.StatusBadRequest, registry.KindBadPosition, "after and Last-Event-ID must "+form, pointer...)
}
