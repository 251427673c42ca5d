package web

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path"
	"runtime/debug"
	"strings"
	"time"
)

// A recorder records the outcome of a request for its log line and the metrics.
type recorder struct {
	http.ResponseWriter
	status   int
	bytes    int64
	route    string
	caller   string
	query    string
	problem  string
	failure  error
	hijacked bool
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= 200 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(b)
	r.bytes += int64(n)
	return n, err
}

// Unwrap gives http.ResponseController access to the writer.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush implements http.Flusher.
func (r *recorder) Flush() { _ = http.NewResponseController(r.ResponseWriter).Flush() }

// Hijack implements http.Hijacker, which WebSocket libraries need.
func (r *recorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, rw, err := http.NewResponseController(r.ResponseWriter).Hijack()
	if err == nil {
		r.hijacked, r.status = true, http.StatusSwitchingProtocols
	}
	return c, rw, err
}

// outermost sets the headers of all responses, recovers from panics and writes the
// request's log line.
func (s *server) outermost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &recorder{ResponseWriter: w}
		guard(w.Header())
		defer func() {
			abort := s.rescue(rec, r, recover())
			s.record(rec, r, time.Since(start))
			if abort {
				panic(http.ErrAbortHandler)
			}
		}()
		if err := s.deadlines(w, r); err != nil {
			s.answerProblem(rec, r, err)
			return
		}
		if r.Method == http.MethodOptions && r.URL.Path == "*" { // a ping of the server
			rec.WriteHeader(http.StatusNoContent)
			return
		}
		if r.URL.Path == "/v1/" {
			r.URL.Path = "/v1"
		}
		if !clean(r.URL.EscapedPath()) {
			s.answerProblem(rec, r, notFound("nothing is served under this path"))
			return
		}
		next.ServeHTTP(rec, r)
	})
}

// clean reports whether the router serves a path as it is. Otherwise it would redirect
// to a Location built from what the client sent.
func clean(p string) bool {
	return strings.HasPrefix(p, "/") && path.Clean(p) == p
}

const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func guard(h http.Header) {
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin") // does not affect reads with CORS by the configured origins
}

// rescue answers 500 after a panic, or reports that the connection must be closed
// because part of the response has been sent.
func (s *server) rescue(rec *recorder, r *http.Request, cause any) (abort bool) {
	if cause == nil {
		return false
	}
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return true
	}
	rec.failure = fmt.Errorf("panic: %v", cause)
	s.Logger.Error("panic in a request", "route", rec.route, "panic", fmt.Sprint(cause), "stack", string(debug.Stack()))
	if rec.status != 0 {
		return !rec.hijacked
	}
	p, _ := asProblem(rec.failure)
	rec.problem = string(p.Kind)
	p.send(rec, r)
	return false
}

// record writes one log line per request. Apart from the path, it contains no text
// chosen by the client.
func (s *server) record(rec *recorder, r *http.Request, took time.Duration) {
	status := rec.status
	if status == 0 {
		status = http.StatusOK
	}
	if s.Metrics != nil {
		s.Metrics.observeRequest(rec.route, r.Method, status, took)
	}
	level := slog.LevelInfo
	switch {
	case rec.failure != nil:
		level = slog.LevelError
	case rec.route == "/healthz" || rec.route == "/readyz" || rec.route == "/metrics":
		level = slog.LevelDebug
	}
	if !s.Logger.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.String("route", rec.route),
		slog.Int("status", status), slog.Int64("bytes", rec.bytes), slog.Duration("took", took), slog.String("remote", r.RemoteAddr)}
	for _, a := range []slog.Attr{slog.String("caller", rec.caller), slog.String("query", rec.query), slog.String("problem", rec.problem)} {
		if a.Value.String() != "" {
			attrs = append(attrs, a)
		}
	}
	if rec.failure != nil {
		attrs = append(attrs, slog.String("error", rec.failure.Error()))
	}
	s.Logger.LogAttrs(r.Context(), level, "request", attrs...)
}
