package notify_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// A holding is the position and result of one query that a reader of all changes has.
type holding struct {
	at   registry.Position
	bag  []string
	lost bool // a gap was reported, and the result fetched
}

// A wideReader reads the changes of all queries.
type wideReader struct {
	rt      *rapid.T
	r       *rig
	t       *testing.T
	filter  *cursor.Filter
	id      string
	has     map[string]*holding
	changes map[string]int // changes by query
}

func (w *wideReader) fetch(query string) {
	st, res, err := w.r.log.Current(query, true)
	must(err)
	h := &holding{at: st.Position, lost: true}
	if res != nil {
		h.bag = view(w.t, w.filter, res)
	}
	w.has[query] = h
}

func (w *wideReader) take(e event) {
	if e.id == "" {
		w.rt.Fatalf("%s without an id", e.kind)
	}
	w.id = e.id
	var d struct {
		Query, Epoch   string
		Prev, Seq      uint64
		Filtered       bool
		Added, Removed struct {
			Results struct{ Bindings []json.RawMessage }
		}
	}
	must(json.Unmarshal([]byte(e.data), &d))
	if e.kind == "gap" {
		for q := range w.has {
			if d.Query == "" || d.Query == q {
				w.fetch(q)
			}
		}
		return
	}
	h := w.has[d.Query]
	if h.lost && d.Epoch == h.at.Epoch && d.Seq <= h.at.Seq {
		return
	}
	if e.kind == "change" && d.Prev != h.at.Seq || d.Seq <= h.at.Seq || h.at.Epoch != "" && d.Epoch != h.at.Epoch {
		if h.lost {
			w.fetch(d.Query)
			return
		}
		w.rt.Fatalf("%s (%d, %d] of %s after %v", e.kind, d.Prev, d.Seq, d.Query, h.at)
	}
	h.at, h.lost = registry.Position{Epoch: d.Epoch, Seq: d.Seq}, false
	if e.kind == "alive" {
		return
	}
	if d.Filtered == w.filter.All() {
		w.rt.Fatalf("filtered is %v: %s", d.Filtered, e.data)
	}
	w.changes[d.Query]++
	for _, row := range d.Removed.Results.Bindings {
		i := slices.Index(h.bag, string(row))
		if i < 0 {
			w.rt.Fatalf("%s is removed and not there", row)
		}
		h.bag = slices.Delete(h.bag, i, i+1)
	}
	for _, row := range d.Added.Results.Bindings {
		h.bag = append(h.bag, string(row))
	}
	slices.Sort(h.bag)
}

// With any filter and rate, a reader that resumes from the last id after every cut
// has what the filter leaves of each result. A threshold withholds less than it asks
// for. No change is sent twice.
func TestAllModel(t *testing.T) {
	params := map[string]string{"all": "", "rows": "min_rows=4", "jaccard": "min_jaccard=0.6", "vars": "vars=s",
		"where": "where=s:contains:1", "rate": "rate=3ms", "both": "min_rows=3&rate=2ms"}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(slices.Sorted(maps.Keys(params))).Draw(rt, "params")
		r := newRig(t, func(o *notify.Options) { o.Timing.Ping = 5 * time.Millisecond })
		q, err := url.ParseQuery(params[name])
		must(err)
		w := &wideReader{rt: rt, r: r, t: t, id: "store:0", has: map[string]*holding{}, changes: map[string]int{}}
		w.filter, _, err = cursor.ParseParams(q)
		must(err)
		var ids []string
		for i := range rapid.SampledFrom([]int{1, 3, 90}).Draw(rt, "queries") {
			ids = append(ids, r.log.Add(fmt.Sprint("q", i), "SELECT", false))
		}
		marker := r.log.Add("marker", "SELECT", false)
		for _, id := range append(ids, marker) {
			w.has[id] = &holding{}
		}
		for step := range rapid.IntRange(1, 6).Draw(rt, "steps") {
			for range rapid.IntRange(0, 12).Draw(rt, "changes") {
				values := rapid.SliceOfN(rapid.IntRange(0, 30), 0, 6).Draw(rt, "values")
				for i := range rapid.IntRange(1, len(ids)).Draw(rt, "of") {
					r.record(ids[i], rows(strings.Fields(strings.Trim(fmt.Sprint(values, i), "[]"))...))
				}
			}
			if rapid.IntRange(0, 9).Draw(rt, "fault") == 0 {
				r.log.TrimAll(rapid.IntRange(1, 3).Draw(rt, "keep"))
			}
			s := r.stream(t, "/v1/changes?"+params[name], "Last-Event-ID", w.id)
			for range rapid.IntRange(0, 8).Draw(rt, "events") { // then it is cut
				r.record(marker, rows(fmt.Sprintf("1a%d 1b%d 1c%d 1d%d", step, step, step, r.tick), fmt.Sprint("1e", r.tick),
					fmt.Sprint("1f", r.tick), fmt.Sprint("1g", r.tick)))
				w.take(s.next())
			}
			s.stop()
		}
		r.record(marker, rows("1x", "1y", "1z", "1w"))
		head, err := r.log.Head()
		must(err)
		s := r.stream(t, "/v1/changes?"+params[name], "Last-Event-ID", w.id)
		for last := false; !last; {
			st, _, err := r.log.Current(marker, false)
			must(err)
			if w.has[marker].at == st.Position {
				break
			}
			w.take(s.next())
		}
		for _, id := range ids { // rates may tell other queries after the marker
			for wait := time.Now().Add(patience); ; {
				st, res, err := r.log.Current(id, true)
				must(err)
				if res == nil {
					break
				}
				h, want := w.has[id], view(t, w.filter, res)
				n := distance(h.bag, want)
				if n == 0 && h.at == st.Position || strings.Contains(params[name], "min_rows") && n < 4 || name == "jaccard" && len(h.bag)+
					len(want)-n > 0 {
					break
				}
				if time.Now().After(wait) {
					rt.Fatalf("of %s at %v the reader holds %v, the result at %v is %v (head %v, id %s)", id, h.at, h.bag, st.Position, want, head, w.id)
				}
				w.take(s.next())
			}
		}
		s.stop()
	})
}

// The number of queries that a filter withholds is bounded. Above it the change that
// has waited longest is sent in spite of the filter.
func TestAllKeepsBackABoundedNumber(t *testing.T) {
	r := newRig(t, nil)
	var ids []string
	for i := range 80 {
		ids = append(ids, r.log.Add(fmt.Sprint("q", i), "SELECT", false))
		r.record(ids[i], rows("a"))
	}
	s := r.stream(t, "/v1/changes?min_rows=2", "Last-Event-ID", "store:80")
	for i, id := range ids {
		r.record(id, rows("a", fmt.Sprint(i)))
	}
	for i := range 16 {
		if e := s.next(); e.kind != "change" || e.Query != ids[i] {
			t.Fatalf("change %d is of %s, want %s", i, e.Query, ids[i])
		}
	}
	r.record(ids[70], rows("a", "b", "c"))
	var e event
	for e.Query != ids[70] {
		e = s.next()
	}
	if e.kind != "change" || len(e.id) > 4096 {
		t.Errorf("%s with an id of %d bytes", e.kind, len(e.id))
	}
	s.stop()
	// A reader that comes back with that id gets the rest as soon as it passes.
	s = r.stream(t, "/v1/changes?min_rows=2", "Last-Event-ID", e.id)
	r.record(ids[75], rows("a", "b", "c"))
	if e := s.next(); e.Query != ids[75] || e.Prev != 1 || e.Seq != 3 {
		t.Errorf("after coming back: %s (%d, %d]", e.Query, e.Prev, e.Seq)
	}
}

// The changes within one rate may come in several rounds. The rate counts from the
// last round, even if that one only moves positions.
func TestAllRateCountsAfterAllRounds(t *testing.T) {
	r := newRig(t, nil)
	var ids []string
	for i := range 65 {
		ids = append(ids, r.log.Add(fmt.Sprint("q", i), "SELECT", false))
		r.record(ids[i], rows("a"))
	}
	for _, id := range ids {
		r.record(id, rows("b"))
	}
	r.record(ids[64], rows("a")) // the only one of the second round has nothing to tell
	s := r.stream(t, "/v1/changes?rate=1h", "Last-Event-ID", "store:65")
	for i := range 64 {
		if e := s.next(); e.kind != "change" || e.Query != ids[i] {
			t.Fatalf("event %d is a %s of %s", i, e.kind, e.Query)
		}
	}
	if e := s.next(); e.kind != "alive" || e.Query != ids[64] {
		t.Fatalf("the last event is a %s of %s", e.kind, e.Query)
	}
	sent := r.sent()
	r.record(ids[0], rows("c"))
	time.Sleep(100 * time.Millisecond)
	if n := r.sent() - sent; n != 0 {
		t.Errorf("%d changes did not wait for the rate", n)
	}
}

func TestAllRefusals(t *testing.T) {
	r := newRig(t, nil)
	for _, path := range []string{"?min_rows=x", "?where=x", "?after=x", "?after=store:1~", "?after=store:1~q", "?after=store:1~q:x",
		"?after=store:1~q%0a:1", "?after=a%0db:1", "?after=store:1" + strings.Repeat("~q:1", 65)} {
		if resp := r.get(t, "/v1/changes"+path); resp.StatusCode != 400 {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	id := r.log.Add("q", "SELECT", false)
	s := r.stream(t, "/v1/changes?after=store:0~none:3~"+id+":7") // of nothing that is kept back
	r.record(id, rows("a"))
	if e := s.next(); e.Query != id || e.Seq != 1 || e.id != "store:1" {
		t.Errorf("%+v", e)
	}
}
