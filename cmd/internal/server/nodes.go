// Requests between the nodes of a cluster: what only another node knows or may do, such as the loop
// of an endpoint or its connections, is asked there by a request of the API.
//
// A request is for a caller whom this node has let in, or for this node itself as an admin. It
// carries a proof of that, made of the session of the process that it is for, which the members know
// from the journal, and of the secret of cluster.token_file. The process that gets it answers from
// what it has itself. So no request is forwarded twice.

package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/web"
	"github.com/freshet/freshet/web/api"
)

// Headers of requests between nodes, and of their answers.
const (
	nodeScheme    = "Freshet-Node"    // of Authorization
	nodeHeader    = "Freshet-Node"    // the node that asks, or that answers
	appliedHeader = "Freshet-Applied" // the last entry of the journal that it has applied
)

const (
	mostBody   = 64 << 20         // bytes of a request, of which the largest are hints, and of an answer
	mostTries  = 64               // trial runs at a time that other nodes may ask for; these limit their callers
	dialTime   = 2 * time.Second  // for a connection to another node
	shortLimit = 5 * time.Second  // for a request
	stateLimit = 2 * time.Second  // for the state of a loop and for connections, which pages wait for
	slotMargin = time.Minute      // for a tick or a trial run, besides twice the budget and the timeout
	silentTime = 2 * time.Second  // how long a node that did not answer is not asked
	settleTime = time.Second      // how long a node waits until it has applied what the other one has
	settlePoll = time.Millisecond // how often it looks
)

// A request is a request of the API to another node.
type request struct {
	method, path string
	body         any
	caller       registry.Caller // none: this node itself
	page         bool            // pages wait for it
	runs         string          // the endpoint that it sends requests to
}

// peers asks the other nodes of a cluster.
type peers struct {
	member *member
	client *http.Client
	waits  atomic.Pointer[waitTimes]

	mu     sync.Mutex
	silent map[string]time.Time // by session: until when a node that did not answer is not asked
}

// waitTimes are how long a node waits until it has applied what another one answered, and for an answer: for the state of a loop, and for
// anything else that is short.
type waitTimes struct{ settle, state, short time.Duration }

func newPeers(m *member) (*peers, error) {
	p := &peers{member: m, silent: map[string]time.Time{}}
	p.waits.Store(&waitTimes{settleTime, stateLimit, shortLimit})
	trust, err := m.conf.TLS.Trust()
	p.client = newNodeClient(trust)
	return p, err
}

// newNodeClient returns a client for the APIs of other nodes.
func newNodeClient(trust *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: trust, DialContext: (&net.Dialer{Timeout: dialTime}).DialContext,
			TLSHandshakeTimeout: dialTime,
			MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// credentials authenticate a request for a caller to the process with a session.
func (m *member) credentials(session string, c registry.Caller) string {
	who := string(c.Role) + " " + url.QueryEscape(c.Name)
	h := hmac.New(sha256.New, []byte(m.secret+"\x00"+session))
	io.WriteString(h, who)
	return nodeScheme + " " + hex.EncodeToString(h.Sum(nil)) + " " + who
}

// callerOf returns for whom another node has sent a request. It reports false for all other requests.
func (m *member) callerOf(r *http.Request) (registry.Caller, bool) {
	sent := r.Header.Get("Authorization")
	f := strings.Split(sent, " ")
	if len(f) != 4 || f[0] != nodeScheme {
		return registry.Caller{}, false
	}
	name, err := url.QueryUnescape(f[3])
	c := registry.Caller{Name: name, Role: registry.Role(f[2])}
	return c, err == nil && hmac.Equal([]byte(sent), []byte(m.credentials(m.Session(), c)))
}

// A role is what the node with a lease does.
type role struct{ key, text string }

// asks is the role of the node that asks an endpoint.
func asks(endpoint string) role {
	return role{store.EndpointLease(endpoint), "asks the endpoint " + endpoint}
}

// ask sends a request to the node with a role and decodes its answer. The error is a
// *registry.Problem, of the kind unavailable if no node can answer.
func (p *peers) ask(ctx context.Context, d role, r request, out any) error {
	owner, err := p.ownerOf(d)
	if err != nil {
		return err
	}
	return p.send(ctx, owner, d, r, out)
}

// ownerOf returns the node that has a role.
func (p *peers) ownerOf(d role) (registry.Node, error) {
	owner, mine := p.member.Has(d.key)
	switch {
	// this node, or its last process, has the lease: it waits until earlier requests have ended
	case owner.Name == "" || mine || owner.Name == p.member.conf.Node:
		return owner, p.moves(d)
	case !p.member.Lives(owner.Name):
		return owner, p.unknown(d, fmt.Sprintf("the node %s, which %s, sends no heartbeats", owner.Name, d.text))
	}
	return owner, nil
}

// moves is the error of a request to the node with a role that no node has now.
func (p *peers) moves(d role) error { return p.unknown(d, "no node of the cluster "+d.text+" now") }

// unknown is the error of a request that this node can send to no other. It says what this node has
// seen, and what becomes of it.
func (p *peers) unknown(d role, seen string) error {
	if !p.member.Valid() { // what this node has seen may be out of date, and the others may be too few to take over
		return unavailable("this node is cut off from its cluster, so it does not know which node " + d.text +
			". It goes on by itself when it reaches the journal again")
	}
	if !p.member.HasWorker() {
		return unavailable(seen + ", and none can take over: each is a gateway, drains or is gone. Start one, or restart one that drains")
	}
	return unavailable(seen + ": another one takes over. Try again in a few seconds")
}

func unavailable(detail string) error {
	return &registry.Problem{Kind: registry.KindUnavailable, Detail: detail}
}

// unavailableDetail returns why no node could answer, "" if err is another error.
func unavailableDetail(err error) string {
	if p, ok := errors.AsType[*registry.Problem](err); ok && p.Kind == registry.KindUnavailable {
		return p.Detail
	}
	return ""
}

// lookFirst is what to do about a request whose outcome is not known here.
const lookFirst = "look at another node before you send it again"

// send sends a request to a node and decodes its answer. This node has then applied what the other
// one had when it answered.
func (p *peers) send(ctx context.Context, to registry.Node, d role, r request, out any) error {
	gone := unavailable(fmt.Sprintf("the node %s, which %s, does not answer. Another one takes over if it is gone: try again "+
		"in a few seconds", to.Name, d.text))
	if p.isSilent(to) {
		return gone
	}
	bound, cancel := context.WithTimeout(ctx, p.limitOf(r))
	defer cancel()
	applied, err := p.exchange(bound, to, r, out)
	switch told := (*registry.Problem)(nil); {
	case err == nil:
		p.awaitEntry(ctx, applied)
		return ctx.Err()
	case errors.As(err, &told):
		return told
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if dial := (*net.OpError)(nil); r.method != http.MethodGet && !(errors.As(err, &dial) && dial.Op == "dial") {
		gone = unavailable(fmt.Sprintf("the node %s, which %s, does not answer, so it is not known whether this was done: %s", to.Name,
			d.text, lookFirst))
	}
	if r.runs == "" { // else it may end late without a fault of the node
		p.setSilent(to)
	}
	p.member.log.Warn("another node of the cluster did not answer", "node", to.Name, "api", to.API, "role", d.text, "request",
		r.method+" "+r.path, "error", err,
		"remedy", "cluster.api."+to.Name+" is the URL at which the other nodes reach it alone; cluster.token_file is the same on all nodes")
	return gone
}

func (p *peers) limitOf(r request) time.Duration {
	switch {
	case r.page:
		return p.waits.Load().state
	case r.runs == "":
		return p.waits.Load().short
	}
	e, _ := p.member.store.Endpoints.Endpoint(r.runs) // one that is gone has neither
	return 2*time.Duration(e.Budget+e.Timeout) + slotMargin
}

// exchange sends a request and decodes its answer. It returns what the other node has applied. A
// problem about what was asked is a *registry.Problem.
func (p *peers) exchange(ctx context.Context, to registry.Node, r request, out any) (applied uint64, err error) {
	var b bytes.Buffer
	if r.body != nil {
		if err := json.NewEncoder(&b).Encode(r.body); err != nil {
			return 0, err
		}
	}
	q, err := http.NewRequestWithContext(ctx, r.method, strings.TrimRight(to.API, "/")+r.path, &b)
	if err != nil {
		return 0, err
	}
	if r.caller.Name == "" {
		r.caller = registry.Caller{Name: p.member.conf.Node, Role: registry.RoleAdmin}
	}
	q.Header.Set("Authorization", p.member.credentials(to.Session, r.caller))
	q.Header.Set(nodeHeader, p.member.conf.Node)
	q.Header.Set(appliedHeader, strconv.FormatUint(p.member.store.Applied(), 10))
	q.Header.Set("Content-Type", "application/json")
	a, err := p.client.Do(q)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	body := io.LimitReader(a.Body, mostBody)
	if a.StatusCode >= 300 {
		return 0, refusalOf(a, to, body)
	}
	applied, err = strconv.ParseUint(a.Header.Get(appliedHeader), 10, 64)
	if err == nil && a.StatusCode != http.StatusNoContent && out != nil {
		err = json.NewDecoder(body).Decode(out)
	}
	return applied, err
}

// unproven are the problems of a request that is not taken for one of a node, or does not reach one.
var unproven = []registry.Kind{registry.KindUnauthorized, registry.KindForwarded, registry.KindMisdirected, ""}

// refusalOf returns the error that an answer reports.
func refusalOf(a *http.Response, to registry.Node, body io.Reader) error {
	text, _ := io.ReadAll(body) // what is missing is not JSON
	var p api.Problem
	err := json.Unmarshal(text, &p)
	kind := registry.Kind(strings.TrimPrefix(p.Type, "/problems/"))
	if err != nil || slices.Contains(unproven, kind) {
		return fmt.Errorf("the server at %s (node %s) answers %s: %.200q", to.API, cmp.Or(a.Header.Get(nodeHeader), "unknown"), a.Status, text)
	}
	seconds, _ := strconv.Atoi(a.Header.Get("Retry-After"))
	return &registry.Problem{Kind: kind, Detail: p.Detail, Errors: p.Errors, IDs: p.IDs, RetryAfter: time.Duration(seconds) * time.Second}
}

func (p *peers) isSilent(n registry.Node) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Before(p.silent[n.Session])
}

func (p *peers) setSilent(n registry.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for session, until := range p.silent {
		if now.After(until) {
			delete(p.silent, session)
		}
	}
	p.silent[n.Session] = now.Add(silentTime)
}

// awaitEntry waits until this node has applied an entry of the journal, for waitTimes.settle at most. It
// reports whether it has.
func (p *peers) awaitEntry(ctx context.Context, entry uint64) bool {
	for end := time.Now().Add(p.waits.Load().settle); p.member.store.Applied() < entry; {
		if time.Now().After(end) || ctx.Err() != nil {
			return false
		}
		time.Sleep(settlePoll)
	}
	return true
}

// A nodeHandler is the handler of a node of a cluster.
type nodeHandler struct {
	http.Handler              // of clients
	nodes        http.Handler // of other nodes; it answers from what this node has itself
	late         http.Handler // while this node has not applied what the other one has
	peers        *peers
}

func (h *nodeHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	caller, ok := h.peers.member.callerOf(r)
	if !ok {
		h.Handler.ServeHTTP(w, r)
		return
	}
	if after, err := strconv.ParseUint(r.Header.Get(appliedHeader), 10, 64); err != nil || !h.peers.awaitEntry(r.Context(), after) {
		h.late.ServeHTTP(w, r)
		return
	}
	h.nodes.ServeHTTP(&appliedWriter{w, h.peers.member.store}, web.WithCaller(r, caller))
}

// An appliedWriter says in an answer what this node has applied.
type appliedWriter struct {
	http.ResponseWriter
	store *store.DB
}

func (w *appliedWriter) WriteHeader(status int) {
	w.Header().Set(appliedHeader, strconv.FormatUint(w.store.Applied(), 10))
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap gives http.ResponseController access to the writer.
func (w *appliedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
