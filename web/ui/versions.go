package ui

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// Reconstructing versions is expensive. These limits bound the part of the log that a
// comparison reads, and the number of large comparisons at a time.
const (
	farthest   = 10_000   // maximum distance of a version from the newest, in changes
	heaviest   = 64 << 20 // total bytes of their rows
	fewChanges = 200      // up to this number the cost is negligible
	mostJoins  = 2        // concurrent larger comparisons

	versionsOffered = 30
)

// between returns the log of one query between two of its versions as one step.
func (v resultHandler) between(query, epoch string, from, to uint64) (*diff.Delta, error) {
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

// weight returns the size of a step's rows in bytes.
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

// version returns a query's result after change seq. Past results are not stored: the
// newest one is rolled back along the log.
func (v resultHandler) version(query string, seq uint64) (*diff.Result, registry.Status, error) {
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

// versionAt returns the version of a query at a time: the last change at or before it.
// recent holds the newest changes, oldest first; earlier ones are found by binary
// search in the log.
func (v resultHandler) versionAt(q *registry.Query, newest registry.Position, recent []registry.Change, t time.Time) (uint64, error) {
	if len(recent) > 0 && !t.Before(recent[0].Time) {
		i := sort.Search(len(recent), func(i int) bool { return recent[i].Time.After(t) })
		return recent[i-1].Seq, nil
	}
	last := newest.Seq
	if len(recent) > 0 {
		last = recent[0].Seq - 1
	}
	var failed error
	trimmed := uint64(0) // the last version that is no longer stored
	n := sort.Search(int(last), func(i int) bool {
		seq := uint64(i) + 1
		if failed != nil {
			return true
		}
		list, err := v.History.After(q.ID, registry.Position{Epoch: newest.Epoch, Seq: seq - 1}, 1)
		switch {
		case err == nil && len(list) > 0:
			return list[0].Time.After(t)
		case err == nil, isTooOld(err):
			trimmed = max(trimmed, seq)
			return false
		}
		failed = err
		return true
	})
	switch {
	case failed != nil:
		return 0, failed
	case n == 0:
		return 0, &registry.Problem{Kind: registry.KindNoResult, Title: "There was no result yet", Detail: "At this time there was no result yet."}
	case uint64(n) <= trimmed:
		return 0, &registry.GapError{Reason: registry.TooOld}
	}
	return uint64(n), nil
}

func isTooOld(err error) bool {
	var gap *registry.GapError
	return errors.As(err, &gap) && gap.Reason == registry.TooOld
}

// A versionChoice is a version that can be selected.
type versionChoice struct {
	Seq      uint64
	Time     string // "" if it is unknown
	Newest   bool
	Delta    delta
	Selected bool
}

// versionChoices lists the newest versions with their times, and the selected one even
// if it is older.
func (v resultHandler) versionChoices(newest uint64, recent []registry.Change, chosen uint64, at time.Time) []versionChoice {
	var out []versionChoice
	for i, c := range slices.Backward(recent) {
		if len(out) == versionsOffered {
			break
		}
		out = append(out, versionChoice{c.Seq, v.plain(c.Time), i == len(recent)-1 && c.Seq == newest, deltaOf(c.Delta, c.Baseline), c.Seq == chosen})
	}
	if chosen > 0 && !slices.ContainsFunc(out, func(c versionChoice) bool { return c.Selected }) {
		c := versionChoice{Seq: chosen, Selected: true}
		if !at.IsZero() {
			c.Time = v.plain(at)
		}
		out = append(out, c)
	}
	return out
}

// timeOf returns when a version began, zero if the log does not hold it.
func (v resultHandler) timeOf(q *registry.Query, epoch string, seq uint64, recent []registry.Change) (time.Time, error) {
	for _, c := range recent {
		if c.Seq == seq {
			return c.Time, nil
		}
	}
	list, err := v.History.After(q.ID, registry.Position{Epoch: epoch, Seq: seq - 1}, 1)
	if isGap(err) || err == nil && len(list) == 0 {
		return time.Time{}, nil
	} else if err != nil {
		return time.Time{}, err
	}
	return list[0].Time, nil
}
