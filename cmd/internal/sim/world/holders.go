package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// pauseOfHolders is the time after which something is tried again.
const pauseOfHolders = 2 * time.Second

// call sends a request to the server's API and decodes the answer.
func (w *world) call(ctx context.Context, method, path string, body, answer any) (status int, err error) {
	return w.callAs(ctx, holderToken, method, path, body, answer)
}

// callAs is call with a token.
func (w *world) callAs(ctx context.Context, token, method, path string, body, answer any) (status int, err error) {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		in = bytes.NewReader(b)
	}
	return w.send(ctx, token, method, path, "application/json", in, answer)
}

// post sends a form.
func (w *world) post(ctx context.Context, path string, form url.Values) (status int, err error) {
	return w.send(ctx, holderToken, http.MethodPost, path, "application/x-www-form-urlencoded", strings.NewReader(form.Encode()), nil)
}

func (w *world) send(ctx context.Context, token, method, path, mediaType string, in io.Reader, answer any) (status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+w.server()+path, in)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", mediaType)
	w.sign(r, token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.turn.Add(1)
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusServiceUnavailable {
		w.turn.Add(1)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return resp.StatusCode, err
	}
	if resp.StatusCode == http.StatusInternalServerError {
		w.write(plan.Event{Kind: plan.Problem, Text: fmt.Sprintf("%s %s: %d %s", method, path, resp.StatusCode, b)})
	}
	if resp.StatusCode >= 300 {
		return resp.StatusCode, fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, b)
	}
	if answer == nil {
		return resp.StatusCode, nil
	}
	return resp.StatusCode, json.Unmarshal(b, answer)
}

// refused reports whether the server refuses a request for ever. A query that it does not know yet may come later.
func refused(status int, err error) bool {
	return status >= 400 && status < 500 && status != http.StatusNotFound && !strings.Contains(err.Error(), "no query has ")
}

// paths are those of things that are there.
type paths struct {
	mu   sync.Mutex
	list []string
}

func (p *paths) add(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, path)
}

func (p *paths) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.list)
}

// name is the name of a query.
func name(i int) string { return fmt.Sprint("q", i) }

// A holder is one of query i.
type holder struct {
	*world
	i int
}

// hold registers the query at its time, and again in each life, which changes nothing.
func (w holder) hold(ctx context.Context) {
	if !w.before(ctx) {
		return
	}
	i := w.i
	at := w.Queries[i].Registered
	for {
		if !w.until(ctx, at) {
			return
		}
		var made struct {
			ID string `json:"id"`
		}
		path, body := "/v1/queries", registration(i)
		if w.Queries[i].Watch {
			path, body = "/v1/watches", map[string]any{"iri": entity(i), "properties": []string{holds}, "endpoint": "city", "name": name(i)}
		}
		status, err := w.call(ctx, http.MethodPost, path, body, &made)
		if status >= 400 && status < 500 {
			w.write(plan.Event{Kind: plan.Problem, Query: i, Text: err.Error()})
		}
		if err == nil {
			w.write(plan.Event{Kind: plan.Registered, Query: i, Text: made.ID})
			w.known.add("/v1/queries/" + name(i))
			return
		}
		at = w.now() + time.Second
	}
}

// registration is what registers a query.
func registration(i int) map[string]any {
	return map[string]any{"query": query(i), "endpoint": "city", "name": name(i)}
}

// insist repeats a call until the server has done it, or found that there is nothing to do.
func (w holder) insist(ctx context.Context, token, method, path string, body any) bool {
	for {
		status, err := w.callAs(ctx, token, method, path, body, nil)
		switch {
		case err == nil || method == http.MethodDelete && status == http.StatusNotFound ||
			token == guestToken && strings.Contains(err.Error(), "does not hold"): // the server was down when it was to be registered
			return true
		case refused(status, err):
			w.write(plan.Event{Kind: plan.Problem, Text: err.Error()})
			return false
		case !w.until(ctx, w.now()+time.Second):
			return false
		}
	}
}

// before registers the query and removes it again, unless it was removed in an earlier life.
func (w holder) before(ctx context.Context) bool {
	i, done := w.i, false
	x, memory := w.Queries[i].Before, fmt.Sprint("removed", i)
	if x.Until == 0 || recall(memory, &done) {
		return true
	}
	if w.now() < x.Until && !w.insist(ctx, holderToken, http.MethodPost, "/v1/queries", registration(i)) ||
		!w.until(ctx, x.Until) || !w.insist(ctx, holderToken, http.MethodDelete, "/v1/queries/"+name(i), nil) {
		return false
	}
	w.write(plan.Event{Kind: plan.Removed, Query: i})
	if err := keep(memory, true); err != nil {
		w.write(plan.Event{Kind: plan.Problem, Text: err.Error()})
	}
	return true
}

// pause pauses the query for some time. What was confirmed holds in later lives.
func (w holder) pause(ctx context.Context) {
	i := w.i
	x, path := w.Queries[i].Paused, "/v1/queries/"+name(i)
	if x.Until == 0 {
		return
	}
	if w.now() < x.Until {
		if !w.until(ctx, x.From) || !w.insist(ctx, holderToken, http.MethodPost, path+"/pause", nil) {
			return
		}
		w.write(plan.Event{Kind: plan.Paused, Query: i})
	}
	if w.until(ctx, x.Until) {
		w.write(plan.Event{Kind: plan.Resuming, Query: i})
		w.insist(ctx, holderToken, http.MethodPost, path+"/resume", nil)
	}
}

// visit lets somebody else hold the query for some time, of whom nothing can be seen in what the first holder gets.
func (w holder) visit(ctx context.Context) {
	i := w.i
	x, path := w.Queries[i].Guest, "/v1/queries/"+name(i)
	if x.Until == 0 {
		return
	}
	third := (x.Until - x.From) / 3
	for n, step := range []struct {
		method, path string
		body         any
	}{
		{http.MethodPost, "/v1/queries", map[string]any{"query": query(i), "endpoint": "city"}},
		{http.MethodPatch, path, map[string]any{"weight": 3, "tags": []string{"guest"}, "max_staleness": "90s"}},
		{http.MethodPost, path + "/pause", nil},
		{http.MethodDelete, path, nil},
	} {
		at := x.From + time.Duration(n)*third
		if n < 3 && w.now() > at+third {
			continue // a life before has done it
		}
		if !w.until(ctx, at) || !w.insist(ctx, guestToken, step.method, step.path, step.body) {
			return
		}
	}
}

// A document is a result in the SPARQL JSON format.
type document struct {
	Results struct {
		Bindings []map[string]struct {
			Value string `json:"value"`
		} `json:"bindings"`
	} `json:"results"`
}

// rows returns the values of a document.
func (d document) rows() []int {
	list := []int{}
	for _, b := range d.Results.Bindings {
		n, err := strconv.Atoi(cmp.Or(b["v"].Value, b["value"].Value))
		if err != nil {
			n = -1
		}
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// A change is one of the log.
type change struct {
	Epoch    string   `json:"epoch"`
	Prev     uint64   `json:"prev"`
	Seq      uint64   `json:"seq"`
	Baseline bool     `json:"baseline"`
	Added    document `json:"added"`
	Removed  document `json:"removed"`
	Results  document `json:"results"` // of a snapshot
	Reason   string   `json:"reason"`
	Time     jsonTime `json:"time"`
}

// apply returns rows after a change.
func (c *change) apply(rows []int) []int {
	if c.Baseline { // what came before does not count, such as before a restored backup
		rows = nil
	}
	removed := c.Removed.rows()
	left := []int{}
	for _, r := range rows {
		if k := slices.Index(removed, r); k >= 0 {
			removed = slices.Delete(removed, k, k+1)
			continue
		}
		left = append(left, r)
	}
	if len(removed) > 0 {
		left = append(left, -2) // a row that was not there was removed
	}
	left = append(left, c.Added.rows()...)
	slices.Sort(left)
	return left
}

// readHistory writes the current result of each query, and all states that the history has.
func (w reader) readHistory() {
	ctx := context.Background()
	for i := range w.Queries {
		var page struct {
			Changes []change `json:"changes"`
			Next    string   `json:"next"`
		}
		after := "?limit=7"
		var rows []int
		known := false
		for {
			if _, err := w.call(ctx, http.MethodGet, "/v1/queries/"+name(i)+"/changes"+after, nil, &page); err != nil {
				w.write(plan.Event{Kind: plan.Problem, Query: i, Text: err.Error()})
				break
			}
			if len(page.Changes) == 0 {
				break
			}
			for _, c := range page.Changes {
				if !known { // retention may have dropped the first ones
					var d document
					if _, err := w.call(ctx, http.MethodGet, fmt.Sprintf("/v1/queries/%s/results?seq=%d", name(i), c.Seq), nil, &d); err != nil {
						w.write(plan.Event{Kind: plan.Problem, Query: i, Text: err.Error()})
					}
					rows, known = d.rows(), true
				} else {
					rows = c.apply(rows)
				}
				w.write(plan.Event{Kind: plan.State, Query: i, Epoch: c.Epoch, Prev: c.Prev, Seq: c.Seq, Rows: [][]int{rows}, Wall: c.Time.UnixNano()})
			}
			after, page.Changes = "?limit=7&after="+page.Next, nil
		}
		var d document
		if _, err := w.call(ctx, http.MethodGet, "/v1/queries/"+name(i)+"/results", nil, &d); err != nil {
			w.write(plan.Event{Kind: plan.Problem, Query: i, Text: err.Error()})
			continue
		}
		w.write(plan.Event{Kind: plan.Now, Query: i, Rows: [][]int{d.rows()}})
		w.readGauge(i)
		for range max(w.Nodes, 1) - 1 { // the other nodes have the same
			w.turn.Add(1)
			if _, err := w.call(ctx, http.MethodGet, "/v1/queries/"+name(i)+"/results", nil, &d); err != nil {
				w.write(plan.Event{Kind: plan.Problem, Query: i, Text: err.Error()})
				continue
			}
			w.write(plan.Event{Kind: plan.Now, Query: i, Rows: [][]int{d.rows()}})
		}
	}
}
