package ui

// This file lets an operator compare the policies of an endpoint on its recorded executions.

import (
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
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
	Found, Delay shadow.Estimate
	Of           float64 // the changes that all policies together would have found, 0 if unknown
	Share, Meter string
}

// A policyView shows the policy of an endpoint and the others, compared on request.
type policyView struct {
	Now        policyChoice   // the active policy
	Others     []policyChoice // the alternatives
	Choice     form           // to choose the policy
	Asked      bool           // a comparison was requested
	From, To   uint64         // the slots played again for it
	Each       float64        // their budget in seconds
	Compared   []policyChoice
	CanCompare bool
}

// whatIf compares the active policy with its shadows on request. Estimates are slow,
// so live updates leave them out.
func (v policyHandler) whatIf(p *policyView, e registry.Endpoint) error {
	if v.Shadows == nil {
		return nil
	}
	p.CanCompare = true
	if v.r.URL.Query().Get("compare") == "" || strings.HasPrefix(v.r.URL.Path, "/ui/events") {
		return nil
	}
	all, err := v.Shadows.Compare(v.r.Context(), e.Name)
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
		x := policyChoice{Spelling: s.Policy, Doc: docOf(s.Policy), Now: s.Current, Found: e.Relevant, Delay: e.Delay, Of: e.Changes.Mean, Share: none, Meter: "0"}
		if x.Of > 0 {
			part := e.Relevant.Mean / x.Of
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
