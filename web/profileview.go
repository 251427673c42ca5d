package web

import (
	"fmt"
	"net/url"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web/api"
)

// A profileViewer renders profiles and rounds for one caller. It caches the names of the queries that it has read.
type profileViewer struct {
	*call
	names map[string]string
}

func (c profileAPI) viewer() *profileViewer {
	return &profileViewer{c.call, map[string]string{}}
}

// name returns the caller's name for a query, "" if it has none or was deleted.
func (v *profileViewer) name(id string) string {
	n, ok := v.names[id]
	if !ok {
		if q, err := v.Registry.Query(id); err == nil {
			n = q.NameFor(v.caller.Name)
		}
		v.names[id] = n
	}
	return n
}

func (v *profileViewer) profile(it registry.ListedProfile) (api.Profile, error) {
	p, s := it.Profile, it.Status
	w := api.Profile{ID: p.ID, Name: p.Name, Endpoint: p.Endpoint, Owner: p.Owner, Budget: p.Budget, Weight: p.Weight, State: "live",
		Epoch: s.Epoch, Seq: s.Seq, Captured: s.Seq, Expired: s.Expired, Open: s.Open, Rounds: s.Rounds, EndedAt: moment(s.EndedAt),
		Warnings: []registry.Warning{}, CreatedAt: p.CreatedAt, Items: make([]api.Item, len(p.Items)),
		Links: api.ProfileLinks{Captures: v.url("/v1/profiles/" + url.PathEscape(p.ID) + "/captures"), Live: v.url("/v1/live")}}
	if !p.Window.IsZero() {
		w.Window = &p.Window
	}
	if w.Weight == 0 {
		w.Weight = 1
	}
	gone := map[string]bool{}
	for _, id := range s.Missing {
		gone[id], w.State = true, "broken"
	}
	for i, x := range p.Items {
		w.Items[i] = api.Item{Query: x.Query, Name: v.name(x.Query), When: x.When, Missing: gone[x.Query] || gone[x.When.Changed]}
		if x.When.Changed != "" {
			w.Items[i].TriggerName = v.name(x.When.Changed)
		}
	}
	if w.State == "broken" {
		w.Warnings = append(w.Warnings, registry.Warning{Code: "missing-query",
			Message: s.Missing[0] + " is no longer registered: register it again, or delete the profile"})
	}
	w.Followers, w.NextDue = v.Following(p.ID), moment(v.NextRound(p))
	err := v.policies(&w)
	return w, err
}

// policies warns about endpoints whose policy ignores the deadlines of profiles.
func (v *profileViewer) policies(w *api.Profile) error {
	e, err := v.Registry.Endpoint(w.Endpoint)
	if err != nil {
		return err
	}
	w.Policy = e.Policy
	if !scheduler.MindsIntervals(e.Policy) {
		w.Warnings = append(w.Warnings, registry.Warning{Code: "policy", Message: fmt.Sprintf(
			"the policy of %s, %s, does not look at intervals: they are captured when it happens to run the queries in time; set "+
				"policy to mrsf:p (and fallback_policy to %s)", w.Endpoint, e.Policy, e.Policy)})
	}
	return nil
}

func (v *profileViewer) round(r *registry.Round) api.Round {
	w := api.Round{Round: r.Number, State: r.State, OpenedAt: r.OpenedAt, Slot: r.Slot, Trigger: v.cause(r.Trigger),
		EndedAt:   moment(r.EndedAt),
		EndedSlot: optional(r.EndedSlot), Epoch: r.Position.Epoch, Seq: r.Position.Seq, Reason: r.Reason,
		Intervals: make([]api.Interval, len(r.Intervals))}
	for i := range r.Intervals {
		w.Intervals[i] = v.interval(r, i)
	}
	return w
}

func (v *profileViewer) cause(c registry.Cause) *api.Cause {
	if c.Query == "" {
		return nil
	}
	return &api.Cause{Query: c.Query, Name: v.name(c.Query), Epoch: c.Epoch, Seq: c.Seq}
}

func (v *profileViewer) interval(r *registry.Round, i int) api.Interval {
	x := &r.Intervals[i]
	w := api.Interval{Item: i, Query: x.Query, Name: v.name(x.Query), From: moment(x.From), Until: moment(x.Until),
		FirstSlot: optional(x.First), LastSlot: optional(x.Last), Reason: x.Reason, State: "open"}
	switch {
	case x.Done != nil:
		w.State, w.CapturedAt, w.Slot, w.Tier = "captured", moment(x.Done.At), optional(x.Done.Slot), x.Done.Why
		w.Epoch, w.Seq = x.Done.Epoch, x.Done.Seq
	case r.State == registry.RoundExpired && x.Reason != "":
		w.State = "expired"
	case r.State == registry.RoundExpired:
		w.State = "dropped"
	case !x.HasBounds():
		w.State = "waiting"
	case x.From.After(v.Now()):
		w.State = "to_come"
	}
	return w
}
