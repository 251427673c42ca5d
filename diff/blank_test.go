package diff

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// raw is a result before canonicalisation: rows of terms.
type raw struct {
	form Form
	vars []string
	rows [][]Term
	o    Options
}

func (r raw) build(t interface{ Fatal(...any) }) *Result {
	b := NewBuilder(r.form, r.o)
	if r.form == Select {
		_ = b.SetVars(r.vars)
	}
	for _, row := range r.rows {
		if r.form == Select {
			_ = b.Row(row...)
		} else {
			_ = b.Triple(row[0], row[1], row[2])
		}
	}
	res, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// disguise gives blank nodes new labels and, unless ordered, shuffles the rows.
func (r raw) disguise(seed uint64) raw {
	rnd := rand.New(rand.NewPCG(seed, 1))
	names := map[string]string{}
	out := r
	out.rows = nil
	for _, row := range r.rows {
		row = append([]Term(nil), row...)
		for i := range row {
			if row[i].Kind != Blank {
				continue
			}
			if names[row[i].Value] == "" {
				names[row[i].Value] = fmt.Sprintf("x%d_%d", rnd.IntN(1000), len(names))
			}
			row[i].Value = names[row[i].Value]
		}
		out.rows = append(out.rows, row)
	}
	if !r.o.Ordered {
		rnd.Shuffle(len(out.rows), func(i, j int) { out.rows[i], out.rows[j] = out.rows[j], out.rows[i] })
	}
	return out
}

func drawRaw(t *rapid.T, form Form, o Options) raw {
	r := raw{form: form, vars: []string{"a", "b", "c"}, o: o}
	blank := rapid.Custom(func(t *rapid.T) Term {
		return Term{Kind: Blank, Value: fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "blank"))}
	})
	constant := rapid.SampledFrom([]Term{{Kind: IRI, Value: "http://c"}, {Kind: IRI, Value: "http://d"}})
	any := rapid.OneOf(blank, blank, blank, constant)
	for range rapid.IntRange(0, 9).Draw(t, "rows") {
		if form == Select {
			r.rows = append(r.rows, []Term{any.Draw(t, "a"), any.Draw(t, "b"), any.Draw(t, "c")})
		} else {
			r.rows = append(r.rows, []Term{any.Draw(t, "s"), constant.Draw(t, "p"), any.Draw(t, "o")})
		}
	}
	return r
}

func TestLabelsAndOrderDoNotMatter(t *testing.T) {
	for _, s := range []setting{
		{Select, Options{}}, {Construct, Options{}},
		{Select, Options{Ordered: true}}, {Select, Options{Ordered: true, OrderKeys: []string{"a"}}},
	} {
		t.Run(fmt.Sprintf("%s/ordered=%t/keys=%d", s.form, s.o.Ordered, len(s.o.OrderKeys)), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := drawRaw(t, s.form, s.o)
				a, b := r.build(t), r.disguise(rapid.Uint64().Draw(t, "seed")).build(t)
				if string(a.Document()) != string(b.Document()) || a.Hash() != b.Hash() {
					t.Fatalf("approximate %t\n%s\n%s", a.Approximate(), a.Document(), b.Document())
				}
				if a.Fingerprint() != b.Fingerprint() || Compare(a, b) != nil {
					t.Fatal("the same document, but not the same")
				}
			})
		})
	}
}

// numbered runs the labeller with the identifiers of RDFC-1.0.
func numbered(t *testing.T, lines string) *labeller {
	b := NewBuilder(Construct, Options{KeepLabels: true})
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		tr, err := parseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		_ = b.Triple(tr[0], tr[1], tr[2])
	}
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	l, _, err := r.edges(Options{})
	if err != nil {
		t.Fatal(err)
	}
	l.budget, l.numbered = 1000, true
	return l
}

// The hashes equal those of the examples in RDFC-1.0, appendices A.1 and A.2.
func TestHashesAreRDFC(t *testing.T) {
	l := numbered(t, `
<http://example.com/#p> <http://example.com/#q> _:e0 .
<http://example.com/#p> <http://example.com/#r> _:e1 .
_:e0 <http://example.com/#s> <http://example.com/#u> .
_:e1 <http://example.com/#t> <http://example.com/#u> .`)
	if err := l.label(); err != nil {
		t.Fatal(err)
	}
	for v, want := range []string{
		"21d1dd5ba21f3dee9d76c0c00c260fa6f5d5d65315099e553026f4828d0dc77a",
		"6fa0b9bdb376852b5743ff39ca4cbf7ea14d34966b2828478fbf222e7c764473",
	} {
		if l.first[v] != want {
			t.Errorf("first-degree hash of e%d is %s, want %s", v, l.first[v], want)
		}
	}
	l = numbered(t, `
<http://example.com/#p> <http://example.com/#q> _:e0 .
<http://example.com/#p> <http://example.com/#q> _:e1 .
_:e0 <http://example.com/#p> _:e2 .
_:e1 <http://example.com/#p> _:e3 .
_:e2 <http://example.com/#r> _:e3 .`)
	if err := l.label(); err != nil {
		t.Fatal(err)
	}
	// Nodes are numbered in the order of occurrence: e0, e1, e2, e3.
	for v, want := range []string{
		"3b26142829b8887d011d779079a243bd61ab53c3990d550320a17b59ade6ba36",
		"3b26142829b8887d011d779079a243bd61ab53c3990d550320a17b59ade6ba36",
		"15973d39de079913dac841ac4fa8c4781c0febfba5e83e5c6e250869587f8659",
		"7e790a99273eed1dc57e43205d37ce232252c85b26ca4a6ff74ff3b5aea7bccd",
	} {
		if l.first[v] != want {
			t.Errorf("first-degree hash of e%d is %s, want %s", v, l.first[v], want)
		}
	}
	for v, want := range []string{"c14n3", "c14n2", "c14n0", "c14n1"} {
		if l.name[v] != want {
			t.Errorf("e%d is %s, want %s", v, l.name[v], want)
		}
	}
	l.name[0], l.name[1] = "", ""
	for v, want := range []string{
		"fbc300de5afafd97a4b9ee1e72b57754dcdcb7ebb724789ac6a94a5b82a48d30",
		"2c0b377baf86f6c18fed4b0df6741290066e73c932861749b172d1e5560f5045",
	} {
		is := &issuer{}
		is.issue(int32(v))
		if h, _, err := l.nDegree(int32(v), is); err != nil || h != want {
			t.Errorf("n-degree hash of e%d is %s, want %s (%v)", v, h, want, err)
		}
	}
}

func blankTerm(format string, args ...any) Term {
	return Term{Kind: Blank, Value: fmt.Sprintf(format, args...)}
}

func iri(s string) Term { return Term{Kind: IRI, Value: s} }

// A node keeps its label if its own rows do not change.
func TestLabelsAreStable(t *testing.T) {
	people := func(n int) raw {
		r := raw{form: Construct}
		for i := range n {
			p, a := blankTerm("p%d", i), blankTerm("a%d", i)
			r.rows = append(r.rows,
				[]Term{p, iri("http://name"), {Kind: Literal, Value: fmt.Sprint(i)}},
				[]Term{p, iri("http://address"), a},
				[]Term{a, iri("http://city"), {Kind: Literal, Value: fmt.Sprint(i % 3)}})
		}
		return r
	}
	d := Compare(people(9).build(t), people(10).build(t))
	if len(d.Added) != 3 || len(d.Removed) != 0 {
		t.Errorf("one more person: %d added, %d removed: %q %q", len(d.Added), len(d.Removed), d.Added, d.Removed)
	}
	alike := func(n int) raw {
		r := raw{form: Construct}
		for i := range n {
			r.rows = append(r.rows, []Term{blankTerm("%d", i), iri("http://type"), iri("http://T")})
		}
		return r
	}
	d = Compare(alike(1).build(t), alike(3).build(t))
	if len(d.Added) != 2 || len(d.Removed) != 0 || string(d.Added[0][:2]) != "_:" {
		t.Errorf("two more of the same: %q %q", d.Added, d.Removed)
	}
}

// A row that occurs twice differs from a row that occurs once.
func TestMultiplicityCounts(t *testing.T) {
	x, y := blankTerm("x"), blankTerm("y")
	r := raw{form: Select, vars: []string{"a"}}
	r.rows = [][]Term{{x}, {x}, {y}}
	s := r
	s.rows = [][]Term{{x}, {y}, {{Kind: Blank, Value: "z"}}}
	if Compare(r.build(t), s.build(t)) == nil {
		t.Error("{x,x,y} is taken for {x,y,z}")
	}
}

// poison returns a graph for which RDFC-1.0 tries all orders, because every node looks
// the same from everywhere: n nodes, each connected to all others.
func poison(n int) raw {
	r := raw{form: Construct}
	for i := range n {
		for j := range n {
			if i != j {
				r.rows = append(r.rows, []Term{blankTerm("%d", i), iri("http://p"), blankTerm("%d", j)})
			}
		}
	}
	return r
}

// grid returns a grid of w × w nodes that wraps around. All nodes look alike, and no
// two have the same neighbours.
func grid(w int) raw {
	r := raw{form: Construct}
	for i := range w {
		for j := range w {
			r.rows = append(r.rows,
				[]Term{blankTerm("%d/%d", i, j), iri("http://p"), blankTerm("%d/%d", (i+1)%w, j)},
				[]Term{blankTerm("%d/%d", i, j), iri("http://p"), blankTerm("%d/%d", i, (j+1)%w)})
		}
	}
	return r
}

func TestBudgetEndsPoison(t *testing.T) {
	for name, r := range map[string]raw{"clique of 10": poison(10), "clique of 60": poison(60), "grid of 12×12": grid(12)} {
		t.Run(name, func(t *testing.T) {
			a, b := r.build(t), r.disguise(7).build(t)
			if !a.Approximate() || !b.Approximate() {
				t.Error("not approximate: the budget was not needed")
			}
			// Nodes that look alike are interchangeable here, so colours are sufficient.
			if a.Hash() != b.Hash() {
				t.Error("two disguises of one graph differ")
			}
			if a.Len() != len(r.rows) {
				t.Errorf("%d triples of %d are left: nodes were merged", a.Len(), len(r.rows))
			}
		})
	}
	few := grid(4)
	few.o.BlankBudget = 5
	if !few.build(t).Approximate() {
		t.Error("BlankBudget is not used")
	}
}

// There are many nodes of one kind, and none of them needs a search.
func TestManyPlainBlankNodesAreExact(t *testing.T) {
	r := raw{form: Select, vars: []string{"p", "a", "v"}}
	for i := range 3000 {
		r.rows = append(r.rows, []Term{blankTerm("p%d", i), blankTerm("a%d", i), {Kind: Literal, Value: fmt.Sprint(i / 2)}})
	}
	for i := range 50 { // one hub with many equal leaves
		r.rows = append(r.rows, []Term{blankTerm("hub"), blankTerm("leaf%d", i), iri("http://l")})
	}
	a, b := r.build(t), r.disguise(3).build(t)
	if a.Approximate() || a.Hash() != b.Hash() {
		t.Errorf("approximate %t, hashes %s and %s", a.Approximate(), a.Hash(), b.Hash())
	}
}

// In regular structures no first-degree hash distinguishes nodes. The search must find
// the same labels for every disguise, within the budget.
func TestRegularStructures(t *testing.T) {
	graph := func(edges ...[2]int) raw {
		r := raw{form: Construct}
		for _, e := range edges {
			r.rows = append(r.rows, []Term{blankTerm("%d", e[0]), iri("http://p"), blankTerm("%d", e[1])})
		}
		return r
	}
	both := func(edges ...[2]int) raw {
		for _, e := range edges {
			edges = append(edges, [2]int{e[1], e[0]})
		}
		return graph(edges...)
	}
	triples := func(rows ...[3]int) raw {
		r := raw{form: Select, vars: []string{"a", "b", "c"}}
		for _, x := range rows {
			r.rows = append(r.rows, []Term{blankTerm("%d", x[0]), blankTerm("%d", x[1]), blankTerm("%d", x[2])})
		}
		return r
	}
	// Two blocks of rows on ten nodes share the last column. If the last column of the
	// other block is exchanged, every pair occurs together as often as before, but the
	// result is a different one.
	blocks := func(from int, exchanged bool) [][3]int {
		rows := [][3]int{{0, 4, 8}, {0, 5, 9}, {1, 4, 9}, {1, 5, 8}, {2, 6, 8}, {2, 7, 9}, {3, 6, 9}, {3, 7, 8}}
		for i := range rows {
			if exchanged && i >= 4 {
				rows[i][2] = 17 - rows[i][2]
			}
			for k := range rows[i] {
				rows[i][k] += from
			}
		}
		return rows
	}
	seen := map[string]string{}
	for name, r := range map[string]raw{
		"two triangles": graph([2]int{0, 1}, [2]int{1, 2}, [2]int{2, 0}, [2]int{3, 4}, [2]int{4, 5}, [2]int{5, 3}),
		"hexagon":       graph([2]int{0, 1}, [2]int{1, 2}, [2]int{2, 3}, [2]int{3, 4}, [2]int{4, 5}, [2]int{5, 0}),
		"prism": both([2]int{0, 1}, [2]int{1, 2}, [2]int{2, 0}, [2]int{3, 4}, [2]int{4, 5}, [2]int{5, 3},
			[2]int{0, 3}, [2]int{1, 4}, [2]int{2, 5}),
		"K3,3": both([2]int{0, 3}, [2]int{0, 4}, [2]int{0, 5}, [2]int{1, 3}, [2]int{1, 4}, [2]int{1, 5},
			[2]int{2, 3}, [2]int{2, 4}, [2]int{2, 5}),
		"Fano plane": triples([3]int{0, 1, 2}, [3]int{2, 3, 4}, [3]int{4, 5, 0}, [3]int{0, 6, 3}, [3]int{2, 6, 5}, [3]int{4, 6, 1},
			[3]int{1, 3, 5}),
		"cyclic": triples([3]int{0, 1, 3}, [3]int{1, 2, 4}, [3]int{2, 3, 5}, [3]int{3, 4, 6}, [3]int{4, 5, 0}, [3]int{5, 6, 1},
			[3]int{6, 0, 2}),
		// The number of occurrences of a row distinguishes nodes, directly and through a
		// neighbour.
		"one twice":   triples([3]int{0, 0, 0}, [3]int{0, 0, 0}, [3]int{1, 1, 1}),
		"rows twice":  triples([3]int{0, 4, 3}, [3]int{4, 2, 1}, [3]int{4, 2, 3}, [3]int{4, 2, 3}, [3]int{0, 4, 1}, [3]int{0, 4, 1}),
		"both blocks": triples(append(blocks(0, false), blocks(10, true)...)...),
		// Both have the same pairs equally often, in rows of three.
		"rows 1": triples([3]int{0, 1, 2}, [3]int{0, 4, 5}, [3]int{3, 1, 5}, [3]int{3, 4, 2}),
		"rows 2": triples([3]int{0, 1, 5}, [3]int{0, 4, 2}, [3]int{3, 1, 2}, [3]int{3, 4, 5}, [3]int{0, 1, 5}),
	} {
		a := r.build(t)
		for seed := range uint64(30) {
			if b := r.disguise(seed).build(t); b.Approximate() || a.Hash() != b.Hash() {
				t.Fatalf("%s, disguise %d: approximate %t\n%s\n%s", name, seed, b.Approximate(), a.Document(), b.Document())
			}
		}
		if other, ok := seen[a.Hash()]; ok {
			t.Errorf("%s and %s look the same", name, other)
		}
		seen[a.Hash()] = name
	}
}

// Graphs of like components need more work than the budget. Neither labels nor the order of rows make a difference, and
// what changes in one component changes no other.
func TestLikeComponents(t *testing.T) {
	link := func(r *raw, a, b string, inverse bool) {
		r.rows = append(r.rows, []Term{{Kind: Blank, Value: a}, iri("http://hasPart"), {Kind: Blank, Value: b}})
		if inverse {
			r.rows = append(r.rows, []Term{{Kind: Blank, Value: b}, iri("http://partOf"), {Kind: Blank, Value: a}})
		}
	}
	shapes := map[string]func(i, n int) (parent int){
		"star":    func(i, _ int) int { return 0 },
		"chain":   func(i, _ int) int { return i - 1 },
		"binary":  func(i, _ int) int { return (i - 1) / 2 },
		"ternary": func(i, _ int) int { return (i - 1) / 3 },
		"legs":    func(i, _ int) int { return (i - 1) * ((i + 1) % 2) },
		"comb":    func(i, n int) int { return max(0, i-1-i%2) },
	}
	for _, c := range []struct {
		shape        string
		copies, size int
		inverse      bool
	}{
		{"star", 30, 20, true}, {"star", 60, 20, true}, {"star", 1, 3000, true}, {"chain", 50, 10, true}, {"chain", 1000, 5, true},
		{"chain", 1, 1000, true},
		{"binary", 1, 1000, true}, {"binary", 8, 127, true}, {"ternary", 3, 500, true}, {"comb", 20, 60, true},
		{"chain", 50, 100, false}, {"cycle", 20, 40, false}, {"cycle", 20, 40, true}, {"cycle", 1, 2000, false},
		{"legs", 2, 601, false}, {"legs", 20, 401, true}, {"legs", 1, 4001, true},
	} {
		t.Run(fmt.Sprintf("%s %d×%d %v", c.shape, c.copies, c.size, c.inverse), func(t *testing.T) {
			r := raw{form: Construct}
			for k := range c.copies {
				name := func(i int) string { return fmt.Sprintf("%d/%d", k, i) }
				for i := 1; i < c.size; i++ {
					if c.shape == "cycle" {
						link(&r, name(i-1), name(i), c.inverse)
					} else {
						link(&r, name(shapes[c.shape](i, c.size)), name(i), c.inverse)
					}
				}
				if c.shape == "cycle" {
					link(&r, name(c.size-1), name(0), c.inverse)
				}
			}
			a := r.build(t)
			for seed := range uint64(3) {
				if d := Compare(a, r.disguise(seed).build(t)); d != nil {
					t.Fatalf("disguise %d: %d rows added, %d removed, of %d", seed, len(d.Added), len(d.Removed), a.Len())
				}
			}
			own := a.Len() / c.copies
			r.rows = append(r.rows, []Term{{Kind: Blank, Value: "0/1"}, iri("http://new"), iri("http://x")})
			b := r.disguise(9).build(t)
			d := Compare(a, b)
			if a.Approximate() != b.Approximate() {
				t.Log("one of them needs more than the budget")
			} else if d == nil || len(d.Added) > 1+own || len(d.Removed) > own {
				t.Errorf("a new row in a component of %d: %d added, %d removed", own, len(d.Added), len(d.Removed))
			}
		})
	}
}

// Forests are labelled exactly without any budget: neither labels nor the order of rows make a difference, nor, in an ordered
// result, the order of rows with the same key.
func TestForests(t *testing.T) {
	for seed := range uint64(200) {
		x := rand.New(rand.NewPCG(seed, 3))
		r := raw{form: Select, vars: []string{"k", "a", "b"}, o: Options{BlankBudget: 1, Ordered: x.IntN(2) == 0, OrderKeys: []string{"k"}}}
		keys, degree, most := 1+x.IntN(4), 1+x.IntN(3), 2+x.IntN(30)
		for k := range 1 + x.IntN(12) {
			if k%3 > 0 { // so that trees are equal
				x = rand.New(rand.NewPCG(seed, 4))
			}
			for i := range 1 + x.IntN(most) {
				parent := max(0, i-1-x.IntN(degree))
				key := Term{Kind: Literal, Value: fmt.Sprint(x.IntN(keys))}
				r.rows = append(r.rows, []Term{key, blankTerm(fmt.Sprint(k, "/%d"), parent), blankTerm(fmt.Sprint(k, "/%d"), i)})
			}
		}
		sorted := !r.o.Ordered || x.IntN(2) == 0 // else rows with the same key are apart, and their order counts
		if sorted {
			slices.SortStableFunc(r.rows, func(a, b []Term) int { return strings.Compare(a[0].Value, b[0].Value) })
		}
		a := r.build(t)
		for other := range uint64(4) {
			o := r.disguise(other)
			y := rand.New(rand.NewPCG(seed, other))
			if sorted {
				y.Shuffle(len(o.rows), func(i, j int) { o.rows[i], o.rows[j] = o.rows[j], o.rows[i] })
				slices.SortStableFunc(o.rows, func(a, b []Term) int { return strings.Compare(a[0].Value, b[0].Value) })
			}
			if b := o.build(t); a.Hash() != b.Hash() {
				t.Fatalf("seed %d, ordered %v, disguise %d:\n%s\n%s", seed, r.o.Ordered, other, a.Document(), b.Document())
			}
		}
	}
}

// A result is the same though an older version has labelled its blank nodes, if there is too much work for the labels.
func TestOlderLabels(t *testing.T) {
	old := grid(12)
	old.o.KeepLabels = true
	now := grid(12)
	if d := Compare(old.build(t), now.build(t)); d != nil {
		t.Errorf("%d added, %d removed", len(d.Added), len(d.Removed))
	}
	all := raw{form: Construct}
	for i := range 5 { // a cycle
		all.rows = append(all.rows, []Term{blankTerm("%d", i), iri("http://p"), blankTerm("%d", (i+1)%5)})
	}
	ended := all
	ended.o.BlankBudget = 1
	x, y := all.build(t), ended.build(t)
	if x.Hash() == y.Hash() || Compare(x, y) != nil || Compare(y, x) != nil {
		t.Error("whether the budget ends a search makes a change")
	}
	now.rows[0][1].Value = "http://q"
	if Compare(old.build(t), now.build(t)) == nil {
		t.Error("a change is not seen")
	}
}
