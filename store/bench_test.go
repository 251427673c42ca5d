package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"go.etcd.io/bbolt"
)

// A bench is a store with queries whose statistics are of full length.
type bench struct {
	d       *DB
	ids     []string
	results [2]*diff.Result // the two results between which queries alternate
	stats   []policy.Stats
	at      []int // index of each query's current result
	slot    uint64
}

func newBench(b *testing.B, n int) *bench {
	var results [2]*diff.Result
	for i := range results {
		results[i] = bag(b, strings.Split(strings.Repeat("a row of a result,", 100)+fmt.Sprint(i), ",")...)
	}
	return newBenchOn(b, n, Options{}, results)
}

func newBenchOn(b *testing.B, n int, o Options, results [2]*diff.Result) *bench {
	o.Retention.Changes = 100
	s := &bench{d: open(b, b.TempDir(), o), results: results}
	var batch scheduler.Batch
	for i := range n {
		id := fmt.Sprintf("q_%026d", i)
		put(b, s.d, id, "city")
		o := outcome(policy.Stats{}, nil, id, 1, s.results[0])
		for slot := uint64(2); slot < 70; slot++ {
			o.Stats = outcome(o.Stats, s.results[0], id, slot, s.results[0]).Stats
		}
		s.ids, s.stats, s.at = append(s.ids, id), append(s.stats, o.Stats), append(s.at, 0)
		batch.Outcomes = append(batch.Outcomes, o)
	}
	s.slot = 70
	s.record(b, batch)
	return s
}

func (s *bench) record(b *testing.B, batch scheduler.Batch) {
	if _, err := s.d.Ledger.Record("city", batch); err != nil {
		b.Fatal(err)
	}
}

func (s *bench) outcome(i int, changed bool) scheduler.Outcome {
	old := s.results[s.at[i]]
	if changed {
		s.at[i] = 1 - s.at[i]
	}
	o := outcome(s.stats[i], old, s.ids[i], s.slot, s.results[s.at[i]])
	s.stats[i] = o.Stats
	return o
}

// A syncer measures one fdatasync of one page in a file beside the store's. A commit
// costs at least two of them. It runs once per slot, so that other work on the same disk
// slows both equally.
type syncer struct {
	f     *os.File
	n     int
	spent time.Duration
}

func newSyncer(b *testing.B, d *DB) *syncer {
	f, err := os.Create(filepath.Join(filepath.Dir(d.path), "sync"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return &syncer{f: f}
}

func (s *syncer) sync(b *testing.B) {
	began := time.Now()
	if _, err := s.f.WriteAt(make([]byte, 4096), int64(s.n%8)*4096); err != nil {
		b.Fatal(err)
	}
	if err := fdatasync(s.f); err != nil {
		b.Fatal(err)
	}
	s.n++
	s.spent += time.Since(began)
}

// BenchmarkSlot commits the outcomes of one slot like the loop does: a change at once,
// together with the unchanged outcomes before it, and the rest with the slot.
func BenchmarkSlot(b *testing.B) {
	for _, size := range []struct{ queries, executions, changes int }{
		{1000, 1000, 10}, {1000, 1000, 0}, {20000, 1000, 10},
	} {
		b.Run(fmt.Sprintf("queries=%d/executions=%d/changes=%d", size.queries, size.executions, size.changes), func(b *testing.B) {
			s := newBench(b, size.queries)
			bare := newSyncer(b, s.d)
			step, turn := size.queries/size.executions, 0
			before := s.d.bolt.Stats().TxStats
			for b.Loop() {
				b.StopTimer()
				var batches []scheduler.Batch
				var batch scheduler.Batch
				s.slot++
				for i := range size.executions {
					changed := size.changes > 0 && i%(size.executions/size.changes) == 0
					batch.Outcomes = append(batch.Outcomes, s.outcome((i*step+turn)%size.queries, changed))
					if changed {
						batches, batch = append(batches, batch), scheduler.Batch{}
					}
				}
				turn++
				batch.Slot = &scheduler.Slot{Endpoint: "city", Number: s.slot}
				batches = append(batches, batch)
				bare.sync(b)
				b.StartTimer()
				for _, batch := range batches {
					s.record(b, batch)
				}
			}
			each := b.Elapsed() / time.Duration(b.N*size.executions)
			written := s.d.bolt.Stats().TxStats
			one := bare.spent / time.Duration(bare.n)
			b.ReportMetric(float64(each.Nanoseconds()), "ns/execution")
			b.ReportMetric(float64(one.Nanoseconds()), "ns/fdatasync")
			b.ReportMetric(float64(each)/float64(one), "fdatasyncs/execution")
			b.ReportMetric(float64(written.GetPageCount()-before.GetPageCount())/float64(b.N), "pages/slot")
		})
	}
}

// BenchmarkChanges commits 1,000 changes of 100 rows, several per transaction. It reads
// the last result, prepares the new one and the delta, and commits them. bare is the same
// number of bytes written to as many keys of a plain bbolt file.
func BenchmarkChanges(b *testing.B) {
	const n = 1000
	for _, together := range []int{1, 64} {
		b.Run(fmt.Sprintf("together=%d", together), func(b *testing.B) {
			s, bare := newBench(b, n), newBareFile(b)
			var ours, theirs time.Duration
			for b.Loop() {
				b.StopTimer()
				s.slot++
				outcomes := make([]scheduler.Outcome, n)
				for i := range outcomes {
					outcomes[i] = s.outcome(i, true)
				}
				b.StartTimer()
				began := processorTime(b)
				for batch := range slices.Chunk(outcomes, together) {
					for i := range batch {
						s.prepare(b, &batch[i])
					}
					s.record(b, scheduler.Batch{Outcomes: batch, Slot: &scheduler.Slot{Endpoint: "city", Number: s.slot}})
				}
				ours += processorTime(b) - began
				b.StopTimer()
				began = processorTime(b)
				for batch := range slices.Chunk(outcomes, together) {
					bare.write(b, batch)
				}
				theirs += processorTime(b) - began
				b.StartTimer()
			}
			b.ReportMetric(float64(ours.Microseconds())/float64(b.N*n), "cpu-us/change")
			b.ReportMetric(float64(theirs.Microseconds())/float64(b.N*n), "bare-cpu-us/change")
			b.ReportMetric(float64(ours)/float64(theirs), "x-bare")
		})
	}
}

func (s *bench) prepare(b *testing.B, o *scheduler.Outcome) {
	_, err := s.d.Ledger.Result(o.Query)
	if err == nil {
		o.Prepared, err = s.d.Ledger.Prepare(nil, o.Result, o.Delta)
	}
	if err != nil {
		b.Fatal(err)
	}
}

// A bareFile is a bbolt file with the three buckets that each change writes to.
type bareFile struct {
	bolt    *bbolt.DB
	changes uint64
}

func newBareFile(b *testing.B) *bareFile {
	f, err := bbolt.Open(filepath.Join(b.TempDir(), "bare"), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return &bareFile{bolt: f}
}

func (f *bareFile) write(b *testing.B, batch []scheduler.Outcome) {
	err := f.bolt.Update(func(tx *bbolt.Tx) error {
		put := func(bucket string, k, v []byte) error {
			to, err := tx.CreateBucketIfNotExists([]byte(bucket))
			return errors.Join(err, to.Put(k, v))
		}
		for _, o := range batch {
			f.changes++
			p, r := o.Prepared.(*prepared), record{stats: o.Stats}
			if err := errors.Join(put("results", []byte(o.Query), p.result), put("changes", key8(f.changes), p.delta),
				put("stats", []byte(o.Query), r.append(nil))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRegister registers queries from one client and from 16 concurrent ones.
func BenchmarkRegister(b *testing.B) {
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			const n = 1600
			var used time.Duration
			commits := 0
			for b.Loop() {
				b.StopTimer()
				d := open(b, b.TempDir(), Options{})
				put(b, d, "q_first", "city")
				b.StartTimer()
				began, first := processorTime(b), txID(b, d)
				var all sync.WaitGroup
				for c := range clients {
					all.Go(func() {
						for i := range n / clients {
							if err := register(d, fmt.Sprintf("q_%02d%024d", c, i), nil)(); err != nil {
								b.Error(err)
							}
						}
					})
				}
				all.Wait()
				used += processorTime(b) - began
				commits += txID(b, d) - first
			}
			b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "registrations/s")
			b.ReportMetric(float64(used.Microseconds())/float64(b.N*n), "cpu-us/registration")
			b.ReportMetric(float64(b.N*n)/float64(commits), "registrations/commit")
		})
	}
}

// txID returns the number of the last commit.
func txID(t testing.TB, d *DB) int {
	t.Helper()
	tx, err := d.bolt.Begin(false)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	return tx.ID()
}

// BenchmarkSince asks for ten edited queries among few and among many. The cost must grow
// only with what is returned.
func BenchmarkSince(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprintf("queries=%d/edited=10", n), func(b *testing.B) {
			d := open(b, b.TempDir(), Options{})
			many(b, d, n)
			before, err := d.Ledger.Since("city", 0)
			if err != nil {
				b.Fatal(err)
			}
			for i := range 10 {
				put(b, d, fmt.Sprintf("q_%06d", 20*i+1), "city")
			}
			for b.Loop() {
				if n, err := d.Ledger.Since("city", before.Revision); err != nil || len(n.Entries) != 10 {
					b.Fatal(len(n.Entries), err)
				}
			}
		})
	}
}

// BenchmarkList reads pages of a hundred: the first one, one in the middle, through filters
// that match many queries, and through one that matches none and examines all queries.
func BenchmarkList(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		d := open(b, b.TempDir(), Options{})
		many(b, d, n)
		middle := fmt.Sprintf("q_%06d", n/2)
		for _, c := range []struct {
			name, cursor string
			filter       registry.QueryFilter
			want         int
		}{
			{"first", "", registry.QueryFilter{}, 100},
			{"middle", middle, registry.QueryFilter{}, 100},
			{"endpoint", middle, registry.QueryFilter{Endpoint: "city"}, 100},
			{"tag", middle, registry.QueryFilter{Tag: "mod3"}, min(100, n/2/7)},
			{"state", middle, registry.QueryFilter{State: registry.New}, 100},
			{"text", "", registry.QueryFilter{Text: "STOP 1"}, 100},
			{"no-text", "", registry.QueryFilter{Text: "nowhere"}, 0},
			{"no-tag", "", registry.QueryFilter{Tag: "unused"}, 0},
			{"no-state", "", registry.QueryFilter{State: registry.Stale}, 0},
		} {
			b.Run(fmt.Sprintf("queries=%d/page=100/%s", n, c.name), func(b *testing.B) {
				for b.Loop() {
					if items, _, err := d.Catalog.List(c.filter, c.cursor, 100); err != nil || len(items) != c.want {
						b.Fatal(len(items), err)
					}
				}
			})
		}
	}
}

// BenchmarkSearch searches 100,000 queries of usual length for a text: one that none
// contains, one that few contain, one with characters that JSON escapes, and one that is a
// key of the stored form. A search without a match takes at most 38 ms of processor time,
// and one for a tag 4.
func BenchmarkSearch(b *testing.B) {
	const n = 100_000
	d := open(b, b.TempDir(), Options{})
	size := 0
	registerAll(b, d, n, func(i int) registry.Query {
		text := fmt.Sprintf("PREFIX wd: <http://www.wikidata.org/entity/>\nPREFIX wdt: <http://www.wikidata.org/prop/direct/>\n"+
			"SELECT ?item ?label ?place WHERE {\n  ?item wdt:P31 wd:Q%d ;\n    wdt:P276 ?place .\n  ?item rdfs:label ?label\n"+
			"  FILTER (LANG(?label) = \"en\" && STRLEN(?label) > %d)\n  OPTIONAL { ?item wdt:P571 ?since }\n}\nORDER BY ?label LIMIT 500", i, i%7)
		size += len(text)
		return registry.Query{ID: fmt.Sprintf("q_%026d", i), Endpoint: "city", Text: text, Normal: text,
			Constants: []string{fmt.Sprint("http://www.wikidata.org/entity/Q", i)},
			Holders:   []registry.Holder{{Caller: "app", Name: fmt.Sprint("items ", i), Tags: []string{"items"}, Since: start}}}
	})
	for _, c := range []struct {
		name   string
		filter registry.QueryFilter
		want   int
	}{
		{"none", registry.QueryFilter{Text: "nowhere"}, 0},
		{"none-of-endpoint", registry.QueryFilter{Text: "nowhere", Endpoint: "city"}, 0},
		{"few", registry.QueryFilter{Text: "wd:q9999 "}, 1},
		{"escaped", registry.QueryFilter{Text: "<http://www.wikidata.org/nowhere>"}, 0},
		{"key", registry.QueryFilter{Text: "weight"}, 0},
		{"frequent-letters", registry.QueryFilter{Text: "tea"}, 0},
		{"no-state", registry.QueryFilter{State: registry.Live}, 0},
		{"no-tag", registry.QueryFilter{Tag: "none"}, 0},
	} {
		b.Run(c.name, func(b *testing.B) {
			before := processorTime(b)
			for b.Loop() {
				if items, _, err := d.Catalog.List(c.filter, "", 100); err != nil || len(items) != c.want {
					b.Fatal(len(items), err)
				}
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(size)/n, "bytes/text")
		})
	}
}

// BenchmarkDigests reads the fields by which lists are ordered, after few or all queries
// were executed since the last read.
func BenchmarkDigests(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		s := newBench(b, n)
		for _, executed := range []int{0, 100, n} {
			b.Run(fmt.Sprintf("queries=%d/executed=%d", n, executed), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					var batch scheduler.Batch
					for i := range executed {
						batch.Outcomes = append(batch.Outcomes, s.outcome(i, false))
					}
					s.slot++
					s.record(b, batch)
					b.StartTimer()
					if list, err := s.d.Catalog.Digests(""); err != nil || len(list) != n {
						b.Fatal(len(list), err)
					}
				}
			})
		}
	}
}
