package policy

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
