package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// A Policy orders an endpoint's queries and learns from their executions. It is
// pure: the same arguments give the same results, and it neither modifies nor keeps
// its arguments. What it has to remember about a query is in Stats.State, which is
// nil until the first sample after the baseline.
//
// A policy whose keys change from slot to slot, or depend on one another, also
// implements Ranker.
type Policy interface {
	// String is the canonical spelling; Parse reads it.
	String() string
	// Fold returns the state after sample x. last is the slot of the previous
	// complete execution. The baseline at t0 is not folded.
	Fold(state []float64, last uint64, x Sample) []float64
	// Key is the place of a query in the order. Between two complete executions of
	// the query it does not change, so that the cost of a slot grows with what it
	// executes and not with what is registered.
	Key(c *Candidate) Key
	// Inputs returns, by name, the numbers that the query's place was computed from.
	// Explanations show them. r is the Ranking of the slot, zero for a policy that is no
	// Ranker.
	Inputs(m Moment, r Ranking, c *Candidate) map[string]float64
}

// ReadsTimes reports whether a policy may read Candidate.Median or Candidate.Estimate. A
// simulation need not compute what is never read.
func ReadsTimes(p Policy) bool {
	switch p.(type) {
	case rr, cr, dj, ttl:
		return false
	}
	return true
}

// A Ranker is a policy that needs all eligible queries at once. Rank is called at
// the start of each slot and returns their keys. The order of the slice all has no
// meaning. A query whose Due is a later slot does not run in this one.
type Ranker interface {
	Policy
	Rank(m Moment, all []*Candidate) Ranking
}

// A WholeRanker is a Ranker that leaves no query out: a slot that holds all of them runs all.
// A simulation need not rank such a slot.
type WholeRanker interface {
	Ranker
	RanksAll()
}

// A Ranking is the order of a slot, and information about the slot.
type Ranking struct {
	Keys []Key // of the queries, in the order of the slice; not used after the next Rank
	// Stretch is the factor by which waits and deadlines are longer than asked for
	// because the budget is too small, 0 if it suffices.
	Stretch float64
	Inputs  map[string]float64 // numbers about the endpoint as a whole, for explanations
	Memo    any                // what Inputs needs to know about the slot
	// Evidence says what the complete executions of queries show about the slot. Once its
	// sum exceeds Enough, the queries that have not started are ranked again, with
	// Moment.Turned set. That happens once in a slot.
	Evidence map[*Candidate]Evidence
	Enough   float64
}

// Evidence is what an execution that finds no change, or one, adds to the sum.
type Evidence struct{ Same, Changed float64 }

// A Moment describes the slot that starts.
type Moment struct {
	Slot   uint64
	Budget time.Duration
	Now    time.Time     // when it starts
	Lead   time.Duration // from its grid time to the next, 0 when there is no grid
	Shared []float64     // the endpoint's state, see Collective; nil for other policies
	// Turned reports that the slot is in progress and Ranking.Evidence was enough: only
	// queries that have not started are ranked.
	Turned bool
	// Memory may hold what a Ranker keeps for the endpoint until the next slot to be
	// quick. It may be lost at any time. Moved lists the places of Rank's slice whose
	// query has changed, or is another one, since the last Rank; longer slices have new
	// queries at their end.
	Memory *any
	Moved  []int
}

// A Candidate is one query as a policy sees it.
type Candidate struct {
	Median       time.Duration // of the executions in Stats.Samples, 0 if there are none
	Estimate     time.Duration // the larger of Median and Stats.Floor
	Overdue      uint64        // slot in which max_staleness made it due, 0 = not since the last complete execution
	MaxStaleness time.Duration // the smallest of its holders' values, 0 = none
	Hinted       bool          // a hint says that it may have changed since the last complete execution
	Shown        Shown         // what the answers of the slot show about the hint
	Number       int32         // index among the endpoint's queries, for the planner
	Prefix       uint64        // the first bytes of the id, for the planner
	short        [2]float64    // space for a short state; without one, for what a policy has computed from state and query
	Stats        Stats
	Query        registry.Query
}

// Shown is what the answers of a slot show about a hint. An endpoint may lag behind what it is hinted about. Then a query is
// asked again, but the hint counts once: as false until an answer has changed.
type Shown uint8

// What answers show. The zero value says that the last one decides: the hint is true if it has changed.
const (
	ShownTrue  Shown = iota + 1 // that it is true, by an earlier answer of the slot
	ShownLate                   // that it is true, although an earlier slot has counted it as false
	ShownAgain                  // nothing that an earlier slot has not counted
)

// SetState sets the state of the query. A short one is copied into the candidate
// itself and overwrites the one before; a longer one is kept as it is.
func (c *Candidate) SetState(state []float64) {
	if n := len(state); n > 0 && n <= len(c.short) {
		state = c.short[:copy(c.short[:], state):n]
	} else {
		c.short = [2]float64{}
	}
	c.Stats.State = state
}

// SetQuery sets the query and its holders.
func (c *Candidate) SetQuery(q registry.Query) {
	c.Query, c.MaxStaleness = q, q.MaxStaleness()
	if len(c.Stats.State) > len(c.short) {
		c.short = [2]float64{}
	}
}

// A Key is a place in an order: by Class, then by Value, then by Low, ascending.
// Ties go to the smaller Stats.Last, then to the smaller id.
type Key struct {
	Due   uint64 // selective policies: not before this slot
	Class int    // from 0 to 1000
	Value float64
	Low   float64 // the digits of Value that do not fit into one float
}

// ErrPolicy is wrapped by the errors about policy spellings.
var ErrPolicy = errors.New("bad policy")

// A Definition describes one policy of the table.
type Definition struct {
	Name   string
	Params []Param
	Doc    string // one line
	Source string
	// Simulated policies need knowledge that no client has. They run only in
	// simulations.
	Simulated bool

	Build func(Args) (Policy, error)
}

// A Param is one parameter of a policy. It is written name=value. If Values lists
// the possible words, the word alone is enough.
type Param struct {
	Name    string
	Default string
	Values  []string
	Doc     string
	// Optional parameters are left out of the canonical spelling if they have their
	// default.
	Optional bool
}

// Definitions lists the policies of this package that a live endpoint can have.
func Definitions() []Definition {
	return []Definition{
		rrDefinition(), sjfDefinition(), ljfDefinition(), crDefinition(), djDefinition(), ttlDefinition(),
		sqrtDefinition(), wicDefinition(), supDefinition(), fbsupDefinition(),
	}
}

// Parse reads a spelling such as "rr" or "ttl:max=32:reset" of a policy in the
// table. A parameter that is left out has its default.
func Parse(table []Definition, spelling string) (Policy, error) {
	name, rest, more := strings.Cut(spelling, ":")
	i := slices.IndexFunc(table, func(d Definition) bool { return d.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w %q: the known ones are %s", ErrPolicy, spelling, spellings(table))
	}
	var words []string
	if more {
		words = strings.Split(rest, ":")
	}
	a, err := table[i].arguments(words)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrPolicy, spelling, err)
	}
	p, err := table[i].Build(a)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w", ErrPolicy, spelling, err)
	}
	return p, nil
}

func spellings(table []Definition) string {
	all := make([]string, len(table))
	for i, d := range table {
		all[i] = d.Spelling()
	}
	return strings.Join(all, ", ")
}

// Spelling returns the spelling of the policy with all defaults.
func (d Definition) Spelling() string {
	words := []string{d.Name}
	for _, p := range d.Params {
		if p.Optional {
			continue
		}
		if p.Values != nil {
			words = append(words, p.Default)
		} else {
			words = append(words, p.Name+"="+p.Default)
		}
	}
	return strings.Join(words, ":")
}

// Args are the parameters by name, with defaults filled in.
type Args map[string]string

func (d Definition) arguments(words []string) (Args, error) {
	a := Args{}
	for _, w := range words {
		name, value, err := d.argument(w)
		if err != nil {
			return nil, err
		}
		if _, twice := a[name]; twice {
			return nil, fmt.Errorf("%s is given twice", name)
		}
		a[name] = value
	}
	for _, p := range d.Params {
		if _, ok := a[p.Name]; !ok {
			a[p.Name] = p.Default
		}
	}
	return a, nil
}

func (d Definition) argument(word string) (name, value string, err error) {
	name, value, named := strings.Cut(word, "=")
	for _, p := range d.Params {
		switch {
		case named && p.Name == name && (p.Values == nil || slices.Contains(p.Values, value)):
			return name, value, nil
		case named && p.Name == name:
			return "", "", fmt.Errorf("%s is one of %s", name, strings.Join(p.Values, ", "))
		case !named && slices.Contains(p.Values, word):
			return p.Name, word, nil
		}
	}
	return "", "", fmt.Errorf("%q is no parameter of it; it is written %s", word, d.Spelling())
}

// Number returns a parameter that is a finite number of at least 0.
func (a Args) Number(name string) (float64, error) {
	x, err := strconv.ParseFloat(a[name], 64)
	if err != nil || !(x >= 0 && x <= math.MaxFloat64) {
		return 0, fmt.Errorf("%s=%s is not a number from 0", name, a[name])
	}
	return math.Abs(x), nil // −0 is 0
}

// decay returns the parameter lambda. From a few hundred on, a slot of age decides alone; larger ones than this bound
// would only overflow.
func (a Args) decay() (float64, error) {
	const most = 1e6
	l, err := a.Number("lambda")
	return min(l, most), err
}

// FormatNumber returns the shortest text of a number.
func FormatNumber(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// Count returns a parameter that is a whole number of at least 1.
func (a Args) Count(name string) (uint64, error) {
	n, err := strconv.ParseUint(a[name], 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%s=%s is not a whole number from 1 to %d", name, a[name], uint32(1<<32-1))
	}
	return n, nil
}
