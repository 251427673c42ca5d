package endpoint

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// BenchmarkUnchanged executes a query over loopback whose answer of 10,000 rows
// equals the remembered one. decode_ratio is how many times longer it takes if
// nothing is remembered and the answer has to be decoded; both include the time
// over loopback.
func BenchmarkUnchanged(b *testing.B) {
	c := client(b, serve(b, send(200, typeJSON, rows(10000))), nil)
	q := sel("SELECT")
	m := execute(b, c, q).Memory
	ask := func(m Memory, want registry.Outcome) time.Duration {
		start := time.Now()
		if a := c.Execute(b.Context(), q, m, long); a.Outcome != want {
			b.Fatalf("%s %s", a.Outcome, a.Error)
		}
		return time.Since(start)
	}
	var unchanged, decoded time.Duration
	for b.Loop() {
		unchanged += ask(m, registry.Unchanged)
		b.StopTimer()
		decoded += ask(Memory{}, registry.Changed)
		b.StartTimer()
	}
	b.ReportMetric(float64(decoded)/float64(unchanged), "decode_ratio")
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
	x, err := c.exchange(b.Context(), r, Memory{})
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
		if res, _, err := decode(nTriples, body.Bytes(), construct(), diff.Options{}); err != nil || res.Len() != 10_000 {
			b.Fatal(err)
		}
	}
}
