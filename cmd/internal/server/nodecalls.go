// Calls between the nodes of a cluster: a node asks the owner of an endpoint about its loop.
//
// A call goes to the API of the owner and is never passed on, so that calls cannot go round. It
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
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// loopsPath is where a node takes calls of other nodes.
const loopsPath = "/cluster/loops"

const (
	nodeScheme = "Freshet-Node "  // of the header Authorization
	nodeHeader = "Freshet-Node"   // names the node that calls, and the node that answers
	mostCall   = 64 << 20         // bytes of a call; the largest are hints
	dialTime   = 2 * time.Second  // for a connection to another node
	shortCall  = 5 * time.Second  // for a call that reads what a loop knows
	stateCall  = 2 * time.Second  // for the state of a loop, which pages wait for
	callBody   = 30 * time.Second // for the body of a call
	silentTime = 2 * time.Second  // how long a node that did not answer is not asked
	settleTime = time.Second      // how long a node waits until it has applied what the other one has
	settlePoll = time.Millisecond // how often it looks
	longMargin = time.Minute      // for a tick or a trial, besides twice the budget and the timeout
)

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
	io.WriteString(h, loopsPath)
	return hex.EncodeToString(h.Sum(nil))
}

// limitOf returns how long a call may take.
func (l *loops) limitOf(c loopCall) time.Duration {
	switch c.Verb {
	case verbTick, verbTrial:
		e, err := l.store.Endpoints.Endpoint(c.Endpoint)
		if err != nil {
			return longMargin
		}
		return 2*time.Duration(e.Budget+e.Timeout) + longMargin
	case verbState, verbConnections:
		return l.waits.state
	}
	return l.waits.short
}

// forward makes a call at the node that has the lease of the endpoint.
func (l *loops) forward(ctx context.Context, c loopCall) (r loopReply, err error) {
	d, err := l.duty(&c)
	if err != nil {
		return r, err
	}
	owner, err := l.ownerOf(d)
	if err != nil {
		return r, err
	}
	return l.reach(ctx, owner, d, c)
}

// reach makes a call at the node that has a duty.
func (l *loops) reach(ctx context.Context, owner registry.Node, d duty, c loopCall) (r loopReply, err error) {
	if l.isSilent(owner) {
		return r, d.unanswered(owner)
	}
	bound, cancel := context.WithTimeout(ctx, l.limitOf(c))
	defer cancel()
	c.After = l.store.Applied()
	err = l.post(bound, owner, c, &r)
	switch {
	case err != nil && ctx.Err() != nil:
		return r, ctx.Err()
	case err != nil:
		if c.Verb != verbTick && c.Verb != verbTrial { // which may end late without a fault of the node
			l.setSilent(owner)
		}
		l.log.Warn("another node of the cluster did not answer", "node", owner.Name, "api", owner.API, "which", d.text, "call", c.Verb, "error", err,
			"remedy", "cluster.api."+owner.Name+" is the URL at which the other nodes reach it alone; cluster.token_file is the same on all nodes")
		return r, d.unanswered(owner)
	case r.Failed != nil:
		return r, r.Failed.error(owner, d)
	}
	return r, l.settle(ctx, r.Applied)
}

// unanswered is the error of a call that the node with a duty did not answer.
func (d duty) unanswered(owner registry.Node) error {
	return &registry.Problem{Kind: registry.KindUnavailable,
		Detail: fmt.Sprintf("the node %s, which %s, does not answer. Another one takes over if it is gone: try again in a few seconds", owner.Name, d.text)}
}

func (l *loops) isSilent(n registry.Node) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Before(l.silent[n.Session])
}

func (l *loops) setSilent(n registry.Node) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for session, until := range l.silent {
		if now.After(until) {
			delete(l.silent, session)
		}
	}
	l.silent[n.Session] = now.Add(silentTime)
}

// post sends a call to a node and reads the reply.
func (l *loops) post(ctx context.Context, to registry.Node, c loopCall, r *loopReply) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(c); err != nil {
		return err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(to.API, "/")+loopsPath, &b)
	if err != nil {
		return err
	}
	q.Header.Set("Authorization", nodeScheme+l.member.proof(to.Session))
	q.Header.Set(nodeHeader, l.member.conf.Node)
	q.Header.Set("Content-Type", "application/octet-stream")
	a, err := l.client.Do(q)
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

// settle waits until this node has applied an entry of the journal, for l.waits.settle at most.
func (l *loops) settle(ctx context.Context, entry uint64) error {
	for end := time.Now().Add(l.waits.settle); l.store.Applied() < entry && time.Now().Before(end); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settlePoll):
		}
	}
	return nil
}

// ServeHTTP takes a call of another node.
func (l *loops) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(nodeHeader, l.member.conf.Node)
	w.Header().Set("Cache-Control", "no-store")
	want := nodeScheme + l.member.proof(l.member.Session())
	if !hmac.Equal([]byte(want), []byte(r.Header.Get("Authorization"))) {
		http.Error(w, "this is for the nodes of the cluster alone", http.StatusForbidden)
		return
	}
	control := http.NewResponseController(w)
	if err := control.SetReadDeadline(time.Now().Add(callBody)); err != nil {
		l.log.Error("a call of a node has no deadline", "error", err)
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "nodes POST calls", http.StatusMethodNotAllowed)
		return
	}
	var c loopCall
	if err := gob.NewDecoder(http.MaxBytesReader(w, r.Body, mostCall)).Decode(&c); err != nil || !c.complete() {
		http.Error(w, "the call cannot be read: give all nodes the same version", http.StatusBadRequest)
		return
	}
	reply := l.answer(r.Context(), r.Header.Get(nodeHeader), c)
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(reply); err != nil {
		l.log.Error("a reply to another node cannot be written", "call", c.Verb, "error", err)
		http.Error(w, "the reply cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(b.Bytes()) // the caller sees what is missing
}

// complete reports whether a call has what its verb needs.
func (c *loopCall) complete() bool {
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
func (l *loops) answer(ctx context.Context, from string, c loopCall) (r loopReply) {
	began := time.Now()
	err := l.settle(ctx, c.After)
	if err == nil && (c.Verb == verbTick || c.Verb == verbTrial) {
		err = l.sync(c.Endpoint)
	}
	switch {
	case err != nil:
	case c.Rule != nil:
		r.Rules, err = c.Rule.perform(ctx, l.rules)
	case c.Connections != nil:
		r.Connections, err = c.Connections.perform(l.live)
	case l.hold(c.Endpoint) == nil:
		err = moving(c.Endpoint)
	default:
		r, err = l.own(ctx, c)
	}
	r.Applied = l.store.Applied()
	if err != nil {
		r = loopReply{Failed: newLoopError(err), Applied: r.Applied}
	}
	l.log.Debug("call of another node", "node", from, "call", c.Verb, "endpoint", c.Endpoint, "took", time.Since(began), "error", err)
	return r
}

// A loopError is an error that can be sent.
type loopError struct {
	Problem *registry.Problem // nil if it is none
	Is      string            // the key of the sentinel that it wraps, "" if it is none
	Text    string
}

// sentinels are the errors of loops that callers act on, by their keys.
var sentinels = map[string]error{
	"not-found": registry.ErrNotFound, "paused": scheduler.ErrPaused, "blackout": scheduler.ErrBlackout, "stopped": scheduler.ErrStopped,
	"charged": scheduler.ErrCharged, "fenced": scheduler.ErrFenced, "read-only": registry.ErrReadOnly,
}

func newLoopError(err error) *loopError {
	x := &loopError{Text: err.Error()}
	x.Problem, _ = errors.AsType[*registry.Problem](err)
	for key, sentinel := range sentinels {
		if errors.Is(err, sentinel) {
			x.Is = key
		}
	}
	return x
}

// error returns the error that a node has sent.
func (x *loopError) error(from registry.Node, d duty) error {
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
