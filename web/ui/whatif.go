package ui

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
	Found, FoundOpen, Delay, DelayOpen, Share, Meter string
}

// A policyView shows the policy of an endpoint and the others, compared on request.
type policyView struct {
	Now        policyChoice   // the active policy
	Others     []policyChoice // the alternatives
	Choice     form           // to choose the policy
	WhatIf     string         // what the comparison is based on; "" if there is none
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

// leftOpen describes the limits of an estimate over this history, if any.
func leftOpen(e shadow.Estimate) string {
	low, high := figures(e.Low), figures(e.High)
	if low == high {
		return ""
	}
	return low + " to " + high
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
