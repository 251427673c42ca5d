package store

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"go.etcd.io/bbolt"
)

// A town runs a whole slot like the program does: the loop, an endpoint over loopback and a
// store on disk. The endpoint answers every query with the same body, except the queries in
// other.
type town struct {
	d       *DB
	loop    *scheduler.Loop
	client  *endpoint.Client
	ids     []string
	body    []byte
	other   atomic.Pointer[map[string][]byte] // bodies by query text
	forget  atomic.Bool                       // send queries without a memory of the last answer
	decoded atomic.Int64                      // answers that were decoded
	commits []scheduler.Batch
	history int // commits that wrote results or history
	stats   int // commits that wrote statistics
}

func newTown(b testing.TB, queries, rows int) *town {
	w := startTown(b, queries, rows)
	w.d.bolt.NoSync = true
	if s := w.tick(b); s.Complete != queries {
		b.Fatalf("baselines: %+v", s)
	}
	w.d.bolt.NoSync = false
	return w
}

// startTown is newTown without the first slot.
func startTown(b testing.TB, queries, rows int) *town {
	w := &town{d: open(b, b.TempDir(), Options{}), body: rowsBody(rows, 0)}
	ep := httptest.NewServer(w)
	b.Cleanup(ep.Close)
	e := registry.Endpoint{Name: "city", URL: ep.URL, Slot: "never", Budget: registry.Duration(time.Hour),
		Timeout: registry.Duration(time.Minute), Policy: "rr"}.WithDefaults()
	var err error
	if w.client, err = endpoint.New(e, endpoint.Options{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.client.Close)
	w.d.bolt.NoSync = true
	for i := range queries {
		id := fmt.Sprintf("q_%026d", i)
		w.ids = append(w.ids, id)
		if _, err := w.d.Queries.EditQuery(id, func(q *registry.Query, _ bool) error {
			q.Endpoint, q.Text, q.Form, q.CreatedAt = "city", id, diff.Select, start
			q.Holders = []registry.Holder{{Caller: registry.Anonymous, Since: start}}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	w.d.bolt.NoSync = false
	if w.loop, err = scheduler.NewLoop(scheduler.Config{Endpoint: e, Ledger: w, Executor: w}); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.loop.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	return w
}

// rowsBody returns a SELECT result. Each version has another number in one row.
func rowsBody(rows, version int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"head":{"vars":["s","label","n"]},"results":{"bindings":[`)
	for i := range rows {
		if i > 0 {
			b.WriteString(",")
		}
		n := i * 37
		if i == rows/2 {
			n += version
		}
		fmt.Fprintf(&b, `{"s":{"type":"uri","value":"http://example.org/station/%d"},"label":{"type":"literal","xml:lang":"en",`+
			`"value":"Station number %d"},"n":{"type":"literal","datatype":"http://www.w3.org/2001/XMLSchema#integer","value":"%d"}}`, i, i, n)
	}
	b.WriteString("]}}")
	return b.Bytes()
}

func (w *town) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body := w.body
	if other := w.other.Load(); other != nil {
		if b, ok := (*other)[r.FormValue("query")]; ok {
			body = b
		}
	}
	rw.Header().Set("Content-Type", "application/sparql-results+json")
	rw.Write(body)
}

// change changes the results of n queries, evenly distributed.
func (w *town) change(n, version int) {
	other := map[string][]byte{}
	for i := range n {
		other[w.ids[i*len(w.ids)/n]] = rowsBody(bytes.Count(w.body, []byte(`"s":`)), version)
	}
	w.other.Store(&other)
}

// Execute implements scheduler.Executor.
func (w *town) Execute(ctx context.Context, q *registry.Query, m scheduler.Memory, limit time.Duration) scheduler.Answer {
	if w.forget.Load() {
		m = scheduler.Memory{}
	}
	a := w.client.Execute(ctx, q, m, limit)
	if a.Result != nil {
		w.decoded.Add(1)
	}
	return a
}

func (w *town) Health() registry.Health { return w.client.Health() }

// Since, Prepare, Record and Result implement scheduler.Ledger and remember commits.
func (w *town) Since(endpoint string, rev uint64) (scheduler.News, error) {
	return w.d.Ledger.Since(endpoint, rev)
}

func (w *town) Result(query string) (*diff.Result, error) { return w.d.Ledger.Result(query) }

func (w *town) Prepare(stop func() error, r *diff.Result, delta *diff.Delta) (scheduler.Prepared, error) {
	return w.d.Ledger.Prepare(stop, r, delta)
}

func (w *town) Record(endpoint string, b scheduler.Batch) ([]registry.Change, error) {
	w.commits = append(w.commits, b)
	history, err := w.roots(bResults, bChanges, bOffsets, bOld)
	if err != nil {
		return nil, err
	}
	stats, err := w.roots(bStats)
	if err != nil {
		return nil, err
	}
	changes, err := w.d.Ledger.Record(endpoint, b)
	if err != nil {
		return nil, err
	}
	if now, err := w.roots(bResults, bChanges, bOffsets, bOld); err != nil {
		return nil, err
	} else if !slices.Equal(now, history) {
		w.history++
	}
	if now, err := w.roots(bStats); err != nil {
		return nil, err
	} else if !slices.Equal(now, stats) {
		w.stats++
	}
	return changes, nil
}

func (w *town) tick(b testing.TB) scheduler.Slot {
	w.commits, w.history, w.stats = w.commits[:0], 0, 0
	w.decoded.Store(0)
	s, err := w.loop.Tick(b.Context())
	if err != nil || s.Failed > 0 || s.Run != len(w.ids) {
		b.Fatalf("slot %+v: %v", s, err)
	}
	return s
}

// roots returns the root pages of buckets. A commit that writes to a bucket moves its root
// to another page; a later commit may move it back.
func (w *town) roots(names ...[]byte) (at []uint64, err error) {
	err = w.d.bolt.View(func(tx *bbolt.Tx) error {
		for _, n := range names {
			at = append(at, uint64(tx.Bucket(n).Root()))
		}
		return nil
	})
	return at, err
}

// allocated returns the number of bytes of all pages written so far.
func (w *town) allocated() int64 {
	stats := w.d.bolt.Stats().TxStats
	return stats.GetPageAlloc()
}

// An answer with the same bytes as the last one is not decoded, and no result or history is
// written for it. A change is written once.
func TestCostOfASlot(t *testing.T) {
	w := newTown(t, 300, 40)
	if w.decoded.Load() != 300 {
		t.Fatalf("%d of 300 baselines were read", w.decoded.Load())
	}
	allocated := w.allocated()
	if s := w.tick(t); s.Complete != 300 || s.Changed != 0 {
		t.Fatalf("slot %+v", s)
	}
	if n := w.decoded.Load(); n != 0 {
		t.Errorf("%d unchanged answers were read", n)
	}
	if w.history > 0 {
		t.Errorf("%d of %d commits wrote results or history", w.history, len(w.commits))
	}
	if w.stats == 0 {
		t.Error("the statistics were not written: the check of pages shows nothing")
	}
	if n := w.allocated() - allocated; n > 300*2048 {
		t.Errorf("%d bytes of pages written for 300 unchanged executions", n)
	}
	// The loop commits after 256 outcomes or a second, and at the end.
	if n := len(w.commits); n < 2 || n > 10 {
		t.Errorf("%d commits for a slot without changes", n)
	}

	w.change(10, 1)
	if s := w.tick(t); s.Changed != 10 || w.decoded.Load() != 10 {
		t.Errorf("slot %+v, %d answers read", s, w.decoded.Load())
	}
	changed, all := 0, 0
	for _, b := range w.commits {
		all += len(b.Outcomes)
		for _, o := range b.Outcomes {
			if o.Delta != nil {
				changed++
			}
		}
	}
	if changed != 10 || all != 300 {
		t.Errorf("%d changes among %d outcomes committed", changed, all)
	}
	if w.history == 0 || w.history > 10 {
		t.Errorf("%d commits wrote results or history for 10 changes", w.history)
	}
}

// BenchmarkUnchanged measures a slot of 1,000 executions with the same bytes as last time,
// including loop, loopback and commits. decode_ratio is how many times longer the same slot
// takes if every answer has to be decoded and hashed.
func BenchmarkUnchanged(b *testing.B) {
	for _, rows := range []int{10, 1000} {
		b.Run(fmt.Sprintf("executions=1000/rows=%d", rows), func(b *testing.B) {
			w := newTown(b, 1000, rows)
			var known, read time.Duration
			slot := func(forget bool, decoded int64) time.Duration {
				w.forget.Store(forget)
				began := time.Now()
				if s := w.tick(b); s.Changed != 0 || w.decoded.Load() != decoded {
					b.Fatalf("slot %+v, %d answers read", s, w.decoded.Load())
				}
				return time.Since(began)
			}
			before := w.allocated()
			for b.Loop() {
				known += slot(false, 0)
				b.StopTimer()
				read += slot(true, 1000)
				b.StartTimer()
			}
			b.ReportMetric(float64(known.Nanoseconds())/float64(b.N*1000), "ns/execution")
			b.ReportMetric(float64(read)/float64(known), "decode_ratio")
			b.ReportMetric(float64(w.allocated()-before)/float64(b.N*2000), "page_bytes/execution")
		})
	}
}

// BenchmarkLoop measures a slot of 1,000 executions with 0, 10 or 1,000 changes, including
// loop, loopback and commits, and one bare fdatasync per slot for comparison.
func BenchmarkLoop(b *testing.B) {
	for _, changes := range []int{0, 10, 1000} {
		b.Run(fmt.Sprintf("executions=1000/changes=%d", changes), func(b *testing.B) {
			w := newTown(b, 1000, 20)
			bare := newSyncer(b, w.d)
			version, commits, used := 0, 0, time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				if version++; changes > 0 {
					w.change(changes, version)
				}
				bare.sync(b)
				b.StartTimer()
				began := processorTime(b)
				if s := w.tick(b); s.Changed != changes {
					b.Fatalf("slot %+v", s)
				}
				used += processorTime(b) - began
				commits += len(w.commits)
			}
			each, one := b.Elapsed()/time.Duration(b.N*1000), bare.spent/time.Duration(bare.n)
			b.ReportMetric(float64(each.Nanoseconds()), "ns/execution")
			b.ReportMetric(float64(used.Microseconds())/float64(b.N*1000), "cpu-us/execution")
			b.ReportMetric(float64(one.Nanoseconds()), "ns/fdatasync")
			b.ReportMetric(float64(each)/float64(one), "fdatasyncs/execution")
			b.ReportMetric(float64(commits)/float64(b.N), "commits/slot")
		})
	}
}

// BenchmarkBaselines measures the first slot of an endpoint, in which every query gets its
// first result of 10 rows.
func BenchmarkBaselines(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("queries=%d", n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				w := startTown(b, n, 10)
				b.StartTimer()
				began := processorTime(b)
				if s := w.tick(b); s.Complete != n {
					b.Fatalf("slot %+v", s)
				}
				b.ReportMetric(float64((processorTime(b)-began).Microseconds())/float64(n), "cpu-us/baseline")
				b.ReportMetric(float64(len(w.commits)), "commits")
			}
		})
	}
}
