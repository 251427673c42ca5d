package registry

import "time"

// A Pause says who stopped executions, and when.
type Pause struct {
	By  string    `json:"by"`
	At  time.Time `json:"at"`
	All bool      `json:"all,omitempty"` // an admin's, for all holders of a query
}

// Paused is the pause that keeps the query from running, nil when none does: an
// admin's, or the latest of the holders' when all of them have paused it.
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

// PausedFor is the pause that the caller's Resume would look at: the one in force,
// else a holder's own.
func (q *Query) PausedFor(c Caller) *Pause {
	if p := q.Paused(); p != nil || c.Role.Includes(RoleAdmin) {
		return p
	}
	h, _ := q.Holder(c.Name)
	return h.Pause
}

// effectiveHolders yields the holders whose settings count: those who have not paused the
// query, or all of them when all have.
func (q *Query) effectiveHolders(yield func(*Holder) bool) {
	all := q.Pause == nil && q.Paused() != nil
	for i := range q.Holders {
		if h := &q.Holders[i]; (all || h.Pause == nil) && !yield(h) {
			return
		}
	}
}

// Pause stops executions until Resume. A holder's pause is its own: the query
// goes on while another holder wants it, and the pause ends with the
// registration. An admin's pause is for all and lasts until an admin resumes.
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

// pauseOf is where the caller's pause is kept. The caller is a holder or an
// admin.
func (q *Query) pauseOf(c Caller) **Pause {
	for i := range q.Holders {
		if h := &q.Holders[i]; h.Caller == c.Name && !c.Role.Includes(RoleAdmin) {
			return &h.Pause
		}
	}
	return &q.Pause
}

// Resume undoes Pause: a holder its own pause, an admin the one for all. Where
// there is none for all, an admin lifts the pauses of all holders.
func (r *Registry) Resume(c Caller, id string) (Query, error) {
	return r.editAs(c, id, func(q *Query) error {
		switch {
		case q.Pause != nil && !c.Role.Includes(RoleAdmin):
			return &Problem{Type: "conflict", Status: 409, Title: "Not possible now",
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
