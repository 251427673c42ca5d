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

// state is what the ranking needs to know about an open CEI.
type state struct {
	captured, rank int
	weight         float64
	due            uint64 // chronons left of its uncaptured EIs, where one that has not started counts with its full length
}

// value is the value of an active EI with so many chronons left.
func (r Ranking) value(s state, left uint64) float64 {
	switch r.Kind {
	case MRSF:
		left = uint64(s.rank - s.captured)
	case MEDF:
		left = s.due
	}
	return float64(left) / s.weight
}
