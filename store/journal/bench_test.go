package journal_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
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

// BenchmarkAppend appends commands of 4 KiB one after the other, in turn with commits of the same
// size in a bbolt file on the same disk. It reports the median of an append, as a multiple of the
// median commit, and the median time from the return of Append to the arrival at a reader on
// another node, as a multiple of the same.
func BenchmarkAppend(b *testing.B) {
	for name, two := range map[string]func(b *testing.B) (writer, reader journal.Journal){
		"memory":   twoInMemory,
		"nats":     twoOnNATS,
		"postgres": twoOnPostgres,
	} {
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
