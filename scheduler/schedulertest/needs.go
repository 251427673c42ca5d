package schedulertest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/rounds"
)

// Memory keeps profiles with the rounds of each.
var _ ProfileSeeder = (*Memory)(nil)

// Want implements ProfileSeeder.
func (m *Memory) Want(p registry.Profile) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.needs == nil {
		m.needs, m.profiled = map[string]*rounds.ProfileState{}, map[string]uint64{}
	}
	if m.needs[p.ID] == nil {
		m.needs[p.ID] = &rounds.ProfileState{}
	}
	m.needs[p.ID].Profile = p
	m.revision++
	m.profiled[p.Endpoint] = m.revision
	return nil
}

// Unwant implements ProfileSeeder.
func (m *Memory) Unwant(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.needs[id]
	if n == nil {
		return fmt.Errorf("profile %s: %w", id, registry.ErrNotFound)
	}
	delete(m.needs, id)
	m.ends = slices.DeleteFunc(m.ends, func(r registry.Round) bool { return r.Profile == id })
	m.revision++
	m.profiled[n.Profile.Endpoint] = m.revision
	return nil
}

// Ends implements ProfileSeeder.
func (m *Memory) Ends(id string) (list []registry.Round, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.ends {
		if r.Profile == id {
			list = append(list, r)
		}
	}
	return list, nil
}

// wants lists an endpoint's profiles by id.
func (m *Memory) wants(endpoint string) (list []rounds.ProfileState) {
	for _, n := range m.needs {
		if n.Profile.Endpoint == endpoint {
			x := *n
			x.Open, x.Expected = slices.Clone(n.Open), slices.Clone(n.Expected)
			list = append(list, x)
		}
	}
	slices.SortFunc(list, func(a, b rounds.ProfileState) int { return cmp.Compare(a.Profile.ID, b.Profile.ID) })
	return list
}

// round records one round.
func (m *Memory) round(r registry.Round, slot uint64) {
	n := m.needs[r.Profile]
	if n == nil || !r.IsOf(&n.Profile) {
		return
	}
	r.ProfileCreatedAt = time.Time{}
	at := slices.IndexFunc(n.Open, func(x registry.Round) bool { return x.Number == r.Number })
	if at < 0 && r.Number <= n.Rounds {
		return
	}
	r.Intervals = slices.Clone(r.Intervals)
	if at >= 0 {
		was := n.Open[at]
		r.Trigger = was.Trigger
		for i := range r.Intervals {
			if was.Intervals[i].Done != nil {
				r.Intervals[i].Done = was.Intervals[i].Done
			}
			if was.Intervals[i].Cause.Seq > 0 {
				r.Intervals[i].Cause = was.Intervals[i].Cause
			}
		}
		n.Open = slices.Delete(n.Open, at, at+1)
	} else {
		n.Rounds, n.Slot = r.Number, max(n.Slot, r.Slot)
		if r.OpenedAt.After(n.Opened) {
			n.Opened = r.OpenedAt
		}
	}
	n.Expect(&r, slot)
	m.place(&r.Trigger.Position, r.Trigger.Query)
	for i := range r.Intervals {
		x := &r.Intervals[i]
		m.place(&x.Cause.Position, x.Cause.Query)
		if x.Done != nil {
			done := *x.Done
			m.place(&done.Position, x.Query)
			x.Done = &done
		}
	}
	if r.State == registry.RoundOpen {
		n.Open = append(n.Open, r)
		return
	}
	if r.State == registry.RoundCaptured {
		r.Position = registry.Position{Epoch: "c-" + r.Profile, Seq: 1}
		for _, x := range m.ends {
			if x.Profile == r.Profile && x.State == registry.RoundCaptured {
				r.Position.Seq++
			}
		}
	}
	m.ends = append(m.ends, r)
}

func (m *Memory) place(p *registry.Position, query string) {
	if k := m.queries[query]; k != nil && p.Epoch == "" {
		*p = k.stats.Position
	}
}
