package main

// This file holds `freshet endpoint shadow`, which compares policies, and `freshet endpoint templates`.

import (
	"fmt"
	"strings"
	"time"

	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/shadow"
)

var shadowRows = row{use: "shadow", short: "Compare an endpoint's policy with others over what is recorded",
	long: `Compares an endpoint's policy with others: what each would have executed, found,
missed and delayed in the recorded slots, under the same budget. No requests are
sent to the endpoint. The records do not show when in the time between two executions
a change happened: figures are the smallest and the largest of several histories, or one
if they are equal. Changes that no execution has found are not known.`,
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
		t.row(p.Policy, current, fmt.Sprintf("%d-%d", e.From, e.To), spread(e.Total), e.Known, spread(e.Relevant), spread(e.Missed),
			spread(e.Delay)+" slots", spread(e.Used)+" s")
	}
	return t.Flush()
}

func spread(e shadow.Range) string {
	if e.Low == e.High {
		return fmt.Sprintf("%.4g", e.Low)
	}
	return fmt.Sprintf("%.4g to %.4g", e.Low, e.High)
}

var templatesRow = row{use: "templates NAME", short: "Show how queries that differ in constants only are asked",
	long: `Show the templates of an endpoint's queries: how many queries each has, how they were
asked last (single, values or probe), how long a request for one more query and one more
row takes, how many requests said nothing about their queries (void), how many queries are always
asked alone, and the audits that compared merged answers with the answer of a query alone.`,
	example: "freshet endpoint templates coins", call: "GET /v1/endpoints/{}/templates",
	out: printList("templates",
		"TEMPLATE\tQUERIES\tKIND\tREQUESTS\tASKED\tPER REQUEST\tPER QUERY\tPER ROW\tVOID\tALONE\tAUDITS\tDIFFERENT\tOFF UNTIL",
		func(s cohort.Snapshot) []any {
			requests, asked, void := uint64(0), uint64(0), uint64(0)
			var off []string
			for _, k := range cohort.Kinds() {
				requests, asked, void = requests+s.Asks[k], asked+s.Asked[k], void+s.Void[k]
				if until, ok := s.OffUntil[k]; ok {
					off = append(off, string(k)+" "+until.UTC().Format(time.RFC3339))
				}
			}
			return []any{s.Template, s.Members, s.Kind, requests, asked, milliseconds(s.A), milliseconds(s.B), milliseconds(s.C), void, s.Alone,
				s.Audits, s.Different, strings.Join(off, ", ")}
		})}

func milliseconds(seconds float64) string { return fmt.Sprintf("%.3g ms", 1000*seconds) }
