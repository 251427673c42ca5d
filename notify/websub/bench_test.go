package websub_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/websub"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store"
)

// A crowd is a set of subscribers of one topic at one server with a real store.
type crowd struct {
	tb    testing.TB
	log   *notifytest.Log
	waker *notify.Waker
	query string
	got   atomic.Int64
	most  atomic.Int64 // bytes of heap in use while delivering
	tick  int
	rows  int
	*deliver.Engine
}

func newCrowd(tb testing.TB, subscribers, rows int, secret string) *crowd {
	tb.Helper()
	c := &crowd{tb: tb, log: notifytest.NewLog("store"), waker: notify.NewWaker(), rows: rows}
	c.query = c.log.Add("q", diff.Select, false)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		c.got.Add(1)
	}))
	tb.Cleanup(srv.Close)
	db, err := store.Open(tb.TempDir(), store.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { db.Close() })
	const public = "http://fresh.example"
	lease := time.Now().Add(time.Hour)
	var making sync.WaitGroup
	for i := range subscribers {
		s := registry.Subscription{ID: fmt.Sprintf("ws_%06d", i), Way: registry.WebSub, Caller: "shop", Query: c.query, Topic: public +
			"/v1/queries/" + c.query + "/results.srj",
			Callback: fmt.Sprint(srv.URL, "/", i), State: registry.Active, ExpiresAt: &lease, CreatedAt: time.Now(), LastDelivery: &lease,
			Cursor: registry.Position{Epoch: "e1-q"}}
		if secret != "" {
			s.Secrets = []registry.Secret{{Key: secret}}
		}
		making.Go(func() {
			_, err := db.Subscriptions.EditSubscription(s.ID, func(x *registry.Subscription, _ bool) error { *x = s; return nil })
			if err != nil {
				tb.Error(err)
			}
		})
	}
	making.Wait()
	guard, err := deliver.NewGuard([]string{"127.0.0.0/8"})
	if err != nil {
		tb.Fatal(err)
	}
	way := websub.New(websub.Options{
		Log: c.log, PublicURL: public, Now: time.Now, Caller: func(name string) (registry.Caller, error) {
			return registry.Caller{Name: name, Role: registry.RoleRead}, nil
		},
		Query: func(id string) (registry.Query, error) { return registry.Query{ID: id}, nil },
		Contents: &deliver.Contents{Read: func(context.Context, string) (deliver.Content, error) {
			st, res, err := c.log.Current(c.query, true)
			if err != nil {
				return deliver.Content{}, err
			}
			return deliver.Content{Version: st.Position.String(), Type: "application/sparql-results+json", Body: res.Document()}, nil
		}},
	})
	c.Engine, err = deliver.New(notifytest.Delivering(deliver.Options{Store: db.Subscriptions, Waker: c.waker, Guard: guard,
		Targets: map[registry.Way]deliver.Target{registry.WebSub: way}}))
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Engine.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
	})
	return c
}

// change creates a new version and waits until all subscribers have it.
func (c *crowd) change(subscribers int) {
	c.tb.Helper()
	c.tick++
	values := make([]string, c.rows)
	for i := range values {
		values[i] = fmt.Sprint("value ", c.tick, " of row ", i)
	}
	want := c.got.Load() + int64(subscribers)
	c.log.Record(c.query, notifytest.Rows(values...), time.Unix(1_790_000_000+int64(c.tick), 0))
	c.waker.Wake(c.query)
	var m runtime.MemStats
	for end := time.Now().Add(2 * time.Minute); c.got.Load() < want; time.Sleep(20 * time.Millisecond) {
		runtime.ReadMemStats(&m)
		c.most.Store(max(c.most.Load(), int64(m.HeapAlloc)))
		if time.Now().After(end) {
			c.tb.Fatalf("%d of %d deliveries", c.got.Load(), want)
		}
	}
}

// Ten thousand subscribers of one large topic are served with one copy of it.
func TestLongCrowdInBoundedMemory(t *testing.T) {
	const subscribers, rows = 10_000, 2000 // a document of about 100 KB
	c := newCrowd(t, subscribers, rows, "")
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	c.change(subscribers)
	grown := c.most.Load() - int64(before.HeapAlloc)
	t.Logf("%d bytes more in use at most", grown)
	if grown > 128<<20 { // includes sender and receiver; ten thousand copies would be 1 GB
		t.Errorf("the heap grew by %d bytes", grown)
	}
}

// BenchmarkDeliver measures deliveries of a small result, sender and receiver in
// one process.
func BenchmarkDeliver(b *testing.B) {
	for _, c := range []struct {
		subscribers, rows int
		secret            string
	}{{1000, 10, ""}, {10_000, 10, ""}, {10_000, 10, "k"}, {1000, 2000, "k"}} {
		b.Run(fmt.Sprintf("subscribers=%d/rows=%d/signed=%t", c.subscribers, c.rows, c.secret != ""), func(b *testing.B) {
			crowd := newCrowd(b, c.subscribers, c.rows, c.secret)
			crowd.change(c.subscribers) // opens the connections
			before, n := cpu(), 0
			for b.Loop() {
				crowd.change(c.subscribers)
				n += c.subscribers
			}
			used := cpu() - before
			b.ReportMetric(float64(n)/used.Seconds(), "deliveries/cpu-s")
			b.ReportMetric(float64(used.Microseconds())/float64(n), "cpu-µs/delivery")
			b.ReportMetric(float64(crowd.most.Load())/(1<<20), "heap-MiB")
		})
	}
}

// BenchmarkBarePost is the reference: the same requests by the same client without the hub.
func BenchmarkBarePost(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer srv.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4}}
	defer client.CloseIdleConnections()
	body := notifytest.Rows("a", "b", "c", "d", "e", "f", "g", "h", "i", "j").Document()
	before, n := cpu(), 0
	for b.Loop() {
		resp, err := client.Post(srv.URL, "application/sparql-results+json", bytes.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		n++
	}
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(n), "cpu-µs/delivery")
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
