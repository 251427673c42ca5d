package main

// This file holds `freshet endpoint shadow`, which compares the policy of an endpoint with
// others.

import (
	"fmt"

	"github.com/freshet/freshet/scheduler/shadow"
)

var shadowRows = row{use: "shadow", short: "Compare an endpoint's policy with others over what is recorded",
	long: `Compares an endpoint's policy with others: what each would have executed, found,
missed and delayed in the recorded slots, under the same budget. No requests are
sent to the endpoint. Figures are means over possible histories that fit the
records, with the minimum and maximum if these differ. Changes are the estimated
number of all changes, including those that no execution found in time.`,
	example: "freshet endpoint shadow add coins dj ttl:max=32:reset\nfreshet endpoint shadow list coins\nfreshet endpoint shadow rm coins dj",
	rows: []row{
		{use: "add NAME POLICY...", short: "Choose policies to compare with", example: "freshet endpoint shadow add coins rr dj",
			call: "POST /v1/endpoints/{}/shadows", arg: "policy", out: printDone("added")},
		{use: "list NAME", short: "Show the comparison", example: "freshet endpoint shadow list coins --json",
			call: "GET /v1/endpoints/{}/shadows", out: printWith(printShadows)},
		{use: "rm NAME POLICY...", short: "Remove policies from the comparison", example: "freshet endpoint shadow rm coins rr",
			call: "DELETE /v1/endpoints/{}/shadows?policy={}", out: printDone("removed")},
	}}

func printShadows(a *remote, s shadow.Comparison) error {
	t := newColumns(a.w, "POLICY\tCURRENT\tSLOTS\tEXECUTIONS\tCHANGES\tFOUND\tMISSED\tDELAY\tUSED")
	for _, p := range s.Policies {
		current := ""
		if p.Current {
			current = "yes"
		}
		e := p.Estimate
		if e == nil {
			t.row(p.Policy, current, "nothing is recorded yet")
			continue
		}
		t.row(p.Policy, current, fmt.Sprintf("%d-%d", e.From, e.To), spread(e.Total), spread(e.Changes), spread(e.Relevant), spread(e.Missed),
			spread(e.Delay)+" slots", spread(e.Used)+" s")
	}
	return t.Flush()
}

// spread writes an estimate with its range.
func spread(e shadow.Estimate) string {
	if e.Low == e.High {
		return fmt.Sprintf("%.4g", e.Mean)
	}
	return fmt.Sprintf("%.4g (%.4g to %.4g)", e.Mean, e.Low, e.High)
}
