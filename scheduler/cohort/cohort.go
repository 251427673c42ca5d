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

	known   State
	asks    map[Kind]uint64
	void    map[Kind]uint64
	members map[Kind]uint64
	tried   map[Kind]uint64 // turn of the last request
}

// New returns a cohort that has learnt nothing yet.
func New(template string, probes bool) *Cohort {
	return &Cohort{
		Template: template, Probes: probes, asks: map[Kind]uint64{}, void: map[Kind]uint64{}, members: map[Kind]uint64{},
		tried: map[Kind]uint64{},
		known: State{Kind: Single, Merged: map[Kind]*KindState{Values: {Limit: firstMembers}, Probe: {Limit: firstMembers}}},
	}
}

// Next returns how the next request asks, and for how many members at most. merge is
// the setting of the endpoint. without lists kinds that the first member cannot be asked by.
func (c *Cohort) Next(now time.Time, merge string, without ...Kind) (k Kind, members int) {
	if merge == registry.MergeOff || merge == "" {
		return Single, 1
	}
	turn := c.known.Turn
	c.known.Turn++
	k, trial := c.choose(merge, turn, c.usable(now, without))
	c.tried[k] = turn
	if k == Single {
		return Single, 1
	}
	members = c.known.Merged[k].Limit
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
		if !now.Before(c.known.Merged[k].Off) && (k != Probe || c.Probes) && !slices.Contains(without, k) {
			list = append(list, k)
		}
	}
	return append(list, Single)
}

// untried reports whether no request of a kind has ended yet, before a restart either.
func (c *Cohort) untried(k Kind) bool {
	m := c.known.Merged[k]
	return c.asks[k] == 0 && (m == nil || m.Failures == 0)
}

// trialGap is after how many requests another kind than the cheapest is tried again. It
// grows with the cost, so that trials of a kind take a small part of all time, and with the
// failures of a kind that was never complete.
func (c *Cohort) trialGap(k Kind, least float64) uint64 {
	per := c.perMember(k)
	if m := c.known.Merged[k]; m != nil && math.IsInf(per, 1) {
		return trialEvery * uint64(max(1, m.Failures))
	}
	return uint64(min(maxTrial, max(1, per/max(least, 1e-9))*trialEvery))
}

// perMember is the expected seconds until a member is confirmed, or has been asked alone
// because it was not. It is infinite if they are not known. Kinds of merged requests are
// compared at the same size.
func (c *Cohort) perMember(k Kind) float64 {
	if k == Single {
		if c.known.Single.N == 0 {
			return math.Inf(1)
		}
		return c.known.Single.Value
	}
	m := c.known.Merged[k]
	if m.Costs == 0 {
		return math.Inf(1)
	}
	size := min(float64(m.Limit), max(c.known.Merged[Values].Sizes.Value, c.known.Merged[Probe].Sizes.Value))
	a, b, perRow := m.coefficients()
	return a/size + b + perRow*c.known.Rows.Value + (1-m.Confirmed.Value)*c.known.Single.Value
}

// MeanRows is the expected number of rows of a member that has no result yet.
func (c *Cohort) MeanRows() int { return max(1, int(math.Ceil(c.known.Rows.Value))) }

// Alone is the mean time of a request for one member, 0 if none has ended.
func (c *Cohort) Alone() time.Duration {
	return time.Duration(c.known.Single.Value * float64(time.Second))
}

// Costs returns the expected seconds of a request: a, b per member, c per row.
func (c *Cohort) Costs(k Kind) (a, b, perRow float64) {
	if k == Single {
		return c.known.Single.Value, 0, 0
	}
	if m := c.known.Merged[k]; m.Costs > 0 {
		return m.coefficients()
	}
	one := c.known.Single.Value
	if c.known.Single.N == 0 {
		one = unknownCost
	}
	return one, one / 2, 0
}

// Marginal is the time that a member with rows adds to a merged request of the kind that
// was used last.
func (c *Cohort) Marginal(rows int) time.Duration {
	k := c.known.Kind
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
		c.known.Single.add(seconds)
		c.known.Rows.add(float64(rows))
		return
	}
	m := c.known.Merged[k]
	m.learn(members, rows, seconds)
	m.Sizes.add(float64(members))
	m.Confirmed.add(float64(confirmed) / float64(members))
	if k != Probe {
		c.known.Rows.add(float64(rows) / float64(members))
	}
	if members < m.Limit {
		return
	}
	if m.Good++; m.Failures == 0 || m.Good >= goodToGrow || m.Limit < 2 { // that was tried only once in a while
		m.Limit, m.Good = min(MaxMembers, 2*max(m.Limit, members)), 0
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
	m := c.known.Merged[k]
	if m == nil {
		return func() {}
	}
	limit, good, failures := m.Limit, m.Good, m.Failures
	c.Shrink(k, members)
	m.Failures = min(mostFailures, m.Failures+1)
	return func() { m.Limit, m.Good, m.Failures = limit, good, failures }
}

// Shrink makes later requests of a kind smaller than one for a number of members.
func (c *Cohort) Shrink(k Kind, members int) {
	if m := c.known.Merged[k]; m != nil {
		m.Limit, m.Good = max(1, min(m.Limit, members/2)), 0
	}
}

func (c *Cohort) count(k Kind, members int) {
	c.asks[k]++
	c.members[k] += uint64(members)
	c.known.Kind = k
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
	c.known.Answers += members
	n := c.known.Answers / auditEvery
	if n == 0 && (c.known.Audited.IsZero() || now.Sub(c.known.Audited) >= auditWithin || now.Before(c.known.Audited)) {
		n = 1
	}
	if n > 0 {
		c.known.Answers %= auditEvery
		c.known.Audited = now
	}
	return min(n, members)
}

// Audited adds the result of an audit of an answer of a kind. A difference switches the
// kind off for a day.
func (c *Cohort) Audited(now time.Time, k Kind, same bool) {
	c.known.Audits++
	if m := c.known.Merged[k]; !same && m != nil {
		c.known.Different++
		m.Off = now.Add(offFor)
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
	s := Snapshot{Template: c.Template, Kind: c.known.Kind, Asks: map[Kind]uint64{}, Asked: map[Kind]uint64{}, Void: map[Kind]uint64{},
		Audits: c.known.Audits, Different: c.known.Different}
	for _, k := range Kinds() {
		s.Asks[k], s.Asked[k], s.Void[k] = c.asks[k], c.members[k], c.void[k]
	}
	s.A, s.B, s.C = c.Costs(c.known.Kind)
	for k, m := range c.known.Merged {
		if now.Before(m.Off) {
			if s.OffUntil == nil {
				s.OffUntil = map[Kind]time.Time{}
			}
			s.OffUntil[k] = m.Off
		}
	}
	return s
}
