package ui

// This file compares policies and selects one.

import (
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/shadow"
)

var policyFields = []string{"policy"}

// A policyChoice is a policy that can be selected.
type policyChoice struct {
	Spelling, Doc string
	Now           bool
	Orders        string // the policy used in the comparison if profiles are ordered first
	// Its results in a comparison over the recorded history, and the limits of that
	// comparison.
	Found, Delay shadow.Range
	Of           int // the changes that are known
	Share, Meter string
}

// A policyView shows the policy of an endpoint and the others, compared on request.
type policyView struct {
	Now      policyChoice   // the active policy
	Others   []policyChoice // the alternatives
	Choice   form           // to choose the policy
	Asked    bool           // a comparison was requested
	From, To uint64         // the slots played again for it
	Each     float64        // their budget in seconds
	Compared []policyChoice
}

// whatIf compares the active policy with its shadows on request. Estimates are slow,
// so live updates leave them out.
func (v policyHandler) whatIf(p *policyView, e registry.Endpoint) error {
	if v.r.URL.Query().Get("compare") == "" || strings.HasPrefix(v.r.URL.Path, "/ui/events") {
		return nil
	}
	all, err := v.Shadows(v.r.Context(), e.Name)
	if err != nil {
		return err
	}
	p.Asked = true
	inForce := e.Policy
	for _, s := range all.Policies {
		if s.Estimate == nil {
			continue
		}
		e := s.Estimate
		x := policyChoice{Spelling: s.Policy, Doc: docOf(s.Policy), Now: s.Current, Found: e.Relevant, Delay: e.Delay, Of: e.Known,
			Share: none, Meter: "0"}
		if x.Of > 0 {
			part := e.Relevant.Low / float64(x.Of)
			x.Share, x.Meter = share(part).String(), meter(part)
		}
		if s.Current && s.Policy != inForce {
			x.Spelling, x.Doc, x.Orders = inForce, docOf(inForce), s.Policy
		}
		p.From, p.To, p.Each = e.From, e.To, time.Duration(all.Budget).Seconds()
		p.Compared = append(p.Compared, x)
	}
	p.Others = slices.DeleteFunc(p.Others, func(c policyChoice) bool {
		return slices.ContainsFunc(p.Compared, func(x policyChoice) bool { return x.Spelling == c.Spelling })
	})
	return nil
}

// docOf returns a policy's description, "" for an unknown one.
func docOf(spelling string) string {
	name, _, _ := strings.Cut(spelling, ":")
	for _, d := range scheduler.Policies() {
		if d.Name == name {
			return d.Doc
		}
	}
	return ""
}

// policies returns the active policy, and the others with their defaults.
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
		err = &registry.Problem{Kind: registry.KindBadEndpoint, Title: "No such policy", Detail: err.Error(),
			Errors: []registry.FieldError{{Pointer: "/policy", Detail: err.Error()}}}
	}
	if err != nil {
		return v.again(name, f, err)
	}
	return v.to(settingsPath(name) + "&compare=1#what-if")
}
