package cohort

import (
	"math"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// A Kind is a way to ask.
type Kind string

// The kinds of requests.
const (
	Single Kind = "single" // one query
	Values Kind = "values" // a merged query for the complete results of several
	Probe  Kind = "probe"  // a merged query for digests of several results
)

// Kinds lists the kinds.
func Kinds() []Kind { return []Kind{Single, Values, Probe} }

const (
	// MaxMembers is the largest number of members of a request.
	MaxMembers = 256
	// MaxProofs is how many probes in a row may confirm a result before it is asked
	// for in full.
	MaxProofs = 31

	firstMembers = 16
	goodToGrow   = 128 // good requests before a limit doubles that a failure has set
	trialEvery   = 32
	// trialMembers are asked for in the first requests of a kind besides the first,
	// and in trials of one that costs a multiple. An endpoint may need seconds for
	// more.
	trialMembers = 8
	mostFailures = 8 // that make trials of a kind rarer
	maxTrial     = 4096
	auditEvery   = 100
	auditWithin  = time.Hour
	offFor       = 24 * time.Hour
)

// A Cohort holds what is known about the queries of one template at one endpoint.
type Cohort struct {
	Template string // its id
	Probes   bool   // a probe can confirm results of the template

	single    average
	merged    map[Kind]*merging
	rows      average // of a member
	turn      uint64
	answers   int // merged answers since the last audit
	audited   time.Time
	audits    uint64
	different uint64
	asks      map[Kind]uint64
	void      map[Kind]uint64
	members   map[Kind]uint64
	tried     map[Kind]uint64 // turn of the last request
	last      Kind
}

// merging is what is known about one kind of merged requests.
type merging struct {
	costs     costs
	sizes     average   // members of a request
	confirmed average   // part of the members that are confirmed
	limit     int       // members of a request at most
	good      int       // requests of that size since the limit was set
	failures  int       // of requests, mostFailures at most
	off       time.Time // until then the kind is not used
}

// New returns a cohort that has learnt nothing yet.
func New(template string, probes bool) *Cohort {
	return &Cohort{
		Template: template, Probes: probes, asks: map[Kind]uint64{}, void: map[Kind]uint64{}, members: map[Kind]uint64{},
		tried: map[Kind]uint64{}, last: Single,
		merged: map[Kind]*merging{Values: {limit: firstMembers}, Probe: {limit: firstMembers}},
	}
}

// Next returns how the next request asks, and for how many members at most. merge is
// the setting of the endpoint. without lists kinds that the first member cannot be asked by.
func (c *Cohort) Next(now time.Time, merge string, without ...Kind) (k Kind, members int) {
	if merge == registry.MergeOff || merge == "" {
		return Single, 1
	}
	turn := c.turn
	c.turn++
	k, trial := c.choose(merge, turn, c.usable(now, without))
	c.tried[k] = turn
	if k == Single {
		return Single, 1
	}
	members = c.merged[k].limit
	if trial {
		members = min(members, trialMembers)
	}
	if members < 2 {
		if !trial && turn%trialEvery != trialEvery-1 {
			return Single, 1
		}
		members = 2
	}
	return k, members
}

// choose returns the kind of the next request, and whether it is a trial.
func (c *Cohort) choose(merge string, turn uint64, kinds []Kind) (k Kind, trial bool) {
	if merge != registry.MergeAuto {
		for _, k := range []Kind{Kind(merge), Values} { // a probe cannot confirm everything
			if slices.Contains(kinds, k) {
				return k, false
			}
		}
		return Single, false
	}
	best, least := Single, math.Inf(1)
	for i, k := range kinds {
		per := c.perMember(k)
		if math.IsInf(per, 1) && c.untried(k) {
			return k, i > 0
		}
		if per < least {
			best, least = k, per
		}
	}
	for _, k := range kinds {
		if k != best && turn-c.tried[k] >= c.trialGap(k, least) {
			return k, true
		}
	}
	return best, false
}

// usable lists the kinds that may be used, in the order in which they are tried.
func (c *Cohort) usable(now time.Time, without []Kind) (list []Kind) {
	for _, k := range []Kind{Probe, Values} {
		if !now.Before(c.merged[k].off) && (k != Probe || c.Probes) && !slices.Contains(without, k) {
			list = append(list, k)
		}
	}
	return append(list, Single)
}

// untried reports whether no request of a kind has ended yet, before a restart either.
func (c *Cohort) untried(k Kind) bool {
	m := c.merged[k]
	return c.asks[k] == 0 && (m == nil || m.failures == 0)
}

// trialGap is after how many requests another kind than the cheapest is tried again. It
// grows with the cost, so that trials of a kind take a small part of all time, and with the
// failures of a kind that was never complete.
func (c *Cohort) trialGap(k Kind, least float64) uint64 {
	per := c.perMember(k)
	if m := c.merged[k]; m != nil && math.IsInf(per, 1) {
		return trialEvery * uint64(max(1, m.failures))
	}
	return uint64(min(maxTrial, max(1, per/max(least, 1e-9))*trialEvery))
}

// perMember is the expected seconds until a member is confirmed, or has been asked alone
// because it was not. It is infinite if they are not known. Kinds of merged requests are
// compared at the same size.
func (c *Cohort) perMember(k Kind) float64 {
	if k == Single {
		if c.single.n == 0 {
			return math.Inf(1)
		}
		return c.single.value
	}
	m := c.merged[k]
	if m.costs.n == 0 {
		return math.Inf(1)
	}
	size := min(float64(m.limit), max(c.merged[Values].sizes.value, c.merged[Probe].sizes.value))
	a, b, perRow := m.costs.coefficients()
	return a/size + b + perRow*c.rows.value + (1-m.confirmed.value)*c.single.value
}

// MeanRows is the expected number of rows of a member that has no result yet.
func (c *Cohort) MeanRows() int { return max(1, int(math.Ceil(c.rows.value))) }

// Alone is the mean time of a request for one member, 0 if none has ended.
func (c *Cohort) Alone() time.Duration {
	return time.Duration(c.single.value * float64(time.Second))
}

// Costs returns the expected seconds of a request: a, b per member, c per row.
func (c *Cohort) Costs(k Kind) (a, b, perRow float64) {
	if k == Single {
		return c.single.value, 0, 0
	}
	if m := c.merged[k]; m.costs.n > 0 {
		return m.costs.coefficients()
	}
	one := c.single.value
	if c.single.n == 0 {
		one = unknownCost
	}
	return one, one / 2, 0
}

// Marginal is the time that a member with rows adds to a merged request of the kind that
// was used last.
func (c *Cohort) Marginal(rows int) time.Duration {
	k := c.last
	if k == Single {
		k = Values
	}
	_, b, perRow := c.Costs(k)
	return time.Duration((b + perRow*float64(rows)) * float64(time.Second))
}

// unknownCost is the expected time of a request of which nothing is known, in seconds.
const unknownCost = 0.02

// Asked adds a complete request for members with rows in total. confirmed is the number
// of members that need not be asked alone.
func (c *Cohort) Asked(k Kind, members, rows, confirmed int, took time.Duration) {
	c.count(k, members)
	seconds := took.Seconds()
	if k == Single {
		c.single.add(seconds)
		c.rows.add(float64(rows))
		return
	}
	m := c.merged[k]
	m.costs.learn(members, rows, seconds)
	m.sizes.add(float64(members))
	m.confirmed.add(float64(confirmed) / float64(members))
	if k != Probe {
		c.rows.add(float64(rows) / float64(members))
	}
	if members < m.limit {
		return
	}
	if m.good++; m.failures == 0 || m.good >= goodToGrow || m.limit < 2 { // that was tried only once in a while
		m.limit, m.good = min(MaxMembers, 2*max(m.limit, members)), 0
	}
}

// Voided counts a request that says nothing about its members.
func (c *Cohort) Voided(k Kind, members int) {
	c.count(k, members)
	c.void[k]++
}

// Failed adds a request that says nothing about its members, and makes later ones smaller. undo takes the
// latter back.
func (c *Cohort) Failed(k Kind, members int) (undo func()) {
	c.Voided(k, members)
	m := c.merged[k]
	if m == nil {
		return func() {}
	}
	limit, good, failures := m.limit, m.good, m.failures
	c.Shrink(k, members)
	m.failures = min(mostFailures, m.failures+1)
	return func() { m.limit, m.good, m.failures = limit, good, failures }
}

// Shrink makes later requests of a kind smaller than one for a number of members.
func (c *Cohort) Shrink(k Kind, members int) {
	if m := c.merged[k]; m != nil {
		m.limit, m.good = max(1, min(m.limit, members/2)), 0
	}
}

func (c *Cohort) count(k Kind, members int) {
	c.asks[k]++
	c.members[k] += uint64(members)
	c.last = k
}

// Shares divides the time of a request among its members by their rows.
func (c *Cohort) Shares(k Kind, rows []int, took time.Duration) []time.Duration {
	a, b, perRow := c.Costs(k)
	weights, sum := make([]float64, len(rows)), 0.0
	for i, r := range rows {
		weights[i] = a/float64(len(rows)) + b + perRow*float64(r) + 1e-12
		sum += weights[i]
	}
	shares, left := make([]time.Duration, len(rows)), took
	for i, w := range weights {
		shares[i] = min(left, time.Duration(float64(took)*w/sum))
		left -= shares[i]
	}
	if len(shares) > 0 {
		shares[0] += left
	}
	return shares
}

// Audits returns how many members of a complete merged request are to be audited.
func (c *Cohort) Audits(now time.Time, members int) int {
	c.answers += members
	n := c.answers / auditEvery
	if n == 0 && (c.audited.IsZero() || now.Sub(c.audited) >= auditWithin || now.Before(c.audited)) {
		n = 1
	}
	if n > 0 {
		c.answers %= auditEvery
		c.audited = now
	}
	return min(n, members)
}

// Audited adds the result of an audit of an answer of a kind. A difference switches the
// kind off for a day.
func (c *Cohort) Audited(now time.Time, k Kind, same bool) {
	c.audits++
	if m := c.merged[k]; !same && m != nil {
		c.different++
		m.off = now.Add(offFor)
	}
}

// A Snapshot describes a cohort.
type Snapshot struct {
	Template  string          `json:"template"`
	Members   int             `json:"members"`
	Example   string          `json:"example,omitempty"` // id of one of them
	Kind      Kind            `json:"kind"`              // the one in use
	A         float64         `json:"a"`                 // seconds of a request of that kind
	B         float64         `json:"b"`                 // seconds per member
	C         float64         `json:"c"`                 // seconds per row
	Asks      map[Kind]uint64 `json:"asks"`
	Asked     map[Kind]uint64 `json:"asked_members"`
	Audits    uint64          `json:"audits"`
	Different uint64          `json:"audit_failures"`
	Void      map[Kind]uint64 `json:"void,omitempty"` // requests whose answer said nothing about their members
	Alone     int             `json:"alone"`          // members that are always asked alone
	// OffUntil says until when kinds are switched off.
	OffUntil map[Kind]time.Time `json:"off_until,omitempty"`
}

// Snapshot describes the cohort at a time.
func (c *Cohort) Snapshot(now time.Time) Snapshot {
	s := Snapshot{Template: c.Template, Kind: c.last, Asks: map[Kind]uint64{}, Asked: map[Kind]uint64{}, Void: map[Kind]uint64{},
		Audits: c.audits, Different: c.different}
	for _, k := range Kinds() {
		s.Asks[k], s.Asked[k], s.Void[k] = c.asks[k], c.members[k], c.void[k]
	}
	s.A, s.B, s.C = c.Costs(c.last)
	for k, m := range c.merged {
		if now.Before(m.off) {
			if s.OffUntil == nil {
				s.OffUntil = map[Kind]time.Time{}
			}
			s.OffUntil[k] = m.off
		}
	}
	return s
}
