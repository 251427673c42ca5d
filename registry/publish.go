package registry

import "errors"

// Public says whether everybody may read the results without a token. The holder
// who has held the query longest decides, so that no later one publishes what an
// earlier one keeps to itself, nor hides what it shows. A holder with MayPublish
// decides for all.
func (q *Query) Public() bool {
	first := 0
	for i := range q.Holders {
		h := &q.Holders[i]
		if h.Public && h.MayPublish {
			return true
		}
		if h.Since.Before(q.Holders[first].Since) {
			first = i
		}
	}
	return len(q.Holders) > 0 && q.Holders[first].Public
}

// mayPublish says whether the caller may publish a query of an endpoint whatever
// others ask for.
func (r *Registry) mayPublish(c Caller, endpoint string) (bool, error) {
	if c.Role.Includes(RoleAdmin) {
		return true, nil
	}
	e, err := r.store.Endpoint(endpoint)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return e.AllowPublic, err
}

// mayPublishQuery is mayPublish for the edit of a registration.
func (r *Registry) mayPublishQuery(c Caller, id string, p Patch) (bool, error) {
	if p.Public == nil || !*p.Public {
		return false, nil
	}
	q, err := r.Query(id)
	if err != nil {
		return false, err
	}
	return r.mayPublish(c, q.Endpoint)
}

// publish checks what a registration asks to publish. Asking for what is public
// already is fine; it keeps the query public when those before have left.
func publish(q *Query, h *Holder, may bool) error {
	h.MayPublish = h.Public && (h.MayPublish || may)
	if !h.Public || q.Public() {
		return nil
	}
	p := forbidden("others held this query before %s and keep it to themselves: leave public out, or ask an admin, who can publish it or set allow_public on the endpoint %s", h.Caller, q.Endpoint)
	p.Errors = []FieldError{{"/public", p.Detail}}
	return p
}

// endConsent ends the consent of all holders when a query is not public: no holder
// joins it afterwards to find it published when another one leaves.
func (q *Query) endConsent() {
	if q.Public() {
		return
	}
	for i := range q.Holders {
		q.Holders[i].Public, q.Holders[i].MayPublish = false, false
	}
}

// Upgrade gives a query that an earlier version stored the meaning that it had,
// and says whether that changed anything. A pause was everybody's, and each
// holder could end it: now each has paused it. Each holder could publish alone:
// what is public stays public. What this version stores stays as it is.
func (q *Query) Upgrade() (changed bool) {
	if q.Pause != nil && !q.Pause.All {
		for i := range q.Holders {
			p := *q.Pause
			q.Holders[i].Pause = &p
		}
		q.Pause, changed = nil, true
	}
	public := q.Public()
	for i := range q.Holders {
		if h := &q.Holders[i]; h.Public && !public {
			h.MayPublish, changed = true, true
		}
	}
	return changed
}
