package alert

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/rule"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

// check completes settings and compiles them. Labels that were left out are filled in, and receivers keep
// the secrets that they had.
func (o *Options) check(c registry.Caller, r *registry.RuleSettings, had []registry.Receiver) (*rule.Program, error) {
	if r.Query == "" {
		return nil, registry.BadSetting("/query", "query is missing: the id or the name of a registered query")
	}
	q, err := o.Resolve(c, r.Query)
	if errors.Is(err, registry.ErrNotFound) {
		return nil, registry.UnknownQuery("/query", r.Query)
	} else if err != nil {
		return nil, err
	}
	if !c.MayRead(&q) {
		return nil, &registry.Problem{Kind: registry.KindForbidden, Detail: "your token may not read this query"}
	}
	r.Query = q.ID
	vars, err := o.vars(&q)
	if err != nil {
		return nil, err
	}
	p, err := rule.Compile(*r, q.Form, vars, o.Rows)
	if err != nil {
		return nil, err
	}
	r.Labels = p.Labels()
	for i := range r.To {
		for _, was := range had {
			if r.To[i].Secret == "" && r.To[i].Key() == was.Key() {
				r.To[i].Secret = was.Secret
			}
		}
	}
	return p, o.checkReceivers(r.To)
}

// vars returns the variables of a query, nil if they are not known yet.
func (o *Options) vars(q *registry.Query) ([]string, error) {
	_, result, err := o.Log.Current(q.ID, q.Form == diff.Select)
	switch {
	case err != nil && !errors.Is(err, registry.ErrNotFound):
		return nil, err
	case result != nil:
		return result.Vars(), nil
	}
	return registry.ConditionVars(q), nil
}

// CheckStored checks a rule that another server has stored, for a query of a form. Addresses
// of receivers are checked when messages are sent. How many there are was checked there.
func CheckStored(r *registry.Rule, form diff.Form) error {
	if !strings.HasPrefix(r.ID, idPrefix) {
		return registry.BadSetting("/id", "the id of a rule begins with %s", idPrefix)
	}
	for i := range r.To {
		to, pointer := &r.To[i], fmt.Sprintf("/to/%d", i)
		given := to.Secret
		if _, err := checkKind(to, pointer); err != nil {
			return err
		}
		if to.Secret != given {
			return registry.BadSetting(pointer+"/secret", "the secret of the %s is missing", to.Kind)
		}
	}
	_, err := compileStored(&r.RuleSettings, form, 1)
	return err
}

var errQuiet = errors.New("only e-mail and services that people read have digest, zone, quiet and most; Alertmanager repeats by itself")

// checkKind checks that a receiver has one address, and completes its secret.
func checkKind(to *registry.Receiver, pointer string) (k *kind, err error) {
	if address, ok := strings.CutPrefix(to.Address, "mailto:"); ok && to.Kind == registry.Notify {
		to.Kind, to.Address = "email", address
	} else if to.Kind == registry.Notify {
		found, _, err := service.Find("", to.Address)
		if err != nil {
			return nil, registry.BadSetting(pointer+"/"+registry.Notify, "this address cannot be used: %v", err)
		}
		to.Kind = found.Name
	}
	if k = kinds[to.Kind]; k == nil {
		var names []string
		for _, k := range Kinds() {
			names = append(names, k.Name)
		}
		return nil, registry.BadSetting(pointer, `a receiver has one of %s, as in {"webhook": "https://example.org/alerts"}`,
			strings.Join(names, ", "))
	}
	machine := to.Quiet // what others may have, too
	if !k.repeats {
		machine.Repeat = ""
	}
	if _, wrong := service.ReadQuiet(to.Quiet); wrong != nil || !k.people && machine != (registry.Quiet{}) {
		return nil, registry.BadSetting(pointer, "%v", cmp.Or(wrong, errQuiet))
	}
	if k.secret != nil {
		to.Secret, err = k.secret(to.Secret)
	} else if to.Secret != "" {
		err = registry.BadSetting(pointer+"/secret", "a receiver of the kind %s has no secret", to.Kind)
	}
	return k, err
}

func (o *Options) checkReceivers(list []registry.Receiver) error {
	if len(list) > o.Receivers {
		return registry.BadSetting("/to", "a rule has at most %d receivers (limits.rule_receivers)", o.Receivers)
	}
	seen := map[string]bool{}
	for i := range list {
		to, pointer := &list[i], fmt.Sprintf("/to/%d", i)
		k, err := checkKind(to, pointer)
		if err != nil {
			return err
		}
		if to.Address, err = k.check(o, to.Address); err != nil {
			return registry.BadSetting(pointer+"/"+to.Kind, "%s cannot be used: %v", to.Kind, err)
		}
		if seen[to.Key()] {
			return registry.BadSetting(pointer, "this receiver is given twice")
		}
		seen[to.Key()] = true
	}
	return nil
}

// admit checks the limits of a caller who gets a rule, or other settings of one, and that its name is
// free. The caller holds mu.
func (e *Engine) admit(r *registry.Rule) error {
	rules, bytes, held, taken := 0, 0, map[string]bool{}, false
	for _, x := range e.rules {
		if x.Caller == r.Caller {
			rules++
			bytes += x.bytes
			taken = taken || x.Name == r.Name && x.ID != r.ID
			for _, id := range x.receivers {
				held[id] = true
			}
		}
	}
	switch made := e.rules[r.ID] == nil; {
	case taken:
		return &registry.Problem{Kind: registry.KindExists,
			Detail: fmt.Sprintf("you have a rule named %s already: choose another name, or remove that rule first", r.Name)}
	case made && len(e.rules) >= e.opts.Most:
		return &registry.Problem{Kind: registry.KindLimit,
			Detail: fmt.Sprintf("this server has %d rules, as many as limits.rules allows: remove some first", e.opts.Most)}
	case made && bytes > e.opts.Bytes:
		return &registry.Problem{Kind: registry.KindQuota, Detail: e.opts.overBytes("you have rules whose alerts")}
	case made && rules >= e.opts.MostEach:
		return &registry.Problem{Kind: registry.KindQuota,
			Detail: fmt.Sprintf("you have %d rules, as many as limits.token_rules allows: remove some first", e.opts.MostEach)}
	}
	before := len(held)
	for _, to := range r.To {
		held[to.ID(r.Caller)] = true
	}
	// Those that no rule has any more are stored as long as messages wait for them or were set aside.
	stored, added := e.deliveries.Held(registry.Alerts, r.Caller), len(held)-before
	switch most := e.opts.Addresses; {
	case added == 0:
	case len(held) > most:
		return &registry.Problem{Kind: registry.KindQuota,
			Detail: fmt.Sprintf("your rules would have %d receivers, and limits.token_receivers allows %d: "+
				"remove some rules first, or let rules share a webhook and its secret", len(held), most)}
	case stored-most > most-added:
		return &registry.Problem{Kind: registry.KindQuota,
			Detail: fmt.Sprintf("messages of yours wait for %d receivers or were set aside, many of which no rule has any more, "+
				"and limits.token_receivers is %d: drop some of these subscriptions first", stored, most)}
	}
	return nil
}
