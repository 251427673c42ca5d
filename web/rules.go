// This file serves alert rules.

package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// A ruleView is the rule resource. Alerts and history are in the answers about one rule.
type ruleView struct {
	ID            string              `json:"id"`
	Name          string              `json:"name"`
	Caller        string              `json:"caller"`
	Query         string              `json:"query"`
	When          string              `json:"when"`
	For           registry.Duration   `json:"for"`
	KeepFiringFor registry.Duration   `json:"keep_firing_for"`
	Labels        map[string]string   `json:"labels"`
	Summary       string              `json:"summary"`
	To            []receiverView      `json:"to"`
	CreatedAt     time.Time           `json:"created_at"`
	Status        registry.RuleStatus `json:"status"`
	Reason        string              `json:"reason,omitempty"`
	CheckedAt     time.Time           `json:"checked_at,omitzero"`
	Seq           uint64              `json:"seq"`
	Pending       int                 `json:"pending"`
	Firing        int                 `json:"firing"`
	Fired         uint64              `json:"fired"`
	Alerts        []alertView         `json:"alerts,omitzero"`
	History       []ruleEventView     `json:"history,omitzero"`
}

type receiverView struct {
	Webhook      string    `json:"webhook,omitempty"`
	Alertmanager string    `json:"alertmanager,omitempty"`
	Email        string    `json:"email,omitempty"`
	Secret       string    `json:"secret,omitempty"` // only in the answer that creates it
	Waiting      int       `json:"waiting"`
	Sent         uint64    `json:"sent"`
	GivenUp      uint64    `json:"given_up"`
	Failures     int       `json:"failures"`
	LastError    string    `json:"last_error,omitempty"`
	LastSent     time.Time `json:"last_sent,omitzero"`
}

type alertView struct {
	State   registry.AlertState `json:"state"`
	Labels  map[string]string   `json:"labels"`
	Summary string              `json:"summary,omitempty"`
	Since   time.Time           `json:"since"`
	FiredAt time.Time           `json:"fired_at,omitzero"`
}

type ruleEventView struct {
	Time    time.Time           `json:"time"`
	State   registry.AlertState `json:"state"`
	Labels  map[string]string   `json:"labels"`
	Summary string              `json:"summary,omitempty"`
	Seq     uint64              `json:"seq"`
	Since   time.Time           `json:"since"`
}

// filled replaces a missing map by an empty one.
func filled(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

func alertViewOf(a registry.Alert) alertView {
	return alertView{a.State, filled(a.Labels), a.Summary, a.Since.UTC(), a.FiredAt}
}

func ruleEvents(list []registry.RuleEvent) []ruleEventView {
	views := make([]ruleEventView, 0, len(list))
	for _, e := range list {
		views = append(views, ruleEventView{e.Time.UTC(), e.State, filled(e.Labels), e.Summary, e.Seq, e.Since.UTC()})
	}
	return views
}

func ruleViewOf(r registry.ListedRule) ruleView {
	v := ruleView{ID: r.ID, Name: r.Name, Caller: r.Caller, Query: r.Query, When: r.When, For: r.For, KeepFiringFor: r.KeepFiringFor, Labels: filled(r.Labels), Summary: r.Summary,
		To: []receiverView{}, CreatedAt: r.CreatedAt.UTC(), Status: r.Status, Reason: r.Reason, CheckedAt: r.CheckedAt, Seq: r.State.At.Seq, Fired: r.State.Fired}
	for _, a := range r.State.Alerts {
		if a.State == registry.AlertFiring {
			v.Firing++
		} else {
			v.Pending++
		}
	}
	for _, x := range r.Receivers {
		v.To = append(v.To, receiverView{Webhook: MaskedCallback(x.Webhook), Alertmanager: x.Alertmanager, Email: x.Email,
			Waiting: x.Waiting, Sent: x.Sent, GivenUp: x.GivenUp, Failures: x.Failures, LastError: x.LastError, LastSent: x.LastSent})
	}
	return v
}

// whole adds alerts and history, the newest event first.
func (v ruleView) whole(r registry.ListedRule) ruleView {
	v.Alerts = []alertView{}
	for _, key := range slices.Sorted(maps.Keys(r.State.Alerts)) {
		v.Alerts = append(v.Alerts, alertViewOf(*r.State.Alerts[key]))
	}
	v.History = ruleEvents(r.State.Events)
	slices.Reverse(v.History)
	return v
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
	views := []ruleView{}
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
		if len(page) == 0 {
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
	v := ruleViewOf(r).whole(r)
	for i := range v.To {
		v.To[i].Secret = r.To[i].Secret
	}
	c.w.Header().Set("Location", c.url("/v1/rules/"+url.PathEscape(r.ID)))
	c.w.Header().Set("ETag", RuleTag(r))
	return c.json(http.StatusCreated, v)
}

// RuleTag is the validator of a rule's settings.
func RuleTag(r registry.ListedRule) string { return settingsTag(r.Rule) }

func (c ruleAPI) show(r registry.ListedRule) error {
	c.w.Header().Set("ETag", RuleTag(r))
	return c.json(http.StatusOK, ruleViewOf(r).whole(r))
}

// edit applies a merge patch to the settings. Only this answer contains the secrets of
// webhooks that are new.
func (c ruleAPI) edit() error {
	var patch map[string]any
	if err := c.decode(&patch, typeMerge, typeJSON); err != nil {
		return err
	}
	old, r, err := c.edited(patch)
	if err != nil {
		return err
	}
	v := ruleViewOf(r).whole(r)
	for i, to := range r.To {
		if !slices.ContainsFunc(old.To, func(x registry.Receiver) bool { return x.Secret == to.Secret }) {
			v.To[i].Secret = to.Secret
		}
	}
	c.w.Header().Set("ETag", RuleTag(r))
	return c.json(http.StatusOK, v)
}

// edited replaces the settings. It releases the lock before the answer is written, because a
// client may be slow to read it.
func (c ruleAPI) edited(patch map[string]any) (old, r registry.ListedRule, err error) {
	c.edits.Lock()
	defer c.edits.Unlock()
	if old, err = c.matched(); err != nil {
		return old, r, err
	}
	s, err := patchedRule(old.RuleSettings, patch)
	if err != nil {
		return old, r, err
	}
	r, err = c.Rules.Replace(c.r.Context(), c.caller, old.ID, s)
	return old, r, err
}

// matched returns the rule of the path if it is what If-Match names.
func (c ruleAPI) matched() (registry.ListedRule, error) {
	r, err := c.rule()
	if err != nil {
		return r, err
	}
	return r, c.ifMatch(RuleTag(r))
}

// patchedRule applies a merge patch (RFC 7396). null resets a setting to its default. The
// addresses of receivers may be masked as in answers.
func patchedRule(old registry.RuleSettings, patch map[string]any) (s registry.RuleSettings, err error) {
	before, err := json.Marshal(old)
	if err != nil {
		return s, err
	}
	var doc map[string]any
	if err := json.Unmarshal(before, &doc); err != nil {
		return s, err
	}
	after, err := json.Marshal(merge(doc, patch))
	if err != nil {
		return s, err
	}
	if err := readJSON(bytes.NewReader(after), &s); err != nil {
		return s, err
	}
	UnmaskReceivers(&s, old)
	return s, nil
}

// UnmaskReceivers replaces the masked addresses of webhooks by those of the stored rule.
func UnmaskReceivers(s *registry.RuleSettings, old registry.RuleSettings) {
	for i := range s.To {
		for _, was := range old.To {
			if s.To[i].Webhook != "" && s.To[i].Webhook == MaskedCallback(was.Webhook) {
				s.To[i].Webhook = was.Webhook
			}
		}
	}
}

// setRulePaused pauses or resumes the rule of the path.
func setRulePaused(paused bool) func(ruleAPI) error {
	return func(c ruleAPI) error {
		c.edits.Lock()
		old, err := c.matched()
		var r registry.ListedRule
		if err == nil {
			r, err = c.Rules.SetPaused(c.r.Context(), old.ID, paused)
		}
		c.edits.Unlock()
		if err != nil {
			return err
		}
		c.w.Header().Set("ETag", RuleTag(r))
		return c.json(http.StatusOK, ruleViewOf(r).whole(r))
	}
}

func (c ruleAPI) remove() error {
	c.edits.Lock()
	defer c.edits.Unlock()
	r, err := c.matched()
	if err != nil {
		return err
	}
	if err := c.Rules.Remove(r.ID); err != nil {
		return err
	}
	return c.noContent()
}

// A ruleTrialView is what a rule would have done.
type ruleTrialView struct {
	From     time.Time       `json:"from"`
	To       time.Time       `json:"to"`
	Changes  int             `json:"changes"`
	Fired    uint64          `json:"fired"`
	Resolved uint64          `json:"resolved"`
	Problem  string          `json:"problem,omitempty"`
	Alerts   []alertView     `json:"alerts"`
	History  []ruleEventView `json:"history"`
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
	v := ruleTrialView{From: t.From.UTC(), To: t.To.UTC(), Changes: t.Changes, Fired: t.Fired, Resolved: t.Resolved, Problem: t.Problem, Alerts: []alertView{}, History: ruleEvents(t.Events)}
	for _, a := range t.Active {
		v.Alerts = append(v.Alerts, alertViewOf(a))
	}
	slices.Reverse(v.History)
	return c.json(http.StatusOK, v)
}

// TryRule tries a rule within the time that reading the past may take.
func TryRule(ctx context.Context, rules Rules, caller registry.Caller, s registry.RuleSettings) (registry.RuleTrial, error) {
	ctx, cancel := context.WithTimeout(ctx, pastTime)
	defer cancel()
	t, err := rules.Try(ctx, caller, s)
	if errors.Is(err, context.DeadlineExceeded) || isGap(err) {
		err = newProblem(registry.KindUnavailable, "the history could not be read in "+pastTime.String()+": try again when the server is less busy, or lower retention.changes")
	}
	return t, err
}
