package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// digits is the precision, in bits, of the arithmetic that evaluates the formulas
// literally.
const digits = 1500

func exact(x float64) *big.Float { return new(big.Float).SetPrec(digits).SetFloat64(x) }

func multiplied(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(digits).Mul(a, b) }

func added(a, b *big.Float) *big.Float { return new(big.Float).SetPrec(digits).Add(a, b) }

// power is e^x for x ≤ 0: Taylor's series of x/2^64, squared 64 times.
func power(x *big.Float) *big.Float {
	small := exact(0).SetMantExp(x, -64)
	sum, term := exact(1), exact(1)
	for n := 1; n < 32; n++ {
		term = multiplied(term, small)
		term.Quo(term, exact(float64(n)))
		sum = added(sum, term)
	}
	for range 64 {
		sum = multiplied(sum, sum)
	}
	return sum
}

// decay is e^(−λ·age).
func decay(lambda float64, age uint64) *big.Float {
	return power(multiplied(exact(-lambda), exact(float64(age))))
}

// A past is a query's history, with the values that the formulas compute from it.
type past struct {
	id      string
	samples []Sample
	sum     float64    // of cr, in the arithmetic that its recurrence is defined in
	dyn     *big.Float // of dj
}

func (h *past) last() uint64 { return h.samples[len(h.samples)-1].Slot }

func (h *past) median() *big.Float {
	s := Stats{Samples: h.samples}
	return exact(float64(s.Median()))
}

// formulas returns the formula of a policy as POLICIES defines it: queries with the
// smallest value in slot i come first.
func formulas(spelling string, lambda float64) func(h *past, i uint64) *big.Float {
	return map[string]func(h *past, i uint64) *big.Float{
		"sjf": func(h *past, i uint64) *big.Float { return multiplied(decay(lambda, i-h.last()), h.median()) },
		"ljf": func(h *past, i uint64) *big.Float {
			return exact(0).Quo(decay(lambda, i-h.last()), h.median())
		},
		"cr": func(h *past, i uint64) *big.Float {
			return multiplied(exact(-h.sum), decay(lambda, i-h.last()))
		},
		"dj": func(h *past, i uint64) *big.Float {
			return exact(0).Neg(multiplied(h.dyn, decay(1, i-h.last())))
		},
	}[spelling]
}

// TestKeysAreTheFormulas compares the time-invariant keys with the formulas: both
// give the same order in every slot, ties included.
func TestKeysAreTheFormulas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"sjf", "ljf", "cr", "dj"}).Draw(t, "policy")
		lambda := rapid.SampledFrom([]float64{0, 0.5, 1, 0.01, 2.75}).Draw(t, "lambda")
		spelling := name
		if name != "dj" {
			spelling = fmt.Sprintf("%s:lambda=%g", name, lambda)
		}
		p, err := Parse(Definitions(), spelling)
		if err != nil {
			t.Fatal(err)
		}
		ms := rapid.SampledFrom([]int{1, 2, 3, 7, 1000, 1001, 50_000})
		jaccard := rapid.SampledFrom([]float64{1, 0.5, 1.0 / 3, 0.1, 1e-9})
		wait := rapid.SampledFrom([]uint64{1, 1, 1, 2, 3, 40, 900})
		var histories []*past
		keys := map[string]Key{}
		for n := range rapid.IntRange(2, 9).Draw(t, "queries") {
			h := &past{id: fmt.Sprintf("q%02d", n), dyn: exact(0)}
			var s Stats
			for k := range rapid.IntRange(1, 7).Draw(t, "executions") {
				x := Sample{Elapsed: time.Duration(ms.Draw(t, "ms")) * time.Millisecond}
				if k > 0 {
					x.Slot = s.Last + wait.Draw(t, "wait")
					if x.Changed = rapid.Bool().Draw(t, "changed"); x.Changed {
						x.Jaccard = jaccard.Draw(t, "jaccard")
					}
					found := -1.0
					if x.Changed {
						found = 1
					}
					h.sum = h.sum*math.Exp(-lambda*float64(x.Slot-s.Last)) + found
					h.dyn = added(multiplied(h.dyn, decay(1, x.Slot-s.Last)), exact(x.Jaccard))
					s.State = p.Fold(s.State, s.Last, x)
				}
				s.Remember(x)
				s.Executions++
				s.Last, s.Policy = x.Slot, p.String()
			}
			h.samples = s.Samples
			histories = append(histories, h)
			keys[h.id] = p.Key(&Candidate{Median: s.Median(), Stats: s, Query: query(h.id)})
		}
		formula := formulas(name, lambda)
		var newest uint64
		for _, h := range histories {
			newest = max(newest, h.last())
		}
		for _, slot := range []uint64{newest + 1, newest + 3000} {
			ranks := map[string]*big.Float{}
			for _, h := range histories {
				ranks[h.id] = formula(h, slot)
			}
			slices.SortFunc(histories, func(a, b *past) int {
				return cmp.Or(compare(ranks[a.id], ranks[b.id]), cmp.Compare(a.last(), b.last()), cmp.Compare(a.id, b.id))
			})
			byKey := slices.Clone(histories)
			slices.SortFunc(byKey, func(a, b *past) int {
				k, l := keys[a.id], keys[b.id]
				return cmp.Or(cmp.Compare(k.Class, l.Class), cmp.Compare(k.Value, l.Value), cmp.Compare(k.Low, l.Low),
					cmp.Compare(a.last(), b.last()), cmp.Compare(a.id, b.id))
			})
			for i, h := range byKey {
				if h.id != histories[i].id {
					t.Fatalf("%s in slot %d: place %d has %s, the formula says %s\nkey %v, rank %s\nwant %s",
						spelling, slot, i, h.id, histories[i].id, keys[h.id], ranks[h.id].Text('g', 30), ranks[histories[i].id].Text('g', 30))
				}
			}
		}
	})
}

// TestReadsTimes checks that the keys of exactly the policies that read no times are the
// same for every median and estimate.
func TestReadsTimes(t *testing.T) {
	for _, d := range append(Definitions(), Yardsticks()...) {
		p, err := Parse([]Definition{d}, d.Spelling())
		if err != nil {
			t.Fatal(err)
		}
		s := Stats{Last: 7, Executions: 3}
		for slot := range uint64(3) {
			s.State = p.Fold(s.State, slot, Sample{Slot: slot + 1, Elapsed: time.Second, Changed: true, Jaccard: 0.5})
		}
		key := func(took time.Duration) Key {
			c := &Candidate{Median: took, Estimate: took, Stats: s}
			if r, ranks := p.(Ranker); ranks && !NeedsOracle(p) {
				var memory any
				m := Moment{Slot: 9, Budget: time.Minute, Memory: &memory}
				return r.Rank(m, []*Candidate{c, {Estimate: time.Minute}}).Keys[0]
			}
			return p.Key(c)
		}
		if key(time.Millisecond) != key(50*time.Second) && !ReadsTimes(p) {
			t.Errorf("%s reads times", p)
		}
		if timeless := slices.Contains([]string{"rr", "cr", "dj", "ttl"}, d.Name); ReadsTimes(p) == timeless {
			t.Errorf("%s: ReadsTimes is %v", p, !timeless)
		}
	}
}

// compare treats values as equal if they differ only in the thousandth bit: that is
// the oracle's rounding.
func compare(a, b *big.Float) int {
	gap := added(a, exact(0).Neg(b))
	if gap.Sign() == 0 || a.Sign() != 0 && gap.MantExp(nil) < a.MantExp(nil)-1000 {
		return 0
	}
	return gap.Sign()
}

// A wide is accurate to thirty digits.
func TestWide(t *testing.T) {
	near := func(got wide, want *big.Float) bool {
		sum := added(exact(got.hi), exact(got.lo))
		gap := added(sum, exact(0).Neg(want))
		return gap.Sign() == 0 || gap.MantExp(nil) < max(want.MantExp(nil), -1)-98
	}
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(1e-300, 1e300).Draw(t, "x")
		// e^(ln x) is x: of the logarithm's 100 bits 10 are before the point.
		l := wide{hi: x}.log()
		back := power(multiplied(exact(-1), exact(0).Abs(added(exact(l.hi), exact(l.lo)))))
		if l.hi > 0 {
			back = exact(0).Quo(exact(1), back)
		}
		gap := added(back, exact(-x))
		if gap.Sign() != 0 && gap.MantExp(nil) > exact(x).MantExp(nil)-90 {
			t.Fatalf("ln %g is %v", x, l)
		}
		y := -rapid.Float64Range(0, 600).Draw(t, "y")
		if e := (wide{hi: y}).exp(); !near(e, power(exact(y))) {
			t.Fatalf("e^%g is %v", y, e)
		}
		a, b := rapid.Float64Range(-1e6, 1e6).Draw(t, "a"), rapid.Float64Range(-1e6, 1e6).Draw(t, "b")
		w := wide{hi: a}.times(wide{hi: b}).plus(wide{hi: x / 2}).minus(wide{hi: x / 2})
		// If a much larger number is added and subtracted again, bits are lost.
		if x/2 < math.Abs(a*b) && !near(w, multiplied(exact(a), exact(b))) && math.Abs(a*b) > 1 {
			t.Fatalf("%g·%g is %v", a, b, w)
		}
	})
}

// Logarithms of durations are the same with a table and without.
func TestLogOf(t *testing.T) {
	same := func(d time.Duration) {
		if got, want := logOf(d), (wide{hi: float64(d)}).log(); got != want {
			t.Errorf("the logarithm of %s is %v, want %v", d, got, want)
		}
	}
	for n := range 2 * halves {
		for _, off := range []time.Duration{-1, 0, 1} {
			same(max(0, time.Duration(n)*halfStep+off))
		}
	}
	same(math.MaxInt64)
}

// The largest lambda leaves an order, and the inputs of any key can be written as JSON.
func TestLargestLambda(t *testing.T) {
	for _, name := range []string{"sjf", "ljf", "cr"} {
		p, err := Parse(Definitions(), name+":lambda=1e6")
		if err != nil {
			t.Fatal(err)
		}
		for _, last := range []uint64{0, 1, 1 << 47} {
			for _, median := range []time.Duration{0, 1, time.Hour} {
				c := &Candidate{Median: median, Stats: Stats{Last: last, State: p.Fold(nil, 0, Sample{Slot: last, Changed: true})}}
				if k := p.Key(c); math.IsNaN(k.Value) || math.IsNaN(k.Low) {
					t.Errorf("%s, last %d, median %s: the key is %+v", name, last, median, k)
				}
				if _, err := json.Marshal(p.Inputs(Moment{Slot: last + 1}, Ranking{}, c)); err != nil {
					t.Errorf("%s, last %d, median %s: %v", name, last, median, err)
				}
			}
		}
	}
	if x := finite(math.NaN()); x != 0 {
		t.Errorf("what is not a number is %g", x)
	}
}
