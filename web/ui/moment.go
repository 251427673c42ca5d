package ui

import (
	"errors"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// momentLayouts are the ways to write a moment in an address: as links have it,
// as browsers send it, and as people type it. All are UTC unless they say.
var momentLayouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"}

func readMoment(s string) (time.Time, error) {
	for _, layout := range momentLayouts {
		if t, err := time.Parse(layout, strings.TrimSpace(s)); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, &registry.Problem{Kind: registry.KindMalformed, Title: "Not a moment", Detail: "Write a date and a time in UTC, such as 2026-11-20T09:30:00."}
}

// versionAt is the version of a query that was in force at a moment: the last
// change not after it. recent are its newest changes, the oldest first; what
// lies before them is looked up in the log, in as many steps as a search by
// halves takes.
func (v *visit) versionAt(q *registry.Query, newest registry.Position, recent []registry.Change, t time.Time) (uint64, error) {
	if len(recent) > 0 && !t.Before(recent[0].Time) {
		i := sort.Search(len(recent), func(i int) bool { return recent[i].Time.After(t) })
		return recent[i-1].Seq, nil
	}
	last := newest.Seq
	if len(recent) > 0 {
		last = recent[0].Seq - 1
	}
	var failed error
	trimmed := uint64(0) // the last version that is not kept any more
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

// versionChoices offers the newest versions with their times, and the chosen one
// wherever it lies.
func (v *visit) versionChoices(newest uint64, recent []registry.Change, chosen uint64, at time.Time) []choice {
	var out []choice
	for i, c := range slices.Backward(recent) {
		if len(out) == versionsOffered {
			break
		}
		label := count(c.Seq) + ", " + v.clock(c.Time)
		if i == len(recent)-1 && c.Seq == newest {
			label += ", newest"
		}
		if d := deltaOf(c.Delta, c.Baseline); d.Plus+d.Minus != "" {
			label += ": " + strings.TrimSpace(d.Plus+" "+d.Minus)
		}
		out = append(out, choice{Value: itoa(c.Seq), Label: label, Selected: c.Seq == chosen})
	}
	if chosen > 0 && !slices.ContainsFunc(out, func(c choice) bool { return c.Selected }) {
		label := count(chosen)
		if !at.IsZero() {
			label += ", " + v.clock(at)
		}
		out = append(out, choice{Value: itoa(chosen), Label: label, Selected: true})
	}
	return out
}

// clock writes a moment that does not run: the time today, else the date, too.
func (v *visit) clock(t time.Time) string {
	t = t.UTC()
	if t.Format(time.DateOnly) == v.now.UTC().Format(time.DateOnly) {
		return t.Format("15:04:05")
	}
	return t.Format("2 Jan 2006, 15:04:05")
}

// timeOf is when a version began, zero when the log does not say.
func (v *visit) timeOf(q *registry.Query, epoch string, seq uint64, recent []registry.Change) (time.Time, error) {
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
