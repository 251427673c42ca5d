package main

// This file reads what the server knows of the past, reports what changed, and looks at what the server uses.

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// wall is the time of the machine's clock in nanoseconds.
func wall() int64 { return time.Now().UnixNano() }

// jsonTime is a time in JSON.
type jsonTime struct{ time.Time }

func (t *jsonTime) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &t.Time) }

// readPast reads states of the past and the differences between them. What it gets is judged by
// the history that the server has at the end.
func (w *world) readPast(ctx context.Context) {
	r := rand.New(rand.NewPCG(w.Seed, 0x9a57+uint64(w.offset)))
	for w.until(ctx, w.now()+w.ReadEvery) {
		q := r.IntN(len(w.Queries))
		var page struct {
			Changes []change `json:"changes"`
		}
		if _, err := w.call(ctx, http.MethodGet, "/v1/queries/"+name(q)+"/changes?limit=1000", nil, &page); err != nil || len(page.Changes) == 0 {
			continue
		}
		one, other := page.Changes[r.IntN(len(page.Changes))], page.Changes[r.IntN(len(page.Changes))]
		x := plan.Event{Kind: plan.Past, Query: q}
		path := "/v1/queries/" + name(q)
		switch r.IntN(3) {
		case 0:
			x.Seq = one.Seq
			path += fmt.Sprint("/results?seq=", one.Seq)
		case 1:
			at := time.Now().Add(-time.Duration(r.Int64N(int64(2 * time.Minute))))
			x.Wall = at.UnixNano()
			path += "/results?at=" + url.QueryEscape(at.UTC().Format(time.RFC3339Nano))
		default:
			if one.Seq > other.Seq {
				one, other = other, one
			}
			x.Kind, x.Prev, x.Seq = plan.Net, one.Seq, other.Seq
			path += fmt.Sprintf("/changes/diff?from=%d&to=%d", one.Seq, other.Seq)
		}
		var d struct {
			document
			Added   document `json:"added"`
			Removed document `json:"removed"`
		}
		status, err := w.call(ctx, http.MethodGet, path, nil, &d)
		switch {
		case err == nil && x.Kind == plan.Net:
			x.Rows = [][]int{d.Added.rows(), d.Removed.rows()}
		case err == nil:
			x.Rows = [][]int{d.rows()}
		case status == http.StatusInternalServerError:
			x = plan.Event{Kind: plan.Problem, Text: err.Error()}
		default: // it is too old by now, or too new for the server's clock
			continue
		}
		w.write(x)
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
func (w *world) readUse() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.write(plan.Event{Kind: plan.Used, N: runtime.NumGoroutine(), Seq: m.HeapAlloc})
}
