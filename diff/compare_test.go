package diff

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// bag returns a result of one variable whose rows are the letters of s.
func bag(t testing.TB, o Options, s string) *Result {
	t.Helper()
	b := NewBuilder(Select, o)
	_ = b.SetVars([]string{"x"})
	for _, c := range s {
		_ = b.Row(iri(string(c)))
	}
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func letters(rows Rows) string {
	var b strings.Builder
	for _, r := range rows {
		b.WriteString(RowTerms(Select, []string{"x"}, r)[0].Value)
	}
	return b.String()
}

func TestCompareBags(t *testing.T) {
	for _, c := range []struct {
		old, new       string
		added, removed string
		jaccard        float64
	}{
		{"", "a", "a", "", 1},                   // 1 − 0/1
		{"a", "", "", "a", 1},                   // 1 − 0/1
		{"abc", "abd", "d", "c", 0.5},           // 1 − 2/4
		{"ab", "abab", "ab", "", 0.5},           // 1 − 2/4: counts matter
		{"aaab", "ab", "", "aa", 0.5},           // 1 − 2/4
		{"aab", "abb", "b", "a", 0.5},           // min 1+1, max 2+2
		{"abcd", "efgh", "efgh", "abcd", 1},     // 1 − 0/8
		{"abcdefgh", "hgfedcb", "", "a", 0.125}, // 1 − 7/8, in any order
		{"abcdefghi", "jabcdefghi", "j", "", 0.1},
	} {
		d := Compare(bag(t, Options{}, c.old), bag(t, Options{}, c.new))
		if letters(d.Added) != c.added || letters(d.Removed) != c.removed || math.Abs(d.Jaccard-c.jaccard) > 1e-12 {
			t.Errorf("%s → %s: added %s, removed %s, jaccard %v", c.old, c.new, letters(d.Added), letters(d.Removed), d.Jaccard)
		}
	}
	for _, s := range []string{"", "a", "aab"} {
		if d := Compare(bag(t, Options{}, s), bag(t, Options{}, s)); d != nil {
			t.Errorf("%q changed: %v", s, d)
		}
	}
}

func TestCompareSequences(t *testing.T) {
	for _, c := range []struct {
		old, new           string
		removed, added     string
		removedAt, addedAt []int
		jaccard            float64
	}{
		{"abc", "abc", "", "", nil, nil, 0},
		{"abc", "abd", "c", "d", []int{2}, []int{2}, 0.5},
		{"abcd", "bcda", "a", "a", []int{0}, []int{3}, 0}, // a move: distance 0
		{"abcd", "dabc", "d", "d", []int{3}, []int{0}, 0},
		{"ab", "ba", "b", "b", []int{1}, []int{0}, 0},
		{"", "ab", "", "ab", nil, []int{0, 1}, 1},
		{"aba", "aa", "b", "", []int{1}, nil, 1.0 / 3},                    // 1 − 2/3
		{"abcde", "xbcdy", "ae", "xy", []int{0, 4}, []int{0, 4}, 4.0 / 7}, // 1 − 3/7
	} {
		o := Options{Ordered: true}
		d := Compare(bag(t, o, c.old), bag(t, o, c.new))
		if c.removedAt == nil && c.addedAt == nil {
			if d != nil {
				t.Errorf("%s → %s: %v", c.old, c.new, d)
			}
			continue
		}
		// If two moves have the same effect, either is correct.
		if c.old == "ab" && letters(d.Removed) == "a" {
			c.removed, c.added, c.removedAt, c.addedAt = "a", "a", []int{0}, []int{1}
		}
		if letters(d.Removed) != c.removed || letters(d.Added) != c.added ||
			!slices.Equal(d.RemovedAt, c.removedAt) || !slices.Equal(d.AddedAt, c.addedAt) || math.Abs(d.Jaccard-c.jaccard) > 1e-12 {
			t.Errorf("%s → %s: removed %s %v, added %s %v, jaccard %v", c.old, c.new,
				letters(d.Removed), d.RemovedAt, letters(d.Added), d.AddedAt, d.Jaccard)
		}
	}
}

func TestTiesHaveNoOrder(t *testing.T) {
	build := func(keys []string, rows ...string) *Result {
		b := NewBuilder(Select, Options{Ordered: true, OrderKeys: keys})
		_ = b.SetVars([]string{"k", "v"})
		for _, r := range rows {
			_ = b.Row(iri(r[:1]), iri(r[1:]))
		}
		r, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	k := []string{"k"}
	if d := Compare(build(k, "1a", "2b", "2a", "3a"), build(k, "1a", "2a", "2b", "3a")); d != nil {
		t.Errorf("a flip among ties is a change: %q %q", d.Added, d.Removed)
	}
	if Compare(build(nil, "2b", "2a"), build(nil, "2a", "2b")) == nil {
		t.Error("without keys a flip is none")
	}
	if Compare(build([]string{"k", "z"}, "2b", "2a"), build([]string{"k", "z"}, "2a", "2b")) == nil {
		t.Error("keys that are not all in the head make ties")
	}
	nodes := func(first, second string) *Result {
		r := raw{form: Select, vars: []string{"k", "v"}, o: Options{Ordered: true, OrderKeys: k}}
		for i, v := range []string{first, second} {
			r.rows = append(r.rows, []Term{blankTerm("%d", i), iri(v)})
		}
		return r.build(t)
	}
	if d := Compare(nodes("a", "b"), nodes("b", "a")); d != nil {
		t.Errorf("a flip among blank nodes is a change: %q %q", d.Added, d.Removed)
	}
	// Rows with the same key that are not neighbours are not ties.
	if Compare(build(k, "2b", "1a", "2a"), build(k, "2a", "1a", "2b")) == nil {
		t.Error("rows that are apart are ties")
	}
}

func TestHeadIsPartOfTheResult(t *testing.T) {
	head := func(vars ...string) *Result {
		b := NewBuilder(Select, Options{})
		_ = b.SetVars(vars)
		_ = b.Row(iri("x"))
		r, _ := b.Finish()
		return r
	}
	d := Compare(head("a"), head("a", "b"))
	if d == nil || len(d.Added)+len(d.Removed) != 0 || d.Jaccard != 0 ||
		!slices.Equal(d.Vars, []string{"a", "b"}) || !slices.Equal(d.OldVars, []string{"a"}) {
		t.Fatalf("%+v", d)
	}
	got, err := d.Apply(head("a"))
	if err != nil || got.Hash() != head("a", "b").Hash() {
		t.Error(err)
	}
}

func TestAskChanges(t *testing.T) {
	ask := func(v bool) *Result {
		b := NewBuilder(Ask, Options{})
		_ = b.SetBoolean(v)
		r, _ := b.Finish()
		return r
	}
	d := Compare(ask(false), ask(true))
	if d == nil || !d.Boolean || d.Previous || d.Jaccard != 1 || d.AddedJSON() != nil {
		t.Fatalf("%+v", d)
	}
	if Compare(ask(true), ask(true)) != nil {
		t.Error("true is not true")
	}
	if _, err := d.Apply(ask(true)); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
}

func TestBaseline(t *testing.T) {
	for _, o := range []Options{{}, {Ordered: true}} {
		for _, s := range []string{"", "ba"} {
			r := bag(t, o, s)
			d := Compare(nil, r)
			if !d.Baseline || d.OldHash != "" || d.NewHash != r.Hash() || len(d.Added) != r.Len() {
				t.Fatalf("%+v", d)
			}
			got, err := d.Apply(nil)
			if err != nil || got.Hash() != r.Hash() {
				t.Error(err)
			}
			next := bag(t, o, "bc")
			both, err := Compose(d, Compare(r, next))
			if err != nil || !both.Baseline || Invert(both) != nil {
				t.Fatalf("%v %+v", err, both)
			}
			if got, err = both.Apply(nil); err != nil || got.Hash() != next.Hash() {
				t.Error(err)
			}
			if _, err := Compose(Compare(r, next), d); !errors.Is(err, ErrMismatch) {
				t.Error(err)
			}
		}
	}
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	seq := Options{Ordered: true}
	d := Compare(bag(t, seq, "abc"), bag(t, seq, "acd"))
	forged := func(f func(*Delta)) *Delta {
		c := *d
		c.RemovedAt, c.AddedAt = slices.Clone(d.RemovedAt), slices.Clone(d.AddedAt)
		f(&c)
		return &c
	}
	for name, c := range map[string]struct {
		d   *Delta
		old *Result
	}{
		"nothing":         {d, nil},
		"another result":  {d, bag(t, seq, "abb")},
		"another kind":    {d, bag(t, Options{}, "abc")},
		"wrong old row":   {forged(func(d *Delta) { d.OldHash = "" }), bag(t, seq, "axc")},
		"index too high":  {forged(func(d *Delta) { d.AddedAt[0] = 9 }), bag(t, seq, "abc")},
		"negative index":  {forged(func(d *Delta) { d.RemovedAt[0] = -1 }), bag(t, seq, "abc")},
		"indices missing": {forged(func(d *Delta) { d.AddedAt = nil }), bag(t, seq, "abc")},
		"other end":       {forged(func(d *Delta) { d.Added = Rows{[]byte(`{}`)} }), bag(t, seq, "abc")},
		"row is not there": {&Delta{Form: Select, Vars: []string{"x"}, OldVars: []string{"x"}, Removed: Rows{[]byte(`{}`)}},
			bag(t, Options{}, "a")},
		"other variables": {&Delta{Form: Select, Vars: []string{"x"}, OldVars: []string{"y"}}, bag(t, Options{}, "a")},
	} {
		if _, err := c.d.Apply(c.old); !errors.Is(err, ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Compose(d, d); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
}

// Jaccard satisfies the definition for bags: it is symmetric, between 0 and 1, and 0
// exactly if the bags are equal.
func TestJaccardIsADistance(t *testing.T) {
	for _, o := range []Options{{}, {Ordered: true}} {
		rapid.Check(t, func(t *rapid.T) {
			draw := rapid.StringOfN(rapid.RuneFrom([]rune("abcd")), 0, 8, -1)
			x, y := draw.Draw(t, "x"), draw.Draw(t, "y")
			a, b := bag(plainT{t: t}, o, x), bag(plainT{t: t}, o, y)
			both, either := 0, 0
			for _, c := range "abcd" {
				n, m := strings.Count(x, string(c)), strings.Count(y, string(c))
				both, either = both+min(n, m), either+max(n, m)
			}
			want := 0.0
			if either > 0 {
				want = 1 - float64(both)/float64(either)
			}
			there, back := distance(a, b), distance(b, a)
			if math.Abs(there-want) > 1e-12 || there != back || there < 0 || there > 1 || (there == 0) != (both == either) {
				t.Fatalf("%q %q: %v there, %v back, want %v", x, y, there, back, want)
			}
		})
	}
}

func distance(a, b *Result) float64 {
	if d := Compare(a, b); d != nil {
		return d.Jaccard
	}
	return 0
}

// plainT lets a rapid check be used as a testing.TB.
type plainT struct {
	testing.TB
	t *rapid.T
}

func (p plainT) Helper()           {}
func (p plainT) Fatal(args ...any) { p.t.Fatal(args...) }

// Large results use the table and the inherited order; small ones rarely do.
func TestLargeBags(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alphabet := []rune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
		x := []rune(strings.Repeat(string(alphabet), 4))
		y := slices.Clone(x)
		for range rapid.IntRange(0, 30).Draw(t, "edits") {
			i := rapid.IntRange(0, len(y)-1).Draw(t, "at")
			switch rapid.IntRange(0, 2).Draw(t, "edit") {
			case 0:
				y = slices.Delete(y, i, i+1)
			case 1:
				y = slices.Insert(y, i, rapid.SampledFrom(alphabet).Draw(t, "letter"))
			default:
				y[i] = '0'
			}
		}
		if rapid.Bool().Draw(t, "shuffle") {
			y = rapid.Permutation(y).Draw(t, "order")
		}
		for _, o := range []Options{{}, {Ordered: true}} {
			a, b, fresh := bag(plainT{t: t}, o, string(x)), bag(plainT{t: t}, o, string(y)), bag(plainT{t: t}, o, string(y))
			got, err := Compare(a, b).Apply(a)
			if err != nil || got.Hash() != fresh.Hash() || string(b.Document()) != string(fresh.Document()) {
				t.Fatalf("%v: %s, want %s", err, got.Document(), fresh.Document())
			}
		}
	})
}

// What is sent or stored can be read back, even if another JSON library has written it
// again in its own style.
func TestDeltasComeBack(t *testing.T) {
	eachSetting(t, func(w world, s setting) {
		a, b := w.result(s.form, s.o), w.result(s.form, s.o)
		d := Compare(a, b)
		if d == nil {
			return
		}
		stored, err := d.MarshalBinary()
		var back Delta
		if err != nil || back.UnmarshalBinary(stored) != nil {
			w.t.Fatal(err)
		}
		if diff := cmp.Diff(*d, back); diff != "" {
			w.t.Fatal(diff)
		}
		if s.form == Ask {
			return
		}
		rewrite := func(doc []byte) []byte {
			var v any
			if err := json.Unmarshal(doc, &v); err != nil {
				w.t.Fatalf("%v: %s", err, doc)
			}
			out, _ := json.MarshalIndent(v, "", " ")
			return out
		}
		wire := *d
		wire.Added, wire.Removed, wire.Vars, wire.OldVars = nil, nil, nil, nil
		if err := errors.Join(wire.SetAdded(rewrite(d.AddedJSON())), wire.SetRemoved(rewrite(d.RemovedJSON()))); err != nil {
			w.t.Fatal(err)
		}
		got, err := wire.Apply(a)
		if err != nil || got.Hash() != b.Hash() {
			w.t.Fatalf("%v: %s", err, d.AddedJSON())
		}
	})
}

func TestResultsAreSafeToShare(t *testing.T) {
	a, err := DecodeJSON(virtuosoBody(300, 0, 0), Select, Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := DecodeJSON(virtuosoBody(300, 10, 1), Select, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			switch i % 4 {
			case 0:
				Compare(a, b)
			case 1:
				b.Hash()
			case 2:
				b.Document()
			default:
				b.Row(0)
				b.Fingerprint()
			}
		})
	}
	all.Wait()
	if again, err := Decode(b.Document(), Select, false); err != nil || again.Hash() != b.Hash() {
		t.Error(err)
	}
}

// Moving a block costs its own length, whatever that is.
func TestMovesKeepTheRest(t *testing.T) {
	var rows []rune
	for i := range 400 {
		rows = append(rows, rune(0x4e00+i))
	}
	for _, n := range []int{1, 5, 20, 100} {
		moved := slices.Concat(rows[:50], rows[50+n:350], rows[50:50+n], rows[350:])
		d := Compare(bag(t, Options{Ordered: true}, string(rows)), bag(t, Options{Ordered: true}, string(moved)))
		if len(d.Added) != n || len(d.Removed) != n || d.Jaccard != 0 {
			t.Errorf("%d moved: %d added, %d removed, jaccard %v", n, len(d.Added), len(d.Removed), d.Jaccard)
		}
	}
}

// A row that was removed and returned between the same neighbours is unchanged: the
// composed step contains only the net change.
func TestComposedSequencesAreNet(t *testing.T) {
	o := Options{Ordered: true}
	for _, c := range []struct {
		from, by, to   string
		removed, added string
	}{
		{"abc", "ac", "abcd", "", "d"},
		{"abc", "axbc", "abc!", "", "!"},
		{"abcd", "ad", "abd", "c", ""},
		{"abcd", "", "abxcd", "", "x"},
	} {
		a, b, x := bag(t, o, c.from), bag(t, o, c.by), bag(t, o, c.to)
		d, err := Compose(Compare(a, b), Compare(b, x))
		if err != nil {
			t.Fatal(err)
		}
		if letters(d.Removed) != c.removed || letters(d.Added) != c.added {
			t.Errorf("%s → %s → %s: removed %q, added %q, want %q and %q", c.from, c.by, c.to, letters(d.Removed), letters(d.Added),
				c.removed, c.added)
		}
	}
}

// In an ordered result the position of a row is part of the fingerprint. An approximate
// result remains approximate when a delta is applied to it.
func TestFingerprintsKnowPlaces(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		o := Options{Ordered: ordered}
		if a, b := bag(t, o, "abc"), bag(t, o, "acb"); (a.Fingerprint() != b.Fingerprint()) != ordered {
			t.Errorf("ordered %t: the fingerprints of abc and acb say otherwise", ordered)
		}
	}
	old := poison(10)
	a := old.build(t)
	old.rows = append(old.rows, []Term{iri("http://s"), iri("http://p"), iri("http://o")})
	got, err := Compare(a, old.build(t)).Apply(a)
	if err != nil || !got.Approximate() {
		t.Errorf("%v, %v: not approximate any more", got, err)
	}
}

// A fingerprint tells results apart that differ in their rows or their head. White space,
// escapes, blank node labels and the order of rows make no difference.
func TestFingerprints(t *testing.T) {
	read := func(body string, o Options) *Result {
		r, err := DecodeJSON([]byte(body), Select, o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const head, x, y, blank = `{"head":{"vars":["x"]},"results":{"bindings":[`, `{"x":{"type":"uri","value":"x"}}`,
		`{"x":{"type":"uri","value":"y"}}`, `{"x":{"type":"bnode","value":"%s"}}`
	first := read(head+x+","+y+`]}}`, Options{})
	for body, same := range map[string]bool{
		head + x + ",\n " + y + `] }}`:                                             true,
		head + `{"x":{"value":"\u0078","type":"uri"}},` + y + `]}}`:                true,
		head + y + "," + x + `]}}`:                                                 true,
		head + x + "," + x + `]}}`:                                                 false,
		head + x + `]}}`:                                                           false,
		head + x + "," + y + "," + y + `]}}`:                                       false,
		`{"head":{"vars":["x","z"]},"results":{"bindings":[` + x + "," + y + `]}}`: false,
		head + `]}}`: false,
	} {
		if got := read(body, Options{}).Fingerprint() == first.Fingerprint(); got != same {
			t.Errorf("%s: the same fingerprint %t, want %t", body, got, same)
		}
	}
	a, b := fmt.Sprintf(blank, "a"), fmt.Sprintf(blank, "b")
	if read(head+a+","+x+`]}}`, Options{}).Fingerprint() != read(head+b+","+x+`]}}`, Options{}).Fingerprint() {
		t.Error("the label that an endpoint chose is part of the fingerprint")
	}
	if (&Result{form: Ask, boolean: true}).Fingerprint() == (&Result{form: Ask}).Fingerprint() {
		t.Error("yes and no have the same fingerprint")
	}

	// With other options, the same body is another result.
	const pairs = `{"head":{"vars":["k","x"]},"results":{"bindings":[{"k":{"type":"uri","value":"k"},"x":{"type":"uri",` +
		`"value":"y"}},{"k":{"type":"uri","value":"k"},"x":{"type":"uri","value":"x"}},{"k":{"type":"uri","value":"k"},` +
		`"x":{"type":"uri","value":"z"}}]}}`
	seen := map[Fingerprint]int{}
	for i, o := range []Options{{}, {Ordered: true}, {Ordered: true, OrderKeys: []string{"k"}}, {Vars: []string{"x", "k"}}} {
		r := read(pairs, o)
		if k, known := seen[r.Fingerprint()]; known {
			t.Errorf("options %d and %d give the same fingerprint", k, i)
		}
		seen[r.Fingerprint()] = i
	}
}

// Rows whose values differ only in where they end have different fingerprints. The sum is the
// same in any order and for a stored result, although the decoder parses the first row of
// each kind and copies the others.
func TestFingerprintsKnowLengths(t *testing.T) {
	const seed = 11
	random := rand.New(rand.NewPCG(seed, 0))
	for _, o := range []Options{{}, {Ordered: true}} {
		var rows []string
		seen := map[Fingerprint]string{}
		read := func(rows []string) *Result {
			r, err := DecodeJSON([]byte(`{"head":{"vars":["a","b"]},"results":{"bindings":[`+strings.Join(rows, ",")+`]}}`), Select, o)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		for a := range 40 {
			for b := range 40 {
				kind := []string{`"literal"`, `"uri"`, `"literal","xml:lang":"en"`}[(a+b)%3]
				row := fmt.Sprintf(`{"a":{"type":"literal","value":"%s"},"b":{"value":"%s","type":%s}}`, strings.Repeat("x", a),
					strings.Repeat(`\\`, b%2)+strings.Repeat("x", b), kind)
				rows = append(rows, row)
				if other, known := seen[read([]string{row}).Fingerprint()]; known {
					t.Fatalf("seed %d: the fingerprint of %s is that of %s", seed, row, other)
				}
				seen[read([]string{row}).Fingerprint()] = row
			}
		}
		first := read(rows)
		stored, err := Decode(first.Document(), Select, o.Ordered)
		if err != nil || stored.Fingerprint() != first.Fingerprint() {
			t.Errorf("seed %d, ordered %t: stored rows have another fingerprint, %v", seed, o.Ordered, err)
		}
		random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		if (read(rows).Fingerprint() != first.Fingerprint()) != o.Ordered {
			t.Errorf("seed %d, ordered %t: the fingerprint of rows in another order", seed, o.Ordered)
		}
		rows[3] = rows[5]
		if read(rows).Fingerprint() == first.Fingerprint() {
			t.Errorf("seed %d, ordered %t: the fingerprint does not count rows", seed, o.Ordered)
		}
	}
}

// The results are large enough for many blocks of rows, with repetitions and blank
// nodes. old is in order of arrival or as it comes from a store. The delta, the order
// and the hash equal those of a comparison by a map and of sorting.
func TestCompareIsPlain(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		form := []Form{Select, Construct, Ask}[r.IntN(3)]
		n, kinds := 1+r.IntN(1500), 1+r.IntN(2000)
		result := func(from int) *Result {
			b := NewBuilder(form, Options{KeepLabels: true})
			switch form {
			case Ask:
				_ = b.SetBoolean(r.IntN(2) == 0)
			case Select:
				_ = b.SetVars([]string{"x", "y"})
			}
			for range n {
				if form == Ask {
					break
				}
				x := Term{Kind: IRI, Value: fmt.Sprintf("http://x/%d", from+r.IntN(kinds))}
				y := []Term{blankTerm("b%d", r.IntN(9)), {Kind: Literal, Value: strings.Repeat("\n", r.IntN(3)), Lang: "en"}}[r.IntN(2)]
				if form == Select {
					_ = b.Row(x, y)
				} else {
					_ = b.Triple(x, iri("p"), y)
				}
			}
			res, err := b.Finish()
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		old, now := result(0), result(r.IntN(kinds+1))
		fresh, err := Decode(now.clone().Document(), form, false)
		if err != nil {
			t.Fatal(err)
		}
		if r.IntN(2) == 0 {
			stored, err := Decode(old.Document(), form, false)
			if err != nil {
				t.Fatal(err)
			}
			stored.KnownHash(old.Hash())
			old = stored
		}
		d := Compare(old, now)
		count := map[string]int{}
		for _, row := range old.All() {
			count[string(row)]--
		}
		for _, row := range fresh.All() {
			count[string(row)]++
		}
		var added, removed Rows
		for row, k := range count {
			for ; k > 0; k-- {
				added = append(added, []byte(row))
			}
			for ; k < 0; k++ {
				removed = append(removed, []byte(row))
			}
		}
		slices.SortFunc(added, bytes.Compare)
		slices.SortFunc(removed, bytes.Compare)
		if d == nil {
			d = &Delta{OldHash: old.Hash(), NewHash: fresh.Hash()}
			if len(added)+len(removed) > 0 || old.Hash() != fresh.Hash() {
				t.Fatalf("seed %d: no delta", seed)
			}
		}
		same := func(a, b Rows) bool {
			return slices.EqualFunc(a, b, func(x, y []byte) bool { return bytes.Equal(x, y) })
		}
		if !same(d.Added, added) || !same(d.Removed, removed) {
			t.Fatalf("seed %d: %d added, %d removed; want %d, %d", seed, len(d.Added), len(d.Removed), len(added), len(removed))
		}
		if d.NewHash != fresh.Hash() || now.Hash() != fresh.Hash() || !bytes.Equal(now.Document(), fresh.Document()) {
			t.Fatalf("seed %d: the inherited order gives another document", seed)
		}
	}
}

// clone returns the result in the state before anything was computed from it.
func (r *Result) clone() *Result {
	return &Result{form: r.form, ordered: r.ordered, boolean: r.boolean, vars: r.vars, text: r.text, rows: r.rows}
}
