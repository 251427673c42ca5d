package web

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	params params
	body   *requestBody
}

// serve authenticates the caller and runs the route.
func (s *server) serve(rt route, w http.ResponseWriter, r *http.Request) {
	recorderOf(w).route = rt.path
	c := &call{server: s, w: w, r: r, route: rt}
	if rt.stream {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	}
	if err := c.start(rt); err != nil {
		Answer(w, r, err)
		return
	}
	if !c.caller.Expires.IsZero() && rt.stream { // a stream ends when its token expires
		ctx, cancel := context.WithDeadline(r.Context(), c.caller.Expires)
		defer cancel()
		c.r = r.WithContext(ctx)
	}
	var err error
	err = s.Certain(rt.need, w, func() error {
		if err == nil || !c.body.read {
			again := *c
			err = rt.run(&again)
		}
		return err
	})
	if err != nil {
		Answer(w, r, err)
	}
}

// Certain runs a request, and runs it again once this node knows the newest state if it found that something
// does not exist, or is not kept: a node that lags must not say that. Such a request has changed nothing. What needs no
// role does not depend on what is stored, and strangers may ask often.
func (c *Config) Certain(need registry.Role, w http.ResponseWriter, run func() error) error {
	if need == "" || c.CatchUp == nil {
		return run()
	}
	header := maps.Clone(w.Header())
	err := run()
	if !denies(err) {
		return err
	}
	if late := c.CatchUp(); late != nil {
		return late
	}
	clear(w.Header())
	maps.Copy(w.Header(), header)
	return run()
}

// denies reports whether an answer says that something is not there. What is too old is so everywhere.
func denies(err error) bool {
	var gap *registry.GapError
	if err == nil || errors.As(err, &gap) && gap.Reason == registry.TooOld {
		return false
	}
	p, _ := ProblemOf(err)
	return Status(p.Kind) == http.StatusNotFound || Status(p.Kind) == http.StatusGone
}

// A requestBody remembers whether it was read, and says when it came too slowly.
type requestBody struct {
	io.ReadCloser
	read bool
}

var errTooSlow = newProblem("body-too-slow", "the body did not arrive in time")

func (b *requestBody) Read(p []byte) (int, error) {
	b.read = true
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errors.Join(errTooSlow, err)
	}
	return n, err
}

func (c *call) start(rt route) error {
	var err error
	if c.params.Values, err = url.ParseQuery(c.r.URL.RawQuery); err != nil {
		return malformed("", "the query string of the URL cannot be read")
	}
	for name, values := range c.params.Values {
		if len(values) > 1 && !slices.Contains(repeatable, name) {
			return malformed(pointer(jsontext.Pointer("?"+name)), "a parameter is given twice")
		}
	}
	if limit := int64(c.Limits.Body); c.r.ContentLength > limit && !rt.rpc {
		return &http.MaxBytesError{Limit: limit}
	}
	c.body = &requestBody{ReadCloser: http.MaxBytesReader(c.w, c.r.Body, int64(c.Limits.Body))}
	c.r.Body = c.body
	if err := c.admit(rt); err != nil {
		return err
	}
	return c.params.known(rt)
}

var errShortToken = newProblem("unauthorized", "a token has at least "+strconv.Itoa(registry.MinSecretLength)+
	" characters: have an admin make one with 'freshet token add'")

var errNoToken = newProblem("unauthorized", "send a valid token as \"Authorization: Bearer …\"")

// admit identifies the caller and checks its role.
func (c *call) admit(rt route) error {
	if rt.need == "" {
		return nil
	}
	if caller, ok := actsFor(c.r); ok {
		c.caller, c.signed = caller, true
		return permitted(caller, rt.need)
	}
	token, sent := bearer(c.r)
	from := registry.ClientAddress(c.r.RemoteAddr, c.r.Header["X-Forwarded-For"])
	if reads := c.r.Method == http.MethodGet || c.r.Method == http.MethodHead; !sent && reads && c.Pages != nil {
		from, token = "", c.Pages.Token(c.r)
	}
	if c.signed { // a stream asks again whether its token is still valid, which is no guess
		from = ""
	}
	caller, err := c.Gate.Authenticate(from, token)
	if err != nil && !errors.Is(err, ErrUnauthorized) {
		return err
	}
	c.signed = err == nil && (token != "" || !sent)
	if c.signed {
		recorderOf(c.w).caller = caller.Name
	}
	switch {
	case c.signed:
		c.caller = caller
		return permitted(caller, rt.need)
	case rt.topic && !sent:
		c.caller = registry.Caller{Name: registry.Anonymous}
		return nil
	}
	if errors.Is(err, errShort) {
		return errShortToken
	}
	return errNoToken
}

// permitted returns an error if a caller does not have a role.
func permitted(caller registry.Caller, need registry.Role) error {
	if caller.Role.Includes(need) {
		return nil
	}
	return newProblem("forbidden", "this needs the role "+string(need)+", the token has "+string(caller.Role))
}

type callerKey struct{}

// WithCaller returns a request of another node of the cluster, for a caller whom that node has let in.
func WithCaller(r *http.Request, c registry.Caller) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), callerKey{}, c))
}

// actsFor returns the caller for whom another node sends a request.
func actsFor(r *http.Request) (c registry.Caller, ok bool) {
	c, ok = r.Context().Value(callerKey{}).(registry.Caller)
	return c, ok
}

func fromNode(r *http.Request) bool {
	_, ok := actsFor(r)
	return ok
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
	if !c.caller.MayRead(nil) && (missing(err) || err == nil && !c.caller.MayRead(&q)) {
		return registry.Query{}, errNoToken
	}
	if err != nil {
		return registry.Query{}, err
	}
	recorderOf(c.w).query = q.ID
	return q, nil
}

// enter acquires one of the few places for expensive operations for a caller.
func enter(places *registry.Places, caller string) (leave func(), err error) {
	leave, err = places.Enter(caller)
	if err != nil {
		return nil, later("busy", 5*time.Second, err.Error())
	}
	return leave, nil
}

// missing reports whether err means that an object does not exist.
func missing(err error) bool {
	return errors.Is(err, registry.ErrNotFound)
}

// A route is one call of the API. The table below is the only list of routes: dispatch,
// 405 with Allow, roles and the test of the OpenAPI document read it.
type route struct {
	method string
	path   string
	need   registry.Role // "" if no role is required
	topic  bool          // callers without a token may read it of public queries
	stream bool          // has no deadline
	rpc    bool          // says itself that a body is too large
	takes  string        // its parameters
	run    func(*call) error
}

// A server is the API with its dependencies.
type server struct {
	Config
	base   string // PublicURL without a trailing slash
	hosts  hosts
	routes []route

	edits   sync.Mutex       // makes If-Match and the guarded edit atomic
	backups *registry.Places // limits them, which are expensive and rare
	tries   *registry.Places // limits trial executions
	// scrapes limits scrapes of results, which have a document in memory.
	scrapes *registry.Places
	inner   http.Handler // of the routes, for calls that the server makes for an agent
	agents  agents
}

// A handler serves a group of calls: it is a call with the methods that they need.
type handler interface{ ~struct{ *call } }

// on adapts a handler's method to serve a route.
func on[H handler](run func(H) error) func(*call) error {
	return func(c *call) error { return run(H(struct{ *call }{c})) }
}

// of adapts a handler's method that serves the object of the path, which find reads.
func of[H handler, T any](find func(*call) (T, error), run func(H, T) error) func(*call) error {
	return func(c *call) error {
		x, err := find(c)
		if err != nil {
			return err
		}
		return run(H(struct{ *call }{c}), x)
	}
}

type (
	serverAPI   struct{ *call } // health, documents, backups
	queryAPI    struct{ *call } // queries and their registrations
	resultAPI   struct{ *call }
	changeAPI   struct{ *call } // changes as pages, feeds and streams
	endpointAPI struct{ *call }
	feedAPI     struct{ *call } // change feeds of publishers
	profileAPI  struct{ *call }
	followerAPI struct{ *call } // subscriptions and webhooks
	tokenAPI    struct{ *call }
	watchAPI    struct{ *call } // registrations without SPARQL
	ruleAPI     struct{ *call } // alert rules
	agentAPI    struct{ *call } // the Model Context Protocol
)
