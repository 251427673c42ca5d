package rounds

import (
	"cmp"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// A Tracker tracks the profiles of an endpoint. It is not safe for concurrent use.
type Tracker struct {
	stats      func(query string) *policy.Stats // nil if it is not registered
	profiles   map[string]*profile
	timed      []*profile                 // rounds or intervals may begin by time; ordered by id
	waiting    map[string][]*profile      // by the query whose changes they wait for
	busy       map[*profile]bool          // have open rounds
	charged    map[*profile]bool          // have used execution time in this slot
	wanted     map[string]map[*round]bool // open rounds by the queries they still need
	predictors map[string]*predictor      // by query that profiles predict
	dirty      []*round                   // to be recorded
	stale      bool                       // an interval has begun since Claims

	slot uint64 // in progress, or the last one
	now  time.Time
	lead time.Duration // from one grid time to the next, 0 = no grid
}

// New returns a Tracker without profiles. stats returns what is known of a query, nil if it
// is not registered.
func New(stats func(query string) *policy.Stats) *Tracker { return &Tracker{stats: stats} }

// Idle reports whether no execution means anything to the profiles, if there are any.
func (t *Tracker) Idle() bool { return len(t.waiting)+len(t.wanted)+len(t.predictors) == 0 }

// Load replaces all profiles by recorded ones. slot is the next slot.
func (t *Tracker) Load(list []ProfileState, models []Model, slot uint64) {
	*t = Tracker{stats: t.stats, slot: t.slot, now: t.now, lead: t.lead,
		profiles: make(map[string]*profile, len(list)), busy: map[*profile]bool{}, charged: map[*profile]bool{},
		waiting: map[string][]*profile{}, wanted: map[string]map[*round]bool{}, predictors: map[string]*predictor{}}
	for _, m := range models {
		t.predictors[m.Query] = &predictor{Week: m.Week}
	}
	for i := range list {
		p := profileOf(&list[i], slot)
		t.profiles[p.ID] = p
		t.follow(p)
		for _, r := range list[i].Open {
			t.indexRound(roundOf(r, p))
		}
	}
	slices.SortFunc(t.timed, func(a, b *profile) int { return cmp.Compare(a.ID, b.ID) })
}

// follow indexes a profile by what it waits for.
func (t *Tracker) follow(p *profile) {
	if p.opener == periodic || p.has(predicted) {
		t.timed = append(t.timed, p)
	}
	for _, i := range p.Items {
		if i.When.Predicted && t.predictors[i.Query] == nil {
			t.predictors[i.Query] = &predictor{}
		}
		if q := i.When.Changed; q != "" {
			if w := t.waiting[q]; len(w) == 0 || w[len(w)-1] != p {
				t.waiting[q] = append(w, p)
			}
		}
	}
}

// indexRound indexes an open round by the queries that it still needs.
func (t *Tracker) indexRound(r *round) {
	r.profile.rounds = append(r.profile.rounds, r)
	t.busy[r.profile] = true
	for i := range r.Intervals {
		x := &r.Intervals[i]
		if x.Done != nil {
			continue
		}
		if t.wanted[x.Query] == nil {
			t.wanted[x.Query] = map[*round]bool{}
		}
		t.wanted[x.Query][r] = true
	}
}

// unindexRound removes an ended round from all indexes.
func (t *Tracker) unindexRound(r *round) {
	p := r.profile
	p.rounds = slices.DeleteFunc(p.rounds, func(x *round) bool { return x == r })
	if len(p.rounds) == 0 {
		delete(t.busy, p)
	}
	for i := range r.Intervals {
		q := r.Intervals[i].Query
		if delete(t.wanted[q], r); len(t.wanted[q]) == 0 {
			delete(t.wanted, q)
		}
	}
}

// markDirty adds a round to what Drain returns.
func (t *Tracker) markDirty(r *round) {
	if !r.dirty {
		r.dirty = true
		t.dirty = append(t.dirty, r)
	}
}

// Drain returns what has to be recorded since the last call.
func (t *Tracker) Drain() (u Updates) {
	slices.SortFunc(t.dirty, byNumber)
	for _, r := range t.dirty {
		r.dirty = false
		x := r.Round
		x.Intervals, x.ProfileCreatedAt = slices.Clone(x.Intervals), r.profile.CreatedAt
		u.Rounds = append(u.Rounds, x)
		if r.State != registry.RoundOpen && (len(u.Ended) == 0 || u.Ended[len(u.Ended)-1] != r.Profile) {
			u.Ended = append(u.Ended, r.Profile)
		}
	}
	t.dirty = nil
	for id, p := range t.predictors {
		if p.dirty {
			p.dirty = false
			u.Models = append(u.Models, Model{Query: id, Week: p.Week})
		}
	}
	return u
}

// open lists the open rounds in the order in which they were opened.
func (t *Tracker) open() (list []*round) {
	for p := range t.busy {
		list = append(list, p.rounds...)
	}
	slices.SortFunc(list, byOpening)
	return list
}

// Wanted explains which open interval needs a query in a slot, starting with the
// earliest round. ok is false if none does.
func (t *Tracker) Wanted(query string, now time.Time, slot uint64) (why string, ok bool) {
	list := make([]*round, 0, len(t.wanted[query]))
	for r := range t.wanted[query] {
		list = append(list, r)
	}
	slices.SortFunc(list, byOpening)
	for _, r := range list {
		for i := range r.Intervals {
			if r.Intervals[i].Query == query && r.wants(i, now, slot) {
				return r.claim(i), true
			}
		}
	}
	return "", false
}
