package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/freshet/freshet/registry"
)

// A call is one request while a route handles it.
type call struct {
	*server
	w      http.ResponseWriter
	r      *http.Request
	route  route
	caller registry.Caller
	signed bool // authenticated by the gate; false: a reader of public topics
	params url.Values
}

// serve authenticates the caller and runs the route.
func (s *server) serve(rt route, w http.ResponseWriter, r *http.Request) {
	if rec, ok := w.(*recorder); ok {
		rec.route = rt.path
	}
	c := &call{server: s, w: w, r: r, route: rt}
	if rt.stream {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	}
	if err := c.start(rt); err != nil {
		s.answerProblem(w, r, err)
		return
	}
	if !c.caller.Expires.IsZero() && rt.stream { // a stream ends when its token expires
		ctx, cancel := context.WithDeadline(r.Context(), c.caller.Expires)
		defer cancel()
		c.r = r.WithContext(ctx)
	}
	if err := rt.run(c); err != nil {
		s.answerProblem(w, r, err)
	}
}

// read reads the body.
func (c *call) read(decode func(io.Reader) error) error {
	err := decode(c.r.Body)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return unread(err)
	}
	return err
}

// repeatable lists the parameters that may occur more than once.
var repeatable = append([]string{"vars", "where"}, lists...)

func (c *call) start(rt route) error {
	var err error
	if c.params, err = url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return malformed("", "the query string of the URL cannot be read")
	}
	for name, values := range c.params {
		if len(values) > 1 && !slices.Contains(repeatable, name) {
			return malformed(pointer(jsontext.Pointer("?"+name)), "a parameter is given twice")
		}
	}
	if limit := int64(c.Limits.Body); c.r.ContentLength > limit {
		return &http.MaxBytesError{Limit: limit}
	}
	c.r.Body = http.MaxBytesReader(c.w, c.r.Body, int64(c.Limits.Body))
	return c.admit(rt)
}

var errShortToken = &problem{Problem: newProblem("unauthorized", "a token has at least "+strconv.Itoa(registry.MinSecretLength)+" characters: have an admin make one with 'freshet token add'"), bearer: true}

var errNoToken = &problem{Problem: newProblem("unauthorized", "send a valid token as \"Authorization: Bearer …\""), bearer: true}

// admit identifies the caller and checks its role.
func (c *call) admit(rt route) error {
	if rt.need == "" {
		return nil
	}
	token, sent := bearer(c.r)
	from := registry.ClientAddress(c.r.RemoteAddr, c.r.Header["X-Forwarded-For"])
	if reads := c.r.Method == http.MethodGet || c.r.Method == http.MethodHead; !sent && reads && c.Pages != nil {
		from, token = "", c.Pages.Token(c.r)
	}
	caller, err := c.Gate.Authenticate(from, token)
	if err != nil && !errors.Is(err, ErrUnauthorized) {
		return err
	}
	c.signed = err == nil && (token != "" || !sent)
	if rec, ok := c.w.(*recorder); ok && c.signed {
		rec.caller = caller.Name
	}
	switch {
	case c.signed && !caller.Role.Includes(rt.need):
		return &problem{Problem: newProblem("forbidden", "this needs the role "+string(rt.need)+", the token has "+string(caller.Role))}
	case c.signed:
		c.caller = caller
		return nil
	case rt.topic && !sent:
		c.caller = registry.Caller{Name: registry.Anonymous}
		return nil
	}
	if errors.Is(err, errShort) {
		return errShortToken
	}
	return errNoToken
}

// bearer returns the token; sent reports whether the request has one.
func bearer(r *http.Request) (token string, sent bool) {
	h := r.Header.Values("Authorization")
	if len(h) == 0 {
		return "", false
	}
	scheme, token, _ := strings.Cut(h[0], " ")
	if token = strings.TrimSpace(token); len(h) > 1 || !strings.EqualFold(scheme, "bearer") || len(token) > maxSecret {
		return "", true
	}
	return token, true
}

// query returns the query that the path names by id or name. A caller without a token
// sees only public queries; the answer does not reveal whether others exist.
func (c *call) query() (registry.Query, error) {
	q, err := c.Registry.Resolve(c.caller, c.r.PathValue("id"))
	if p := (*registry.Problem)(nil); errors.As(err, &p) && Status(p.Kind) == http.StatusConflict {
		return q, err // for strangers too: they see public ones only
	}
	if !c.caller.MayRead(nil) && (err != nil || !c.caller.MayRead(&q)) {
		return registry.Query{}, errNoToken
	}
	if err != nil {
		return registry.Query{}, err
	}
	if rec, ok := c.w.(*recorder); ok {
		rec.query = q.ID
	}
	return q, nil
}

// json answers with v as JSON.
func (c *call) json(status int, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // people read query texts here; the type keeps browsers from taking it for a page
	if err := e.Encode(v); err != nil {
		return err
	}
	return c.bytes(status, "application/json", b.Bytes())
}

func (c *call) text(status int, s string) error {
	return c.bytes(status, "text/plain; charset=utf-8", []byte(s))
}

func (c *call) bytes(status int, typ string, b []byte) error {
	h := c.w.Header()
	h.Set("Content-Type", typ)
	h.Set("Content-Length", strconv.Itoa(len(b)))
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	c.w.WriteHeader(status)
	if c.r.Method == http.MethodHead {
		return nil
	}
	w := io.Writer(c.w)
	if c.route.stream { // has no deadline yet
		w = c.patient()
	}
	_, _ = w.Write(b) // an error means that the client is gone
	return nil
}

func (c *call) noContent() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// limit parses ?limit=, between 1 and most.
func (c *call) limit(usual, most int) (int, error) {
	s := c.params.Get("limit")
	if s == "" {
		return usual, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		return 0, malformed("?limit", "limit lies between 1 and %d", most)
	}
	return n, nil
}

// cursorForm is the syntax of the ids by which lists are sorted.
var cursorForm = regexp.MustCompile("^[a-z]+_[0-9a-z]{15,80}$")

// cursor parses ?cursor= of a list of ids that begin with prefix.
func (c *call) cursor(prefix string) (string, error) {
	s := c.params.Get("cursor")
	if s == "" || strings.HasPrefix(s, prefix) && cursorForm.MatchString(s) {
		return s, nil
	}
	return "", malformed("?cursor", "a cursor is what next of the page before says")
}

// flag parses a parameter that is 0 or 1.
func (c *call) flag(name string) (bool, error) {
	switch c.params.Get(name) {
	case "", "0", "false":
		return false, nil
	case "1", "true":
		return true, nil
	}
	return false, malformed("?"+name, "%s is 0 or 1", name)
}

// position parses ?after=; ok is false if it is absent.
func (c *call) position() (p registry.Position, ok bool, err error) {
	s := c.params.Get("after")
	if s == "" {
		return p, false, nil
	}
	if p, err = registry.ParsePosition(s); err != nil {
		return p, false, malformed("?after", "after is a position of the form epoch:number")
	}
	return p, true, nil
}

// url returns the absolute URL of a path on this server. The caller escapes its parts.
func (s *server) url(path string) string { return s.base + path }

// exclusive acquires one of the few places for expensive operations.
func (c *call) exclusive(places chan struct{}) (leave func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	default:
		return nil, &problem{Problem: newProblem("busy", "others of this kind are running"), retryAfter: 5}
	}
}

// mediaType returns the body's media type and reports whether it is one of those
// given, in UTF-8 and without content coding.
func (c *call) mediaType(types ...string) (string, error) {
	if coding := c.r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		c.w.Header().Set("Accept-Encoding", "identity")
		return "", &problem{Problem: newProblem("unsupported-media-type", "send the body without a Content-Encoding")}
	}
	t, params, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if (err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter)) || !slices.Contains(types, t) {
		return "", &problem{Problem: newProblem("unsupported-media-type", "send the body as "+strings.Join(types, " or "))}
	}
	switch strings.ToLower(params["charset"]) {
	case "", "utf-8", "utf8", "us-ascii":
		return t, nil
	}
	return "", &problem{Problem: newProblem("unsupported-media-type", "send the body in UTF-8")}
}

// missing reports whether err means that an object does not exist.
func missing(err error) bool {
	return errors.Is(err, registry.ErrNotFound)
}
