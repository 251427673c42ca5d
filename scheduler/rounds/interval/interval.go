package interval

import (
	"errors"
	"fmt"
	"math"
)

// An EI is an execution interval: Resource is to be probed once in one of the
// chronons from Start to Finish, both included.
type EI[R comparable] struct {
	Resource R      `json:"resource"`
	Start    uint64 `json:"start"`
	Finish   uint64 `json:"finish"`
}

// Len is the number of chronons of the interval.
func (e EI[R]) Len() uint64 { return e.Finish - e.Start + 1 }

// A CEI is a complex execution interval.
type CEI[R comparable] struct {
	// ID tells CEIs apart; smaller ones come first where nothing else decides.
	ID uint64 `json:"id"`
	// Profile is whose it is. The agenda only hands it back.
	Profile string `json:"profile,omitempty"`
	// Rank is the size of the largest CEI of the profile, rank(p); 0 means
	// the size of this one.
	Rank int `json:"rank,omitempty"`
	// Weight divides the value that it is ranked by, so that one of weight 2
	// goes before others of the same kind; 0 means 1. Weights are ours, the
	// paper has none.
	Weight float64 `json:"weight,omitempty"`
	EIs    []EI[R] `json:"eis"`
}

// A Progress is a CEI and what has been captured of it.
type Progress[R comparable] struct {
	CEI[R]
	// Captured holds for each EI the chronon of the probe that captured it, 0
	// while there was none. It may be nil for none at all.
	Captured []uint64 `json:"captured,omitempty"`
}

// Left is how many EIs are still to be captured.
func (p Progress[R]) Left() int {
	left := len(p.EIs)
	for _, at := range p.Captured {
		if at > 0 {
			left--
		}
	}
	return left
}

var (
	// ErrMalformed is wrapped by the errors about CEIs that make no sense.
	ErrMalformed = errors.New("malformed complex execution interval")
	// ErrOver is returned for a CEI with an EI that has ended uncaptured.
	ErrOver = errors.New("an interval of it is over")
)

func (p Progress[R]) check() error {
	switch {
	case len(p.EIs) == 0:
		return fmt.Errorf("%w %d: no intervals", ErrMalformed, p.ID)
	case p.Weight < 0 || math.IsNaN(p.Weight) || math.IsInf(p.Weight, 0):
		return fmt.Errorf("%w %d: weight %v", ErrMalformed, p.ID, p.Weight)
	case p.Rank != 0 && p.Rank < len(p.EIs):
		return fmt.Errorf("%w %d: %d intervals in a profile of rank %d", ErrMalformed, p.ID, len(p.EIs), p.Rank)
	case p.Captured != nil && len(p.Captured) != len(p.EIs):
		return fmt.Errorf("%w %d: %d intervals, %d marks of capture", ErrMalformed, p.ID, len(p.EIs), len(p.Captured))
	}
	for _, e := range p.EIs {
		if e.Start == 0 || e.Start > e.Finish || e.Finish > 1<<52 {
			return fmt.Errorf("%w %d: from %d to %d", ErrMalformed, p.ID, e.Start, e.Finish)
		}
	}
	return nil
}
