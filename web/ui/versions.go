package ui

// This file finds past versions of a result for the pages.

import (
	"context"
	"slices"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

const (
	versionsOffered = 30

	// versionTime bounds the time that computing one past version takes.
	versionTime = 20 * time.Second
)

// between returns the difference between two of a query's versions; nil if they are equal.
func (v resultHandler) between(query string, from, to uint64) (*diff.Delta, error) {
	before, err := v.version(query, from)
	if err != nil {
		return nil, err
	}
	after, err := v.version(query, to)
	if err != nil {
		return nil, err
	}
	return diff.CompareUntil(v.r.Context().Err, before, after)
}

// version returns a query's result after change seq.
func (v resultHandler) version(query string, seq uint64) (*diff.Result, error) {
	st, r, err := v.History.Current(query, true)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, &registry.Problem{Kind: registry.KindNoResult, Title: "There is no result yet", Detail: "No execution has been complete so far."}
	case seq == st.Position.Seq:
		return r, nil
	case seq == 0:
		return nil, &registry.GapError{Reason: registry.Ahead}
	case seq > st.Position.Seq:
		if _, err := v.History.After(query, registry.Position{Epoch: st.Position.Epoch, Seq: seq}, 0); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), versionTime)
	defer cancel()
	return v.History.StateAt(ctx, query, registry.Position{Epoch: st.Position.Epoch, Seq: seq})
}

// placeOf returns when a version began, and its neighbours; zero if it is not kept.
func (v resultHandler) placeOf(query string, seq uint64) (registry.Place, error) {
	p, err := v.History.Place(query, registry.Moment{Position: registry.Position{Seq: seq}})
	if isGap(err) {
		return registry.Place{}, nil
	}
	return p, err
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
