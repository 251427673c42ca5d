package web

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

// Serving is the server of a handler of New. Everything that it answers passes
// the handler, which gives every body its time: net/http would answer OPTIONS *
// by itself, and wait for its body without end.
func Serving(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		DisableGeneralOptionsHandler: true}
}

// slowestAnswer is how long a client may take to take a short answer.
const slowestAnswer = 60 * time.Second

// deadlines gives every request its time: the body Limits.BodyTime to arrive,
// the answer slowestAnswer to be taken. They are set for each request, because
// on a kept connection those of the last one are still in force. They hold
// whether a handler reads the body or not, because the server reads what is
// left of it before it answers; it lifts the one of the body at its end. GET and
// HEAD have no use for a body, and some of them never end: theirs is read before
// anything else. Writers without deadlines, as in tests, have none.
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

// unread is the problem of a body that could not be read.
func unread(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &problem{Problem: newProblem("body-too-slow", "the body did not arrive in time")}
	}
	return malformed("", "the body cannot be read")
}
