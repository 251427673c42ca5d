package policy

import "time"

// A Collective is a policy that learns from all queries of an endpoint
// together. What it has learnt of the endpoint as a whole is its shared state,
// which the ledger keeps beside those of the queries, and which is nil before
// the first slot. Absorb is as pure as the rest.
type Collective interface {
	Policy
	// Absorb ends slot m.Slot; ran are the queries that completed in it, in the
	// order of their starts. related lists the queries that share a constant with
	// one, itself excluded, for constants that few queries have.
	Absorb(m Moment, ran []*Candidate, related func(*Candidate) []*Candidate) Lesson
}

// A Lesson is what follows from a slot for the states.
type Lesson struct {
	Shared []float64
	States []Taught
}

// Taught is the new state of one query.
type Taught struct {
	Candidate *Candidate
	State     []float64
	Keep      bool // it did not run, so its state has to be recorded on its own
}

// An Explainer is a Ranker that has more to say about a slot than its order.
type Explainer interface {
	Ranker
	// Plan is Rank with what else there is to say about the slot.
	Plan(m Moment, all []*Candidate) ([]Key, Ranking)
	// Explain is Inputs with what depends on the slot and on the others, as far as
	// the slot's Ranking says it.
	Explain(m Moment, r Ranking, c *Candidate) map[string]float64
}

// A Tabular policy ranks all queries in each slot, as a Ranker does, from a table
// of its own. So it need not look at every Candidate in every slot, it can put in
// order only as many as the budget reaches, and it can observe the executions of a
// slot while it lasts.
type Tabular interface {
	Policy
	NewTable() Table
}

// A Table holds the queries of an endpoint that may run. The planner calls it, one
// method at a time, and keeps the order that Next returns.
type Table interface {
	// Put adds a query, or takes in what is new of one that is there.
	Put(c *Candidate)
	// Remove takes out a query that is there: it starts, or may not run any more.
	Remove(c *Candidate)
	// Plan begins a slot, or what is left of it once Observe has asked for that.
	Plan(m Moment) Ranking
	// Next returns the next queries of the slot, in any order: each of them goes
	// before all that later calls return. It returns none when Plan and the calls
	// since have returned all.
	Next() []Ranked
	// Least is the smallest Estimate of those that Next has not returned.
	Least() time.Duration
	// Observe takes in a complete execution while the slot lasts. It returns true
	// to have what has not started planned again, with Moment.Turned set, and is not
	// called again in this slot then.
	Observe(c *Candidate, changed bool) bool
	// Explain is Inputs with what depends on the slot and on the others.
	Explain(m Moment, c *Candidate) map[string]float64
}

// A Ranked query has its place in the order of a slot.
type Ranked struct {
	Candidate *Candidate
	Key       Key
}

// A Ranking says what there is to know of a slot besides its order.
type Ranking struct {
	// Stretch is by how much deadlines are longer than asked for because they
	// cannot all be met, 0 when they can.
	Stretch float64
	Inputs  map[string]float64 // that concern the endpoint as a whole
	Memo    any                // what Explain has to know of the slot
}
