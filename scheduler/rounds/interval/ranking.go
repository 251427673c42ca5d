package interval

import (
	"errors"
	"fmt"
	"strings"
)

// A Kind is one of the three online policies. The EI with the smallest value comes
// first.
type Kind string

const (
	// SEDF is the single interval's earliest deadline first:
	//
	//	S-EDF(I,T) = I.T_f − T + 1
	SEDF Kind = "sedf"
	// MRSF is the minimal residual stub first:
	//
	//	MRSF(I) = rank(p) − Σ_{I'∈η} 𝕀(I',S)
	MRSF Kind = "mrsf"
	// MEDF is the multi interval EDF:
	//
	//	M-EDF(I,T) = Σ_{I'∈η} S-EDF(I',T)·(1 − 𝕀(I',S))
	//
	// where an I' that has not started counts with its full length.
	MEDF Kind = "medf"
)

// A Ranking is a policy: a kind, with or without preemption. Without preemption the
// EIs of CEIs that already have a captured EI come before all others.
//
// Source: "Query scheduling in the presence of complex user profiles", section 3.1.
type Ranking struct {
	Kind       Kind
	Preemptive bool
}

// Rankings returns all rankings.
func Rankings() []Ranking {
	return []Ranking{
		{SEDF, false}, {SEDF, true}, {MRSF, false}, {MRSF, true}, {MEDF, false}, {MEDF, true},
	}
}

// ErrRanking is wrapped by the errors of ParseRanking.
var ErrRanking = errors.New("bad ranking")

// ParseRanking reads "mrsf:p", "mrsf:np" and "mrsf", which is "mrsf:p".
func ParseRanking(s string) (Ranking, error) {
	name, word, given := strings.Cut(s, ":")
	r := Ranking{Kind: Kind(name), Preemptive: word == "p" || !given}
	switch r.Kind {
	case SEDF, MRSF, MEDF:
	default:
		return Ranking{}, fmt.Errorf("%w %q: it is one of sedf, mrsf, medf", ErrRanking, s)
	}
	if given && word != "p" && word != "np" {
		return Ranking{}, fmt.Errorf("%w %q: after the colon comes p or np", ErrRanking, s)
	}
	return r, nil
}

// String is the canonical spelling, which ParseRanking reads.
func (r Ranking) String() string {
	if r.Preemptive {
		return string(r.Kind) + ":p"
	}
	return string(r.Kind) + ":np"
}

// A group holds EIs whose values decrease together. They are of one class (0 goes
// first), and their value in chronon T is (a − slope·T)/weight with a constant a
// for each EI. The order within a group therefore never changes as time passes, so
// a heap can keep it.
type group struct {
	class  int
	slope  int64
	weight float64
}

// key is the position of an EI in the order.
type key struct {
	group
	a int64
}

func (k key) value(now uint64) float64 {
	return float64(k.a-k.slope*int64(now)) / k.weight
}

// key returns the key of the active, uncaptured EI e in this chronon.
func (r Ranking) key(c *open, e *entry) key {
	k := key{group: group{weight: c.weight}}
	if !r.Preemptive && c.captured == 0 {
		k.class = 1
	}
	switch r.Kind {
	case MRSF:
		k.a = int64(c.rank - c.captured)
	case MEDF:
		k.a, k.slope = c.due, c.active
	default:
		k.a, k.slope = int64(e.finish)+1, 1
	}
	return k
}
