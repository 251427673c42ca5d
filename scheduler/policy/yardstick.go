package policy

import (
	"math"
	"time"
)

// A Foresight is what a simulation tells about a query and no client can know.
type Foresight struct {
	Never bool          // it never changes, so that no yardstick runs it and asks about it again
	Since uint64        // slot from which its current result differs from the one last fetched, 0 if it does not differ
	Next  uint64        // slot of the next change of the current result, math.MaxUint64 if there is none
	Cost  time.Duration // of an execution in this slot
	Rate  float64       // changes a slot, over the whole history
	// Signals counts the signals of change since the last execution. Each change is
	// signalled unless it is missed, with probability Miss; Lie is the share of the signals
	// that no change caused.
	Signals   int
	Miss, Lie float64
	// Worth is what the yardstick "rates" would divide by the time, the mean over all rates that the query may
	// have, and Yield the changes that a second has found so far.
	Worth, Yield float64
}

// An Oracle gives a simulation the foresight about a query in a slot.
type Oracle func(slot uint64, c *Candidate) Foresight

// A yardstick is a policy that needs an oracle. It shows what knowledge is worth, and no
// endpoint can run it.
type yardstick struct {
	name   string
	key    func(slot uint64, c *Candidate, f *Foresight) (k Key, runs bool)
	oracle Oracle
}

// Foresee returns a yardstick with its oracle, and other policies as they are. The
// yardstick that Parse returns has none: it cannot run.
func Foresee(p Policy, o Oracle) Policy {
	if y, is := p.(yardstick); is {
		y.oracle = o
		return y
	}
	return p
}

// NeedsOracle reports whether a policy is a yardstick.
func NeedsOracle(p Policy) bool {
	_, is := p.(yardstick)
	return is
}

// Yardsticks lists the policies of simulations.
func Yardsticks() []Definition {
	yards := func(d Definition, key func(uint64, *Candidate, *Foresight) (Key, bool)) Definition {
		d.Simulated = true
		d.Build = func(Args) (Policy, error) { return yardstick{name: d.Name, key: key}, nil }
		return d
	}
	return []Definition{
		yards(Definition{Name: "cv", Doc: "clairvoyant: only what has changed, stale longest first",
			Source: "Knuth, Hartig, Sack 2016, section 4"}, oldest),
		yards(Definition{Name: "edf", Doc: "clairvoyant: only what has changed, what changes again first first",
			Source: "Liu, Layland 1973, section 7: earliest deadline first"}, deadline),
		yards(Definition{Name: "rates", Doc: "knows how often each result changes, but not when",
			Source: "Azar, Horvitz, Lubetzky, Peres, Shahaf 2018, section 3"}, knownRate),
		yards(Definition{Name: "bayes", Doc: "knows how many queries of each cost change how often, and learns which ones",
			Source: "ours: the order of rates, with a posterior by Bayes' rule"}, believed),
		yards(Definition{Name: "fresh", Doc: "knows how often each result changes, and keeps as many as it can up to date",
			Source: "Azar, Horvitz, Lubetzky, Peres, Shahaf 2018, section 3"}, fresh),
		yards(Definition{Name: "signals", Doc: "knows how often each result changes, and hears noisy signals of its changes",
			Source: "Busa-Fekete, Zimmert, György and others 2025"}, signalled),
	}
}

// oldest is the order of "cv": the longest stale come first, ties go to the cheapest.
func oldest(_ uint64, _ *Candidate, f *Foresight) (Key, bool) {
	return Key{Value: float64(f.Since), Low: float64(f.Cost)}, f.Since > 0
}

// deadline is the order of "edf": what the next change overwrites first comes first, ties
// go to the cheapest.
func deadline(_ uint64, _ *Candidate, f *Foresight) (Key, bool) {
	return Key{Value: float64(f.Next), Low: float64(f.Cost)}, f.Since > 0
}

// knownRate is the order of "rates": descending (1 − e^(−λa)·(1 + λa)) / c, for a query
// with λ changes a slot that ran a slots ago and takes the time c. If changes come at
// random, executions in every a-th slot find x·(1 − e^(−λ/x)) changes a slot, x = 1/a. The
// order is by the derivative of this with respect to x, for each second. A query that
// never changes does not run.
//
// Source: Azar et al., "Tractable near-optimal policies for crawling", 2018, with the
// changes found in place of the share of time.
func knownRate(slot uint64, c *Candidate, f *Foresight) (Key, bool) {
	x := f.Rate * float64(slot-c.Stats.Last)
	gain := -math.Expm1(-x) - x*math.Exp(-x)
	return Key{Value: -gain / max(1, float64(c.Estimate))}, f.Rate > 0
}

// believed is the order of "bayes": that of "rates" in the mean over what is known about a query's rate. A query that has
// waited for 300 slots is worth as much more as a mean second has found, and after 3 % fewer slots half as much, so that
// few wait for more than 320.
func believed(slot uint64, c *Candidate, f *Foresight) (Key, bool) {
	x := float64(slot-c.Stats.Last) / 300
	return Key{Value: -f.Worth/max(1e-6, c.Estimate.Seconds()) - f.Yield*math.Pow(x, 24)}, true
}

// fresh is the order of "fresh": that of "rates" divided by λ, so that it is the derivative of
// the share of the time in which a result is current.
func fresh(slot uint64, c *Candidate, f *Foresight) (Key, bool) {
	k, runs := knownRate(slot, c, f)
	k.Value /= max(f.Rate, math.SmallestNonzeroFloat64)
	return k, runs
}

// signalled is the order of "signals". n signals and a slots without an execution leave the
// probability e^(−λ·miss·a)·lie^n that nothing has changed: unsignalled changes come at rate
// λ·miss, and each signal is false with probability lie. In the order of "rates", the negative
// logarithm of this takes the place of λa.
func signalled(slot uint64, c *Candidate, f *Foresight) (Key, bool) {
	x := f.Rate*f.Miss*float64(slot-c.Stats.Last) - float64(f.Signals)*math.Log(max(f.Lie, 1e-9))
	gain := -math.Expm1(-x) - x*math.Exp(-x)
	return Key{Value: -gain / max(1, float64(c.Estimate))}, f.Rate > 0
}

func (y yardstick) String() string { return y.name }

func (yardstick) Fold([]float64, uint64, Sample) []float64 { return nil }

func (yardstick) Key(c *Candidate) Key { return Key{Value: float64(c.Stats.Last)} }

// Rank asks about few queries: most never change. Its memory are the keys of the slot before.
func (y yardstick) Rank(m Moment, all []*Candidate) Ranking {
	keys, _ := (*m.Memory).([]Key)
	for _, i := range m.Moved {
		if i < len(keys) {
			keys[i] = Key{}
		}
	}
	keys = append(keys, make([]Key, max(0, len(all)-len(keys)))...)[:len(all)]
	*m.Memory = keys
	var f Foresight
	for i, c := range all {
		if keys[i].Due == math.MaxUint64 {
			continue
		}
		f = y.oracle(m.Slot, c)
		k, runs := y.key(m.Slot, c, &f)
		if f.Never {
			k.Due = math.MaxUint64
		} else if !runs {
			k.Due = m.Slot + 1
		}
		keys[i] = k
	}
	return Ranking{Keys: keys}
}

func (yardstick) Inputs(_ Moment, _ Ranking, c *Candidate) map[string]float64 {
	return map[string]float64{"last": float64(c.Stats.Last)}
}
