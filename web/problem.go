package web

// This file says how errors are answered: kinds of problems, their statuses and their words for people.

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

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web/api"
)

func newProblem(k registry.Kind, detail string) *registry.Problem {
	return &registry.Problem{Kind: k, Detail: detail}
}

// later is a problem that may be over after a time.
func later(k registry.Kind, after time.Duration, detail string) *registry.Problem {
	return &registry.Problem{Kind: k, Detail: detail, RetryAfter: after}
}

func notFound(detail string) *registry.Problem { return newProblem("not-found", detail) }

// malformed is a request that cannot be read; pointer says where.
func malformed(pointer, format string, a ...any) *registry.Problem {
	p := registry.WrongField("malformed", pointer, format, a...)
	if pointer == "" {
		p.Errors = nil
	}
	return p
}

// ProblemOf returns the problem to report for an error, and whether its text may be
// shown. The text of an internal error is only logged.
func ProblemOf(err error) (p *registry.Problem, told bool) {
	var gap *registry.GapError
	var body *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p, true
	case errors.As(err, &gap):
		detail := cmp.Or(gap.Detail, gap.Error()+": read the results and go on from their position")
		return &registry.Problem{Kind: "gap", Detail: detail, Reason: gap.Reason}, true
	case errors.As(err, &body):
		return newProblem("body-too-large", fmt.Sprintf("a request body has at most %d bytes (limits.body)", body.Limit)), true
	case errors.Is(err, registry.ErrNotFound):
		return notFound("it does not exist (any more)"), true
	case errors.Is(err, registry.ErrGuessing):
		return later("too-many-guesses", 2*time.Second, err.Error()), true
	case errors.Is(err, registry.ErrExists):
		return newProblem("exists", "choose another name"), true
	case errors.Is(err, scheduler.ErrPaused), errors.Is(err, scheduler.ErrBlackout), errors.Is(err, registry.ErrTooLarge):
		return newProblem("conflict", err.Error()), true
	case errors.Is(err, scheduler.ErrCharged):
		return later("busy", 10*time.Second, err.Error()), true
	case errors.Is(err, scheduler.ErrStopped), errors.Is(err, scheduler.ErrStarting):
		return newProblem("unavailable", err.Error()), true
	case errors.Is(err, registry.ErrReadOnly):
		return newProblem("storage-full", err.Error()), true
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return newProblem("unavailable", "the request was given up before it was answered"), true
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return newProblem("storage-full", "the server's disk is full and nothing of this was stored: make room there and try again"), false
	}
	return newProblem("internal", "the server could not answer; its log says why"), false
}

// patience is the default of Retry-After in seconds.
func patience(status int) int {
	switch status {
	case http.StatusTooManyRequests, http.StatusInsufficientStorage:
		return 60
	case http.StatusServiceUnavailable:
		return 5
	}
	return 0
}

// send answers with problem details (RFC 9457).
func send(w http.ResponseWriter, r *http.Request, p *registry.Problem) {
	status := Status(p.Kind)
	h := w.Header()
	for _, k := range []string{"ETag", "Last-Modified", "Content-Length", "Content-Disposition", "Link", "Freshet-Checked-At"} {
		h.Del(k)
	}
	if after := cmp.Or(int(p.RetryAfter/time.Second), patience(status)); after > 0 {
		h.Set("Retry-After", strconv.Itoa(after))
	}
	if p.Kind == registry.KindUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="freshet"`)
	}
	doc, _ := json.Marshal(api.Problem{Type: "/problems/" + string(p.Kind), Title: p.Heading(), Status: status, Detail: p.Detail,
		Errors: p.Errors, Reason: p.Reason, Available: p.Available, IDs: p.IDs}) // strings and integers only: it cannot fail
	h.Set("Cache-Control", "no-store")
	if doc = append(doc, '\n'); begin(w, r, status, "application/problem+json", len(doc)) {
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

// An answer to a kind of problem: the only place where kinds meet HTTP's statuses.
type kindAnswer struct {
	status int
	about  string // for people, with the remedy served under /problems/{kind}
	remedy string // what to do
}

var problemKinds = map[registry.Kind]kindAnswer{
	registry.KindMalformed: {400, "The body, a query parameter or a header does not have the form that the call expects.",
		"Correct the place that errors[] points at: a JSON pointer into the body, or a parameter's name after a question mark."},
	registry.KindBadPosition: {400, "after and Last-Event-ID name a position: epoch:number.",
		"Take the position from the id of an event or from next of a page."},
	registry.KindUnauthorized: {401, "This server asks for a token, and none was sent, or the one that was sent is wrong, " +
		"expired or removed. Tokens are never taken from the URL.",
		"Send it as \"Authorization: Bearer …\". An admin makes one with \"freshet token add\"."},
	registry.KindForbidden: {403, "The token is valid, but its role does not include this call, or it concerns what another " +
		"caller holds. The role read follows, app also registers queries, admin does everything.",
		"Use a token with a higher role, or the one that holds it."},
	registry.KindCrossOrigin: {403, "A browser sent this on behalf of a page from another origin.",
		"Add that origin to \"origins\" in the configuration if it is meant to."},
	registry.KindForwarded: {403, "This server has no tokens and treats every caller as an admin, so it serves this machine " +
		"only. A proxy forwarded the request (its header has Forwarded, Via, X-Forwarded-For or the like).",
		"Create a token on the server (freshet token add NAME --role admin), after which every caller must send one, or start the " +
			"server with --insecure."},
	registry.KindNotFound: {404, "Nothing is served under this path, or the query, endpoint or token that it names does not exist (any more).",
		"Look it up in the list: GET /v1 links the lists of the API."},
	registry.KindNoResult: {404, "The query is registered, but no execution has been complete so far.",
		"Ask again when Retry-After says; …/explain says why it has not run."},
	registry.KindMethodNotAllowed: {405, "The resource exists but does not take this method.",
		"Use one of the methods that Allow lists."},
	registry.KindBodyTooSlow: {408, "A request's body has to arrive within half a minute.",
		"Send it again over a faster connection, or send less."},
	registry.KindNotAcceptable: {406, "The result cannot be written in any of the formats that were asked for.",
		"Ask for one of " + strings.Join(Representations(diff.Select), ", ") + " of SELECT and ASK, or of " +
			strings.Join(Representations(diff.Construct), ", ") + " of CONSTRUCT and DESCRIBE."},
	registry.KindNameTaken: {409, "The caller's registration of another query has this name; ids names that query.",
		"Choose another name, or register with replace: true, which moves the name and releases the registration of that query."},
	registry.KindAmbiguousName: {409, "The name is none of the caller's own, and others gave it to several queries, " +
		"profiles or rules; ids lists some of them.",
		"Use an id."},
	registry.KindExists: {409, "The name is taken.",
		"Choose another name."},
	registry.KindNotInFile: {409, "The configuration file does not name the endpoint, so there is no value to revert to.",
		"Edit the value instead."},
	registry.KindConflict: {409, "What was asked would contradict the state that the server is in.",
		"detail says how to get there."},
	registry.KindGap: {410, "The log does not continue from this position. reason says why: too_old (the changes after it have " +
		"been trimmed), other_epoch (numbering began again), ahead (the position lies after the newest change).",
		"Read the results and go on from the position in their ETag."},
	registry.KindPreconditionFailed: {412, "The resource is not the one that If-Match names.",
		"Read it again, look at what changed, and repeat the edit."},
	registry.KindBodyTooLarge: {413, "limits.body bounds what a request may carry; registering uses a few kilobytes.",
		"Send less, or raise limits.body."},
	registry.KindUnsupportedMediaType: {415, "The body's Content-Type is not one that the call reads.",
		"Send one that detail names."},
	registry.KindMisdirected: {421, "The Host of the request is neither a loopback name, nor the address that Freshet listens " +
		"on, nor the host of public_url.",
		"Set public_url when the server is reached under another name."},
	registry.KindBadQuery: {400, "The text is not a SPARQL 1.1 SELECT, ASK, CONSTRUCT or DESCRIBE query.",
		"Correct it where detail says that reading ended."},
	registry.KindUpdateRefused: {422, "Freshet only reads.",
		"Send SPARQL Update to the endpoint itself."},
	registry.KindServiceRefused: {422, "A SERVICE clause makes the endpoint call others on our behalf.",
		"An admin may list the endpoint's own services, such as wikibase:label at Wikidata, in own_services, or set allow_service for all."},
	registry.KindUnknownEndpoint: {422, "The registration names an endpoint that is not configured.",
		"Use one that detail lists, or add the endpoint."},
	registry.KindUnknownQuery: {422, "The body names a query that is not registered, or that the caller may not see.",
		"Register it first, or take an id or name from the list of queries."},
	registry.KindBadSetting: {422, "The request is well-formed, but a value is not one that can be used.",
		"Correct the value that errors[] points at."},
	registry.KindBadEndpoint: {422, "The settings cannot be used together.",
		"Change the one that errors[] points at."},
	registry.KindBadProfile: {422, "The request is well-formed, but its items, their lengths or their queries do not go together.",
		"Change the one that errors[] points at; it says how."},
	registry.KindLimit: {429, "A limit of the whole server is reached, such as limits.queries; detail says which.",
		"Release some, or raise the limit."},
	registry.KindQuota: {403, "limits.token_queries, limits.token_bytes, limits.token_profiles, limits.token_rules, " +
		"limits.token_receivers and limits.token_webhooks bound what one token holds; detail says which. Of these, the last three " +
		"bind admins, too.",
		"Release some, or let the operator raise the limit."},
	registry.KindRate: {429, "limits.token_rate bounds how many queries and profiles one token registers in a second. Admins are not bound.",
		"Go on when Retry-After says."},
	registry.KindBusy: {429, "The call is expensive and others of its kind are running.",
		"Try again when Retry-After says."},
	registry.KindTooManyGuesses: {429, "Many wrong tokens came from this address, so further tokens are not checked for a " +
		"moment. The one that was sent may be valid. A token that was valid from this address before still works.",
		"Try again when Retry-After says, and find the program that sends wrong tokens."},
	registry.KindTooMany: {429, "limits.connections followers are connected, or limits.address_connections of this address.",
		"Try again when Retry-After says, or raise the limit."},
	registry.KindInternal: {500, "The error is the server's.",
		"Read the request's line in its log: it says why."},
	registry.KindUnavailable: {503, "The server is starting or stopping, or a part of it does not answer. In a cluster: no " +
		"node asks the endpoint now, because another one takes it over.",
		"Try again when Retry-After says."},
	registry.KindStorageFull: {507, "The disk that holds the store is full, or less than limits.reserve of it is free, so new " +
		"registrations are refused, or a backup has no room for its copy. Reading and following still work.",
		"Make room on the disk; the server then resumes by itself."},
	registry.KindNotReady: {503, "The server is stopping, or it is starting and endpoints have not read their queries yet.",
		"Try again when Retry-After says."},
}

// Explain says for people what a kind of problem is, and what to do about it. ok is false for an
// unknown kind.
func Explain(k registry.Kind) (about, remedy string, ok bool) {
	a, ok := problemKinds[k]
	return a.about, a.remedy, ok
}

// Status is the HTTP status that answers a kind of problem.
func Status(k registry.Kind) int {
	if a, ok := problemKinds[k]; ok {
		return a.status
	}
	return http.StatusInternalServerError
}
