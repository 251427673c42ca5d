// The endpoint of the nemesis test, which logs every request and judges them.

package trial

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// The limits of the endpoint.
const (
	nemesisSlot    = time.Second
	nemesisBudget  = 500 * time.Millisecond
	nemesisTimeout = time.Second
	nemesisGap     = 50 * time.Millisecond
)

// An asked is one request. It ends when its answer is complete, before the answer is sent, so
// that the gap to the next one is never shorter here than at the client.
type asked struct {
	node         string
	conn         string // its connection
	trial        bool   // it is a trial run, which is charged to the next slot
	began, ended time.Time
	left         bool // the client did not wait for the answer
}

// An askLog is what an endpoint was asked, with what was wrong about it.
type askLog struct {
	requests []*asked
	open     map[*asked]bool
	last     *asked    // that ended last
	quiet    time.Time // no request before
	why      *asked    // the request that was answered so
	denied   int
	wrong    []string
}

func newAskLog() *askLog { return &askLog{open: map[*asked]bool{}} }

// begin judges when a request comes.
func (l *askLog) begin(a *asked) {
	object := func(format string, args ...any) {
		l.wrong = append(l.wrong, a.began.Format("15:04:05.000 ")+a.node+" asks "+fmt.Sprintf(format, args...))
	}
	for other := range l.open {
		if other.node != a.node {
			object("while a request of %s runs since %v", other.node, a.began.Sub(other.began))
		}
	}
	if l.last != nil && a.began.Sub(l.last.ended) < nemesisGap && knows(a, l.last) {
		object("%v after the end of a request of %s", a.began.Sub(l.last.ended), l.last.node)
	}
	if a.began.Before(l.quiet) && knows(a, l.why) {
		object("%v before the end of a Retry-After that %s got", l.quiet.Sub(a.began), l.why.node)
	}
	l.open[a] = true
	l.requests = append(l.requests, a)
}

// knows reports whether the node of a request has read the answer to an earlier one, which it has if it
// uses the same connection again. If it uses another one, it may have given up waiting for the answer.
// A node knows of the requests of other nodes.
func knows(a, before *asked) bool { return a.node != before.node || a.conn == before.conn }

// reused returns how many requests came on the connection of the one before.
func (l *askLog) reused() (n int) {
	for i, a := range l.requests[min(1, len(l.requests)):] {
		if a.conn == l.requests[i].conn {
			n++
		}
	}
	return n
}

// end notes when a request ended, and whether it was told to wait.
func (l *askLog) end(a *asked, denied bool) {
	delete(l.open, a)
	if a.left {
		return
	}
	l.last = a
	if !denied {
		return
	}
	l.denied++
	// A request that took long may have been given up, and its owner may be gone.
	if a.ended.Sub(a.began) < nemesisTimeout/2 {
		l.quiet, l.why = a.ended.Add(time.Second), a
	}
}

// A loggedEndpoint answers from the engine behind it, in some time of its own, and sometimes asks
// to be left alone for a while.
type loggedEndpoint struct {
	http   *httptest.Server
	engine string
	// patches tell its position, nil without a feed. Such requests take no time.
	patches *patchFeed

	mu    sync.Mutex
	rng   *rand.Rand
	calm  bool // answers at once
	log   *askLog
	first map[string]time.Time // query text → its first complete answer since the last revision
}

func newLogged(t *testing.T, engine string, seed uint64) *loggedEndpoint {
	e := &loggedEndpoint{engine: engine, rng: rand.New(rand.NewPCG(seed, 11)), log: newAskLog(), first: map[string]time.Time{}}
	e.http = httptest.NewServer(e)
	t.Cleanup(e.http.Close)
	return e
}

var nodeContact = regexp.MustCompile(`mailto:(\w+)@`)

// ServeHTTP implements http.Handler.
func (e *loggedEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := &asked{began: time.Now(), node: "?", conn: r.RemoteAddr}
	_ = r.ParseForm() // an empty query is an error of the engine
	query := r.Form.Get("query")
	if e.patches.position(w, query) {
		return
	}
	a.trial = strings.Contains(query, trialMark)
	if m := nodeContact.FindStringSubmatch(r.UserAgent()); m != nil {
		a.node = m[1]
	}
	e.mu.Lock()
	e.log.begin(a)
	takes, deny := time.Duration(20+e.rng.IntN(80))*time.Millisecond, e.rng.IntN(60) == 0 && !e.calm
	e.mu.Unlock()
	var body []byte
	var err error
	var kind string
	if !deny {
		body, kind, err = e.ask(r, query)
	}
	select {
	case <-time.After(takes):
	case <-r.Context().Done():
	}
	e.mu.Lock()
	a.left = r.Context().Err() != nil
	a.ended = time.Now()
	e.log.end(a, deny)
	if _, ok := e.first[query]; !ok && !a.left && !deny && err == nil {
		e.first[query] = a.ended
	}
	e.mu.Unlock()
	switch {
	case deny:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadGateway)
	default:
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(body) // the client may be gone
	}
}

func (e *loggedEndpoint) ask(r *http.Request, query string) (body []byte, kind string, err error) {
	q, err := http.NewRequestWithContext(r.Context(), http.MethodPost, e.engine, strings.NewReader(url.Values{"query": {query}}.Encode()))
	if err != nil {
		return nil, "", err
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	q.Header.Set("Accept", r.Header.Get("Accept"))
	resp, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the engine: %s: %s", resp.Status, body)
	}
	return body, resp.Header.Get("Content-Type"), err
}

// owner returns the node that has asked last.
func (e *loggedEndpoint) owner() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.log.requests) == 0 {
		return ""
	}
	return e.log.requests[len(e.log.requests)-1].node
}

// revise begins a revision.
func (e *loggedEndpoint) revise() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.first)
}

func (e *loggedEndpoint) answered(query string) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.first[query]
}
