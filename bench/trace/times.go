package trace

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// Execution times are drawn like those of a public endpoint: most queries take some
// milliseconds, and a few take half of the total. Queries whose results change often
// cost more than others, because they read more.
const (
	usual        = 0.011 // seconds, median of queries that hardly change
	spread       = 1.1   // deviation of the logarithm
	expensive    = 6     // queries that take very long
	expensiveMin = 22.0  // seconds
	expensiveMax = 50.0
)

// busy holds the usual time of queries with at least so many changes, and the
// deviation of its logarithm. The busiest queries take most of the time of all
// changing queries.
var busy = []struct {
	changes         int
	seconds, spread float64
}{{1000, 1.5, 0.15}, {100, 0.6, 0.4}, {3, 0.03, 1}}

// times draws the execution times. The load of a revision scales all of its times, so
// that the totals span the target's range.
func (g *generator) times(t *Trace) {
	cost, goal := g.costs(t), g.totals()
	changed := make([][]int, t.Revisions+1)
	for k, at := range g.at {
		for _, rev := range at {
			changed[rev] = append(changed[rev], g.ids[k])
		}
	}
	changing := map[int]bool{}
	for _, q := range g.ids {
		changing[q] = true
	}
	noise := make([]float64, t.Queries)
	for rev := range goal {
		factor := goal[rev] / g.wobble(rev, cost, noise)
		row := make([]int32, t.Queries)
		sum, longest := 0.0, 0
		for q := range row {
			row[q] = int32(max(1, math.Round(cost[q]*noise[q]*factor*1000)))
			sum += float64(row[q])
			if row[q] > row[longest] && !changing[q] {
				longest = q
			}
		}
		row[longest] += int32(math.Round(goal[rev]*1000 - sum)) // what rounding took
		t.Times = append(t.Times, row)
	}
	g.slow(t, changed)
}

// slow makes one execution so slow that the changed queries of its revision take the
// target's maximum. The other queries of the revision get faster, so that the total
// stays.
func (g *generator) slow(t *Trace, changed [][]int) {
	k := len(g.at) - 1 // it changes once
	q, rev := g.ids[k], g.at[k][0]
	row := t.Times[rev]
	rest := int32(math.Round(g.l.Affected * 1000))
	for _, o := range changed[rev] {
		if o != q {
			rest -= row[o]
		}
	}
	more := rest - row[q]
	row[q] = rest
	for more > 0 {
		longest := 0
		for o, ms := range row {
			if o != q && ms > row[longest] {
				longest = o
			}
		}
		take := min(more, row[longest]/4+1)
		row[longest] -= take
		more -= take
	}
}

// wobble draws the factors between the usual times and those of a revision, and
// returns the sum of the times.
func (g *generator) wobble(rev int, cost, noise []float64) (sum float64) {
	x := uint64(rev)*0x9e3779b97f4a7c15 + g.noise
	for q := range noise {
		x += 0x9e3779b97f4a7c15
		z := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		noise[q] = 0.8 + 0.4*float64(z>>11)/(1<<53)
		sum += cost[q] * noise[q]
	}
	return sum
}

// costs draws the usual times of the queries, in seconds.
func (g *generator) costs(t *Trace) []float64 {
	cost := make([]float64, t.Queries)
	for q := range cost {
		cost[q] = usual * math.Exp(spread*g.r.NormFloat64())
	}
	for k, q := range g.ids {
		for _, c := range busy {
			if len(g.at[k]) >= c.changes {
				cost[q] = c.seconds * math.Exp(c.spread*g.r.NormFloat64())
				break
			}
		}
	}
	for n := 0; n < expensive; {
		if q := g.r.IntN(t.Queries); !slices.Contains(g.ids, q) && cost[q] < expensiveMin {
			cost[q] = expensiveMin + (expensiveMax-expensiveMin)*(float64(n)+g.r.Float64())/expensive
			n++
		}
	}
	g.noise = g.r.Uint64()
	return cost
}

// totals draws the total seconds of each revision: a slow walk that reaches both ends
// of the range.
func (g *generator) totals() []float64 {
	walk := make([]float64, g.l.Revisions+1)
	v := 0.0
	for i := range walk {
		v = 0.95*v + g.r.NormFloat64()
		walk[i] = v + 0.5*g.r.ExpFloat64()
	}
	low, high := slices.Min(walk), slices.Max(walk)
	for i, x := range walk {
		u := (x - low) / (high - low)
		walk[i] = g.l.Total[0] + (g.l.Total[1]-g.l.Total[0])*u*u*u
	}
	return walk
}

// features draws the topics of queries, one or two for each. Queries that change at
// the same time share a topic more often.
func (g *generator) features(t *Trace) {
	topics := max(1, t.Queries/25)
	t.Features = make([][]int, t.Queries)
	for q := range t.Features {
		t.Features[q] = []int{g.r.IntN(topics)}
		if g.r.IntN(2) == 0 {
			t.Features[q] = append(t.Features[q], g.r.IntN(topics))
		}
	}
	for k, at := range g.at {
		if len(at) > 0 && g.r.IntN(3) > 0 {
			t.Features[g.ids[k]] = append(t.Features[g.ids[k]], topics+at[0]/24)
		}
	}
}

// A Statistic is one value of a trace beside its target.
type Statistic struct {
	Name   string
	Value  float64
	Target float64
	Digits int // after the point, as published
}

// Holds reports whether the value, rounded as published, equals the target.
func (s Statistic) Holds() bool {
	scale := math.Pow10(s.Digits)
	return math.Round(s.Value*scale) == math.Round(s.Target*scale)
}

// Compare compares a trace with the published values.
func (l Target) Compare(t *Trace) []Statistic {
	m := measure(t, l.Burst)
	exact := func(name string, v, target int) Statistic {
		return Statistic{Name: name, Value: float64(v), Target: float64(target)}
	}
	idle := t.Revisions - m.active
	return []Statistic{
		exact("queries", t.Queries, l.Queries),
		exact("revisions", t.Revisions, l.Revisions),
		exact("revisions without change", idle, l.Empty),
		exact("queries that change", m.changing, l.Changing),
		exact("changes", m.changes, l.Changes),
		exact("queries that change once", m.times[1], l.Once),
		exact("queries that change twice", m.times[2], l.Twice),
		exact("changes of the one that changes most", m.most, l.Most),
		exact("most queries that change in a revision", m.crowd, l.Crowd),
		{"mean interval, h", m.mean, l.Interval, 1},
		{"standard deviation of intervals, h", m.deviation, l.Deviation, 1},
		{"least total runtime of a revision, s", m.total[0], l.Total[0], 0},
		{"most total runtime of a revision, s", m.total[1], l.Total[1], 0},
		{"most runtime of changed queries, s", m.affected, l.Affected, 1},
	}
}

type measures struct {
	active, changing, changes, most, crowd int
	times                                  map[int]int
	mean, deviation, affected              float64
	total                                  [2]float64
	inBurst                                float64 // changes a revision there, of those elsewhere
}

func measure(t *Trace, burst [2]int) measures {
	m := measures{times: map[int]int{}, total: [2]float64{math.Inf(1), 0}}
	load := make([]int, t.Revisions+1)
	cost := make([]int64, t.Revisions+1)
	var n, sum, squares float64
	for _, s := range t.Series {
		changes := len(s.Versions) - 1
		m.times[changes]++
		m.changes += changes
		m.most = max(m.most, changes)
		if changes > 0 {
			m.changing++
		}
		var at []int
		for _, v := range s.Versions[1:] {
			at = append(at, v.Rev)
			load[v.Rev]++
			cost[v.Rev] += int64(t.Times[v.Rev][s.Query])
		}
		a, b, c := intervals(at)
		n, sum, squares = n+a, sum+b, squares+c
	}
	if n > 0 {
		m.mean = sum / n
		m.deviation = math.Sqrt(squares/n - m.mean*m.mean)
	}
	var in, out, inN, outN float64
	for rev := 1; rev <= t.Revisions; rev++ {
		if load[rev] > 0 {
			m.active++
		}
		m.crowd = max(m.crowd, load[rev])
		m.affected = max(m.affected, float64(cost[rev])/1000)
		all := int64(0)
		for _, ms := range t.Times[rev] {
			all += int64(ms)
		}
		m.total[0], m.total[1] = min(m.total[0], float64(all)/1000), max(m.total[1], float64(all)/1000)
		if rev >= burst[0] && rev <= burst[1] {
			in, inN = in+float64(load[rev]), inN+1
		} else {
			out, outN = out+float64(load[rev]), outN+1
		}
	}
	m.inBurst = (in / max(1, inN)) / max(1e-9, out/max(1, outN))
	return m
}

// WriteCheck prints every statistic beside its target.
func (l Target) WriteCheck(w io.Writer, t *Trace) error {
	tab := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(tab, "%s\tthis trace\tpublished\t\n", l.Source)
	for _, s := range l.Compare(t) {
		verdict := "as published"
		if !s.Holds() {
			verdict = "differs"
		}
		fmt.Fprintf(tab, "%s\t%.*f\t%.*f\t%s\n", s.Name, s.Digits, s.Value, s.Digits, s.Target, verdict)
	}
	m := measure(t, l.Burst)
	fmt.Fprintf(tab, "changes a revision in the burst (%d to %d), of those elsewhere\t%.1f times\t–\t\n", l.Burst[0], l.Burst[1], m.inBurst)
	for _, form := range []string{"SELECT", "ASK", "CONSTRUCT", "DESCRIBE"} {
		fmt.Fprintf(tab, "%s queries\t%d\t%d\tby definition\n", form, l.Forms[form], l.Forms[form])
	}
	return tab.Flush()
}
