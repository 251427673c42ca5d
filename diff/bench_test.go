package diff

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

	"github.com/freshet/freshet/diff/growth"
)

var words = []string{"Berlin", "University", "of", "the", "River", "County", "Museum", "History", "Station", "Lake", "Saint",
	"National", "Park", "Music", "Album", "Film"}

// virtuosoBody writes n rows of four variables the way Virtuoso does. One row
// in changed (0 = none), chosen by seed, has another number.
func virtuosoBody(n, changed int, seed uint64) []byte {
	r, m := rand.New(rand.NewPCG(7, 7)), rand.New(rand.NewPCG(seed, 0))
	var b bytes.Buffer
	b.WriteString("\n{ \"head\": { \"link\": [], \"vars\": [\"res\", \"label\", \"date\", \"pop\"] },\n  \"results\": { " +
		"\"distinct\": false, \"ordered\": true, \"bindings\": [")
	for i := range n {
		if i > 0 {
			b.WriteString(",")
		}
		w := func() string { return words[r.IntN(len(words))] }
		x, y, id, pop := w(), w(), r.IntN(1<<24), r.IntN(9_000_000)
		if changed > 0 && m.IntN(changed) == 0 {
			pop += 1 + m.IntN(1000)
		}
		quoted := ""
		if i%16 == 5 {
			quoted = ` \"M\u00FCnchen\"`
		}
		fmt.Fprintf(&b, "\n    { \"res\": { \"type\": \"uri\", \"value\": \"http://dbpedia.org/resource/%s_%s_%d\" }\t, "+
			"\"label\": { \"type\": \"literal\", \"xml:lang\": \"en\", \"value\": \"%s %s%s (%d)\" }\t, \"date\": { \"type\": "+
			"\"typed-literal\", \"datatype\": \"http://www.w3.org/2001/XMLSchema#date\", \"value\": \"%d-%02d-%02d\" }\t, \"pop\": { "+
			"\"type\": \"typed-literal\", \"datatype\": \"http://www.w3.org/2001/XMLSchema#integer\", \"value\": \"%d\" }}",
			x, y, id, x, y, quoted, id, 1900+r.IntN(120), 1+r.IntN(12), 1+r.IntN(28), pop)
	}
	b.WriteString(" ] } }")
	return b.Bytes()
}

// mixedBody has optional columns and columns of several types, compact and with
// the value before the rest, as other engines write.
func mixedBody(n int) []byte {
	r := rand.New(rand.NewPCG(9, 9))
	var b bytes.Buffer
	b.WriteString(`{"head":{"vars":["s","n","x"]},"results":{"bindings":[`)
	for i := range n {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"s":{"type":"uri","value":"http://www.wikidata.org/entity/Q%d"}`, r.IntN(1e8))
		if r.IntN(3) > 0 {
			fmt.Fprintf(&b, `,"n":{"type":"literal","value":"%s %s","xml:lang":"%s"}`, words[r.IntN(16)], words[r.IntN(16)],
				[]string{"en", "de", "fr"}[r.IntN(3)])
		}
		switch r.IntN(4) {
		case 0:
			fmt.Fprintf(&b, `,"x":{"type":"literal","value":"%d","datatype":"http://www.w3.org/2001/XMLSchema#integer"}`, r.IntN(1e6))
		case 1:
			fmt.Fprintf(&b, `,"x":{"type":"uri","value":"http://x/%d"}`, r.IntN(1e6))
		case 2:
			fmt.Fprintf(&b, `,"x":{"type":"literal","value":"%d"}`, r.IntN(1e6))
		}
		b.WriteString("}")
	}
	b.WriteString("]}}")
	return b.Bytes()
}

// plain is the implementation without this package: structs and a map.
type plain struct {
	Head    struct{ Vars []string }
	Results struct {
		Bindings []map[string]plainTerm
	}
}

type plainTerm struct {
	Type     string `json:"type"`
	Value    string `json:"value"`
	Lang     string `json:"xml:lang"`
	Datatype string `json:"datatype"`
}

func plainRows(body []byte) ([]string, error) {
	var p plain
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, err
	}
	out := make([]string, len(p.Results.Bindings))
	for i, row := range p.Results.Bindings {
		var key []byte
		for _, v := range p.Head.Vars {
			t := row[v]
			for _, s := range [...]string{t.Type, t.Value, t.Lang, t.Datatype} {
				key = append(append(key, s...), 0)
			}
		}
		out[i] = string(key)
	}
	return out, nil
}

// plainHash is independent of the order of rows, like Result.Hash.
func plainHash(rows []string) [sha256.Size]byte {
	sorted := slices.Clone(rows)
	slices.Sort(sorted)
	h := sha256.New()
	for _, r := range sorted {
		h.Write([]byte(r))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// plainCompare parses, hashes and compares.
func plainCompare(old []string, body []byte) (added, removed int, err error) {
	rows, err := plainRows(body)
	if err != nil {
		return 0, 0, err
	}
	if plainHash(rows) == [sha256.Size]byte{} {
		return 0, 0, nil
	}
	count := make(map[string]int, len(old))
	for _, r := range old {
		count[r]++
	}
	for _, r := range rows {
		if count[r]--; count[r] < 0 {
			added++
		}
	}
	for _, n := range count {
		removed += max(n, 0)
	}
	return added, removed, nil
}

// BenchmarkChanged measures the work of an execution whose body has 1 % changed rows,
// from the body to the delta: parse, compare fingerprints, read the stored result,
// compare, hash. The metrics are ratios of processor time, measured alternately.
// x_vs_encjson is how many times faster it is than encoding/json with a map and the
// same hash. same_vs_decode is the time to find that a body with other bytes holds the
// same rows, in any order, as a multiple of the time to parse it without a fingerprint.
func BenchmarkChanged(b *testing.B) {
	for _, c := range []struct {
		name     string
		times    int
		old, new func() []byte
	}{
		{"body=virtuoso/rows=10000", 20, func() []byte { return virtuosoBody(10_000, 0, 0) },
			func() []byte { return virtuosoBody(10_000, 100, 1) }},
		{"body=mixed/rows=10000", 20, func() []byte { return mixedBody(10_000) }, func() []byte {
			return bytes.Replace(mixedBody(10_000), []byte(`Berlin River`), []byte("Lake"), 100)
		}},
		{"body=virtuoso/rows=100000", 4, func() []byte { return virtuosoBody(100_000, 0, 0) },
			func() []byte { return virtuosoBody(100_000, 100, 1) }},
		{"body=virtuoso/rows=500000", 2, func() []byte { return virtuosoBody(500_000, 0, 0) },
			func() []byte { return virtuosoBody(500_000, 100, 1) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			oldBody, newBody := c.old(), c.new()
			old, err := DecodeJSON(oldBody, Select, Options{})
			if err != nil {
				b.Fatal(err)
			}
			stored, hash, print := old.Document(), old.Hash(), old.Fingerprint()
			plainOld, err := plainRows(oldBody)
			if err != nil {
				b.Fatal(err)
			}
			decode := func(body []byte) *Result {
				r, err := DecodeJSON(body, Select, Options{})
				if err != nil {
					b.Fatal(err)
				}
				return r
			}
			ours := func() {
				r := decode(newBody)
				if r.Fingerprint() == print {
					b.Fatal("the same fingerprint")
				}
				was, err := Decode(stored, Select, false)
				if err != nil {
					b.Fatal(err)
				}
				was.KnownHash(hash)
				if d := Compare(was, r); d == nil || len(d.Added) != len(d.Removed) {
					b.Fatal("no change found")
				}
			}
			theirs := func() {
				if added, removed, err := plainCompare(plainOld, newBody); err != nil || added == 0 || added != removed {
					b.Fatal(added, removed, err)
				}
			}
			same := func() {
				if decode(oldBody).Fingerprint() != print {
					b.Fatal("another fingerprint")
				}
			}
			bare := func() {
				// Keys mean nothing without an order, except that the fingerprint has to wait.
				if _, err := DecodeJSON(oldBody, Select, Options{OrderKeys: []string{"none"}}); err != nil {
					b.Fatal(err)
				}
			}
			b.SetBytes(int64(len(newBody)))
			b.ReportAllocs()
			for b.Loop() {
				ours()
			}
			b.StopTimer()
			b.ReportMetric(ratio(theirs, ours, c.times), "x_vs_encjson")
			b.ReportMetric(ratio(same, bare, 4*c.times), "same_vs_decode")
			b.ReportMetric(fastest(ours, c.times).Seconds()*1e3, "cpu_ms")
		})
	}
}

// BenchmarkCompare measures the comparison alone, for 10,000 rows of which 1 %
// changed. The old result is in order of arrival, or in canonical order as a store
// returns it, or a sequence with or without keys.
func BenchmarkCompare(b *testing.B) {
	keys := Options{Ordered: true, OrderKeys: []string{"label", "res"}}
	for _, c := range []struct {
		name   string
		o      Options
		stored bool
	}{{"arrived", Options{}, false}, {"stored", Options{}, true}, {"ordered", Options{Ordered: true}, false}, {"keys", keys, true}} {
		old, err := DecodeJSON(virtuosoBody(10_000, 0, 0), Select, c.o)
		if err != nil {
			b.Fatal(err)
		}
		if c.stored {
			old, _ = Decode(old.Document(), Select, c.o.Ordered)
		}
		old.Hash()
		body := virtuosoBody(10_000, 100, 1)
		b.Run("old="+c.name+"/rows=10000", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				r, err := DecodeJSON(body, Select, c.o)
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if Compare(old, r) == nil {
					b.Fatal("no change found")
				}
			}
		})
	}
	document := func() []byte {
		r, _ := DecodeJSON(virtuosoBody(10_000, 0, 0), Select, Options{})
		return r.Document()
	}()
	b.Run("decode=stored/rows=10000", func(b *testing.B) {
		b.SetBytes(int64(len(document)))
		for b.Loop() {
			if _, err := Decode(document, Select, false); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode=keys/rows=10000", func(b *testing.B) {
		body := virtuosoBody(10_000, 100, 1)
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if _, err := DecodeJSON(body, Select, keys); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// ratio runs a and b alternately and returns the ratio of the processor times of their
// fastest runs.
func ratio(a, b func(), times int) float64 {
	ta, tb := time.Hour, time.Hour
	for range times {
		ta, tb = min(ta, fastest(a, 1)), min(tb, fastest(b, 1))
	}
	return float64(ta) / float64(tb)
}

// fastest returns the least processor time of several runs, which other work on the
// machine hardly affects.
func fastest(f func(), times int) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	least := time.Hour
	for range times {
		start := growth.Processor()
		f()
		least = min(least, growth.Processor()-start)
	}
	return least
}

func BenchmarkHash(b *testing.B) {
	body := virtuosoBody(10_000, 0, 0)
	for b.Loop() {
		b.StopTimer()
		r, err := DecodeJSON(body, Select, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(r.Size()))
		b.StartTimer()
		r.Hash()
	}
}

// BenchmarkBlank labels blank nodes: many simple ones, and graphs that are as expensive
// as possible.
func BenchmarkBlank(b *testing.B) {
	people := raw{form: Construct}
	for i := range 5000 {
		p, a := blankTerm("p%d", i), blankTerm("a%d", i)
		people.rows = append(people.rows,
			[]Term{p, iri("http://name"), {Kind: Literal, Value: fmt.Sprint(i / 2)}},
			[]Term{p, iri("http://address"), a},
			[]Term{a, iri("http://city"), {Kind: Literal, Value: fmt.Sprint(i % 100)}})
	}
	rnd := rand.New(rand.NewPCG(5, 5))
	random := raw{form: Construct}
	for i := range 4000 {
		for range 3 {
			random.rows = append(random.rows, []Term{blankTerm("%d", i), iri("http://p"), blankTerm("%d", rnd.IntN(4000))})
		}
	}
	chain := raw{form: Construct}
	for i := range 5000 {
		chain.rows = append(chain.rows, []Term{blankTerm("%d", i), iri("http://rest"), blankTerm("%d", i+1)})
	}
	wide := raw{form: Select, vars: []string{"a", "b", "c", "l"}}
	for range 500 {
		wide.rows = append(wide.rows, []Term{blankTerm("%d", rnd.IntN(40)), blankTerm("%d", rnd.IntN(40)), blankTerm("%d", rnd.IntN(40)),
			{Kind: Literal, Value: string(bytes.Repeat([]byte("long "), 1000))}})
	}
	for _, c := range []struct {
		name string
		raw
	}{{"plain=10000", people}, {"clique=60", poison(60)}, {"clique=200", poison(200)}, {"grid=70x70", grid(70)},
		{"random=4000", random}, {"chain=5000", chain}, {"wide=500", wide}} {
		b.Run(c.name, func(b *testing.B) {
			approximate := false
			for b.Loop() {
				approximate = c.build(b).Approximate()
			}
			b.ReportMetric(map[bool]float64{true: 1}[approximate], "approximate")
		})
	}
}
