package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// Serving returns the HTTP server for a handler of New. Every request reaches the
// handler, which limits the time of its body: net/http would answer OPTIONS * by
// itself, without such a limit.
func Serving(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		DisableGeneralOptionsHandler: true}
}

// slowestAnswer is the time in which a client must read a short answer.
const slowestAnswer = 60 * time.Second

// deadlines sets the deadlines of a request: Limits.BodyTime for its body,
// slowestAnswer for its answer. A kept connection still has those of its previous
// request. They apply whether a handler reads the body or not, because the server
// reads the rest of it before it answers. The server removes the deadline of the
// body at its end. The body of GET and HEAD is discarded first, because some of their
// answers never end. Writers without deadlines, as in tests, are left alone.
func (s *server) deadlines(w http.ResponseWriter, r *http.Request) error {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Now().Add(slowestAnswer))
	if r.ContentLength == 0 {
		return nil
	}
	_ = control.SetReadDeadline(time.Now().Add(s.Limits.BodyTime))
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return nil
	}
	_, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, int64(s.Limits.Body)))
	var large *http.MaxBytesError
	if err == nil || errors.As(err, &large) {
		return err
	}
	return unread(err)
}

// unread returns the problem to report if a body cannot be read.
func unread(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &problem{Problem: newProblem("body-too-slow", "the body did not arrive in time")}
	}
	return malformed("", "the body cannot be read")
}
