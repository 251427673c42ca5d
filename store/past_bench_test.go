package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"go.etcd.io/bbolt"
)

// BenchmarkPast reads states of a history of 10,000 changes, or 1,000 of larger results, and
// reports the processor time of the dearest of those up to 1,000 changes back, and of the
// average, as multiples of that of the current result. bytes/log is the size of the
// snapshots in relation to the changes.
func BenchmarkPast(b *testing.B) {
	for _, x := range []struct{ rows, edits, changes int }{{1, 1, 10_000}, {10, 1, 10_000}, {100, 1, 3000}, {1000, 1, 2000},
		{1000, 100, 1200}, {10_000, 1, 1100}, {10_000, 100, 1100}} {
		b.Run(fmt.Sprintf("rows=%d/edits=%d", x.rows, x.edits), func(b *testing.B) {
			d, at := pastOf(b, x.rows, x.edits, x.changes)
			read := func(seq uint64) {
				if r, err := d.History.StateAt(b.Context(), "q_a", registry.Position{Epoch: at.Epoch, Seq: seq}); err != nil || r.Len() != x.rows {
					b.Fatal(err)
				}
			}
			current := costOf(func() {
				if _, r, err := d.History.Current("q_a", true); err != nil || r.Len() != x.rows {
					b.Fatal(err)
				}
			})
			worst, sum, n := time.Duration(0), time.Duration(0), 0
			for back := uint64(1); back <= 1000; back += 83 {
				took := costOf(func() { read(at.Seq - back) })
				worst, sum, n = max(worst, took), sum+took, n+1
			}
			var log, snapshots float64
			d.Ledger.view(func(tx *bbolt.Tx) error {
				s := tx.Bucket(bSnapshots).ForEach(func(k, v []byte) error { snapshots += float64(len(k) + len(v)); return nil })
				log = float64(loadCounters(tx).logBytes) - snapshots
				return s
			})
			for b.Loop() {
				read(at.Seq - 1000)
			}
			b.ReportMetric(float64(worst)/float64(current), "worst/current")
			b.ReportMetric(float64(sum)/float64(n)/float64(current), "mean/current")
			b.ReportMetric(float64(current.Microseconds()), "µs-current")
			b.ReportMetric(snapshots/log, "bytes/log")
		})
	}
}

// costOf returns the processor time of one call.
func costOf(f func()) time.Duration {
	const calls = 8
	return leastTime(func() {
		for range calls {
			f()
		}
	}, 5) / calls
}

// pastOf makes a history in which each change replaces some rows of 400 bytes.
func pastOf(b *testing.B, rows, edits, changes int) (*DB, registry.Position) {
	d := open(b, b.TempDir(), Options{})
	d.Ledger.bolt.NoSync = true
	put(b, d, "q_a", "city")
	values := make([]string, rows)
	for i := range values {
		values[i] = benchValue(i, 0)
	}
	s, err := d.Catalog.Stats("q_a")
	if err != nil {
		b.Fatal(err)
	}
	var old *diff.Result
	for n := range changes {
		for i := range edits {
			values[(n*edits*7+i)%rows] = benchValue(i, n+1)
		}
		r := bag(b, values...)
		o := outcome(s, old, "q_a", uint64(n+1), r)
		if _, err := d.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{o}}); err != nil {
			b.Fatal(err)
		}
		if old, s = r, o.Stats; n == 0 {
			if s, err = d.Catalog.Stats("q_a"); err != nil {
				b.Fatal(err)
			}
		}
	}
	if s, err = d.Catalog.Stats("q_a"); err != nil {
		b.Fatal(err)
	}
	return d, s.Position
}

func benchValue(i, n int) string {
	s := ""
	for j := range 20 {
		s += fmt.Sprintf("http://example.org/%d/", (i*7919+n*104729+j*31)%99991)
	}
	return s[:400]
}
