package policy

import "time"

// A Collective is a policy that learns from all queries of an endpoint together.
// What it has learnt about the endpoint is its shared state. The ledger stores that
// state beside those of the queries; it is nil before the first slot. Absorb is a
// pure function, like the other methods.
type Collective interface {
	Policy
	// Absorb ends slot m.Slot. ran holds the queries that completed in it, in the
	// order of their starts. related lists the queries that share a constant with
	// one, excluding itself, for constants that few queries have.
	Absorb(m Moment, ran []*Candidate, related func(*Candidate) []*Candidate) Lesson
}

// A Lesson holds the new states after a slot.
type Lesson struct {
	Shared []float64
	States []Taught
}

// Taught is the new state of one query.
type Taught struct {
	Candidate *Candidate
	State     []float64
	Keep      bool // it did not run, so its state has to be recorded separately
}

// An Explainer is a Ranker that gives more information about a slot than its order.
type Explainer interface {
	Ranker
	// Plan is Rank with the additional information about the slot.
	Plan(m Moment, all []*Candidate) ([]Key, Ranking)
	// Explain is Inputs with the values that depend on the slot and on the other
	// queries, as far as the slot's Ranking has them.
	Explain(m Moment, r Ranking, c *Candidate) map[string]float64
}

// A Tabular policy ranks all queries in each slot, as a Ranker does, but from a
// table of its own. It need not read every Candidate in every slot, it can sort
// only as many queries as the budget reaches, and it can observe the executions of
// a slot while it runs.
type Tabular interface {
	Policy
	NewTable() Table
}

// A Table holds the queries of an endpoint that may run. The planner calls its
// methods one at a time and keeps the order that Next returns.
type Table interface {
	// Put adds a query, or updates one that is in the table.
	Put(c *Candidate)
	// Remove removes a query that is in the table: it starts, or may no longer run.
	Remove(c *Candidate)
	// Plan begins a slot, or plans the rest of it after Observe has asked for that.
	Plan(m Moment) Ranking
	// Next returns the next queries of the slot, in any order: each of them goes
	// before all that later calls return. It returns none once all queries of the
	// plan have been returned.
	Next() []Ranked
	// Least is the smallest Estimate of the queries that Next has not returned.
	Least() time.Duration
	// Observe receives a complete execution during the slot. If it returns true,
	// the queries that have not started are planned again, with Moment.Turned set;
	// Observe is then not called again in this slot.
	Observe(c *Candidate, changed bool) bool
	// Explain is Inputs with the values that depend on the slot and on the other
	// queries.
	Explain(m Moment, c *Candidate) map[string]float64
}

// A Ranked query has its key in the order of a slot.
type Ranked struct {
	Candidate *Candidate
	Key       Key
}

// A Ranking holds information about a slot besides its order.
type Ranking struct {
	// Stretch is the factor by which waits and deadlines are longer than asked for
	// because the budget is too small, 0 if it suffices.
	Stretch float64
	Inputs  map[string]float64 // numbers about the endpoint as a whole
	Memo    any                // what Explain needs to know about the slot
}
