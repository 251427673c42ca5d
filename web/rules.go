// This file serves alert rules.

package web

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

// filled replaces a missing map by an empty one.
func filled(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func alertViewOf(id string, a registry.Alert) api.Alert {
	return api.Alert{Alert: id, State: a.State, Labels: filled(a.Labels), Summary: a.Summary, Since: a.Since.UTC(), FiredAt: a.FiredAt}
}

// ruleEvents shows events, the newest first.
func ruleEvents(list []registry.RuleEvent) []api.RuleEvent {
	views := make([]api.RuleEvent, 0, len(list))
	for _, e := range slices.Backward(list) {
		views = append(views, api.RuleEvent{Time: e.Time.UTC(), State: e.State, Labels: filled(e.Labels), Summary: e.Summary,
			Seq: e.Seq, Since: e.Since.UTC()})
	}
	return views
}

func ruleViewOf(r registry.ListedRule) api.Rule {
	v := api.Rule{ID: r.ID, Name: r.Name, Caller: r.Caller, Query: r.Query, When: r.When, For: r.For, KeepFiringFor: r.KeepFiringFor,
		Labels: filled(r.Labels), Summary: r.Summary,
		To: []api.Receiver{}, CreatedAt: r.CreatedAt.UTC(), Status: r.Status, Reason: r.Reason, CheckedAt: r.CheckedAt,
		Seq: r.State.At.Seq, Fired: r.State.Fired,
		Firing: r.Firing, Pending: r.Pending}
	for _, x := range r.Receivers {
		to := api.Receiver{Kind: x.To.Kind, Address: x.To.Masked(), Quiet: x.To.Quiet, Waiting: x.Waiting(), Sent: x.Deliveries,
			GivenUp: x.GaveUp, Failures: x.Failures, LastError: x.LastError}
		if x.LastDelivery != nil {
			to.LastSent = *x.LastDelivery
		}
		v.To = append(v.To, to)
	}
	return v
}

// shownAlerts is how many alerts the answer about one rule has. All of them are in pages.
const shownAlerts = 100

// answer writes a rule with its first alerts and its history, the newest event first, and with the
// secrets that it has now and had not before.
func (c ruleAPI) answer(status int, r registry.ListedRule, before []registry.Receiver) error {
	v := ruleViewOf(r)
	for i, secret := range NewSecrets(before, r.To) {
		v.To[i].Secret = secret
	}
	list, err := c.Rules.Alerts(r.ID, "", "", shownAlerts)
	if err != nil {
		return err
	}
	v.Alerts, v.History = alertViews(list), ruleEvents(r.State.Events)
	c.w.Header().Set("ETag", RuleTag(r))
	return c.json(status, v)
}

// NewSecrets returns those secrets of receivers that were not there before, by index.
func NewSecrets(before, after []registry.Receiver) map[int]string {
	made := map[int]string{}
	for i, to := range after {
		if to.Secret != "" && !slices.ContainsFunc(before, func(x registry.Receiver) bool { return x.Secret == to.Secret }) {
			made[i] = to.Secret
		}
	}
	return made
}

func alertViews(list []registry.ListedAlert) []api.Alert {
	views := make([]api.Alert, len(list))
	for i, a := range list {
		views[i] = alertViewOf(a.ID, a.Alert)
	}
	return views
}

// alertID is the syntax of the ids of alerts.
var alertID = regexp.MustCompile("^([0-9a-f]{16})?$")

// alerts lists the alerts of a rule.
func (c ruleAPI) alerts(r registry.ListedRule) error {
	limit, state, after := c.params.limit(usualPage, mostPage), registry.AlertState(c.params.Get("state")), c.params.Get("cursor")
	if state != "" && state != registry.AlertFiring && state != registry.AlertPending {
		c.params.bad("state", "state is %s or %s", registry.AlertFiring, registry.AlertPending)
	}
	if !alertID.MatchString(after) {
		c.params.bad("cursor", "a cursor is what next of the page before says")
	}
	if c.params.err != nil {
		return c.params.err
	}
	list, err := c.Rules.Alerts(r.ID, state, after, limit+1)
	if err != nil {
		return err
	}
	next := ""
	if len(list) > limit {
		list = list[:limit]
		next = list[limit-1].ID
	}
	return c.page("alerts", alertViews(list), next, "state", "limit")
}

// MayManageRule reports whether a caller may see and remove a rule.
func MayManageRule(c registry.Caller, r *registry.ListedRule) bool {
	return c.Role.Includes(registry.RoleAdmin) || r.Caller == c.Name
}

// rule returns the rule that the path names by id or name, if it belongs to the caller.
func (c *call) rule() (registry.ListedRule, error) {
	r, err := c.Rules.Rule(c.caller, c.r.PathValue("id"))
	if missing(err) || err == nil && !MayManageRule(c.caller, &r) {
		return r, notFound("there is no such rule, or it belongs to another caller")
	}
	return r, err
}

func (c ruleAPI) list() error {
	limit, after, query := c.params.limit(usualPage, mostPage), c.params.cursor("rule_"), c.params.Get("query")
	status := registry.RuleStatus(c.params.Get("status"))
	if status != "" && !slices.Contains(registry.RuleStatuses(), status) {
		return malformed("?status", "status is one of %s", join(registry.RuleStatuses()))
	}
	if c.params.err != nil {
		return c.params.err
	}
	var unknown error // unless rules have outlived the query
	if query != "" {
		q, err := c.Registry.Resolve(c.caller, query)
		switch {
		case err == nil:
			query = q.ID
		case !missing(err):
			return err
		case after == "":
			unknown = err
		}
	}
	views := []api.Rule{}
	for {
		page, err := c.Rules.Rules(after, 500)
		if err != nil {
			return err
		}
		for _, r := range page {
			if len(views) == limit {
				return c.page("rules", views, after, "status", "query", "limit")
			}
			if after = r.ID; MayManageRule(c.caller, &r) && (status == "" || r.Status == status) && (query == "" || r.Query == query) {
				views = append(views, ruleViewOf(r))
			}
		}
		switch {
		case len(page) > 0:
		case len(views) == 0 && unknown != nil:
			return unknown
		default:
			return c.page("rules", views, "", "status", "query", "limit")
		}
	}
}

func (c ruleAPI) create() error {
	var s registry.RuleSettings
	if err := c.decode(&s, typeJSON); err != nil {
		return err
	}
	r, err := c.Rules.Create(c.r.Context(), c.caller, s)
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", c.url("/v1/rules/"+url.PathEscape(r.ID)))
	return c.answer(http.StatusCreated, r, nil)
}

// RuleTag is the validator of a rule's settings.
func RuleTag(r registry.ListedRule) string { return settingsTag(r.Rule) }

func (c ruleAPI) show(r registry.ListedRule) error { return c.answer(http.StatusOK, r, r.To) }

// edit applies a merge patch to the settings. The addresses of receivers may be masked as in answers. Only this
// answer contains the secrets of webhooks that are new.
func (c ruleAPI) edit() error {
	var patch map[string]any
	if err := c.decode(&patch, typeMerge, typeJSON); err != nil {
		return err
	}
	var before []registry.Receiver
	r, err := c.change(func(old registry.ListedRule) (registry.ListedRule, error) {
		before = old.To
		s, err := apply(old.RuleSettings, patch)
		if err != nil {
			return old, err
		}
		UnmaskReceivers(&s, old.RuleSettings)
		return c.Rules.Replace(c.r.Context(), c.caller, old.ID, s)
	})
	if err != nil {
		return err
	}
	return c.answer(http.StatusOK, r, before)
}

// change edits the rule of the path if it is what If-Match names.
func (c ruleAPI) change(do func(old registry.ListedRule) (registry.ListedRule, error)) (registry.ListedRule, error) {
	return guarded(c.call, (*call).rule, RuleTag, do)
}

// UnmaskReceivers replaces masked addresses by those of the stored rule.
func UnmaskReceivers(s *registry.RuleSettings, old registry.RuleSettings) {
	for i := range s.To {
		for _, was := range old.To {
			if s.To[i].Kind == was.Kind && s.To[i].Address == was.Masked() {
				s.To[i].Address = was.Address
			}
		}
	}
}

// setRulePaused pauses or resumes the rule of the path.
func setRulePaused(paused bool) func(ruleAPI) error {
	return func(c ruleAPI) error {
		r, err := c.change(func(old registry.ListedRule) (registry.ListedRule, error) {
			return c.Rules.SetPaused(c.r.Context(), old.ID, paused)
		})
		if err != nil {
			return err
		}
		return c.show(r)
	}
}

func (c ruleAPI) remove() error {
	_, err := c.change(func(old registry.ListedRule) (registry.ListedRule, error) { return old, c.Rules.Remove(old.ID) })
	return c.noContent(err)
}

func (c ruleAPI) try() error {
	var s registry.RuleSettings
	if err := c.decode(&s, typeJSON); err != nil {
		return err
	}
	t, err := TryRule(c.r.Context(), c.Rules, c.caller, s)
	if err != nil {
		return err
	}
	v := api.RuleTrial{From: t.From.UTC(), To: t.To.UTC(), Changes: t.Changes, Fired: t.Fired, Resolved: t.Resolved,
		Problem: t.Problem, Alerts: []api.Alert{}, History: ruleEvents(t.Events)}
	for _, a := range t.Active {
		v.Alerts = append(v.Alerts, alertViewOf("", a))
	}
	return c.json(http.StatusOK, v)
}

// TryRule tries a rule within the time that reading the past may take.
func TryRule(ctx context.Context, rules Rules, caller registry.Caller, s registry.RuleSettings) (registry.RuleTrial, error) {
	ctx, cancel := context.WithTimeout(ctx, pastTime)
	defer cancel()
	t, err := rules.Try(ctx, caller, s)
	if errors.Is(err, context.DeadlineExceeded) || isGap(err) {
		err = newProblem(registry.KindUnavailable, "the history could not be read in "+pastTime.String()+
			": try again when the server is less busy, or lower retention.changes")
	}
	return t, err
}
