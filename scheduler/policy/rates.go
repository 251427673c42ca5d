package policy

// The rates of change that a query is assumed to have: 2^(k−RateStep) per slot, for
// each k from 0 to Rates−1.
const (
	Rates      = 17
	RateStep   = 14
	LowestRate = 1.0 / (1 << RateStep)
)
