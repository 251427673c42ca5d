// Calls between the nodes of a cluster: a node asks another one about what only that one knows,
// such as the loop of an endpoint or its connections.
//
// A call goes to the API of the other node and is never passed on, so that calls cannot go round. It
// is authenticated by the session of the owner's process, which the members know from the
// journal, and by the secret of cluster.token_file. It therefore reaches exactly the process
// that is meant. The node that was asked first has checked what its caller may do.

package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/gob"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/web"
)

const (
	nodeScheme = "Freshet-Node "  // of the header Authorization
	nodeHeader = "Freshet-Node"   // names the node that calls, and the node that answers
	mostCall   = 64 << 20         // bytes of a call; the largest are hints
	dialTime   = 2 * time.Second  // for a connection to another node
	shortCall  = 5 * time.Second  // for a call that reads what a loop knows
	stateCall  = 2 * time.Second  // for the state of a loop, which pages wait for
	callAnswer = 30 * time.Second // in which a node reads the answer to its call
	silentTime = 2 * time.Second  // how long a node that did not answer is not asked
	settleTime = time.Second      // how long a node waits until it has applied what the other one has
	settlePoll = time.Millisecond // how often it looks
	longMargin = time.Minute      // for a tick or a trial, besides twice the budget and the timeout
)

// The verbs of calls.
const (
	verbTick      = "tick"
	verbTrial     = "trial"
	verbExplain   = "explain"
	verbDue       = "due"
	verbState     = "state"
	verbHint      = "hint"
	verbTemplates = "templates"
	verbRound     = "round"
	verbRule      = "rule"

	verbConnections = "connections"
)

// A nodeCall asks another node something: about the loop of an endpoint, unless the verb says more.
type nodeCall struct {
	Verb     string
	Endpoint string
	Queries  []string          // of due, and the one of explain
	Query    *registry.Query   // of trial
	Hint     *registry.Hint    // of hint
	Profile  *registry.Profile // of round
	Rule     *ruleCall         // of rule, which is for the node that evaluates alert rules

	Connections *connectionCall // of connections, which is for any node
	// After is the last entry of the journal that the caller has applied. The owner applies it
	// before it answers.
	After uint64
}

// A nodeReply is the answer to a call. It has the member that the verb asks for.
type nodeReply struct {
	Slot      scheduler.Slot
	Trial     trialReply
	Explained scheduler.Explanation
	Due       []time.Time
	State     scheduler.LoopState
	Hinted    plan.Hinted
	Templates []cohort.Snapshot
	Round     time.Time
	Rules     []registry.ListedRule

	Connections []registry.Subscription
	// Applied is the last entry of the journal that the owner has applied. The caller applies it
	// before it passes the answer on.
	Applied uint64
	Failed  *callError
}

// peers makes calls at the other nodes of a cluster.
type peers struct {
	member *member
	client *http.Client

	// waits is how long this node waits until it has applied what the other one has, for the state
	// of a loop, and for the answer to another short call.
	waits struct{ settle, state, short time.Duration }

	mu     sync.Mutex
	silent map[string]time.Time // by session: until when a node that did not answer is not asked
}

func newPeers(m *member) (*peers, error) {
	p := &peers{member: m, silent: map[string]time.Time{}}
	p.waits.settle, p.waits.state, p.waits.short = settleTime, stateCall, shortCall
	trust, err := m.conf.TLS.Trust()
	p.client = newNodeClient(trust)
	return p, err
}

// newNodeClient returns a client for the APIs of other nodes.
func newNodeClient(trust *tls.Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{TLSClientConfig: trust, DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, TLSHandshakeTimeout: dialTime,
			MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// proof returns what a call of the process with a session is authenticated by.
func (m *member) proof(session string) string {
	h := hmac.New(sha256.New, []byte(m.secret+"\x00"+session))
	io.WriteString(h, web.NodesPath)
	return hex.EncodeToString(h.Sum(nil))
}

// limitOf returns how long a call may take.
func (p *peers) limitOf(c nodeCall) time.Duration {
	switch c.Verb {
	case verbTick, verbTrial:
		e, err := p.member.store.Endpoints.Endpoint(c.Endpoint)
		if err != nil {
			return longMargin
		}
		return 2*time.Duration(e.Budget+e.Timeout) + longMargin
	case verbState, verbConnections:
		return p.waits.state
	}
	return p.waits.short
}

// forward makes a call at the node that has the lease of the endpoint.
func (p *peers) forward(ctx context.Context, c nodeCall) (r nodeReply, err error) {
	d, err := p.duty(&c)
	if err != nil {
		return r, err
	}
	owner, err := p.ownerOf(d)
	if err != nil {
		return r, err
	}
	return p.reach(ctx, owner, d, c)
}

// reach makes a call at the node that has a duty.
func (p *peers) reach(ctx context.Context, owner registry.Node, d duty, c nodeCall) (r nodeReply, err error) {
	if p.isSilent(owner) {
		return r, d.unanswered(owner)
	}
	bound, cancel := context.WithTimeout(ctx, p.limitOf(c))
	defer cancel()
	c.After = p.member.store.Applied()
	err = p.post(bound, owner, c, &r)
	switch {
	case err != nil && ctx.Err() != nil:
		return r, ctx.Err()
	case err != nil:
		if c.Verb != verbTick && c.Verb != verbTrial { // which may end late without a fault of the node
			p.setSilent(owner)
		}
		p.member.log.Warn("another node of the cluster did not answer", "node", owner.Name, "api", owner.API, "duty", d.text, "call", c.Verb, "error", err,
			"remedy", "cluster.api."+owner.Name+" is the URL at which the other nodes reach it alone; cluster.token_file is the same on all nodes")
		return r, d.unanswered(owner)
	case r.Failed != nil:
		return r, r.Failed.error(owner, d)
	}
	return r, p.settle(ctx, r.Applied)
}

// A duty is what the node with a lease does.
type duty struct{ key, text string }

// duty returns what the node does that a call is for.
func (p *peers) duty(c *nodeCall) (duty, error) {
	if c.Rule != nil {
		return duty{store.AlertsLease, "evaluates the alert rules"}, nil
	}
	_, err := p.member.store.Endpoints.Endpoint(c.Endpoint)
	return asks(c.Endpoint), err
}

// unknown is the error of a call that this node can make at no other. It says what this node has
// seen, and what becomes of it.
func (p *peers) unknown(d duty, seen string) error {
	if !p.member.Valid() { // what this node has seen may be out of date, and the others may be too few to take over
		return &registry.Problem{Kind: registry.KindUnavailable, Detail: "this node is cut off from its cluster, so it does not know which node " + d.text + ". It goes on by itself when it reaches the journal again"}
	}
	if !p.member.HasWorker() {
		return &registry.Problem{Kind: registry.KindUnavailable, Detail: seen + ", and none can take over: each is a gateway, drains or is gone. Start one, or restart one that drains"}
	}
	return &registry.Problem{Kind: registry.KindUnavailable, Detail: seen + ": another one takes over. Try again in a few seconds"}
}

// moves is the error of a call to the node with a lease that no node has now.
func (p *peers) moves(d duty) error { return p.unknown(d, "no node of the cluster "+d.text+" now") }

// moving is the error of a call of an endpoint that no node asks now.
func (p *peers) moving(endpoint string) error { return p.moves(asks(endpoint)) }

// asks is the duty of the node that asks an endpoint.
func asks(endpoint string) duty {
	return duty{store.EndpointLease(endpoint), "asks the endpoint " + endpoint}
}

// ownerOf returns the node that has a duty.
func (p *peers) ownerOf(d duty) (registry.Node, error) {
	owner, mine := p.member.Has(d.key)
	switch {
	case owner.Name == "" || mine || owner.Name == p.member.conf.Node: // this node, or its last process, has the lease: it waits until earlier requests have ended
		return owner, p.moves(d)
	case !p.member.Lives(owner.Name):
		return owner, p.unknown(d, fmt.Sprintf("the node %s, which %s, shows no signs of life", owner.Name, d.text))
	}
	return owner, nil
}

// unavailable returns the problem of a call that no node could answer, nil if err is another.
func unavailable(err error) *registry.Problem {
	if p, ok := errors.AsType[*registry.Problem](err); ok && p.Kind == registry.KindUnavailable {
		return p
	}
	return nil
}

// unanswered is the error of a call that the node with a duty did not answer.
func (d duty) unanswered(owner registry.Node) error {
	return &registry.Problem{Kind: registry.KindUnavailable,
		Detail: fmt.Sprintf("the node %s, which %s, does not answer. Another one takes over if it is gone: try again in a few seconds", owner.Name, d.text)}
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

// post sends a call to a node and reads the reply.
func (p *peers) post(ctx context.Context, to registry.Node, c nodeCall, r *nodeReply) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(c); err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(to.API, "/")+web.NodesPath, &b)
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", nodeScheme+p.member.proof(to.Session))
	q.Header.Set(nodeHeader, p.member.conf.Node)
	q.Header.Set("Content-Type", "application/octet-stream")
	a, err := p.client.Do(q)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(a.Body, 200))
		return fmt.Errorf("the server at %s (node %s) answers %s: %.200q", to.API, cmp.Or(a.Header.Get(nodeHeader), "unknown"), a.Status, text)
	}
	return gob.NewDecoder(a.Body).Decode(r)
}

// settle waits until this node has applied an entry of the journal, for p.waits.settle at most.
func (p *peers) settle(ctx context.Context, entry uint64) error {
	for end := time.Now().Add(p.waits.settle); p.member.store.Applied() < entry && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settlePoll):
		}
	}
	return nil
}

// A callHandler takes calls of other nodes.
type callHandler struct {
	*peers
	loops *loops
	rules *alert.Engine
	live  *notify.Server
}

// ServeHTTP takes a call of another node.
func (h *callHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	want := nodeScheme + h.member.proof(h.member.Session())
	if !hmac.Equal([]byte(want), []byte(r.Header.Get("Authorization"))) {
		http.Error(w, "this is for the nodes of the cluster alone", http.StatusForbidden)
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "nodes POST calls", http.StatusMethodNotAllowed)
		return
	}
	var c nodeCall
	if err := gob.NewDecoder(http.MaxBytesReader(w, r.Body, mostCall)).Decode(&c); err != nil || !c.complete() {
		http.Error(w, "the call cannot be read: give all nodes the same version", http.StatusBadRequest)
		return
	}
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // a slot may take long; the caller bounds it
	reply := h.answer(r.Context(), r.Header.Get(nodeHeader), c)
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(reply); err != nil {
		h.member.log.Error("a reply to another node cannot be written", "call", c.Verb, "error", err)
		http.Error(w, "the reply cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_ = control.SetWriteDeadline(time.Now().Add(callAnswer))
	_, _ = w.Write(b.Bytes()) // the caller sees what is missing
}

// complete reports whether a call has what its verb needs.
func (c *nodeCall) complete() bool {
	switch c.Verb {
	case verbExplain:
		return len(c.Queries) == 1
	case verbTrial:
		return c.Query != nil
	case verbHint:
		return c.Hint != nil
	case verbRound:
		return c.Profile != nil
	case verbRule:
		return c.Rule != nil
	case verbConnections:
		return c.Connections != nil
	}
	return true
}

// answer makes a call of another node at the loop of this node. A call that sends requests is made
// under the settings that the caller knows, which may not have reached the loop yet.
func (h *callHandler) answer(ctx context.Context, from string, c nodeCall) (r nodeReply) {
	began := time.Now()
	err := h.settle(ctx, c.After)
	if err == nil && (c.Verb == verbTick || c.Verb == verbTrial) {
		err = h.loops.sync(c.Endpoint)
	}
	switch {
	case err != nil:
	case c.Rule != nil:
		r.Rules, err = c.Rule.perform(ctx, h.rules)
	case c.Connections != nil:
		r.Connections, err = c.Connections.perform(h.live)
	case h.loops.hold(c.Endpoint) == nil:
		err = h.moving(c.Endpoint)
	default:
		r, err = h.loops.own(ctx, c)
	}
	r.Applied = h.member.store.Applied()
	if err != nil {
		r = nodeReply{Failed: newCallError(err), Applied: r.Applied}
	}
	h.member.log.Debug("call of another node", "node", from, "call", c.Verb, "endpoint", c.Endpoint, "took", time.Since(began), "error", err)
	return r
}

// A callError is an error that can be sent.
type callError struct {
	Problem *registry.Problem // nil if it is none
	Is      string            // the key of the sentinel that it wraps, "" if it is none
	Text    string
}

// sentinels are the errors of loops that callers act on, by their keys.
var sentinels = map[string]error{
	"not-found": registry.ErrNotFound, "paused": scheduler.ErrPaused, "blackout": scheduler.ErrBlackout, "stopped": scheduler.ErrStopped,
	"charged": scheduler.ErrCharged, "fenced": scheduler.ErrFenced, "read-only": registry.ErrReadOnly,
}

func newCallError(err error) *callError {
	x := &callError{Text: err.Error()}
	x.Problem, _ = errors.AsType[*registry.Problem](err)
	for key, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			x.Is = key
		}
	}
	return x
}

// error returns the error that a node has sent.
func (x *callError) error(from registry.Node, d duty) error {
	if x.Problem != nil {
		return x.Problem
	}
	if sentinel := sentinels[x.Is]; sentinel != nil {
		return sentError{x.Text, sentinel}
	}
	return fmt.Errorf("node %s, which %s: %s", from.Name, d.text, x.Text)
}

// A sentError has the text of an error of another node, and wraps its sentinel.
type sentError struct {
	text     string
	sentinel error
}

func (e sentError) Error() string { return e.text }

func (e sentError) Unwrap() error { return e.sentinel }
