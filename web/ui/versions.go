package ui

import (
	"fmt"
	"net/http"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// farthest is how many changes a version may lie back to be put together.
const farthest = 10_000

// between is the log of one query between two of its versions, as one step.
func (v *visit) between(query, epoch string, from, to uint64) (*diff.Delta, error) {
	if to-from > farthest {
		return nil, &registry.Problem{Type: "gap", Status: http.StatusGone, Title: "Too far back", Detail: "At most " + count(farthest) + " changes are put together."}
	}
	var net *diff.Delta
	for at := from; at < to; {
		changes, err := v.History.After(query, registry.Position{Epoch: epoch, Seq: at}, int(min(200, to-at)))
		if err != nil {
			return nil, err
		}
		if len(changes) == 0 {
			return nil, &registry.GapError{Reason: registry.Ahead}
		}
		for _, c := range changes {
			if net, err = diff.Compose(net, c.Delta); err != nil {
				return nil, fmt.Errorf("put changes %d to %d of %s together: %w", from, to, query, err)
			}
			at = c.Seq
		}
		if err := v.r.Context().Err(); err != nil {
			return nil, err
		}
	}
	return net, nil
}

// version is a query's result after change seq. Results of the past are not
// kept: the newest one is led back along the log.
func (v *visit) version(query string, seq uint64) (*diff.Result, registry.Status, error) {
	st, r, err := v.History.Current(query, true)
	switch {
	case err != nil:
		return nil, st, err
	case r == nil:
		return nil, st, &registry.Problem{Type: "no-result", Status: http.StatusNotFound, Title: "There is no result yet", Detail: "No execution has been complete so far."}
	case seq == st.Position.Seq:
		return r, st, nil
	case seq == 0 || seq > st.Position.Seq:
		return nil, st, &registry.GapError{Reason: registry.Ahead}
	}
	net, err := v.between(query, st.Position.Epoch, seq, st.Position.Seq)
	if err != nil || net == nil {
		return r, st, err
	}
	back := diff.Invert(net)
	if back == nil {
		return nil, st, &registry.GapError{Reason: registry.TooOld}
	}
	r, err = back.Apply(r)
	return r, st, err
}
