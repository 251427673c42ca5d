package policy

// rr is round robin: ascending Last.
//
// Source: Knuth, Hartig, Sack, "Scheduling Refresh Queries for Keeping Results
// from a SPARQL Endpoint Up-to-Date", section 4.
type rr struct{}

func rrDefinition() Definition {
	return Definition{
		Name:   "rr",
		Doc:    "round robin: whatever was executed longest ago comes first",
		Source: "Knuth, Hartig, Sack 2016, section 4",
		Build:  func(Args) (Policy, error) { return rr{}, nil },
	}
}

func (rr) String() string { return "rr" }

func (rr) Fold([]float64, uint64, Sample) []float64 { return nil }

func (rr) Key(c *Candidate) Key { return Key{Value: float64(c.Stats.Last)} }

func (rr) Inputs(_ Moment, _ Ranking, c *Candidate) map[string]float64 {
	return map[string]float64{"last": float64(c.Stats.Last)}
}
