package plan

import (
	"math"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
)

// A source supplies an order with queries from the table of a policy that keeps one.
// It counts the queries that the table has not returned in this slot. A nil source has
// no table.
type source struct {
	table   policy.Table
	order   *[]*item // the planner's
	plan    uint32   // number of the current plan
	listed  int      // queries in the table
	waiting int      // queries that the current plan has not returned
	entries []listEntry
	read    uint64 // by next, without meaning
}

// newSource returns nil for a policy without a table.
func newSource(p policy.Policy, order *[]*item) *source {
	t, ok := p.(policy.Tabular)
	if !ok {
		return nil
	}
	return &source{table: t.NewTable(), order: order}
}

// put adds a query that is inserted into the order, and reports whether the table holds
// it. Every slot begins with a new plan; until then the query counts as not returned.
func (s *source) put(c *item) bool {
	if s == nil || c.tier != TierRanked {
		return false
	}
	s.listed++
	s.waiting++
	c.listed, c.returned = true, s.plan-1
	s.table.Put(&c.Candidate)
	return true
}

// learn updates the state of a query that has not run.
func (s *source) learn(c *item) {
	if s != nil && c.listed {
		s.table.Put(&c.Candidate)
	}
}

// remove removes a query that leaves the order. It reports whether the table had not
// returned the query.
func (s *source) remove(c *item) bool {
	if s == nil || !c.listed {
		return false
	}
	s.table.Remove(&c.Candidate)
	s.listed--
	c.listed = false
	if c.returned == s.plan {
		return false
	}
	s.waiting--
	return true
}

// begin makes a new plan, which has returned nothing yet.
func (s *source) begin(m policy.Moment) policy.Ranking {
	r := s.table.Plan(m)
	s.plan++
	s.waiting = s.listed
	return r
}

func (s *source) len() int {
	if s == nil {
		return 0
	}
	return s.waiting
}

// least is a lower bound of the estimates of the queries that are not returned.
func (s *source) least() time.Duration { return s.table.Least() }

// warmed is how many queries are read ahead at a time, so that the reads overlap.
const warmed = 16

// next returns the next queries, which precede all later ones. Queries that the table
// never returns come last, ordered by their last execution.
func (s *source) next() []listEntry {
	s.entries = s.entries[:0]
	list := s.table.Next()
	for i, x := range list {
		if i%warmed == 0 { // these reads from memory overlap
			for _, next := range list[i:min(i+warmed, len(list))] {
				c := (*s.order)[next.Candidate.Number]
				s.read += uint64(c.key.Class) + uint64(c.returned) + c.Stats.Last
			}
		}
		c := (*s.order)[x.Candidate.Number]
		if !c.listed || c.returned == s.plan {
			continue
		}
		s.take(c, x.Key)
	}
	if len(list) > 0 {
		return s.entries
	}
	for _, c := range *s.order {
		if c.listed && c.returned != s.plan {
			s.take(c, policy.Key{Class: math.MaxInt16, Value: float64(c.Stats.Last)})
		}
	}
	return s.entries
}

func (s *source) take(c *item, k policy.Key) {
	c.returned, c.key = s.plan, k
	s.waiting--
	s.entries = append(s.entries, listEntryOf(c))
}

// all returns all remaining queries.
func (s *source) all() (list []listEntry) {
	for s.waiting > 0 {
		list = append(list, s.next()...)
	}
	return list
}
