package plan

import (
	"time"

	"github.com/freshet/freshet/scheduler/cohort"
)

// Queries that differ in constants only form a cohort. The head of the order brings
// riders from its cohort along, and one execution of the budget serves them all.

// A Membership says with which queries a query can be asked. The zero value is that of
// a query that must be asked alone.
type Membership struct {
	Key       string   // equal for the queries that can be asked together
	Template  string   // id of the template
	Probes    bool     // a probe can confirm results of the template
	Arguments []string // by which the query differs from others with the key
	Form      any      // what the caller needs to write requests; that of the first member is kept
}

// A LastAsk describes the request that last answered a query, alone or with others.
type LastAsk struct {
	Kind         cohort.Kind `json:"kind"`
	Members      int         `json:"members"`
	Seconds      float64     `json:"seconds"`
	ShareSeconds float64     `json:"share_seconds"` // this query's part of it
	Rows         int         `json:"rows"`
}

// A cohortOf holds the queries that can be asked together.
type cohortOf struct {
	*cohort.Cohort
	key     string
	form    any
	members []*item
	unsaved bool // in Planner.unsaved
}

// cohortState is what the planner knows of a query's cohort.
type cohortState struct {
	at      int // in the cohort's members
	args    []string
	text    int   // bytes that the arguments add to a request
	proofs  uint8 // probes that may still confirm the result
	doubted bool  // a probe did not confirm the result
	opaque  bool  // probes do not confirm the result although it is unchanged
	cutOff  bool  // the last probe may have been cut off before the row of the query
	check   check
	again   cohort.Kind // of the request that checkAgain repeats
	queued  bool        // in Planner.checks
	asked   bool        // an answer is awaited
	solo    bool        // merged answers are never exact
	failed  bool        // the last request was merged and failed

	suspected uint8    // void pairs of which it was a member since its last good merged request
	spoils    bool     // merged requests with it are void
	void      *VoidAsk // the last one, or nil
	audited   uint32   // how often
	lastAsk   *LastAsk // whose answer was recorded; its ShareSeconds is not set
	share     time.Duration
}

// A check is why a query is asked again.
type check uint8

const (
	unchecked  check = iota
	checkAlone       // a merged answer did not confirm it, or is audited
	checkAgain       // an audit found a difference: ask it merged, in a later slot
)

// mergeable reports whether a query may be a member of a merged request, which confirms
// results but yields none.
func (c *item) mergeable() bool {
	m := c.member
	return m != nil && !m.solo && !m.spoils && m.check != checkAlone && !c.single && c.Stats.Executions > 0 &&
		c.Stats.Failures == 0 && c.Stats.Cuts == 0 && c.Stats.Outdated == 0 && c.Stats.Floor == 0
}

// chance is how likely the next execution finds a change.
func (c *item) chance() float64 {
	return float64(c.Stats.Changes) / float64(c.Stats.Executions+2)
}

// provable reports whether a probe may confirm the result of a query.
func (c *item) provable() bool {
	return c.plain && c.member.proofs > 0 && !c.member.opaque && c.member.check == unchecked
}

// rows is the expected number of rows of a member.
func (c *item) rows() int {
	if c.Stats.Executions > 0 {
		return c.Stats.Rows
	}
	return c.cohort.MeanRows()
}
