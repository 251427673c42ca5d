// Benchmarks of commits by way of a journal.

package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/store/journal"
)

// BenchmarkCommit records a change of one of 100 rows together with 15 unchanged outcomes, as a loop
// does at a change: in a store alone, and in the first of three that follow one journal, in turn.
// It waits until all stores have applied the change, so that they do not disturb what is
// measured next, but they use the same disk and processors meanwhile. All times are medians until Record
// returns, in multiples of those of the store alone: of the commit, of the part of it until the
// journal has the command, and of the slowest hundredth.
func BenchmarkCommit(b *testing.B) {
	for name, e := range map[string]engine{"nats": onNATS, "postgres": onPostgreSQL} {
		b.Run(name, func(b *testing.B) {
			on := e(b)
			journals := func(node int) journal.Journal { return on(b, "test", node) }
			first := &timed{Journal: journals(0)}
			var results [2]*diff.Result
			for i := range results {
				var values []string
				for row := range 100 {
					values = append(values, fmt.Sprintf("http://example.org/station/%d has %d", row, row*37+i*(row/99)))
				}
				results[i] = bag(b, values...)
			}
			const queries = 160
			alone := newBenchOn(b, queries, Options{}, results)
			node := newBenchOn(b, queries, Options{Journal: first}, results)
			others := []*DB{open(b, b.TempDir(), Options{Journal: journals(1)}), open(b, b.TempDir(), Options{Journal: journals(2)})}
			var direct, clustered, appended []time.Duration
			turn := 0
			record := func(s *bench) time.Duration {
				var batch scheduler.Batch
				for i := range 16 {
					batch.Outcomes = append(batch.Outcomes, s.outcome((16*turn+i)%queries, i == 15))
				}
				began := time.Now()
				s.record(b, batch)
				return time.Since(began)
			}
			for b.Loop() {
				alone.slot++
				node.slot++
				direct = append(direct, record(alone))
				clustered = append(clustered, record(node))
				appended = append(appended, first.last)
				for _, d := range others {
					if err := d.replica.Wait(b.Context(), node.d.Applied()); err != nil {
						b.Fatal(err)
					}
				}
				turn++
			}
			one := quantile(direct, 0.5)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(one.Microseconds()), "µs/direct")
			b.ReportMetric(float64(quantile(clustered, 0.5))/float64(one), "cluster/direct")
			b.ReportMetric(float64(quantile(appended, 0.5))/float64(one), "append/direct")
			b.ReportMetric(float64(quantile(clustered, 0.99))/float64(quantile(direct, 0.99)), "p99/direct-p99")
			b.ReportMetric(float64(first.size), "B/command")
		})
	}
}

// A timed journal measures its appends, which come one after the other.
type timed struct {
	journal.Journal
	last time.Duration
	size int // of the last command
}

func (j *timed) Append(ctx context.Context, id string, cmd []byte) (uint64, error) {
	began := time.Now()
	defer func() { j.last, j.size = time.Since(began), len(cmd) }()
	return j.Journal.Append(ctx, id, cmd)
}

func quantile(list []time.Duration, q float64) time.Duration {
	slices.Sort(list)
	return list[int(q*float64(len(list)-1))]
}
