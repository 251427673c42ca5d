package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web/api"
)

// A problem is an error as sent to the client: RFC 9457 problem details with the
// additional header fields and members of some types.
type problem struct {
	*registry.Problem
	reason     string   // of a gap
	available  []string // what could have been negotiated
	retryAfter int      // seconds, 0 for none
	bearer     bool     // say WWW-Authenticate
}

func (p *problem) Unwrap() error { return p.Problem }

func newProblem(k registry.Kind, detail string) *registry.Problem {
	return &registry.Problem{Kind: k, Detail: detail}
}

func (p *problem) status() int { return Status(p.Kind) }

func notFound(detail string) *problem { return &problem{Problem: newProblem("not-found", detail)} }

// malformed is a request that cannot be read; pointer says where.
func malformed(pointer, format string, a ...any) *problem {
	detail := fmt.Sprintf(format, a...)
	p := newProblem("malformed", detail)
	if pointer != "" {
		p.Errors = []registry.FieldError{{Pointer: pointer, Detail: detail}}
	}
	return &problem{Problem: p}
}

func unprocessable(k registry.Kind, pointer, format string, a ...any) *problem {
	detail := fmt.Sprintf(format, a...)
	p := newProblem(k, detail)
	p.Errors = []registry.FieldError{{Pointer: pointer, Detail: detail}}
	return &problem{Problem: p}
}

// ProblemOf returns the problem to report for an error, and whether its text may be
// shown. The text of an internal error is only logged.
func ProblemOf(err error) (p *registry.Problem, told bool) {
	q, told := asProblem(err)
	return q.Problem, told
}

// asProblem converts any error to a problem; ok is false if the error is internal and
// its text may only be logged.
func asProblem(err error) (p *problem, ok bool) {
	var (
		own  *problem
		reg  *registry.Problem
		gap  *registry.GapError
		body *http.MaxBytesError
	)
	switch {
	case errors.As(err, &own):
		return own, true
	case errors.As(err, &reg):
		return &problem{Problem: reg, retryAfter: cmp.Or(int(reg.RetryAfter/time.Second), patience(Status(reg.Kind)))}, true
	case errors.As(err, &gap) && gap.Detail != "":
		return &problem{Problem: newProblem("gap", gap.Detail), reason: gap.Reason}, true
	case errors.As(err, &gap):
		return &problem{Problem: newProblem("gap", gap.Error()+": read the results and go on from their position"), reason: gap.Reason}, true
	case errors.As(err, &body):
		return &problem{Problem: newProblem("body-too-large", fmt.Sprintf("a request body has at most %d bytes", body.Limit))}, true
	case errors.Is(err, registry.ErrNotFound):
		return notFound("it does not exist (any more)"), true
	case errors.Is(err, registry.ErrGuessing):
		return &problem{Problem: newProblem("too-many-guesses", err.Error()), retryAfter: 2}, true
	case errors.Is(err, registry.ErrExists):
		return &problem{Problem: newProblem("exists", "choose another name")}, true
	case errors.Is(err, scheduler.ErrPaused), errors.Is(err, scheduler.ErrBlackout):
		return &problem{Problem: newProblem("conflict", err.Error())}, true
	case errors.Is(err, scheduler.ErrCharged):
		return &problem{Problem: newProblem("busy", err.Error()), retryAfter: 10}, true
	case errors.Is(err, scheduler.ErrStopped):
		return &problem{Problem: newProblem("unavailable", err.Error()), retryAfter: 5}, true
	case errors.Is(err, registry.ErrReadOnly):
		return &problem{Problem: newProblem("storage-full", err.Error()), retryAfter: patience(http.StatusInsufficientStorage)}, true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &problem{Problem: newProblem("unavailable", "the request was given up before it was answered"), retryAfter: 5}, true
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return &problem{Problem: newProblem("storage-full", "the server's disk is full and nothing of this was stored: make room there and try again"), retryAfter: 60}, false
	}
	return &problem{Problem: newProblem("internal", "the server could not answer; its log says why")}, false
}

// patience is the default of Retry-After.
func patience(status int) int {
	switch status {
	case http.StatusTooManyRequests, http.StatusInsufficientStorage:
		return 60
	case http.StatusServiceUnavailable:
		return 5
	}
	return 0
}

// document is what goes over the wire.
func (p *problem) document() []byte {
	b, _ := json.Marshal(api.Problem{Type: "/problems/" + string(p.Kind), Title: p.Heading(), Status: p.status(), Detail: p.Detail,
		Errors: p.Errors, Reason: p.reason, Available: p.available, IDs: p.IDs}) // strings and integers only: it cannot fail
	return append(b, '\n')
}

func (p *problem) send(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	for _, k := range []string{"ETag", "Last-Modified", "Content-Length", "Content-Disposition", "Link", "Freshet-Checked-At"} {
		h.Del(k)
	}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retryAfter))
	}
	if p.bearer {
		h.Set("WWW-Authenticate", `Bearer realm="freshet"`)
	}
	doc := p.document()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(doc)))
	w.WriteHeader(p.status())
	if r.Method != http.MethodHead {
		w.Write(doc)
	}
}

// pointer shortens a JSON pointer, whose parts come from the client.
func pointer(p jsontext.Pointer) string {
	if len(p) > 256 {
		return strings.ToValidUTF8(string(p[:256]), "") + "…"
	}
	return string(p)
}
