package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// An endpointsPage lists the endpoints, problems first.
type endpointsPage struct {
	Lede endpointsLede
	Rows []endpointRow
}

// An endpointsLede answers how many endpoints answer.
type endpointsLede struct {
	All, Answer, Unasked, Queries int
	Troubles                      troubles
}

type endpointRow struct {
	overviewEndpoint
	URL           string
	Same          string // the other endpoints with this URL
	Slot          string // its schedule
	Used          string // share of the budget in the last slots
	Meter         string
	Hot           bool // the budget is the bottleneck
	Budget        string
	Found, Passed string
}

func (v endpointHandler) list() (content, error) {
	all, err := v.Registry.Endpoints()
	if err != nil {
		return content{}, err
	}
	p := &endpointsPage{}
	queries, groups := 0, registry.SharedURLs(all)
	for _, e := range all {
		slots, err := v.slots(e.Name, hydroSlots)
		if err != nil {
			return content{}, err
		}
		o, err := v.summary(e, slots)
		if err != nil {
			return content{}, err
		}
		queries += o.Loop.Queries
		r := rowOf(o, e, slots)
		r.Same = sameURL(groups, e.Name)
		p.Rows = append(p.Rows, r)
	}
	slices.SortStableFunc(p.Rows, func(a, b endpointRow) int { return cmp.Compare(a.Rank, b.Rank) })
	p.Lede = ledeOf(p.Rows, queries)
	return content{Data: p, Live: []part{{"endpoint-rows", "endpoint-rows", p}}}, nil
}

// sameURL says which other endpoints have the URL of an endpoint, "" if none has.
func sameURL(groups [][]string, name string) string {
	const shown = 3
	for _, g := range groups {
		if at := slices.Index(g, name); at >= 0 {
			others := slices.Delete(slices.Clone(g), at, at+1)
			if n := len(others) - shown; n > 0 {
				return fmt.Sprintf("%s and %d more", strings.Join(others[:shown], ", "), n)
			}
			return strings.Join(others, ", ")
		}
	}
	return ""
}

func rowOf(o overviewEndpoint, e registry.Endpoint, slots []scheduler.Slot) endpointRow {
	r := endpointRow{overviewEndpoint: o, URL: e.URL, Slot: e.Slot, Budget: cost(time.Duration(e.Budget)).String(), Found: none, Passed: none, Meter: "0", Used: none}
	t := total(slots)
	if t.slots > 0 {
		r.Found = count(t.Changed)
		r.Passed = count(slots[0].Skipped)
	}
	if t.budget > 0 {
		part := t.used / t.budget
		r.Used, r.Meter, r.Hot = share(part).String(), meter(part), part > 0.9
	}
	return r
}

func ledeOf(rows []endpointRow, queries int) endpointsLede {
	l := endpointsLede{All: len(rows), Queries: queries}
	for _, r := range rows {
		if r.Class == "off" || r.Class == "new" {
			l.Unasked++
		}
		l.Troubles.add(r.overviewEndpoint, r.Link, r.Fails())
	}
	l.Answer = l.All - l.Troubles.N - l.Unasked
	return l
}
