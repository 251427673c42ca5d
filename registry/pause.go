package registry

import "time"

// A Pause records who stopped executions, and when.
type Pause struct {
	By  string    `json:"by"`
	At  time.Time `json:"at"`
	All bool      `json:"all,omitempty"` // by an admin, for all holders of a query
}

// Paused returns the pause that stops the query, nil if it runs: an admin's
// pause, or the latest of the holders' pauses if all of them have paused it.
func (q *Query) Paused() *Pause {
	if q.Pause != nil {
		return q.Pause
	}
	var latest *Pause
	for i := range q.Holders {
		p := q.Holders[i].Pause
		if p == nil {
			return nil
		}
		if latest == nil || p.At.After(latest.At) {
			latest = p
		}
	}
	return latest
}

// PausedFor returns the pause that the caller's Resume would end: the one in
// force, else the caller's own.
func (q *Query) PausedFor(c Caller) *Pause {
	if p := q.Paused(); p != nil || c.Role.Includes(RoleAdmin) {
		return p
	}
	h, _ := q.Holder(c.Name)
	return h.Pause
}

// effectiveHolders yields the holders whose settings are in force: those who
// have not paused the query, or all of them if all have.
func (q *Query) effectiveHolders(yield func(*Holder) bool) {
	all := q.Pause == nil && q.Paused() != nil
	for i := range q.Holders {
		if h := &q.Holders[i]; (all || h.Pause == nil) && !yield(h) {
			return
		}
	}
}

// Pause stops executions until Resume. A holder's pause is its own: the query
// still runs while another holder wants it, and the pause ends with the
// registration. An admin's pause applies to all holders and lasts until an
// admin resumes the query.
func (r *Registry) Pause(c Caller, id string) (Query, error) {
	at := r.now().UTC()
	return r.editAs(c, id, func(q *Query) error {
		p := q.pauseOf(c)
		if *p == nil {
			*p = &Pause{By: c.Name, At: at, All: p == &q.Pause}
		}
		return nil
	})
}

// pauseOf returns where the caller's pause is stored. The caller is a holder or
// an admin.
func (q *Query) pauseOf(c Caller) **Pause {
	for i := range q.Holders {
		if h := &q.Holders[i]; h.Caller == c.Name && !c.Role.Includes(RoleAdmin) {
			return &h.Pause
		}
	}
	return &q.Pause
}

// Resume ends a pause: a holder's own, or for an admin the one that applies to
// all. If there is none, an admin ends the pauses of all holders.
func (r *Registry) Resume(c Caller, id string) (Query, error) {
	return r.editAs(c, id, func(q *Query) error {
		switch {
		case q.Pause != nil && !c.Role.Includes(RoleAdmin):
			return &Problem{Kind: KindConflict,
				Detail: "the admin " + q.Pause.By + " paused the query for all holders: an admin has to resume it"}
		case q.Pause != nil:
			q.Pause = nil
		case c.Role.Includes(RoleAdmin):
			for i := range q.Holders {
				q.Holders[i].Pause = nil
			}
		default:
			*q.pauseOf(c) = nil
		}
		return nil
	})
}
