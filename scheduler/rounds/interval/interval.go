package interval

import (
	"errors"
	"fmt"
	"math"
)

// An EI is an execution interval: Resource has to be probed once between the
// chronons Start and Finish, both included.
type EI[R comparable] struct {
	Resource R      `json:"resource"`
	Start    uint64 `json:"start"`
	Finish   uint64 `json:"finish"`
}

// Len returns the number of chronons in the interval.
func (e EI[R]) Len() uint64 { return e.Finish - e.Start + 1 }

// A CEI is a complex execution interval.
type CEI[R comparable] struct {
	// ID identifies the CEI. The smaller id wins ties.
	ID uint64 `json:"id"`
	// Profile is the owner of the CEI. The pool only returns it.
	Profile string `json:"profile,omitempty"`
	// Rank is the size of the largest CEI of the profile, rank(p); 0 means
	// the size of this one.
	Rank int `json:"rank,omitempty"`
	// Weight divides the value that the CEI is ranked by, so that a CEI of weight 2
	// goes before others of the same kind; 0 means 1. The paper has no weights.
	Weight float64 `json:"weight,omitempty"`
	EIs    []EI[R] `json:"eis"`
}

// A Progress is a CEI and its captures.
type Progress[R comparable] struct {
	CEI[R]
	// Captured holds for each EI the chronon of the probe that captured it, 0 if it
	// is not captured. It may be nil if none is.
	Captured []uint64 `json:"captured,omitempty"`
}

// Left returns the number of EIs that are not captured.
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
	// ErrMalformed is wrapped by the errors about invalid CEIs.
	ErrMalformed = errors.New("malformed complex execution interval")
	// ErrOver is returned for a CEI that has an EI that ended uncaptured.
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
