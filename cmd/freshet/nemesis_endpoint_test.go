// The endpoint of the nemesis test, which logs every request and judges them.

package main

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
	began, ended time.Time
	left         bool // the client did not wait for the answer
}

// A loggedEndpoint answers from the engine behind it, in some time of its own, and sometimes asks
// to be left alone for a while.
type loggedEndpoint struct {
	http   *httptest.Server
	engine string

	mu     sync.Mutex
	rng    *rand.Rand
	calm   bool // answers at once
	open   map[*asked]bool
	log    []*asked
	wrong  []string
	last   *asked    // that ended last
	quiet  time.Time // no request before
	why    *asked    // the request that was answered so
	denied int
	first  map[string]time.Time // query text → its first complete answer since the last revision
}

func newLogged(t *testing.T, engine string, seed uint64) *loggedEndpoint {
	e := &loggedEndpoint{engine: engine, rng: rand.New(rand.NewPCG(seed, 11)), open: map[*asked]bool{}, first: map[string]time.Time{}}
	e.http = httptest.NewServer(e)
	t.Cleanup(e.http.Close)
	return e
}

var nodeContact = regexp.MustCompile(`mailto:(\w+)@`)

// ServeHTTP implements http.Handler.
func (e *loggedEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	_ = r.ParseForm() // an empty query is an error of the engine
	query := r.Form.Get("query")
	a := &asked{began: now, node: "?"}
	if m := nodeContact.FindStringSubmatch(r.UserAgent()); m != nil {
		a.node = m[1]
	}
	e.mu.Lock()
	for other := range e.open {
		if other.node != a.node {
			e.object("%s asks while a request of %s runs since %v", a.node, other.node, now.Sub(other.began))
		}
	}
	if e.last != nil && now.Sub(e.last.ended) < nemesisGap {
		e.object("%s asks %v after the end of a request of %s", a.node, now.Sub(e.last.ended), e.last.node)
	}
	if now.Before(e.quiet) {
		e.object("%s asks %v before the end of a Retry-After that %s got", a.node, e.quiet.Sub(now), e.why.node)
	}
	e.open[a] = true
	e.log = append(e.log, a)
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
	delete(e.open, a)
	if !a.left {
		e.last = a
	}
	switch {
	case a.left:
	case deny:
		e.denied++
		// A request that took long may have been given up, and its owner may be gone.
		if a.ended.Sub(a.began) < nemesisTimeout/2 {
			e.quiet, e.why = a.ended.Add(time.Second), a
		}
	case err == nil:
		if _, ok := e.first[query]; !ok {
			e.first[query] = a.ended
		}
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

func (e *loggedEndpoint) object(format string, args ...any) {
	e.wrong = append(e.wrong, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// owner returns the node that has asked last.
func (e *loggedEndpoint) owner() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.log) == 0 {
		return ""
	}
	return e.log[len(e.log)-1].node
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

// pauses returns the times between the requests of two nodes. The caller holds the lock.
func (e *loggedEndpoint) pauses() (list []time.Duration) {
	for i, a := range e.log[min(1, len(e.log)):] {
		if before := e.log[i]; before.node != a.node {
			list = append(list, a.began.Sub(before.ended))
		}
	}
	return list
}

// overspent returns the slots in which complete requests took longer than the budget. One request
// may have begun in the slot before, because it arrives here after it was sent.
func (e *loggedEndpoint) overspent() (list []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	type slot struct {
		used, longest time.Duration
		nodes         map[string]int
	}
	slots := map[int64]*slot{}
	for _, a := range e.log {
		if a.left || a.ended.IsZero() {
			continue
		}
		n := a.began.UnixNano() / int64(nemesisSlot)
		if slots[n] == nil {
			slots[n] = &slot{nodes: map[string]int{}}
		}
		s, d := slots[n], a.ended.Sub(a.began)
		s.used, s.longest = s.used+d, max(s.longest, d)
		s.nodes[a.node]++
	}
	for n, s := range slots {
		if s.used > nemesisBudget+s.longest {
			list = append(list, fmt.Sprintf("the slot at %v took %v, requests %v", time.Unix(0, n*int64(nemesisSlot)).Format(time.TimeOnly), s.used, s.nodes))
		}
	}
	return list
}
