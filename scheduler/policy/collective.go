package policy

// A Collective is a policy that learns from all queries of an endpoint
// together. What it has learnt of the endpoint as a whole is its shared state,
// which the ledger keeps beside those of the queries, and which is nil before
// the first slot. Absorb is as pure as the rest.
type Collective interface {
	Ranker
	// Absorb ends slot m.Slot; ran are the queries that completed in it, in the
	// order of their starts. kin lists the queries that share a constant with
	// one, itself excluded, for constants that few queries have.
	Absorb(m Moment, ran []*Candidate, kin func(*Candidate) []*Candidate) Lesson
	// Plan is Rank with what else there is to say about the slot.
	Plan(m Moment, all []*Candidate) Ranking
	// Explain is Inputs with what depends on the slot and on the others, as far as
	// the slot's Ranking tells.
	Explain(m Moment, r Ranking, c *Candidate) map[string]float64
}

// A Ranking is the order of a slot.
type Ranking struct {
	Keys []Key
	// Stretch is by how much deadlines are longer than asked for because they
	// cannot all be met, 0 when they can.
	Stretch float64
	Inputs  map[string]float64 // that concern the endpoint as a whole
	// Tells says of some queries how their executions in this slot speak for its
	// being an empty one, in which nothing has changed. Once their sum is above
	// Turn, the rest of the slot is ranked again.
	Tells map[*Candidate]Tell
	Turn  float64
	scale float64 // of sqrt: the refreshes a day of a query by the root of its weight and rate
}

// A Tell is evidence, as the logarithm of a ratio of likelihoods: of a result
// that is unchanged and of one that has changed.
type Tell struct{ Same, Changed float64 }

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
