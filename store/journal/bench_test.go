package journal_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/memory"
	"github.com/freshet/freshet/store/journal/nats"
	"github.com/freshet/freshet/store/journal/nats/natstest"
	"github.com/freshet/freshet/store/journal/postgres"
	"github.com/freshet/freshet/store/journal/postgres/postgrestest"
	"go.etcd.io/bbolt"
)

var engines = map[string]func(b *testing.B) (writer, reader journal.Journal){
	"memory":   twoInMemory,
	"nats":     twoOnNATS,
	"postgres": twoOnPostgres,
}

// BenchmarkAppend appends commands of 4 KiB one after the other, in turn with commits of the same
// size in a bbolt file on the same disk. It reports the median of an append, as a multiple of the
// median commit, and the median time from the return of Append to the arrival at a reader on
// another node, as a multiple of the same.
func BenchmarkAppend(b *testing.B) {
	for name, two := range engines {
		b.Run(name, func(b *testing.B) {
			writer, reader := two(b)
			benchmarkAppend(b, writer, reader)
		})
	}
}

func twoInMemory(*testing.B) (writer, reader journal.Journal) {
	l := memory.New("bench")
	return l.Open(), l.Open()
}

func twoOnNATS(b *testing.B) (writer, reader journal.Journal) {
	var list []journal.Journal
	configs := natstest.Configs(b, "bench", 3)
	var servers []*nats.Server
	for _, c := range configs {
		servers = append(servers, natstest.Start(b, c))
	}
	for _, s := range servers[:2] {
		nc, err := s.Connect()
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(nc.Close)
		j, err := nats.Open(b.Context(), nc, nats.Config{Name: "bench"})
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, j)
	}
	return list[0], list[1]
}

func twoOnPostgres(b *testing.B) (writer, reader journal.Journal) {
	s := postgrestest.Start(b)
	var list []journal.Journal
	for range 2 {
		j, err := postgres.Open(b.Context(), postgres.Config{URL: s.URL, Name: "bench"})
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, j)
	}
	return list[0], list[1]
}

// BenchmarkThroughput appends commands of two sizes from 64 concurrent callers on one node. It
// reports how many are durable in a second, and how many MB.
func BenchmarkThroughput(b *testing.B) {
	for name, two := range engines {
		for _, size := range []int{4 << 10, 64 << 10} {
			b.Run(fmt.Sprintf("%s/KiB=%d", name, size>>10), func(b *testing.B) {
				writer, reader := two(b)
				defer writer.Close()
				defer reader.Close()
				v := make([]byte, size)
				const callers, each = 64, 32
				round := 0
				for b.Loop() {
					var all sync.WaitGroup
					for c := range callers {
						all.Go(func() {
							for i := range each {
								if _, err := writer.Append(b.Context(), fmt.Sprint(round, "-", c, "-", i), v); err != nil {
									b.Error(err)
								}
							}
						})
					}
					all.Wait()
					round++
				}
				entries := float64(b.N * callers * each)
				b.ReportMetric(entries/b.Elapsed().Seconds(), "entries/s")
				b.ReportMetric(entries*float64(size)/1e6/b.Elapsed().Seconds(), "MB/s")
			})
		}
	}
}

func benchmarkAppend(b *testing.B, writer, reader journal.Journal) {
	db, err := bbolt.Open(filepath.Join(b.TempDir(), "commits"), 0o600, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	arrived := make(chan time.Time, 1)
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error)
	go func() {
		ended <- reader.Read(ctx, journal.Position{}, func(journal.Entry) error { arrived <- time.Now(); return nil })
	}()
	v := make([]byte, 4096)
	var appends, commits, arrivals []time.Duration
	for i := 0; b.Loop(); i++ {
		t := time.Now()
		err := db.Update(func(tx *bbolt.Tx) error {
			bucket, err := tx.CreateBucketIfNotExists([]byte("b"))
			if err != nil {
				return err
			}
			return bucket.Put(fmt.Appendf(nil, "%08d", i), v)
		})
		if err != nil {
			b.Fatal(err)
		}
		commits = append(commits, time.Since(t))
		t = time.Now()
		if _, err := writer.Append(ctx, fmt.Sprint("bench-", i), v); err != nil {
			b.Fatal(err)
		}
		done := time.Now()
		appends = append(appends, done.Sub(t))
		arrivals = append(arrivals, max(0, (<-arrived).Sub(done)))
	}
	cancel()
	<-ended
	for _, j := range []journal.Journal{writer, reader} {
		if err := j.Close(); err != nil {
			b.Error(err)
		}
	}
	commit := median(commits)
	b.ReportMetric(float64(median(appends))/float64(commit), "append/commit")
	b.ReportMetric(float64(median(arrivals))/float64(commit), "arrival/commit")
	b.ReportMetric(float64(commit.Microseconds()), "µs/commit")
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}
