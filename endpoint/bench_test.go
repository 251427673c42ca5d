package endpoint

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/formats"
	"github.com/freshet/freshet/registry"
)

// BenchmarkUnchanged executes a query over loopback whose answer equals the
// remembered one, and does the same with net/http alone, which drains the body.
// vs_plain is how many times longer Execute takes, by the fastest of runs in
// turns; B_more and allocs_more are what it allocates beyond net/http.
func BenchmarkUnchanged(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			body := rows(n)
			url := serve(b, send(200, typeJSON, body, "Content-Length", fmt.Sprint(len(body))))
			c := client(b, url, nil)
			q := sel("SELECT")
			m := execute(b, c, q).Memory
			ours := func() {
				if a := c.Execute(b.Context(), q, m, long); a.Outcome != registry.Unchanged {
					b.Fatalf("%s %s", a.Outcome, a.Error)
				}
			}
			hc := newHTTPClient(1)
			defer hc.CloseIdleConnections()
			plain := func() {
				resp, err := hc.Get(url + "?query=SELECT")
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, resp.Body); err != nil || n != int64(len(body)) {
					b.Fatal(n, err)
				}
				resp.Body.Close()
			}
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				ours()
			}
			b.StopTimer()
			to, tp := time.Hour, time.Hour
			for range 300 {
				to, tp = min(to, took(ours)), min(tp, took(plain))
			}
			b.ReportMetric(float64(to)/float64(tp), "vs_plain")
			bo, ao := allocated(ours)
			bp, ap := allocated(plain)
			b.ReportMetric(bo-bp, "B_more")
			b.ReportMetric(ao-ap, "allocs_more")
		})
	}
}

func took(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// allocated returns what one call allocates on average, in bytes and objects.
func allocated(f func()) (size, number float64) {
	const times = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / times, float64(after.Mallocs-before.Mallocs) / times
}

// BenchmarkJudge is the same without the network: the cost of an answer that
// has arrived.
func BenchmarkJudge(b *testing.B) {
	c := client(b, serve(b, send(200, typeJSON, rows(10000))), nil)
	q := sel("SELECT")
	r, err := c.newRequest(q, long)
	if err != nil {
		b.Fatal(err)
	}
	x, err := c.exchange(clockIn(b.Context(), long, long), r, Memory{})
	if err != nil {
		b.Fatal(err)
	}
	t := clockIn(b.Context(), long, long)
	defer t.cancel()
	m := c.judge(x, nil, q, r, Memory{}, t).Memory
	judge := func(m Memory) time.Duration {
		start := time.Now()
		c.judge(x, nil, q, r, m, t)
		return time.Since(start)
	}
	var unchanged, decoded time.Duration
	for b.Loop() {
		unchanged += judge(m)
		b.StopTimer()
		decoded += judge(Memory{})
		b.StartTimer()
	}
	b.ReportMetric(float64(decoded)/float64(unchanged), "decode_ratio")
	b.SetBytes(int64(x.buf.Len()))
}

// BenchmarkNTriples decodes 10,000 triples: IRIs, literals of each kind, and a
// few with escapes.
func BenchmarkNTriples(b *testing.B) {
	var body bytes.Buffer
	for i := range 10_000 {
		fmt.Fprintf(&body, "<http://dbpedia.org/resource/Thing_%d> <http://dbpedia.org/ontology/p%d> ", i/4, i%4)
		switch i % 4 {
		case 0:
			fmt.Fprintf(&body, "<http://dbpedia.org/resource/Other_%d> .\n", i*7)
		case 1:
			fmt.Fprintf(&body, "\"the number %d of them\"@en .\n", i)
		case 2:
			fmt.Fprintf(&body, "\"%d\"^^<http://www.w3.org/2001/XMLSchema#integer> .\n", i)
		default:
			fmt.Fprintf(&body, "\"M\\u00FCnchen \\\"%d\\\"\" .\n", i)
		}
	}
	b.SetBytes(int64(body.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if res, _, err := formats.Decode(formats.NTriples, body.Bytes(), diff.Construct, diff.Options{}); err != nil || res.Len() != 10_000 {
			b.Fatal(err)
		}
	}
}
