package ui

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/shadow"
)

var policyFields = []string{"policy"}

// chosen is the form that chooses a policy: one of the list, or one that
// is spelled out, which counts more.
func (v policyHandler) chosen() form {
	f := v.typed(policyFields)
	for _, s := range v.r.PostForm["policy"] {
		if s = strings.TrimSpace(s); s != "" {
			f.Values = url.Values{"policy": {s}}
		}
	}
	return f
}

// use changes nothing but the policy.
func (v policyHandler) use() error {
	name, f := v.r.PathValue("name"), v.chosen()
	policy := f.Get("policy")
	if _, err := v.Registry.UpdateEndpoint(v.caller, name, func(e *registry.Endpoint) error {
		e.Policy = policy
		return nil
	}); err != nil {
		return v.again(name, f, err)
	}
	v.say("good", name+" follows the policy "+policy+" from its next slot on.", "Statistics are kept.")
	return v.to(endpointPath(name) + "#what-if")
}

// again shows the page with the policy that was refused.
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
	c.Data.(*endpointPage).Policy = f
	return v.visit.again(f, "endpoint", "endpoints", c)
}

// A policyChoice is a policy that could be in force.
type policyChoice struct {
	Spelling, Doc string
	Now           bool
	Orders        string // the policy that was replayed, where profiles come first
	// What it would have done, in a comparison over the recorded history, with
	// what that leaves open.
	Found, FoundOpen, Delay, DelayOpen, Share, Meter string
}

// whatIf compares the policy in force with those in its shadow, when somebody
// asks for it: estimates take their time, so live updates leave them out.
func (v policyHandler) whatIf(p *endpointPage, e registry.Endpoint) error {
	if v.Shadows == nil {
		return nil
	}
	p.CanCompare = true
	if v.r.URL.Query().Get("compare") == "" || strings.HasPrefix(v.r.URL.Path, "/ui/events") {
		return nil
	}
	all, err := v.Shadows(v.r.Context(), e.Name)
	if err != nil {
		return err
	}
	inForce := e.Policy
	for _, s := range all.Policies {
		if s.Estimate == nil {
			continue
		}
		e := s.Estimate
		x := policyChoice{Spelling: s.Policy, Doc: docOf(s.Policy), Now: s.Current, Found: none, Share: none, Meter: "0",
			Delay: figures(e.Delay.Mean) + " slots", DelayOpen: leftOpen(e.Delay)}
		if n := e.Changes.Mean; n > 0 {
			part := e.Relevant.Mean / n
			x.Found, x.FoundOpen = figures(e.Relevant.Mean)+" of "+figures(n), leftOpen(e.Relevant)
			x.Share, x.Meter = share(part).String(), meter(part)
		}
		if s.Current && s.Policy != inForce {
			x.Spelling, x.Doc, x.Orders = inForce, docOf(inForce), s.Policy
		}
		p.WhatIf = "Slots " + count(s.Estimate.From) + " to " + count(s.Estimate.To) + " played again, " + took(time.Duration(all.Budget).Seconds()) + " each"
		p.Compared = append(p.Compared, x)
	}
	if len(p.Compared) == 0 {
		p.WhatIf = "Nothing is remembered yet that could tell"
		return nil
	}
	p.Others = slices.DeleteFunc(p.Others, func(c policyChoice) bool {
		return slices.ContainsFunc(p.Compared, func(x policyChoice) bool { return x.Spelling == c.Spelling })
	})
	return nil
}

// docOf is what a policy does, "" for one that is not known.
func docOf(spelling string) string {
	name, _, _ := strings.Cut(spelling, ":")
	for _, d := range scheduler.Policies() {
		if d.Name == name {
			return d.Doc
		}
	}
	return ""
}

// leftOpen is what a history leaves open of an estimate, if anything.
func leftOpen(e shadow.Estimate) string {
	low, high := figures(e.Low), figures(e.High)
	if low == high {
		return ""
	}
	return low + " to " + high
}

// compare adds the chosen policy to those that are compared.
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
		f.Values = url.Values{} // a text that is left in the field counts more than a choice
	}
	if errors.Is(err, scheduler.ErrPolicy) {
		err = &registry.Problem{Kind: registry.KindBadEndpoint, Title: "No such policy", Detail: err.Error(), Errors: []registry.FieldError{{Pointer: "/policy", Detail: err.Error()}}}
	}
	if err != nil {
		return v.again(name, f, err)
	}
	return v.to(endpointPath(name) + "?compare=1#what-if")
}

// policies are the one in force, and the others with their defaults.
func policies(e registry.Endpoint) (now policyChoice, others []policyChoice) {
	now = policyChoice{Spelling: e.Policy, Doc: docOf(e.Policy), Now: true}
	name, _, _ := strings.Cut(e.Policy, ":")
	for _, d := range scheduler.Policies() {
		if d.Simulated {
			continue
		}
		if d.Name != name {
			others = append(others, policyChoice{Spelling: d.Spelling(), Doc: d.Doc})
		}
	}
	return now, others
}
