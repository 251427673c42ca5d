package main

// This file reads what the server knows of the past, reports what changed, and looks at what the server uses.

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// wall is the time of the machine's clock in nanoseconds.
func wall() int64 { return time.Now().UnixNano() }

// jsonTime is a time in JSON.
type jsonTime struct{ time.Time }

func (t *jsonTime) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &t.Time) }

// A reader looks at what the server says.
type reader struct{ *world }

// readPast reads states of the past and the differences between them. What it gets is judged by
// the history that the server has at the end.
func (w reader) readPast(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.Seed, 0x9a57+uint64(w.offset)))
	for len(w.Queries) > 0 && w.until(ctx, w.now()+w.ReadEvery) && w.now() < w.Span {
		q := r.IntN(len(w.Queries))
		path := "/v1/queries/" + name(q)
		var is struct {
			Seq uint64 `json:"seq"`
		}
		if _, err := w.call(ctx, http.MethodGet, path, nil, &is); err != nil || is.Seq == 0 {
			continue
		}
		one, other := 1+r.Uint64N(is.Seq), 1+r.Uint64N(is.Seq)
		x := plan.Event{Kind: plan.Past, Query: q}
		switch r.IntN(3) {
		case 0:
			x.Seq = one
			path += fmt.Sprint("/results?seq=", one)
		case 1:
			at := time.Now().Add(-time.Duration(r.Int64N(int64(2 * time.Minute))))
			x.Wall = at.UnixNano()
			path += "/results?at=" + url.QueryEscape(at.UTC().Format(time.RFC3339Nano))
		default:
			x.Kind, x.Prev, x.Seq = plan.Net, min(one, other), max(one, other)
			path += fmt.Sprintf("/changes/diff?from=%d&to=%d", x.Prev, x.Seq)
		}
		var d struct {
			document
			Added   document `json:"added"`
			Removed document `json:"removed"`
		}
		_, err := w.call(ctx, http.MethodGet, path, nil, &d)
		switch {
		case err == nil && x.Kind == plan.Net:
			x.Rows = [][]int{d.Added.rows(), d.Removed.rows()}
		case err == nil:
			x.Rows = [][]int{d.rows()}
		default: // it is too old by now, or too new for the server's clock
			continue
		}
		w.write(x)
	}
}

// find asks all nodes of a cluster for what is there: a node that is cut off says that it does not know, never that there is
// no such thing.
func (w reader) find(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.Seed, 0xf19d))
	for w.until(ctx, w.now()+time.Duration(500+r.IntN(2500))*time.Millisecond) && w.now() < w.Span {
		known := w.known.all()
		if len(known) == 0 {
			continue
		}
		node, path := r.IntN(w.Nodes), known[r.IntN(len(known))]
		here, cancel := context.WithTimeout(ctx, 5*time.Second)
		q, err := http.NewRequestWithContext(here, http.MethodGet, "http://"+w.address(node)+path, nil)
		if err == nil {
			w.sign(q, holderToken)
			var resp *http.Response
			if resp, err = http.DefaultClient.Do(q); err == nil {
				resp.Body.Close()
				if resp.StatusCode == http.StatusNotFound {
					w.write(plan.Event{Kind: plan.Problem, Text: fmt.Sprintf("node %d says that %s is not there", node, path)})
				}
			}
		}
		cancel()
	}
}

// hint tells the server at its time that the data of queries has changed.
func (w *world) hint(ctx context.Context, i int) {
	h := w.Hints[i]
	if h.At < w.offset || !w.until(ctx, h.At) {
		return
	}
	var body any
	if len(h.Queries) > 0 {
		iris := []string{}
		for _, q := range h.Queries {
			iris = append(iris, fmt.Sprintf("http://sim/q/%d", q))
		}
		body = map[string]any{"touched": iris}
	}
	status, err := w.call(ctx, http.MethodPost, "/v1/endpoints/city/hints", body, nil)
	switch {
	case err == nil:
		w.write(plan.Event{Kind: plan.Hinted, Members: slices.Clone(h.Queries)})
	case status >= 400 && status < 500:
		w.write(plan.Event{Kind: plan.Problem, Text: err.Error()})
	}
}

// readUse writes how many goroutines and how much memory there are.
func (w reader) readUse() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.write(plan.Event{Kind: plan.Used, N: runtime.NumGoroutine(), Seq: m.HeapAlloc})
}

// readGauge writes how many rows the metrics say that a query has.
func (w reader) readGauge(q int) {
	r, err := http.NewRequest(http.MethodGet, "http://"+w.server()+"/metrics/results?query="+name(q), nil)
	if err != nil {
		return
	}
	w.sign(r, viewerToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		w.write(plan.Event{Kind: plan.Problem, Query: q, Text: err.Error()})
		return
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if series, value, ok := strings.Cut(lines.Text(), "} "); ok && strings.HasPrefix(series, "freshet_result_rows{") {
			n, err := strconv.Atoi(value)
			if err != nil {
				w.write(plan.Event{Kind: plan.Problem, Query: q, Text: lines.Text()})
			}
			w.write(plan.Event{Kind: plan.Gauge, Query: q, N: n})
		}
	}
}

// profile makes a profile at its time, and again in each life, which changes nothing.
func (w reader) profile(ctx context.Context, i int) {
	x := &w.Profiles[i]
	at := x.From
	for _, q := range x.Queries {
		at = max(at, w.Queries[q].Registered+5*time.Second)
	}
	if !w.until(ctx, at) {
		return
	}
	items := []any{}
	for _, q := range x.Queries {
		items = append(items, map[string]any{"query": name(q), "when": map[string]any{"every": x.Every.String(), "slack": x.Slack.String()}})
	}
	w.make(ctx, "/v1/profiles", "/v1/profiles/"+profileName(i), map[string]any{"name": profileName(i), "items": items}, func() {})
}

func profileName(i int) string { return fmt.Sprint("p", i) }

// readProfiles writes how many rounds of each profile were captured.
func (w reader) readProfiles() {
	for i := range w.Profiles {
		var is struct {
			Captured int `json:"captured"`
			Expired  int `json:"expired"`
		}
		if _, err := w.call(context.Background(), http.MethodGet, "/v1/profiles/"+profileName(i)+"/captures", nil, &is); err != nil {
			w.write(plan.Event{Kind: plan.Problem, Text: err.Error()})
		}
		w.write(plan.Event{Kind: plan.Captures, Who: i, N: is.Captured, Value: is.Expired})
	}
}
