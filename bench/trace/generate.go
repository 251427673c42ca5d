package trace

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// A Target holds the published statistics of a dataset's history. Generate makes a
// trace with the same statistics.
type Target struct {
	Name, Source string

	Queries   int
	Forms     map[string]int // how many queries have which form
	Revisions int
	Empty     int // revisions in which nothing changed
	Changing  int // queries that change at all
	Changes   int
	Once      int     // queries that change exactly once
	Twice     int     // exactly twice
	Most      int     // changes of the query that changes most often
	Crowd     int     // most queries that change in one revision
	Interval  float64 // mean hours between changes of a query, t0 counting as one
	Deviation float64 // their standard deviation
	Total     [2]float64
	Affected  float64 // most seconds that the queries that change in one revision take
	Burst     [2]int  // revisions with many more changes
}

// Knuth2016 returns the statistics that Knuth, Hartig, Sack publish about three
// months of DBpedia Live and 10,000 queries of its log.
func Knuth2016() Target {
	return Target{
		Name: "knuth2016", Source: "Knuth, Hartig, Sack 2016, section 5",
		Queries: 10000, Forms: map[string]int{"DESCRIBE": 11, "CONSTRUCT": 93, "ASK": 438, "SELECT": 9458},
		Revisions: 2208, Empty: 437, Changing: 352, Changes: 15256, Once: 191, Twice: 38, Most: 1765, Crowd: 32,
		Interval: 27.6, Deviation: 145.6, Total: [2]float64{440, 870}, Affected: 50.1, Burst: [2]int{624, 743},
	}
}

// Generate makes a trace with the statistics of a target. The same seed gives the
// same trace.
func Generate(ctx context.Context, l Target, seed uint64) (*Trace, error) {
	g := &generator{l: l, r: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))}
	g.empty()
	g.place()
	if err := g.fit(ctx); err != nil {
		return nil, err
	}
	t := &Trace{Queries: l.Queries, Revisions: l.Revisions}
	g.name(t)
	g.results(t)
	g.times(t)
	g.features(t)
	t.Templates = l.templates(seed)
	return t, t.Seal()
}

// A generator works on the queries that change, most changes first; name gives
// them their numbers.
type generator struct {
	l      Target
	r      *rand.Rand
	active []int   // revisions in which something changed
	load   []int   // queries that change, by revision
	at     [][]int // by changing query: the revisions in which it changes
	pinned []bool  // by changing query: not to be moved
	ids    []int
	ask    []bool
	noise  uint64
}

// empty draws the revisions without changes, none of them in the burst.
func (g *generator) empty() {
	all := make([]int, 0, g.l.Revisions)
	for rev := 1; rev <= g.l.Revisions; rev++ {
		if !g.burst(rev) {
			all = append(all, rev)
		}
	}
	g.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	idle := map[int]bool{}
	for _, rev := range all[:g.l.Empty] {
		idle[rev] = true
	}
	for rev := 1; rev <= g.l.Revisions; rev++ {
		if !idle[rev] {
			g.active = append(g.active, rev)
		}
	}
	g.load = make([]int, g.l.Revisions+1)
}

func (g *generator) burst(rev int) bool { return rev >= g.l.Burst[0] && rev <= g.l.Burst[1] }

// counts returns the changes of each changing query: a capped power law between the
// query that changes most and those that change twice.
func (g *generator) counts() []int {
	l := g.l
	middle := l.Changing - l.Once - l.Twice - 1
	sum := l.Changes - l.Once - 2*l.Twice - l.Most
	limit := 0.93 * float64(l.Most)
	shape := func(s float64) (list []int, sum int) {
		for k := 1; k <= middle; k++ {
			c := int(math.Round(min(limit, 3*math.Pow(float64(middle)/float64(k), s))))
			list = append(list, c)
			sum += c
		}
		return list, sum
	}
	low, high := 0.1, 6.0
	for range 60 {
		if _, n := shape((low + high) / 2); n < sum {
			low = (low + high) / 2
		} else {
			high = (low + high) / 2
		}
	}
	list, n := shape(low)
	for k := 4; n != sum; k = 4 + (k-3)%max(1, min(middle-4, 30)) { // the rest, one by one
		d := cmp.Compare(sum, n)
		list[k%middle] += d
		n += d
	}
	list = append([]int{l.Most}, list...)
	slices.SortFunc(list, func(a, b int) int { return cmp.Compare(b, a) })
	for range l.Twice {
		list = append(list, 2)
	}
	for range l.Once {
		list = append(list, 1)
	}
	return list
}

// place draws the revisions of all changes, at most Crowd in one.
func (g *generator) place() {
	counts := g.counts()
	g.at, g.pinned = make([][]int, len(counts)), make([]bool, len(counts))
	for k, n := range counts {
		if n > steady {
			g.at[k] = g.scattered(n)
		} else {
			g.at[k] = g.clustered(n)
		}
		for _, rev := range g.at[k] {
			g.load[rev]++
		}
	}
	g.crowd()
}

func (g *generator) full(rev int) bool { return g.load[rev] >= g.l.Crowd }

// steady is the number of changes above which a query changes all the time. Other
// queries have periods without changes.
const steady = 60

// scattered draws n active revisions evenly.
func (g *generator) scattered(n int) []int {
	list := slices.DeleteFunc(slices.Clone(g.active), g.full)
	g.r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	list = list[:n]
	slices.Sort(list)
	return list
}

// clustered draws n revisions in a few periods of frequent changes, because real
// results change in very irregular intervals.
func (g *generator) clustered(n int) []int {
	took := map[int]bool{}
	chance := 0.03 + 0.2*g.r.Float64()
	left := 0
	for i := 0; len(took) < n; i++ {
		if left <= 0 || i >= len(g.active) {
			i, left = g.somewhere(), 1+int(g.r.ExpFloat64()*float64(n)/(1+2*g.r.Float64()))
		}
		if rev := g.active[i]; !took[rev] && !g.full(rev) && (n == 1 || g.r.Float64() < chance) {
			took[rev] = true
			left--
		} else if took[rev] {
			left--
		}
	}
	list := make([]int, 0, n)
	for rev := range took {
		list = append(list, rev)
	}
	slices.Sort(list)
	return list
}

// somewhere draws an index in g.active. A third of the draws lie in the burst.
func (g *generator) somewhere() int {
	if g.r.IntN(3) == 0 {
		rev := g.l.Burst[0] + g.r.IntN(g.l.Burst[1]-g.l.Burst[0]+1)
		i, _ := slices.BinarySearch(g.active, rev)
		return min(i, len(g.active)-1)
	}
	return g.r.IntN(len(g.active))
}

// crowd moves single changes into one revision of the burst until it has the maximum
// number of changes.
func (g *generator) crowd() {
	top := g.l.Burst[0]
	for rev := g.l.Burst[0]; rev <= g.l.Burst[1]; rev++ {
		if g.load[rev] > g.load[top] {
			top = rev
		}
	}
	for k := len(g.at) - 1; k >= 0 && g.load[top] < g.l.Crowd; k-- {
		if len(g.at[k]) == 1 && g.at[k][0] != top {
			g.move(k, 0, top)
			g.pinned[k] = true
		}
	}
	for k := range g.at {
		if slices.Contains(g.at[k], top) {
			g.pinned[k] = true
		}
	}
}

func (g *generator) move(k, i, to int) {
	g.load[g.at[k][i]]--
	g.load[to]++
	g.at[k][i] = to
	slices.Sort(g.at[k])
}

// intervals returns the number, sum and sum of squares of the times between the
// changes of one query, beginning at t0.
func intervals(at []int) (n, sum, squares float64) {
	last := 0
	for _, rev := range at {
		d := float64(rev - last)
		n, sum, squares, last = n+1, sum+d, squares+d*d, rev
	}
	return n, sum, squares
}

// fit moves the changes of queries that change rarely until the intervals have the
// target's mean and deviation.
func (g *generator) fit(ctx context.Context) error {
	var n, sum, squares float64
	var rare []int
	for k, at := range g.at {
		a, b, c := intervals(at)
		n, sum, squares = n+a, sum+b, squares+c
		if len(at) <= 12 && !g.pinned[k] {
			rare = append(rare, k)
		}
	}
	off := func(sum, squares float64) float64 {
		mean := sum / n
		deviation := math.Sqrt(max(0, squares/n-mean*mean))
		return math.Abs(mean-g.l.Interval)/g.l.Interval + math.Abs(deviation-g.l.Deviation)/g.l.Deviation
	}
	now := off(sum, squares)
	for try := 0; now > 2e-4; try++ {
		if try%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if try > 2_000_000 {
			return fmt.Errorf("generate: the intervals cannot be brought to %.1f h ± %.1f h", g.l.Interval, g.l.Deviation)
		}
		k := rare[g.r.IntN(len(rare))]
		i, to := g.r.IntN(len(g.at[k])), g.active[g.r.IntN(len(g.active))]
		if slices.Contains(g.at[k], to) || g.load[to] >= g.l.Crowd-1 {
			continue
		}
		old := slices.Clone(g.at[k])
		_, b, c := intervals(old)
		g.move(k, i, to)
		_, b2, c2 := intervals(g.at[k])
		if then := off(sum-b+b2, squares-c+c2); then < now {
			now, sum, squares = then, sum-b+b2, squares-c+c2
			continue
		}
		g.load[to]--
		g.load[old[i]]++
		g.at[k] = old
	}
	return nil
}

// name draws the numbers of the changing queries.
func (g *generator) name(t *Trace) {
	g.ids = g.r.Perm(t.Queries)[:len(g.at)]
	g.ask = make([]bool, len(g.at))
	share := float64(g.l.Forms["ASK"]) / float64(g.l.Queries)
	for k := range g.at {
		g.ask[k] = len(g.at[k]) <= 2 && g.r.Float64() < 2*share
	}
}

// results draws the results of the changing queries. A change replaces some or all
// rows; that of an ASK query inverts it.
func (g *generator) results(t *Trace) {
	next := int64(2) // 0 and 1 are the answers of ASK
	rows := func(n int) []int64 {
		out := make([]int64, n)
		for i := range out {
			out[i] = next
			next++
		}
		return out
	}
	for k, at := range g.at {
		s := Series{Query: g.ids[k]}
		now := []int64{int64(k % 2)}
		share := 1.0
		if !g.ask[k] {
			now = rows(int(math.Exp(g.r.Float64() * math.Log(300))))
			share = math.Pow(g.r.Float64(), 2)
		}
		s.Versions = append(s.Versions, Version{Rows: now})
		for _, rev := range at {
			if g.ask[k] {
				now = []int64{1 - now[0]}
			} else {
				gone := min(len(now), 1+g.r.IntN(1+int(share*float64(len(now)))))
				grown := max(1, gone+g.r.IntN(3)-1)
				now = append(slices.Clone(now[gone:]), rows(grown)...)
			}
			s.Versions = append(s.Versions, Version{Rev: rev, Rows: now})
		}
		t.Series = append(t.Series, s)
	}
}

// Of the distinct queries of a DBpedia log of 2016, 89 % belong to 60 simple templates.
const (
	templateCount = 60
	templateShare = 0.89
)

// templates draws the templates of the queries. The first template is the largest: the
// k-th has a size in proportion to 1/k. A template says nothing about times and changes.
func (l Target) templates(seed uint64) []int {
	r := rand.New(rand.NewPCG(seed, 0x94d049bb133111eb))
	list, sum := make([]int, l.Queries), 0.0
	for k := 1; k <= templateCount; k++ {
		sum += 1 / float64(k)
	}
	next := 0
	for k := 1; k <= templateCount; k++ {
		n := int(templateShare * float64(l.Queries) / (float64(k) * sum))
		for range n {
			list[next] = k
			next++
		}
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}
