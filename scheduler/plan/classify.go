package plan

// This file puts queries into cohorts, and keeps what cohorts have learnt.

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/cohort"
)

// Unclassified returns up to most queries whose membership is unknown.
func (p *Planner) Unclassified(most int) (out []*registry.Query) {
	for len(p.strangers) > 0 && len(out) < most {
		c := p.strangers[len(p.strangers)-1]
		p.strangers = p.strangers[:len(p.strangers)-1]
		if c.planned {
			c.known = true
			out = append(out, &c.Query)
		}
	}
	return out
}

// forgetStranger notes that a query was removed.
func (p *Planner) forgetStranger(c *item) {
	if c.known {
		return
	}
	if p.gone++; 2*p.gone > len(p.strangers) {
		p.strangers = slices.DeleteFunc(p.strangers, func(c *item) bool { return !c.planned })
		p.gone = 0
	}
}

// Classify sets the membership of a query.
func (p *Planner) Classify(query string, m Membership) {
	c := p.all[query]
	if c == nil || m.Key == "" {
		return
	}
	p.leaveCohort(c)
	k := p.cohorts[m.Key]
	if k == nil {
		if p.cohorts == nil {
			p.cohorts = map[string]*cohortOf{}
		}
		k = &cohortOf{Cohort: cohort.New(m.Template, m.Probes), key: m.Key, form: m.Form}
		if s, known := p.recalled[m.Key]; known {
			k.Restore(s, p.now)
			delete(p.recalled, m.Key)
		}
		p.cohorts[m.Key] = k
	}
	c.member, c.cohort = &cohortState{args: m.Arguments, text: 16, at: len(k.members)}, k
	for _, a := range m.Arguments {
		c.member.text += len(a) + 1
	}
	k.members = append(k.members, c)
}

// Recall provides what was learnt about cohorts before.
func (p *Planner) Recall(list []cohort.State) {
	if p.recalled == nil {
		p.recalled = map[string]cohort.State{}
	}
	for _, s := range list {
		p.recalled[s.Key] = s
	}
}

// recallFor is how long the state of a cohort without members is kept. A template stays
// switched off for as long, whether its queries are removed or not.
const recallFor = 25 * time.Hour

// learnt notes that the state of a cohort has to be saved, with the next commit if it
// presses.
func (p *Planner) learnt(k *cohortOf, presses bool) {
	if !k.unsaved {
		k.unsaved = true
		p.unsaved = append(p.unsaved, k)
	}
	p.presses = p.presses || presses
}

// Learnt returns the states of cohorts that are to be saved: at the end of a slot what
// its requests have taught, else only if something cannot wait. dropped are keys of
// states that are no longer needed.
func (p *Planner) Learnt(now time.Time, end bool) (saved []cohort.State, dropped []string) {
	if end || p.presses {
		for _, k := range p.unsaved {
			k.unsaved = false
			saved = append(saved, k.State(k.key, now))
		}
		clear(p.unsaved)
		p.unsaved, p.presses = p.unsaved[:0], false
	}
	if !end || len(p.strangers) > 0 {
		return saved, nil
	}
	for key, s := range p.recalled {
		if age := now.Sub(s.At); age > recallFor || age < -recallFor {
			dropped = append(dropped, key)
			delete(p.recalled, key)
		}
	}
	slices.Sort(dropped)
	return saved, dropped
}

// leaveCohort forgets the membership of a query.
func (p *Planner) leaveCohort(c *item) {
	m := c.member
	if m == nil {
		return
	}
	k := c.cohort
	last := len(k.members) - 1
	k.members[m.at], k.members[last].member.at = k.members[last], m.at
	k.members[last] = nil
	if k.members = k.members[:last]; last == 0 {
		delete(p.cohorts, k.key)
		p.Recall([]cohort.State{k.State(k.key, p.now)})
	}
	c.member, c.cohort = nil, nil
}

// Cohorts describes the cohorts, the largest first.
func (p *Planner) Cohorts(now time.Time) []cohort.Snapshot {
	out := make([]cohort.Snapshot, 0, len(p.cohorts))
	for _, k := range p.cohorts {
		s := k.Snapshot(now)
		if s.Members = len(k.members); s.Members > 0 {
			s.Example = k.members[0].Query.ID
		}
		for _, c := range k.members {
			if c.member.solo || c.member.spoils {
				s.Alone++
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b cohort.Snapshot) int {
		return cmp.Or(cmp.Compare(b.Members, a.Members), strings.Compare(a.Template, b.Template))
	})
	return out
}
