package registry

import "slices"

// Public reports whether the results are readable without a token. The holder
// who has held the query longest decides, so that no later holder publishes or
// hides what an earlier one decided. A holder with MayPublish decides for all.
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

// publish checks a registration's request to publish a query. Publishing a
// query that is already public is allowed, and keeps it public when the earlier
// holders leave.
func publish(q *Query, h *Holder, may bool) error {
	h.MayPublish = h.Public && (h.MayPublish || may)
	if !h.Public || q.Public() {
		return nil
	}
	p := forbidden("earlier holders than %s keep this query private: leave public out, or ask an admin, who can publish it or "+
		"set allow_public on the endpoint %s", h.Caller, q.Endpoint)
	p.Errors = []FieldError{{"/public", p.Detail}}
	return p
}

// endConsent clears the Public flags of all holders of a query that is not
// public. A later holder's departure then does not publish it.
func (q *Query) endConsent() {
	if q.Public() {
		return
	}
	for i := range q.Holders {
		q.Holders[i].Public, q.Holders[i].MayPublish = false, false
	}
}

// PublicName is the first name that a holder gave who made the query public. It is what those without the role read may see.
func (q *Query) PublicName() string {
	i := slices.IndexFunc(q.Holders, func(h Holder) bool { return h.Public && h.Name != "" })
	if i < 0 {
		return ""
	}
	return q.Holders[i].Name
}
