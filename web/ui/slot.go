package ui

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
)

// A slotView shows what ran in a slot, as far as the queries remember it.
type slotView struct {
	Number uint64
	Slot   *scheduler.Slot // nil if it is not recorded any more
	Runs   []slotRun       // the longest first
	Looked int             // queries that were looked at, if not all
}

type slotRun struct {
	Name, Link string
	Outcome    string
	Changed    bool
	Elapsed    time.Duration
	Why        string
}

const mostLookedAt = 5000 // queries for one page

// slot returns the slot that the address names, nil for none.
func (v endpointHandler) slot(slots []scheduler.Slot) (*slotView, error) {
	number, err := strconv.ParseUint(v.r.URL.Query().Get("slot"), 10, 64)
	if err != nil {
		return nil, nil
	}
	s := &slotView{Number: number}
	if i := slices.IndexFunc(slots, func(x scheduler.Slot) bool { return x.Number == number }); i >= 0 {
		s.Slot = &slots[i]
	}
	snap, err := v.catalogue.look()
	if err != nil {
		return nil, err
	}
	looked := 0
	for i := range snap.digests {
		d := &snap.digests[i]
		if d.Endpoint != v.r.PathValue("name") {
			continue
		}
		if looked++; looked > mostLookedAt {
			s.Looked = mostLookedAt
			break
		}
		if err := v.ranIn(s, d); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(s.Runs, func(a, b slotRun) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	return s, nil
}

// ranIn adds the run of a query in the slot.
func (v endpointHandler) ranIn(s *slotView, d *registry.QueryDigest) error {
	st, err := v.Queries.Stats(d.ID)
	if isMissing(err) {
		return nil // released meanwhile
	} else if err != nil {
		return err
	}
	run := slotRun{Name: cmp.Or(d.Name, d.ID), Link: queryPath(d.ID)}
	i := slices.IndexFunc(st.Samples, func(x policy.Sample) bool { return x.Slot == s.Number })
	switch {
	case st.LastRun.Slot == s.Number:
		run.Elapsed, run.Outcome, run.Why = st.LastRun.Elapsed, string(st.LastRun.Outcome), st.LastRun.Error
		run.Changed = st.LastRun.Outcome == registry.Changed
	case i >= 0:
		run.Elapsed, run.Changed, run.Outcome = st.Samples[i].Elapsed, st.Samples[i].Changed, string(registry.Unchanged)
		if run.Changed {
			run.Outcome = string(registry.Changed)
		}
	default:
		return nil
	}
	s.Runs = append(s.Runs, run)
	return nil
}
