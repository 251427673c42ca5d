package ui

// This file lists endpoints, the templates of one, and the feeds that they use.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	changefeed "github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/web"
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
	states, slots, err := v.states(all, hydroSlots)
	if err != nil {
		return content{}, err
	}
	p := &endpointsPage{}
	queries, groups := 0, registry.SharedURLs(all)
	for i, e := range all {
		queries += states[i].Loop.Queries
		if !v.May(registry.RoleAdmin) {
			e.URL = registry.MaskedURL(e.URL)
		}
		r := rowOf(states[i], e, slots[i])
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
	r := endpointRow{overviewEndpoint: o, URL: e.URL, Slot: e.Slot, Budget: cost(time.Duration(e.Budget)).String(), Found: none,
		Passed: none, Meter: "0", Used: none}
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

// A mergingView shows how queries that differ in constants only are asked.
type mergingView struct {
	Rows   []mergingRow
	Others int // templates that are not listed
}

type mergingRow struct {
	cohort.Snapshot
	Text    string // of the template
	Example *kv    // one of the queries, nil if it is gone
}

// Total adds up a count of requests over their kinds.
func (mergingRow) Total(kinds map[cohort.Kind]uint64) (n uint64) {
	for _, k := range kinds {
		n += k
	}
	return n
}

const templatesListed = 20

// merging returns nil while queries are asked alone.
func (v endpointHandler) merging(e registry.Endpoint) (*mergingView, error) {
	if e.Merge == registry.MergeOff {
		return nil, nil
	}
	list, err := v.Merging.Templates(e.Name)
	if isUnknown(err) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	m := &mergingView{}
	if n := len(list); n > templatesListed {
		list, m.Others = list[:templatesListed], n-templatesListed
	}
	for _, s := range list {
		m.Rows = append(m.Rows, v.mergingRow(s))
	}
	return m, nil
}

func (v endpointHandler) mergingRow(s cohort.Snapshot) mergingRow {
	r := mergingRow{Snapshot: s}
	if q, err := v.Registry.Query(s.Example); err == nil {
		r.Example = &kv{v.name(&q), queryPath(q.ID)}
		r.Text = clip(web.ShortIRIs(scheduler.TemplateText(&q), q.Text), 600)
	}
	return r
}

// executionsSaved counts the executions in slots, and those of them that needed no
// request of their own.
func executionsSaved(all [][]scheduler.Slot) (saved, ran int) {
	for _, slots := range all {
		for _, s := range slots {
			saved, ran = saved+requestsSaved(s), ran+s.Run
		}
	}
	return saved, ran
}

// requestsSaved is by how much the requests of a slot are fewer than its executions.
func requestsSaved(s scheduler.Slot) int {
	if s.Asks == 0 {
		return 0
	}
	return max(0, s.Run-s.Asks)
}

// A feedsPage shows the change feeds, and what they do not prove.
type feedsPage struct {
	Feeds           []feedSheet
	Live            int // feeds that are
	Queries, Proved int
}

type feedSheet struct {
	changefeed.Status
	Clock   *visit
	Class   string // of its state
	Number  string // of the last event
	At      string // its time
	Lag     string // "" if its events have no times
	Links   []feedLink
	Queries int
	Reasons []feedReason
}

type feedLink struct{ Name, Link, Lag string }

// A feedReason is why results are not proved.
type feedReason struct {
	Why, Name, Link string
	Count           int
}

// mostProofs bounds the queries of a feed whose proofs the page reads.
const mostProofs = 500

func (v endpointHandler) feeds() (content, error) {
	all, err := v.ChangeFeeds.Feeds()
	if err != nil {
		return content{}, err
	}
	p := &feedsPage{}
	proofs := v.ChangeFeeds.Proofs()
	for _, f := range all {
		f.Definition = f.Masked()
		s := feedSheet{Status: f, Clock: v.visit, Class: map[string]string{changefeed.Live: "live",
			changefeed.Failing: "failing"}[f.State]}
		if f.LagSeconds != nil {
			s.Lag = took(*f.LagSeconds)
		}
		if s.Class == "" {
			s.Class = "stale"
		}
		if f.State == changefeed.Live {
			p.Live++
		}
		if f.Position.Offset > 0 {
			s.Number = fmt.Sprint(f.Position.Offset)
		}
		if !f.Position.Time.IsZero() {
			s.At = f.Position.Time.UTC().Format(time.RFC3339)
		}
		for _, name := range f.Endpoints {
			link := feedLink{Name: name, Link: endpointPath(name)}
			if lag, ok := f.EndpointLags[name]; ok {
				link.Lag = took(lag)
			}
			s.Links = append(s.Links, link)
			if err := v.reasons(&s, p, name, proofs); err != nil {
				return content{}, err
			}
		}
		slices.SortFunc(s.Reasons, func(a, b feedReason) int { return cmp.Or(b.Count-a.Count, strings.Compare(a.Why, b.Why)) })
		p.Feeds = append(p.Feeds, s)
	}
	return content{Data: p, Live: []part{{"feeds-now", "feeds-now", p}}}, nil
}

// reasons counts why results of an endpoint are not proved.
func (v endpointHandler) reasons(s *feedSheet, p *feedsPage, endpoint string, proofs func(*registry.Query) (*changefeed.Proof,
	error)) error {
	list, _, err := v.Queries.List(registry.QueryFilter{Endpoint: endpoint}, "", mostProofs)
	for i := range list {
		q := &list[i].Query
		proof, err := proofs(q)
		if err != nil {
			return err
		}
		if proof == nil {
			continue
		}
		s.Queries++
		p.Queries++
		if proof.Unprovable == "" {
			p.Proved++
			continue
		}
		at := slices.IndexFunc(s.Reasons, func(r feedReason) bool { return r.Why == proof.Unprovable })
		if at < 0 {
			at = len(s.Reasons)
			s.Reasons = append(s.Reasons, feedReason{Why: proof.Unprovable, Name: v.name(q), Link: "/queries/" + q.ID})
		}
		s.Reasons[at].Count++
	}
	return err
}
