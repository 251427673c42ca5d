package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/registry"
)

// A running is a server on loopback with one endpoint.
type running struct {
	*Server
	stop context.CancelFunc
	over chan error
}

// start starts a server whose endpoint is never asked.
func start(b *testing.B, dir string) *running {
	b.Helper()
	return startWith(b, dir, registry.Endpoint{Name: "city", URL: "http://127.0.0.1:1/sparql", Slot: "never"})
}

func startWith(b *testing.B, dir string, e registry.Endpoint) *running {
	b.Helper()
	conf := config.Default()
	conf.Listen, conf.Data = "127.0.0.1:0", dir
	conf.Endpoints = []registry.Endpoint{e}
	if err := conf.Check(); err != nil {
		b.Fatal(err)
	}
	s, err := New(b.Context(), &conf, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{Server: s, stop: stop, over: make(chan error, 1)}
	go func() { r.over <- s.Run(ctx) }()
	return r
}

func (r *running) end(b *testing.B) {
	b.Helper()
	r.stop()
	if err := <-r.over; err != nil {
		b.Fatal(err)
	}
	r.Close()
}

// register registers the queries from first to last, of usual length, from several clients
// at a time. A client of net/http would take more processor time than the transport of the
// server: these write prepared requests.
func (r *running) register(b *testing.B, clients, first, last int) {
	b.Helper()
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			conn, err := net.Dial("tcp", r.listener.Addr().String())
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			answers := bufio.NewReader(conn)
			for i := first + c; i < last && err == nil; i += clients {
				if _, err = conn.Write(registration(i)); err == nil {
					err = skipAnswer(answers)
				}
			}
			if err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
}

func registration(i int) []byte {
	body := fmt.Sprintf(`{"endpoint": "city", "name": "items-%d", "query": %q}`, i, queryText(i))
	return fmt.Appendf(nil, "POST /v1/queries HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: "+
		"%d\r\n\r\n%s", len(body), body)
}

// skipAnswer reads an answer and returns an error unless it is 201 Created.
func skipAnswer(in *bufio.Reader) error {
	status, err := in.ReadString('\n')
	if err == nil && !strings.HasPrefix(status, "HTTP/1.1 201 ") {
		err = errors.New(status)
	}
	size := 0
	for line := status; err == nil && line != "\r\n"; {
		if line, err = in.ReadString('\n'); err == nil {
			if n, ok := strings.CutPrefix(line, "Content-Length: "); ok {
				size, err = strconv.Atoi(strings.TrimSpace(n))
			}
		}
	}
	if err != nil {
		return err
	}
	_, err = in.Discard(size)
	return err
}

// BenchmarkRegister registers queries over HTTP, each durable when it is answered, at a new
// server and at one with many queries. cpu-us/registration includes the clients;
// cpu-us/client is the part that they take with a server that answers at once.
func BenchmarkRegister(b *testing.B) {
	filled := filledStores(b)
	for _, c := range []struct{ clients, registered int }{{1, 0}, {16, 0}, {16, 100_000}} {
		b.Run(fmt.Sprintf("clients=%d/registered=%d", c.clients, c.registered), func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "copy")
			if err := os.CopyFS(dir, os.DirFS(filled(b, c.registered))); err != nil {
				b.Fatal(err)
			}
			r := start(b, dir)
			r.ask(b, "/v1/endpoints/city") // its queries have been read
			const n = 5000
			at := c.registered
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := processorTime(b)
			for b.Loop() {
				r.register(b, c.clients, at, at+n)
				at += n
			}
			used := processorTime(b) - began
			b.StopTimer()
			runtime.ReadMemStats(&after)
			each := float64(at - c.registered)
			b.ReportMetric(float64(after.Mallocs-before.Mallocs)/each, "allocs/registration")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/1000/each, "KB/registration")
			b.ReportMetric(float64(used.Microseconds())/each, "cpu-us/registration")
			b.ReportMetric(each/b.Elapsed().Seconds(), "registrations/s")
			b.ReportMetric(float64(bareClients(b, c.clients, n).Microseconds())/n, "cpu-us/client")
			r.end(b)
		})
	}
}

// bareClients returns the processor time of clients whose requests are read and answered
// by as little as possible.
func bareClients(b *testing.B, clients, n int) time.Duration {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			conn, err := l.Accept()
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			answer := fmt.Appendf(nil, "HTTP/1.1 201 Created\r\nContent-Length: 1000\r\n\r\n%1000d", 0)
			request := make([]byte, 4096)
			for size := len(registration(n - 1)); ; {
				// A request is smaller than a packet over loopback and arrives whole.
				if got, err := conn.Read(request); err != nil || got < size-100 {
					return
				}
				if _, err := conn.Write(answer); err != nil {
					return
				}
			}
		})
	}
	began := processorTime(b)
	(&running{Server: &Server{listener: l}}).register(b, clients, 0, n)
	all.Wait()
	return processorTime(b) - began
}

// BenchmarkRestart starts a server until it is ready and has answered about its endpoint.
// resident-MB is the memory of the process then, heap-MB the part of it that is in use.
func BenchmarkRestart(b *testing.B) {
	filled := filledStores(b)
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("queries=%d", n), func(b *testing.B) {
			dir := filled(b, n)
			var used time.Duration
			for b.Loop() {
				b.StopTimer()
				debug.FreeOSMemory()
				b.StartTimer()
				began := processorTime(b)
				r := start(b, dir)
				r.ask(b, "/v1/endpoints/city")
				used += processorTime(b) - began
				b.StopTimer()
				debug.FreeOSMemory() // as the server does when it is ready
				resident, heap := memory(b)
				b.ReportMetric(resident, "resident-MB")
				b.ReportMetric(heap, "heap-MB")
				r.end(b)
				b.StartTimer()
			}
			b.ReportMetric(used.Seconds()/float64(b.N), "cpu-s/restart")
		})
	}
}

// filledStores returns a function that returns the directory of a store with n queries. It
// registers them once for all runs of a benchmark.
func filledStores(b *testing.B) func(b *testing.B, n int) string {
	root := b.TempDir()
	return func(b *testing.B, n int) string {
		dir := filepath.Join(root, strconv.Itoa(n))
		if _, err := os.Stat(dir); err != nil {
			fillStore(b, dir, n)
		}
		return dir
	}
}

// fillStore registers queries, many in a commit.
func fillStore(b *testing.B, dir string, n int) {
	b.Helper()
	r := start(b, dir)
	r.registerAll(b, n)
	r.end(b)
}

// registerAll registers queries from many callers at a time, without HTTP.
func (r *running) registerAll(b *testing.B, n int) {
	b.Helper()
	const callers = 64
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := c; i < n; i += callers {
				reg := registry.Registration{Endpoint: "city", Name: fmt.Sprint("items-", i), Text: queryText(i)}
				if _, _, err := r.Registry.Register(registry.Caller{Name: "app", Role: registry.RoleAdmin}, reg); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// ask waits until the server is ready and reads one of its resources.
func (r *running) ask(b *testing.B, path string) {
	b.Helper()
	for r.phase.Load() == phaseStarting {
		time.Sleep(time.Millisecond)
	}
	answer, err := http.Get(r.URL() + path)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK {
		b.Fatal(answer.Status, string(text), err)
	}
}

func queryText(i int) string {
	return fmt.Sprintf("PREFIX wd: <http://www.wikidata.org/entity/>\nPREFIX wdt: <http://www.wikidata.org/prop/direct/>\n"+
		"SELECT ?item ?label ?place WHERE {\n  ?item wdt:P31 wd:Q%d ;\n    wdt:P276 ?place .\n  ?item "+
		"<http://www.w3.org/2000/01/rdf-schema#label> ?label\n"+
		"  FILTER (LANG(?label) = \"en\")\n}", i)
}

// memory returns the resident memory of the process and its heap in use, both in MB.
func memory(b *testing.B) (resident, heap float64) {
	b.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	var size, pages float64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		b.Fatal(err)
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return pages * float64(os.Getpagesize()) / 1e6, float64(m.HeapInuse) / 1e6
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
