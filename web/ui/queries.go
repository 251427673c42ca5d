package ui

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/registry"
)

// A queriesPage answers: which queries change, cost or lag most? Its form acts on
// several queries.
type queriesPage struct {
	Filter    queriesFilter
	Lede      queriesLede
	Endpoints []choice
	States    []choice
	Tags      []choice
	Sorts     []choice
	Rows      []queryRow
	Heads     map[string]sortHead
	All       int // number of matching queries
	Pages     *pager
	Clear     string // address without filters, if some filter matches nothing
	None      bool   // nothing is registered
	MayAct    bool
	Here      string
}

type queriesFilter struct{ Text, Endpoint, State, Tag, Sort string }

// A sortHead is the head of a sortable column.
type sortHead struct {
	Link, Aria string // Aria is ascending, descending or ""
}

// A queryRow is a row of the list.
type queryRow struct {
	ID, Name, Link string
	MayAct         bool
	Tags           []string
	Form, Endpoint string
	State          state
	Why            string // the endpoint's error message if it fails
	Strip          strip
	Changes        string
	Cost           template.HTML
	Checked        template.HTML
	Changed        template.HTML
	Next           template.HTML
	Running        bool // it has its turn in the running slot, and its next run is planned after it
}

const (
	queriesShown = 30
	tagsOffered  = 100
	mostAtOnce   = 200 // maximum number of queries that one form acts on
)

// sortingOf returns the sort order of a key.
func sortingOf(key string) (sorting, bool) {
	for _, s := range sorts {
		if s.key == key {
			return s, true
		}
	}
	return sorting{}, false
}

// digestsBy orders by a value derived from a digest.
func digestsBy(compare func(a, b *registry.QueryDigest) int) func(*snapshot) func(a, b int32) int {
	return func(s *snapshot) func(a, b int32) int {
		return func(a, b int32) int { return compare(&s.digests[a], &s.digests[b]) }
	}
}

// sorts are the sort orders of the list, the default first.
var sorts = []sorting{
	{"changes", "descending", func(s *snapshot) func(a, b int32) int {
		return func(a, b int32) int { return cmp.Compare(s.changes[b], s.changes[a]) }
	}},
	{"cost", "descending", digestsBy(func(a, b *registry.QueryDigest) int { return cmp.Compare(b.Median, a.Median) })},
	{"checked", "ascending", digestsBy(func(a, b *registry.QueryDigest) int { return a.CheckedAt.Compare(b.CheckedAt) })},
	{"changed", "descending", digestsBy(func(a, b *registry.QueryDigest) int { return b.ChangedAt.Compare(a.ChangedAt) })},
	{"name", "ascending", byName},
}

func byName(s *snapshot) func(a, b int32) int {
	fold := make([]string, len(s.digests))
	for i := range fold {
		fold[i] = strings.ToLower(cmp.Or(s.digests[i].Name, s.digests[i].ID))
	}
	return func(a, b int32) int { return strings.Compare(fold[a], fold[b]) }
}

func (v queriesHandler) page() (content, error) {
	p := v.r.URL.Query()
	f := queriesFilter{clip(p.Get("q"), 500), p.Get("endpoint"), p.Get("state"), p.Get("tag"), p.Get("sort")}
	if _, ok := sortingOf(f.Sort); !ok {
		f.Sort = sorts[0].key
	}
	d := queriesPage{Filter: f, MayAct: v.May(registry.RoleApp), Here: v.r.URL.RequestURI()}
	snap, err := v.catalogue.look()
	if err != nil {
		return content{}, err
	}
	list, err := v.find(snap, f)
	if err != nil {
		return content{}, err
	}
	shown, pages := turn(p, list, queriesShown, "/queries", "page", kept...)
	if d.Rows, err = v.rows(snap, shown); err != nil {
		return content{}, err
	}
	d.None, d.All, d.Pages = len(snap.digests) == 0, len(list), pages
	if len(shown) == 0 && !d.None {
		d.Clear = "/queries"
	}
	d.offer(p, snap)
	d.Lede = snap.lede()
	c := content{Data: d, Live: []part{{"lede", "queries-lede", d.Lede}}}
	for _, r := range d.Rows {
		c.Live = append(c.Live, part{"row-" + r.ID, "query-row", r})
	}
	return c, nil
}

// find returns the matching queries in the requested order.
func (v queriesHandler) find(snap *snapshot, f queriesFilter) ([]int32, error) {
	o, _ := sortingOf(f.Sort)
	list := snap.order(o)
	if f.Text == "" && f.Endpoint == "" && f.State == "" && f.Tag == "" {
		return list, nil
	}
	mentioned := map[string]bool{}
	if f.Text != "" {
		hits, err := v.Queries.Digests(strings.TrimSpace(f.Text))
		if err != nil {
			return nil, err
		}
		for i := range hits {
			mentioned[hits[i].ID] = true
		}
	}
	var out []int32
	for _, i := range list {
		d := &snap.digests[i]
		if (f.Endpoint == "" || d.Endpoint == f.Endpoint) && (f.State == "" || string(d.State) == f.State) &&
			(f.Tag == "" || slices.Contains(d.Tags, f.Tag)) && (f.Text == "" || mentioned[d.ID]) {
			out = append(out, i)
		}
	}
	return out, nil
}

// rows reads the current data of the rows. Queries removed since the list was ordered
// are left out.
func (v queriesHandler) rows(snap *snapshot, list []int32) ([]queryRow, error) {
	ids := map[string][]string{}
	for _, i := range list {
		x := &snap.digests[i]
		ids[x.Endpoint] = append(ids[x.Endpoint], x.ID)
	}
	due, err := v.NextRuns(ids)
	if err != nil {
		return nil, err
	}
	last, running := map[string]uint64{}, map[string]bool{}
	rows := make([]queryRow, 0, len(list))
	for _, i := range list {
		x := &snap.digests[i]
		it, err := v.Queries.Item(x.ID)
		if isMissing(err) {
			continue
		} else if err != nil {
			return nil, err
		}
		stats, err := v.Queries.Stats(x.ID)
		if err != nil && !isMissing(err) {
			return nil, err
		}
		slot, ok := last[x.Endpoint]
		if !ok {
			st, err := v.Daemon.State(x.Endpoint)
			if err == nil {
				slot = st.Last.Number
			}
			last[x.Endpoint], running[x.Endpoint] = slot, err == nil && st.Running
		}
		q, st := &it.Query, it.Status
		r := queryRow{ID: q.ID, Name: v.name(q), Link: queryPath(q.ID), MayAct: v.May(registry.RoleApp), Form: string(q.Form),
			Endpoint: q.Endpoint, State: stateOf(q, st),
			Strip: stripOf(stats, slot), Changes: count(snap.changes[i]), Cost: cost(st.Median).HTML(), Checked: v.Past(st.CheckedAt),
			Changed: v.Past(st.ChangedAt), Next: none}
		if r.Tags = q.Tags(); len(r.Tags) > 4 {
			r.Tags = append(slices.Clone(r.Tags[:3]), "+"+strconv.Itoa(len(r.Tags)-3))
		}
		if st.Position.Seq == 0 {
			r.Changes = none
		}
		if st.State == registry.Failing || st.State == registry.Stale || st.State == registry.Idle {
			r.Why = st.Error
		}
		if q.Paused() == nil {
			r.Next, r.Running = v.Next(due[q.ID]), due[q.ID].IsZero() && running[x.Endpoint]
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// offer fills the selects, with the number of queries in each state.
func (d *queriesPage) offer(now url.Values, snap *snapshot) {
	n := snap.states
	d.Endpoints = choices(snap.facets.endpoints, d.Filter.Endpoint)
	d.Tags = choices(snap.facets.tags, d.Filter.Tag)
	for _, s := range []registry.State{registry.Failing, registry.Stale, registry.Live, registry.New, registry.Paused, registry.Idle} {
		d.States = append(d.States, choice{string(s), fmt.Sprintf("%s (%s)", s, count(n[s])), string(s) == d.Filter.State})
	}
	d.Heads = map[string]sortHead{}
	for _, s := range sorts {
		d.Sorts = append(d.Sorts, choice{Value: s.key, Selected: s.key == d.Filter.Sort})
		h := sortHead{Link: address(now, "/queries", "sort", s.key, kept...)}
		if s.key == d.Filter.Sort {
			h.Aria = s.aria
		}
		d.Heads[s.key] = h
	}
}

// choices returns the most frequent values in alphabetical order, including the
// selected one.
func choices(counts map[string]int, chosen string) []choice {
	values := make([]string, 0, len(counts))
	for k := range counts {
		values = append(values, k)
	}
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b)) })
	values = values[:min(len(values), tagsOffered)]
	if chosen != "" && !slices.Contains(values, chosen) {
		values = append(values, clip(chosen, 100))
	}
	slices.Sort(values)
	var out []choice
	for _, s := range values {
		out = append(out, choice{s, clip(s, 60), s == chosen})
	}
	return out
}

// kept are the parameters of the list that its links keep.
var kept = []string{"q", "endpoint", "state", "tag", "sort"}

// A queriesLede answers how much changed, and which queries have problems.
type queriesLede struct {
	Changes, Queries int // changes of the last 24 hours
	States           tallied
}

func (s *snapshot) lede() queriesLede {
	l := queriesLede{Queries: len(s.digests), States: s.states}
	for _, c := range s.byHour {
		l.Changes += int(c)
	}
	return l
}

// verbs are the actions on queries.
var verbs = map[string]func(*registry.Registry, registry.Caller, string) (registry.Query, error){
	"refresh": (*registry.Registry).Refresh, "pause": (*registry.Registry).Pause, "resume": (*registry.Registry).Resume,
}

// act applies an action to each marked query and reports those for which it failed.
func (v queriesHandler) act() error {
	ids := v.r.PostForm["id"]
	do, ok := verbs[v.r.PostForm.Get("do")]
	switch {
	case !ok:
		return &registry.Problem{Kind: registry.KindMalformed, Title: "The form cannot be read", Detail: "It does not say what to do."}
	case len(ids) == 0:
		v.say("warn", "none-selected", "", "")
		return v.back("/queries")
	case len(ids) > mostAtOnce:
		return &registry.Problem{Kind: registry.KindMalformed, Title: "Too many at once", Detail: "At most " + count(mostAtOnce) +
			" queries can be marked."}
	}
	said := flash{Kind: "good", Code: "queries-" + v.r.PostForm.Get("do")}
	for _, id := range ids {
		_, err := do(v.Registry, v.caller, id)
		var p *registry.Problem
		switch {
		case err == nil:
			said.Done++
		case errors.As(err, &p):
			said.Kind, said.Text = "warn", p.Detail
			said.Not++
		default:
			return err
		}
	}
	v.catalogue.drop()
	if said.Done == 0 {
		said.Kind = "fail"
	}
	v.report(said)
	return v.back("/queries")
}
