package ui

import (
	"fmt"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// Putting versions together is dear: how much of the log it may take is bounded,
// and how many readers may ask for much of it at a time.
const (
	farthest   = 10_000   // changes that a version may lie back
	heaviest   = 64 << 20 // bytes of their rows
	fewChanges = 200      // so many cost next to nothing
	mostJoins  = 2        // longer ones at a time
)

// between is the log of one query between two of its versions, as one step.
func (v *visit) between(query, epoch string, from, to uint64) (*diff.Delta, error) {
	if to-from > farthest {
		return nil, tooFar("At most " + count(farthest) + " changes are put together.")
	}
	if to-from > fewChanges {
		select {
		case v.joins <- struct{}{}:
			defer func() { <-v.joins }()
		default:
			return nil, &registry.Problem{Kind: registry.KindBusy, Detail: "Others are comparing versions that lie far apart. Try again in a moment."}
		}
	}
	var steps diff.Chain
	for at, bytes := from, 0; at < to; {
		changes, err := v.History.After(query, registry.Position{Epoch: epoch, Seq: at}, int(min(fewChanges, to-at)))
		if err != nil {
			return nil, err
		}
		if len(changes) == 0 {
			return nil, &registry.GapError{Reason: registry.Ahead}
		}
		for _, c := range changes {
			if bytes += weight(c.Delta); bytes > heaviest {
				return nil, tooFar("The changes between these versions hold more than " + amount(heaviest) + ".")
			}
			if _, err = steps.Add(c.Delta); err != nil {
				return nil, fmt.Errorf("put changes %d to %d of %s together: %w", from, to, query, err)
			}
			at = c.Seq
		}
		if err := v.r.Context().Err(); err != nil {
			return nil, err
		}
	}
	return steps.Sum()
}

func tooFar(detail string) error {
	return &registry.Problem{Kind: registry.KindGap, Title: "Too far back", Detail: detail}
}

// weight is how many bytes the rows of a step hold.
func weight(d *diff.Delta) (n int) {
	if d == nil {
		return 0
	}
	for _, rows := range []diff.Rows{d.Added, d.Removed} {
		for _, row := range rows {
			n += len(row)
		}
	}
	return n
}

// version is a query's result after change seq. Results of the past are not
// kept: the newest one is led back along the log.
func (v *visit) version(query string, seq uint64) (*diff.Result, registry.Status, error) {
	st, r, err := v.History.Current(query, true)
	switch {
	case err != nil:
		return nil, st, err
	case r == nil:
		return nil, st, &registry.Problem{Kind: registry.KindNoResult, Title: "There is no result yet", Detail: "No execution has been complete so far."}
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
