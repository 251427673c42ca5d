package web

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

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
			Answer(rec, r, err)
			return
		}
		if r.Method == http.MethodOptions && r.URL.Path == "*" { // a ping of the server
			rec.WriteHeader(http.StatusNoContent)
			return
		}
		if p := r.URL.Path; p == "/v1/" || !strings.HasPrefix(p, "/v1/") && p == r.URL.EscapedPath() && len(p) > 1 { // as people write it
			r.URL.Path = strings.TrimSuffix(p, "/")
		}
		if !clean(r.URL.EscapedPath()) {
			Answer(rec, r, notFound("nothing is served under this path"))
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

const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// guards are headers of all responses. The lists of values are shared: Header.Add appends to
// a copy, because they have no room.
var guards = map[string][]string{
	"Content-Security-Policy":      {contentPolicy},
	"X-Content-Type-Options":       {"nosniff"},
	"X-Frame-Options":              {"DENY"},
	"Referrer-Policy":              {"same-origin"}, // with no-referrer, forms of the server's own pages have the origin null
	"Cross-Origin-Opener-Policy":   {"same-origin"},
	"Cross-Origin-Resource-Policy": {"same-origin"}, // does not affect reads with CORS by the configured origins
}

func guard(h http.Header) { maps.Copy(h, guards) }

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
	p, _ := ProblemOf(rec.failure)
	rec.problem = string(p.Kind)
	send(rec, r, p)
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
	case rec.route == "/healthz" || rec.route == "/readyz": // which are asked for all the time, also while the answer is no
		level = slog.LevelDebug
	case rec.failure != nil:
		level = slog.LevelError
	case rec.route == "/metrics" || fromNode(r):
		level = slog.LevelDebug
	}
	if !s.Logger.Enabled(r.Context(), level) {
		return
	}
	attrs := []slog.Attr{slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.String("route", rec.route),
		slog.Int("status", status), slog.Int64("bytes", rec.bytes), slog.Duration("took", took),
		slog.String("remote", registry.ClientAddress(r.RemoteAddr, r.Header["X-Forwarded-For"]))}
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

func (s *server) checkHost(next http.Handler) http.Handler {
	wrong := refuse(newProblem("misdirected", "ask for this server by a loopback name, its listen address or "+
		"the host of its public_url"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.hosts.admit(r) {
			wrong.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// checkForwarded rejects forwarded requests on a server without tokens: it treats
// every caller as an admin, and a caller behind a proxy may be anyone.
func (s *server) checkForwarded(next http.Handler) http.Handler {
	stranger := refuse(newProblem("forwarded", "a proxy forwarded this request, and this server has no "+
		"tokens: make one on the server ('freshet token add ops --role admin') and send it, or start the server with --insecure"))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.Insecure && forwarded(r.Header) {
			if _, err := s.Gate.Authenticate("", ""); err == nil {
				stranger.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
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
	switch {
	case err == nil || errors.As(err, &large):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errTooSlow
	}
	return malformed("", "the body cannot be read")
}

// hosts is the set of names under which this server accepts requests. Requests under
// other names get status 421, which prevents DNS rebinding.
type hosts map[string]bool

func newHosts(s Site) hosts {
	h := hosts{}
	if name, _, err := net.SplitHostPort(s.Listen); err == nil {
		h[hostName(name)] = true
	}
	for _, at := range []string{s.PublicURL, s.NodeURL} {
		if u, err := url.Parse(at); err == nil {
			h[hostName(u.Host)] = true
		}
	}
	delete(h, "")
	return h
}

// hostName returns a host in lower case without its port and brackets, "" if the port
// is invalid.
func hostName(s string) string {
	if name, port, err := net.SplitHostPort(s); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return ""
		}
		s = name
	}
	s = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	return strings.ToLower(strings.TrimSuffix(s, "."))
}

func (h hosts) admit(r *http.Request) bool {
	name := hostName(r.Host)
	if name == "localhost" || h[name] {
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	if ip.Unmap().IsLoopback() {
		return true
	}
	// A server on all addresses accepts the address of the connection. DNS rebinding
	// cannot change a literal address.
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap() == ip.Unmap()
}

// forwardedBy lists the header fields by which proxies name the original client,
// besides all that begin with X-Forwarded.
var forwardedBy = []string{"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For",
	"X-Envoy-External-Address",
	"True-Client-Ip", "Cf-Connecting-Ip", "Fly-Client-Ip"}

func forwarded(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "X-Forwarded") || slices.Contains(forwardedBy, name) {
			return true
		}
	}
	return false
}
