package ui

import (
	"errors"
	"net/url"
	"strings"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
)

// chosen returns the form that selects a policy: one of the list, or one given as
// text, which takes precedence.
func (v policyHandler) chosen() form {
	f := v.typed(policyFields)
	for _, s := range v.r.PostForm["policy"] {
		if s = strings.TrimSpace(s); s != "" {
			f.Values = url.Values{"policy": {s}}
		}
	}
	return f
}

// use changes only the policy.
func (v policyHandler) use() error {
	name, f := v.r.PathValue("name"), v.chosen()
	policy := f.Get("policy")
	if _, err := v.Registry.UpdateEndpoint(v.caller, name, func(e *registry.Endpoint) error {
		e.Policy = policy
		return nil
	}); err != nil {
		return v.again(name, f, err)
	}
	v.say("good", "policy-used", name, policy)
	return v.to(settingsPath(name) + "#what-if")
}

// again shows the page with the rejected policy.
func (v policyHandler) again(name string, f form, err error) error {
	if err := f.refuse(err); err != nil {
		return err
	}
	e, err := v.Registry.Endpoint(name)
	if err != nil {
		return err
	}
	c, err := endpointHandler(v).show(e, settingsOf(e))
	if err != nil {
		return err
	}
	c.Data.(*endpointPage).Choice = f
	return v.visit.again(f, "endpoint", "endpoints", c)
}

// compare adds the selected policy to the comparison.
func (v policyHandler) compare() error {
	name, f := v.r.PathValue("name"), v.chosen()
	same := &registry.Problem{Kind: registry.KindBadEndpoint, Title: "Nothing to compare", Detail: "this policy runs now; choose another one",
		Errors: []registry.FieldError{{Pointer: "/policy", Detail: "this policy runs now; choose another one"}}}
	_, err := v.Registry.UpdateEndpoint(v.caller, name, func(e *registry.Endpoint) error {
		if f.Get("policy") == e.Policy {
			return same
		}
		return scheduler.AddShadow(e, f.Get("policy"))
	})
	if errors.Is(err, same) {
		f.Values = url.Values{} // a policy given as text takes precedence over the list
	}
	if errors.Is(err, policy.ErrPolicy) {
		err = &registry.Problem{Kind: registry.KindBadEndpoint, Title: "No such policy", Detail: err.Error(), Errors: []registry.FieldError{{Pointer: "/policy", Detail: err.Error()}}}
	}
	if err != nil {
		return v.again(name, f, err)
	}
	return v.to(settingsPath(name) + "&compare=1#what-if")
}
