package diff

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var words = []string{"Berlin", "University", "of", "the", "River", "County", "Museum", "History", "Station", "Lake", "Saint", "National", "Park", "Music", "Album", "Film"}

// virtuosoBody writes n rows of four variables the way Virtuoso does. One row
// in changed (0 = none), chosen by seed, has another number.
func virtuosoBody(n, changed int, seed uint64) []byte {
	r, m := rand.New(rand.NewPCG(7, 7)), rand.New(rand.NewPCG(seed, 0))
	var b bytes.Buffer
	b.WriteString("\n{ \"head\": { \"link\": [], \"vars\": [\"res\", \"label\", \"date\", \"pop\"] },\n  \"results\": { \"distinct\": false, \"ordered\": true, \"bindings\": [")
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
		fmt.Fprintf(&b, "\n    { \"res\": { \"type\": \"uri\", \"value\": \"http://dbpedia.org/resource/%s_%s_%d\" }\t, \"label\": { \"type\": \"literal\", \"xml:lang\": \"en\", \"value\": \"%s %s%s (%d)\" }\t, \"date\": { \"type\": \"typed-literal\", \"datatype\": \"http://www.w3.org/2001/XMLSchema#date\", \"value\": \"%d-%02d-%02d\" }\t, \"pop\": { \"type\": \"typed-literal\", \"datatype\": \"http://www.w3.org/2001/XMLSchema#integer\", \"value\": \"%d\" }}",
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
			fmt.Fprintf(&b, `,"n":{"type":"literal","value":"%s %s","xml:lang":"%s"}`, words[r.IntN(16)], words[r.IntN(16)], []string{"en", "de", "fr"}[r.IntN(3)])
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

// plain is how one does it without this package: structs and a map.
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

// plainCompare parses, hashes if hash is set, and compares.
func plainCompare(old []string, body []byte, hash bool) (added, removed int, err error) {
	rows, err := plainRows(body)
	if err != nil {
		return 0, 0, err
	}
	if hash && plainHash(rows) == [sha256.Size]byte{} {
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

// BenchmarkDecodeCompare parses a body of which 1 % of the rows changed, hashes
// it and compares it with the result before. The sub-benchmark "ours" also
// reports, measured in turns, how many times faster it was than encoding/json
// doing the same (x_vs_encjson), and than encoding/json that leaves the hash out
// while we compute it (x_vs_unhashed).
func BenchmarkDecodeCompare(b *testing.B) {
	const rows = 10_000
	for _, c := range []struct {
		name     string
		old, new []byte
	}{
		{"body=virtuoso", virtuosoBody(rows, 0, 0), virtuosoBody(rows, 100, 1)},
		{"body=mixed", mixedBody(rows), bytes.Replace(mixedBody(rows), []byte(`Berlin River`), []byte("Lake"), 100)},
	} {
		old, err := DecodeJSON(c.old, Select, Options{})
		if err != nil {
			b.Fatal(err)
		}
		old.Hash()
		plainOld, err := plainRows(c.old)
		if err != nil {
			b.Fatal(err)
		}
		ours := func() {
			r, err := DecodeJSON(c.new, Select, Options{})
			if err != nil {
				b.Fatal(err)
			}
			if r.Hash() == old.Hash() {
				b.Fatal("the same hash")
			}
			if d := Compare(old, r); d == nil || len(d.Added) != len(d.Removed) {
				b.Fatal("no change found")
			}
		}
		plainly := func(hash bool) {
			if added, removed, err := plainCompare(plainOld, c.new, hash); err != nil || added == 0 || added != removed {
				b.Fatal(added, removed, err)
			}
		}
		theirs := func() { plainly(true) }
		b.Run(fmt.Sprintf("impl=encjson/%s/rows=%d", c.name, rows), func(b *testing.B) {
			b.SetBytes(int64(len(c.new)))
			for b.Loop() {
				theirs()
			}
		})
		b.Run(fmt.Sprintf("impl=ours/%s/rows=%d", c.name, rows), func(b *testing.B) {
			b.SetBytes(int64(len(c.new)))
			for b.Loop() {
				ours()
			}
			b.StopTimer()
			b.ReportMetric(ratio(theirs, ours, 20), "x_vs_encjson")
			b.ReportMetric(ratio(func() { plainly(false) }, ours, 20), "x_vs_unhashed")
		})
		b.Run(fmt.Sprintf("impl=decode/%s/rows=%d", c.name, rows), func(b *testing.B) {
			b.SetBytes(int64(len(c.new)))
			for b.Loop() {
				if _, err := DecodeJSON(c.new, Select, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("impl=unchanged/%s/rows=%d", c.name, rows), func(b *testing.B) {
			b.SetBytes(int64(len(c.new)))
			for b.Loop() {
				r, err := DecodeJSON(c.old, Select, Options{})
				if err != nil || Compare(old, r) != nil {
					b.Fatal("changed", err)
				}
			}
		})
	}
}

// BenchmarkCompare is the comparison alone, of 10,000 rows of which 1 % changed:
// with the old result as it arrived, as it comes back from a store (in canonical
// order), and as sequences with and without keys.
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

// ratio runs a and b in turns and compares the fastest run of each: what else
// the machine does then matters little.
func ratio(a, b func(), times int) float64 {
	best := func(f func(), so time.Duration) time.Duration {
		start := time.Now()
		f()
		return min(so, time.Since(start))
	}
	ta, tb := time.Hour, time.Hour
	for range times {
		ta, tb = best(a, ta), best(b, tb)
	}
	return float64(ta) / float64(tb)
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

// BenchmarkBlank labels blank nodes: many plain ones, and graphs made to cost
// as much as they can.
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
	}{{"plain=10000", people}, {"clique=60", poison(60)}, {"clique=200", poison(200)}, {"grid=70x70", grid(70)}, {"random=4000", random}, {"chain=5000", chain}, {"wide=500", wide}} {
		b.Run(c.name, func(b *testing.B) {
			approximate := false
			for b.Loop() {
				approximate = c.build(b).Approximate()
			}
			b.ReportMetric(map[bool]float64{true: 1}[approximate], "approximate")
		})
	}
}
