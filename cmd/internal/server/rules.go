// Alert rules in a cluster: one node evaluates and edits them.

package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/store"
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
// knows how their messages fare, so the other nodes ask it.
type ruleSet struct {
	*alert.Engine
	peers *peers // nil without a cluster
}

// What a ruleCall does.
const (
	ruleCreate  = "create"
	ruleReplace = "replace"
	rulePause   = "pause"
	ruleResume  = "resume"
	ruleRemove  = "remove"
	ruleRead    = "read"
	ruleList    = "list"
)

// A ruleCall is a call of the node that evaluates alert rules.
type ruleCall struct {
	Do       string
	ID       string // or the name to read, or the id that a list begins after
	Limit    int    // of a list
	Caller   registry.Caller
	Settings registry.RuleSettings
}

// perform makes a call of the rules of this node.
func (c *ruleCall) perform(ctx context.Context, e *alert.Engine) ([]registry.ListedRule, error) {
	one := func(r registry.ListedRule, err error) ([]registry.ListedRule, error) {
		return []registry.ListedRule{r}, err
	}
	switch c.Do {
	case ruleCreate:
		return one(e.Create(ctx, c.Caller, c.Settings))
	case ruleReplace:
		return one(e.Replace(ctx, c.Caller, c.ID, c.Settings))
	case rulePause, ruleResume:
		return one(e.SetPaused(ctx, c.ID, c.Do == rulePause))
	case ruleRemove:
		return nil, e.Remove(c.ID)
	case ruleRead:
		return one(e.Rule(c.Caller, c.ID))
	case ruleList:
		return e.Rules(c.ID, c.Limit)
	}
	return nil, fmt.Errorf("this node does not know the call %.20q: give all nodes the same version", c.Do)
}

// ask makes a call where the rules are evaluated.
func (s ruleSet) ask(ctx context.Context, c ruleCall) ([]registry.ListedRule, error) {
	if s.peers == nil {
		return c.perform(ctx, s.Engine)
	}
	if _, holds := s.peers.member.alerts(); holds {
		return c.perform(ctx, s.Engine)
	}
	r, err := s.peers.forward(ctx, nodeCall{Verb: verbRule, Rule: &c})
	return r.Rules, err
}

// read is ask for what this node knows, too, apart from the fate of messages, while no other
// can be asked.
func (s ruleSet) read(c ruleCall) ([]registry.ListedRule, error) {
	list, err := s.ask(context.Background(), c)
	if unavailable(err) != nil {
		return c.perform(context.Background(), s.Engine)
	}
	return list, err
}

func only(list []registry.ListedRule, err error) (r registry.ListedRule, _ error) {
	if err == nil && len(list) != 1 {
		err = errors.New("another node of the cluster sent no rule: give all nodes the same version")
	}
	if err != nil {
		return r, err
	}
	return list[0], nil
}

// Create implements web.RuleEditor.
func (s ruleSet) Create(ctx context.Context, c registry.Caller, r registry.RuleSettings) (registry.ListedRule, error) {
	return only(s.ask(ctx, ruleCall{Do: ruleCreate, Caller: c, Settings: r}))
}

// Replace implements web.RuleEditor.
func (s ruleSet) Replace(ctx context.Context, c registry.Caller, id string, r registry.RuleSettings) (registry.ListedRule, error) {
	return only(s.ask(ctx, ruleCall{Do: ruleReplace, Caller: c, ID: id, Settings: r}))
}

// SetPaused implements web.RuleEditor.
func (s ruleSet) SetPaused(ctx context.Context, id string, paused bool) (registry.ListedRule, error) {
	do := ruleResume
	if paused {
		do = rulePause
	}
	return only(s.ask(ctx, ruleCall{Do: do, ID: id}))
}

// Remove implements web.RuleList.
func (s ruleSet) Remove(id string) error {
	_, err := s.ask(context.Background(), ruleCall{Do: ruleRemove, ID: id})
	return err
}

// Rule implements web.RuleList.
func (s ruleSet) Rule(c registry.Caller, ref string) (registry.ListedRule, error) {
	return only(s.read(ruleCall{Do: ruleRead, Caller: c, ID: ref}))
}

// Rules implements web.RuleList.
func (s ruleSet) Rules(after string, limit int) ([]registry.ListedRule, error) {
	return s.read(ruleCall{Do: ruleList, ID: after, Limit: limit})
}
