// Alert rules in a cluster: one node evaluates and edits them.

package server

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/web"
)

// A fencedRules is an alert.Store for a node of a cluster.
type fencedRules struct {
	*store.RuleStore
	member *member
}

// EditRules implements alert.Store.
func (f fencedRules) EditRules(e *registry.RuleEdit) error {
	err := f.RuleStore.EditRules(e)
	if errors.Is(err, scheduler.ErrFenced) {
		f.member.fenced.Add(1)
		return alert.ErrAway
	}
	return err
}

// A ruleSet is web.Rules. In a cluster, the node that evaluates the rules also edits them, and
// knows which cannot be evaluated, so the other nodes ask it about a rule. Lists are what each node knows.
type ruleSet struct {
	*alert.Engine
	peers *peers // nil: other nodes are not asked
}

// evaluates is the role of the node that evaluates alert rules.
var evaluates = role{store.AlertsLease, "evaluates the alert rules"}

// A ruleStatus is what the node that evaluates a rule knows of it, besides what is stored.
type ruleStatus struct {
	ID     string
	Status registry.RuleStatus
	Reason string
}

func (s ruleSet) own() bool {
	if s.peers == nil {
		return true
	}
	_, holds := s.peers.member.alerts()
	return holds
}

// ask sends a request about one rule to the node that evaluates it, and returns that rule.
func (s ruleSet) ask(ctx context.Context, c registry.Caller, method, path string, body any) (registry.ListedRule, error) {
	var x ruleStatus
	if err := s.peers.ask(ctx, evaluates, request{method: method, path: "/v1/rules" + path, body: body, caller: c}, &x); err != nil {
		return registry.ListedRule{}, err
	}
	if method != http.MethodGet { // the answer to an edit shows it, also if this node lags
		if s.peers.member.store.Confirm() != nil {
			return registry.ListedRule{}, unavailable("this was stored, but this node is cut off from its cluster and does not know " +
				"the newest state: " + lookFirst)
		}
	}
	if err := s.refresh(x.ID); err != nil {
		return registry.ListedRule{}, err
	}
	r, err := s.Engine.Rule(c, x.ID)
	r.Status, r.Reason = x.Status, x.Reason
	return r, err
}

func rulePath(id, rest string) string { return "/" + url.PathEscape(id) + rest }

// Create implements web.Rules.
func (s ruleSet) Create(ctx context.Context, c registry.Caller, r registry.RuleSettings) (registry.ListedRule, error) {
	if s.own() {
		return s.Engine.Create(ctx, c, r)
	}
	return s.ask(ctx, c, http.MethodPost, "", r)
}

// Replace implements web.Rules.
func (s ruleSet) Replace(ctx context.Context, c registry.Caller, id string, r registry.RuleSettings) (registry.ListedRule, error) {
	if s.own() {
		return s.Engine.Replace(ctx, c, id, r)
	}
	old, err := s.Rule(c, id)
	if err != nil {
		return old, err
	}
	patch, err := web.MergePatch(old.RuleSettings, r)
	if err != nil {
		return old, err
	}
	return s.ask(ctx, c, http.MethodPatch, rulePath(id, ""), patch)
}

// SetPaused implements web.Rules.
func (s ruleSet) SetPaused(ctx context.Context, id string, paused bool) (registry.ListedRule, error) {
	if s.own() {
		return s.Engine.SetPaused(ctx, id, paused)
	}
	verb := "/resume"
	if paused {
		verb = "/pause"
	}
	return s.ask(ctx, registry.Caller{}, http.MethodPost, rulePath(id, verb), nil)
}

// Remove implements web.Rules.
func (s ruleSet) Remove(id string) error {
	if s.own() {
		return s.Engine.Remove(id)
	}
	return s.peers.ask(context.Background(), evaluates, request{method: http.MethodDelete, path: "/v1/rules" + rulePath(id, "")}, nil)
}

// Rule implements web.Rules. While no other node can be asked it is what this node knows. That
// there is no rule is what the store knows, whose error says if this node may lack the newest state.
func (s ruleSet) Rule(c registry.Caller, ref string) (registry.ListedRule, error) {
	if s.own() {
		return s.Engine.Rule(c, ref)
	}
	r, err := s.ask(context.Background(), c, http.MethodGet, rulePath(ref, ""), nil)
	if unavailableDetail(err) == "" {
		return r, err
	}
	if r, err = s.Engine.Rule(c, ref); !errors.Is(err, registry.ErrNotFound) {
		return r, err
	}
	if err := s.refresh(ref); err != nil {
		return r, err
	}
	return s.Engine.Rule(c, ref)
}

// refresh takes note of what the store knows of a rule. Its error says that this node may lack the newest state.
func (s ruleSet) refresh(id string) error {
	if _, err := s.peers.member.store.Rules.Rule(id); err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	return s.Refresh([]string{id})
}
