package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/diff/growth"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
)

// BenchmarkChangedAnswer measures all work of an execution whose answer has 1 % changed
// rows, from the body to the commit: parse, read the stored result, compare, hash, encode,
// compress and record. x_vs_encjson is how many times faster it is than encoding/json with
// a map and a hash, which store nothing.
func BenchmarkChangedAnswer(b *testing.B) {
	for _, c := range []struct{ rows, times int }{{10_000, 20}, {500_000, 2}} {
		b.Run(fmt.Sprintf("rows=%d", c.rows), func(b *testing.B) {
			d := open(b, b.TempDir(), Options{Retention: Retention{Changes: 2}})
			put(b, d, "q_a", "city")
			bodies := [][]byte{largeBody(c.rows, 1), largeBody(c.rows, 2)}
			slot := uint64(0)
			ours := func() {
				slot++
				observe(b, d, "q_a", bodies[slot%2], slot)
			}
			ours() // the baseline
			theirs := func() { compareWithMaps(b, bodies[0], bodies[1]) }
			for b.Loop() {
				ours()
			}
			b.StopTimer()
			b.ReportMetric(leastTime(ours, c.times).Seconds()*1e3, "cpu_ms")
			b.ReportMetric(leastTime(theirs, c.times).Seconds()/leastTime(ours, c.times).Seconds(), "x_vs_encjson")
		})
	}
}

// observe does what a loop does with a changed body.
func observe(b *testing.B, d *DB, id string, body []byte, slot uint64) {
	now, err := diff.DecodeJSON(body, diff.Select, diff.Options{})
	if err != nil {
		b.Fatal(err)
	}
	now.Fingerprint() // a loop compares it first
	was, err := d.Ledger.Result(id)
	if err != nil {
		b.Fatal(err)
	}
	if was != nil {
		stats, err := d.Catalog.Stats(id)
		if err != nil {
			b.Fatal(err)
		}
		was.KnownHash(stats.Hash)
	}
	o := scheduler.Outcome{Query: id, Result: now, Delta: diff.Compare(was, now), Checked: start}
	if was != nil && (o.Delta == nil || len(o.Delta.Added) == 0) {
		b.Fatal("no change found")
	}
	o.Stats = policy.Stats{Last: slot, Executions: slot, Changes: slot, Hash: now.Hash(), Rows: now.Len()}
	if o.Prepared, err = d.Ledger.Prepare(nil, o.Result, o.Delta); err != nil {
		b.Fatal(err)
	}
	if _, err := d.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{o}}); err != nil {
		b.Fatal(err)
	}
}

// compareWithMaps parses a body with encoding/json, hashes its rows, and compares them with
// those of the old one, which it does not have to parse.
func compareWithMaps(b *testing.B, old, body []byte) {
	rows := func(body []byte) []string {
		var doc struct {
			Head    struct{ Vars []string }
			Results struct {
				Bindings []map[string]map[string]string
			}
		}
		if err := json.Unmarshal(body, &doc); err != nil {
			b.Fatal(err)
		}
		list := make([]string, len(doc.Results.Bindings))
		for i, row := range doc.Results.Bindings {
			var key []byte
			for _, v := range doc.Head.Vars {
				for _, part := range []string{"type", "value", "xml:lang", "datatype"} {
					key = append(append(key, row[v][part]...), 0)
				}
			}
			list[i] = string(key)
		}
		return list
	}
	known, ok := parsedBodies[&old[0]]
	if !ok {
		known = rows(old)
		parsedBodies[&old[0]] = known
	}
	now := rows(body)
	sorted, h := slices.Sorted(slices.Values(now)), sha256.New()
	for _, r := range sorted {
		h.Write([]byte(r))
	}
	count := make(map[string]int, len(known))
	for _, r := range known {
		count[r]++
	}
	for _, r := range now {
		count[r]--
	}
	if h.Sum(nil) == nil || len(count) <= len(known) {
		b.Fatal("no change found")
	}
}

var parsedBodies = map[*byte][]string{}

// largeBody has n rows of four variables, of which another 1 % has other numbers in each
// version.
func largeBody(n int, version uint64) []byte {
	r, m := rand.New(rand.NewPCG(7, 7)), rand.New(rand.NewPCG(version, 0))
	var b bytes.Buffer
	b.WriteString(`{"head":{"vars":["res","label","date","pop"]},"results":{"bindings":[`)
	for i := range n {
		if i > 0 {
			b.WriteString(",")
		}
		id, population := r.IntN(1<<24), r.IntN(9_000_000)
		if m.IntN(100) == 0 {
			population += 1 + m.IntN(1000)
		}
		fmt.Fprintf(&b, `{"res":{"type":"uri","value":"http://dbpedia.org/resource/River_Station_%d"},"label":{"type":"literal",`+
			`"xml:lang":"en","value":"River Station (%d)"},"date":{"type":"literal",`+
			`"datatype":"http://www.w3.org/2001/XMLSchema#date","value":"%d-%02d-%02d"},"pop":{"type":"literal",`+
			`"datatype":"http://www.w3.org/2001/XMLSchema#integer","value":"%d"}}`,
			id, id, 1900+r.IntN(120), 1+r.IntN(12), 1+r.IntN(28), population)
	}
	b.WriteString("]}}")
	return b.Bytes()
}

// leastTime returns the least processor time of several runs.
func leastTime(f func(), times int) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	least := time.Hour
	for range times {
		began := growth.Processor()
		f()
		least = min(least, growth.Processor()-began)
	}
	return least
}
