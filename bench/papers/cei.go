package papers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/freshet/freshet/scheduler/rounds/interval"
	"github.com/freshet/freshet/scheduler/wic"
)

// A CEIWorkload is a set of complex execution intervals to be captured in chronons 1
// to K, with C probes in each, of resources 0 to N−1. The policy wic, which knows
// single resources alone, needs the updates besides.
//
// Source: H. Roitman, A. Gal, L. Raschid, "Query scheduling in the presence of
// complex user profiles", section 2.
type CEIWorkload struct {
	N       int        `json:"n"`
	K       int        `json:"K"`
	C       Capacity   `json:"C"`
	CEIs    []CEI      `json:"ceis"`
	Life    string     `json:"life,omitempty"` // "window" or "overwrite", for wic
	W       int        `json:"W"`
	Updates [][]uint64 `json:"updates,omitempty"` // chronons, by resource
}

// A CEI belongs to a profile. The rank of a profile is the size of the largest of
// its CEIs.
type CEI struct {
	Profile int                `json:"profile"`
	EIs     []interval.EI[int] `json:"eis"`
}

// A CEIResult is the result of a policy.
type CEIResult struct {
	Policy   string `json:"policy"`
	Captured int    `json:"captured"`
	// Completeness is the gained completeness, equation 1: the captured share of the CEIs.
	Completeness float64 `json:"completeness"`
	Probes       [][]int `json:"probes"` // resources of each chronon in the order chosen

	Elapsed time.Duration `json:"-"` // by choosing and capturing
}

// The policies of CEI workloads besides the rankings of package interval.
const (
	// wicPolicy probes the resources with the most pending updates.
	wicPolicy = "wic"
	// offlinePolicy knows all CEIs in advance, see offline.
	offlinePolicy = "offline"
	// singlePolicy treats each EI as a CEI of its own, as section 4.3 does. Its
	// completeness is the share of the EIs that it captures: earliest deadline first
	// and, for equal deadlines, most EIs to a probe. No policy captures a larger share of
	// the CEIs if all CEIs have the same number of EIs and either no two EIs share a
	// probe or every EI lasts one chronon.
	singlePolicy = "single"
)

// Policies returns the rankings, wic if the updates are known, the offline
// approximation and the bound.
func (l *CEIWorkload) Policies() []string {
	var list []string
	for _, r := range interval.Rankings() {
		list = append(list, r.String())
	}
	if l.Updates != nil {
		list = append(list, wicPolicy)
	}
	return append(list, offlinePolicy, singlePolicy)
}

// Check returns an error if the workload is invalid.
func (l *CEIWorkload) Check() error {
	if l.K < 1 || l.N < 0 {
		return fmt.Errorf("%w: %d chronons, %d resources", ErrWorkload, l.K, l.N)
	}
	if err := l.C.check(); err != nil {
		return err
	}
	for i, c := range l.CEIs {
		if len(c.EIs) == 0 {
			return fmt.Errorf("%w: CEI %d is empty", ErrWorkload, i)
		}
		for _, e := range c.EIs {
			if e.Resource < 0 || e.Resource >= l.N || e.Start < 1 || e.Start > e.Finish {
				return fmt.Errorf("%w: CEI %d asks for resource %d in chronons %d to %d", ErrWorkload, i, e.Resource, e.Start, e.Finish)
			}
		}
	}
	if l.Updates != nil && len(l.Updates) != l.N {
		return fmt.Errorf("%w: updates of %d resources, there are %d", ErrWorkload, len(l.Updates), l.N)
	}
	if l.Updates != nil && l.Life != wic.Window && l.Life != wic.Overwrite || l.W < 0 {
		return fmt.Errorf("%w: life is %q with W = %d; there are window and overwrite", ErrWorkload, l.Life, l.W)
	}
	return nil
}

// EIs returns the number of execution intervals.
func (l *CEIWorkload) EIs() (n int) {
	for _, c := range l.CEIs {
		n += len(c.EIs)
	}
	return n
}

// Run runs a policy.
func (l *CEIWorkload) Run(policy string) (Result, error) {
	r := interval.Ranking{Kind: interval.SEDF, Preemptive: true} // where the order does not matter
	w := newCEIRun(l)
	choose := w.claims
	switch policy {
	case wicPolicy:
		if l.Updates == nil {
			return nil, unknownPolicy(policy, l)
		}
		choose = newPendingUpdates(l).choose
	case offlinePolicy:
		choose = newOffline(l).choose
	case singlePolicy:
		w = newCEIRun(l.singles())
		choose = w.earliestDeadlines
	default:
		var err error
		if r, err = interval.ParseRanking(policy); err != nil {
			return nil, unknownPolicy(policy, l)
		}
	}
	out, err := w.play(r, choose)
	out.Policy = policy
	return out, err
}

// singles makes a CEI of each EI.
func (l *CEIWorkload) singles() *CEIWorkload {
	s := *l
	s.CEIs = nil
	for _, c := range l.CEIs {
		for i := range c.EIs {
			s.CEIs = append(s.CEIs, CEI{Profile: len(s.CEIs), EIs: c.EIs[i : i+1]})
		}
	}
	return &s
}

// A ceiRun runs a workload chronon by chronon. A CEI is revealed when the first
// of its EIs starts.
type ceiRun struct {
	l     *CEIWorkload
	pool  *interval.Pool[int]
	order []int // CEIs by their first start
	first []uint64
	ranks map[int]int
	next  int
}

func newCEIRun(l *CEIWorkload) *ceiRun {
	w := &ceiRun{l: l, order: make([]int, len(l.CEIs)), first: make([]uint64, len(l.CEIs)), ranks: map[int]int{}}
	for i, c := range l.CEIs {
		w.order[i], w.first[i] = i, c.EIs[0].Start
		for _, e := range c.EIs {
			w.first[i] = min(w.first[i], e.Start)
		}
		w.ranks[c.Profile] = max(w.ranks[c.Profile], len(c.EIs))
	}
	slices.SortStableFunc(w.order, func(a, b int) int { return int(w.first[a]) - int(w.first[b]) })
	return w
}

// play lets choose pick the resources of each chronon.
func (w *ceiRun) play(r interval.Ranking, choose func(t, c int) []int) (*CEIResult, error) {
	w.pool = interval.NewPool[int](r)
	out := &CEIResult{Probes: make([][]int, w.l.K)}
	start := time.Now()
	for t := 1; t <= w.l.K; t++ {
		w.pool.Advance(uint64(t))
		if err := w.reveal(uint64(t)); err != nil {
			return out, err
		}
		chosen := choose(t, w.l.C.At(t))
		out.Probes[t-1] = chosen
		for _, r := range chosen {
			for _, hit := range w.pool.Probe(r) {
				if hit.Left == 0 {
					out.Captured++
				}
			}
		}
	}
	out.Elapsed = time.Since(start)
	if n := len(w.l.CEIs); n > 0 {
		out.Completeness = float64(out.Captured) / float64(n)
	}
	return out, nil
}

func (w *ceiRun) reveal(t uint64) error {
	for ; w.next < len(w.order) && w.first[w.order[w.next]] <= t; w.next++ {
		i := w.order[w.next]
		c := w.l.CEIs[i]
		if err := w.pool.Open(interval.CEI[int]{ID: uint64(i), Rank: w.ranks[c.Profile], EIs: c.EIs}); err != nil {
			return err
		}
	}
	return nil
}

// claims returns the first c resources in the order of the pool.
func (w *ceiRun) claims(_, c int) []int {
	chosen := []int{}
	if c == 0 {
		return chosen
	}
	for _, claim := range w.pool.Order() {
		if chosen = append(chosen, claim.Resource); len(chosen) == c {
			break
		}
	}
	return chosen
}

// earliestDeadlines returns the c resources with the earliest deadlines. Of equal
// ones it prefers those of most EIs with that deadline.
func (w *ceiRun) earliestDeadlines(_, c int) []int {
	type need struct {
		finish uint64
		n      int
	}
	needs := map[int]need{}
	for _, claim := range w.pool.Claims() {
		n, asked := needs[claim.Resource]
		if !asked || claim.Finish < n.finish {
			n = need{finish: claim.Finish}
		}
		if claim.Finish == n.finish {
			n.n++
		}
		needs[claim.Resource] = n
	}
	resources := slices.Sorted(maps.Keys(needs))
	slices.SortStableFunc(resources, func(a, b int) int {
		return cmp.Or(cmp.Compare(needs[a].finish, needs[b].finish), cmp.Compare(needs[b].n, needs[a].n))
	})
	return append([]int{}, resources[:min(c, len(resources))]...)
}

// pendingUpdates is WIC as the paper uses it: with uniform urgency and π = 1 where a
// resource is updated, the gain of a resource is the number of its live uncaptured
// updates.
type pendingUpdates struct {
	l     *CEIWorkload
	pages []pendingPage
	gains []float64
}

type pendingPage struct {
	updates  []uint64 // ascending; nil if no CEI needs the resource
	from, to int      // range of the pending updates
}

func newPendingUpdates(l *CEIWorkload) *pendingUpdates {
	p := &pendingUpdates{l: l, pages: make([]pendingPage, l.N), gains: make([]float64, l.N)}
	for _, c := range l.CEIs {
		for _, e := range c.EIs {
			if page := &p.pages[e.Resource]; page.updates == nil {
				page.updates = slices.Sorted(slices.Values(l.Updates[e.Resource]))
			}
		}
	}
	return p
}

func (p *pendingUpdates) choose(t, c int) []int {
	for i := range p.pages {
		page := &p.pages[i]
		for page.to < len(page.updates) && page.updates[page.to] <= uint64(t) {
			page.to++
		}
		if p.l.Life == wic.Overwrite {
			page.from = max(page.from, page.to-1)
		}
		for p.l.Life == wic.Window && page.from < page.to && page.updates[page.from]+uint64(p.l.W) < uint64(t) {
			page.from++
		}
		p.gains[i] = float64(page.to - page.from)
	}
	chosen := wic.Top(p.gains, c)
	for _, i := range chosen {
		p.pages[i].from = p.pages[i].to
	}
	return chosen
}

// Cells returns the values of a table row.
func (r *CEIResult) Cells() []Cell {
	probes := 0
	for _, p := range r.Probes {
		probes += len(p)
	}
	return []Cell{
		{"captured", strconv.Itoa(r.Captured)}, {"completeness", fmt.Sprintf("%.3f", r.Completeness)}, {"probes", strconv.Itoa(probes)},
	}
}
