package trace

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Drift changes habits in the middle of a trace: half of the queries that change stop, and others that never changed take
// over their changes and execution times. What a policy learned about them no longer
// holds. Changes per revision and total times stay.
func (t *Trace) Drift(seed uint64) error {
	r, after := rand.New(rand.NewPCG(seed, 0xd1b54a32d192ed03)), t.Revisions/2
	changes := map[int]bool{}
	for _, s := range t.Series {
		changes[s.Query] = true
	}
	var calm []int
	for q := range t.Queries {
		if !changes[q] {
			calm = append(calm, q)
		}
	}
	r.Shuffle(len(calm), func(i, j int) { calm[i], calm[j] = calm[j], calm[i] })
	turns := r.Perm(len(t.Series))[:min(len(t.Series)/2, len(calm))]
	for n, i := range turns {
		from, to := &t.Series[i], calm[n]
		k := slices.IndexFunc(from.Versions, func(v Version) bool { return v.Rev > after })
		if k < 0 {
			continue
		}
		heir := Series{Query: to, Versions: []Version{{Rows: slices.Clone(from.Versions[k-1].Rows)}}}
		heir.Versions = append(heir.Versions, from.Versions[k:]...)
		for _, row := range t.Times[after+1:] {
			row[from.Query], row[to] = row[to], row[from.Query]
		}
		from.Versions = from.Versions[:k:k]
		t.Series = append(t.Series, heir)
	}
	return t.Seal()
}

// Randomize lets each query change in random revisions, as often as before. So nothing but how often a query changes says
// when it does.
func (t *Trace) Randomize(seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 0xbf58476d1ce4e5b9))
	for _, s := range t.Series {
		at := r.Perm(t.Revisions)[:len(s.Versions)-1]
		slices.Sort(at)
		for i, rev := range at {
			s.Versions[i+1].Rev = rev + 1
		}
	}
	return t.Seal()
}

// Vary returns a copy in which each execution takes e^(deviation·z) times as long, at least a millisecond unless it takes none;
// z is drawn from the standard normal distribution. Simulations of several copies tell how much of a difference is chance.
func (t *Trace) Vary(seed uint64, deviation float64) *Trace {
	r := rand.New(rand.NewPCG(seed, 0x94d049bb133111eb))
	c := *t
	c.Times = make([][]int32, len(t.Times))
	for rev, row := range t.Times {
		c.Times[rev] = make([]int32, len(row))
		for q, ms := range row {
			varied := math.Round(float64(ms) * math.Exp(deviation*r.NormFloat64()))
			c.Times[rev][q] = max(min(1, ms), int32(min(varied, math.MaxInt32)))
		}
	}
	return &c
}
