package web

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/http"
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

// Answer sends an error as problem details and records it for the request's log line.
func Answer(w http.ResponseWriter, r *http.Request, err error) {
	p, _ := asProblem(err)
	NoteError(w, err)
	p.send(w, r)
}

// NoteError records an error for the request's log line.
func NoteError(w http.ResponseWriter, err error) {
	p, told := asProblem(err)
	if rec, ok := w.(*recorder); ok {
		rec.problem = string(p.Kind)
		if !told || p.status() >= 500 {
			rec.failure = err
		}
	}
}

// Note records the route and the caller for the request's log line and the metrics.
func Note(w http.ResponseWriter, route, caller string) {
	if rec, ok := w.(*recorder); ok {
		rec.route, rec.caller = route, caller
	}
}

// refuse answers every request with the same problem.
func refuse(p *problem) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answerProblem(w, r, p) })
}

// NotReady returns the handler of a server that cannot read its store yet, for the reason in detail.
func NotReady(site Site, log *slog.Logger, detail string) http.Handler {
	p := refuse(&problem{Problem: newProblem("not-ready", detail), retryAfter: 1})
	s := &server{Config: Config{Site: site, Logger: log}, hosts: newHosts(site)}
	s.Limits.complete()
	return s.outermost(s.checkHost(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			fmt.Fprintln(w, "ok")
			return
		}
		p.ServeHTTP(w, r)
	})))
}

// answerProblem sends the problem of err and records it for the request's line
// in the log.
func answerProblem(w http.ResponseWriter, r *http.Request, err error) {
	NoteError(w, err)
	if rec, ok := w.(*recorder); ok && rec.status != 0 { // the response has started: only closing the connection can report the error
		panic(http.ErrAbortHandler)
	}
	p, _ := asProblem(err)
	p.send(w, r)
}
