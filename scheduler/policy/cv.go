package policy

import "time"

// An Oracle gives a simulation what no client can know. since is the slot from
// which the query's current result differs from the one last fetched, 0 if it does
// not differ. cost is what an execution would take in the slot of m.
type Oracle func(m Moment, c *Candidate) (since uint64, cost time.Duration)

// clairvoyant executes the queries whose current version differs from the one last
// fetched. The longest stale come first, ties go to the cheapest in this slot.
//
// Source: Knuth, Hartig, Sack, "Scheduling Refresh Queries for Keeping Results from
// a SPARQL Endpoint Up-to-Date", section 4.
type clairvoyant struct{ oracle Oracle }

// Clairvoyant is the policy "cv" with its oracle. The policy that Parse returns for
// the name has none: it cannot run.
func Clairvoyant(o Oracle) Policy { return clairvoyant{o} }

// NeedsOracle reports whether a policy is the clairvoyant one.
func NeedsOracle(p Policy) bool {
	_, is := p.(clairvoyant)
	return is
}

// ClairvoyantDefinition describes the policy "cv".
func ClairvoyantDefinition() Definition {
	return Definition{
		Name:      "cv",
		Doc:       "clairvoyant: only what has changed, stale longest first",
		Source:    "Knuth, Hartig, Sack 2016, section 4",
		Simulated: true,
		Build:     func(Args) (Policy, error) { return clairvoyant{}, nil },
	}
}

func (clairvoyant) String() string { return "cv" }

func (clairvoyant) Fold([]float64, uint64, Sample) []float64 { return nil }

func (clairvoyant) Key(c *Candidate) Key { return Key{Value: float64(c.Stats.Last)} }

func (p clairvoyant) Rank(m Moment, all []*Candidate) Ranking {
	keys := make([]Key, len(all))
	for i, c := range all {
		since, cost := p.oracle(m, c)
		keys[i] = Key{Value: float64(since), Low: float64(cost)}
		if since == 0 {
			keys[i].Due = m.Slot + 1
		}
	}
	return Ranking{Keys: keys}
}

func (clairvoyant) Inputs(_ Moment, _ Ranking, c *Candidate) map[string]float64 {
	return map[string]float64{"last": float64(c.Stats.Last)}
}
