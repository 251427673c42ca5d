package web

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/pack"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/web/api"
)

// labelTime is how long a call waits for labels.
const labelTime = 5 * time.Second

// NewLabels returns labels that are looked up by trial runs, which the endpoint's budget
// pays for.
func NewLabels(r *registry.Registry, x Daemon, clock Clock) *watch.Labels {
	return watch.NewLabels(func(ctx context.Context, endpoint, text string) (*diff.Result, error) {
		q, err := r.Analyse(registry.Registration{Endpoint: endpoint, Text: text})
		if err != nil {
			return nil, err
		}
		a, err := x.Trial(ctx, &q)
		if err != nil {
			return nil, err
		}
		if !a.Outcome.Complete() {
			return nil, errors.New(a.Error)
		}
		return a.Result, nil
	}, clock)
}

// A watchRequest is a registration with a watch or a link instead of a query.
type watchRequest struct {
	watch.Watch
	Link string `json:"link"`
	registry.Registration
}

// ReadLink returns what a link, or without one a watch of an IRI, asks to watch. The watch has how.
func ReadLink(text string, w watch.Watch) (l watch.Link, err error) {
	l.Watch = w
	if text != "" {
		if l, err = watch.ParseLink(text); err != nil {
			return l, err
		}
		if l.Kind == "" {
			l.Kind = w.Kind
		} else if w.Kind != "" {
			return l, registry.BadSetting("/kind", "the link holds a query, which says itself what is watched: leave out kind")
		}
		l.Direction, l.Properties, l.Within, l.Labels = w.Direction, w.Properties, w.Within, w.Labels
	}
	if l.Watch, err = l.Normalize(); l.Kind != watch.ByQuery {
		l.Site = watch.SiteOf(l.IRI).Name
	}
	return l, err
}

// A watched is a registered query that is a watch.
type watched struct {
	query registry.Query
	watch watch.Watch
}

// watched returns the watch that the path names by id or name.
func (c *call) watched() (watched, error) {
	q, err := c.query()
	if err != nil {
		return watched{}, err
	}
	w, ok := watch.Of(&q, c.caller.Name)
	if !ok {
		return watched{}, notFound("the query " + q.ID + " is no watch: it was registered as SPARQL, or has lost the tag " + watch.Tag)
	}
	return watched{q, w}, nil
}

// registration reads a watch and the registration that it becomes.
func (c watchAPI) registration() (w watch.Watch, reg registry.Registration, err error) {
	var body watchRequest
	if err := c.decode(&body, typeJSON); err != nil {
		return w, reg, err
	}
	switch {
	case body.Registration.Text != "":
		return w, reg, registry.BadSetting("/query", "a watch has no query: give it as link, or register it at /v1/queries")
	case body.Link != "" && body.IRI != "":
		return w, reg, registry.BadSetting("/link", "give either link or iri")
	}
	l, err := ReadLink(body.Link, body.Watch)
	if err != nil {
		return w, reg, err
	}
	reg = body.Registration
	err = ApplyLink(c.r.Context(), c.Registry, c.Daemon, c.tries, c.name(), l, &reg)
	return l.Watch, reg, err
}

// ApplyLink makes a registration of a normalised link: it chooses the endpoint, unless one is given, and
// declares the prefixes that the endpoint's own editor adds. To ask endpoints, the caller takes a place of tries.
func ApplyLink(ctx context.Context, r *registry.Registry, x Daemon, tries *registry.Places, caller string, l watch.Link,
	reg *registry.Registration) (err error) {
	if reg.Endpoint == "" {
		reg.Endpoint, err = watchEndpoint(ctx, r, x, tries, caller, l)
	}
	l.Apply(reg)
	if l.Kind != watch.ByQuery {
		return err
	}
	reg.DefaultGraphURI, reg.NamedGraphURI = append(reg.DefaultGraphURI, l.Graphs...), append(reg.NamedGraphURI, l.NamedOnes...)
	if e, missing := r.Find(reg.Endpoint); missing == nil {
		if p, ok := pack.Of(e.Name, e.URL); ok {
			reg.Text = p.Declare(reg.Text)
		}
	}
	return err
}

// MissingEndpoint returns the settings of the endpoint that a link names and a server does not have: those
// of a pack, if there is one. ok is false if nothing is missing.
func MissingEndpoint(r *registry.Registry, l watch.Link) (e registry.Endpoint, p *pack.Pack, ok bool) {
	if _, known := namedEndpoint(r, l); known || l.Endpoint == "" && l.Site == "" {
		return e, nil, false
	}
	if p, ok := pack.Of(l.Site, l.Endpoint); ok {
		e, err := p.Endpoint()
		return e, &p, err == nil
	}
	all, err := r.Endpoints()
	var taken []string
	for _, e := range all {
		taken = append(taken, e.Name)
	}
	e = registry.Endpoint{Name: l.EndpointName(taken...), URL: l.Endpoint}
	return e, nil, err == nil && e.URL != ""
}

// namedEndpoint returns the endpoint that a link names by its URL or by its site, of which endpoints have the
// name, or the URL of its pack.
func namedEndpoint(r *registry.Registry, l watch.Link) (name string, ok bool) {
	all, err := r.Endpoints()
	if err != nil {
		return "", false
	}
	p, packed := pack.Of(l.Site, l.Endpoint)
	for _, same := range []func(e registry.Endpoint) bool{
		func(e registry.Endpoint) bool { return pack.Same(e.URL, l.Endpoint) },
		func(e registry.Endpoint) bool { return packed && e.Name == p.Name },
		func(e registry.Endpoint) bool { return packed && p.Has(e.URL) },
	} {
		if i := slices.IndexFunc(all, same); i >= 0 {
			return all[i].Name, true
		}
	}
	return "", false
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// ShellWord returns a text as one word of a command that people paste into a shell.
func ShellWord(text string) string {
	if plainWord.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// mostAsked is how many endpoints are asked whether they know an IRI.
const mostAsked = 8

// watchEndpoint returns the endpoint for a link: the one that it names, or that of its site. A link without
// either gets the default one ("") or, if there is none, the only one that knows the IRI. The endpoints'
// budgets pay for the question. The error says which ones know it.
func watchEndpoint(ctx context.Context, r *registry.Registry, x Daemon, tries *registry.Places, caller string,
	l watch.Link) (string, error) {
	if name, ok := namedEndpoint(r, l); ok {
		return name, nil
	}
	if e, p, missing := MissingEndpoint(r, l); missing {
		title, add := e.URL, e.Name+" "+ShellWord(e.URL)
		if p != nil {
			title, add = p.Title, "--pack "+p.Name
		}
		return "", registry.WrongField(registry.KindUnknownEndpoint, "/endpoint", "the link is about %s, which this server does not ask: "+
			"an admin can add it (freshet endpoint add %s), or choose an endpoint that has the same data", title, add)
	}
	if l.Kind == watch.ByQuery {
		return "", nil
	}
	all, err := r.Endpoints()
	if r.HasDefault() || err != nil || len(all) < 2 || len(all) > mostAsked {
		return "", err
	}
	leave, err := enter(tries, caller)
	if err != nil {
		return "", err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, labelTime)
	defer cancel()
	knows := make([]bool, len(all))
	var asked sync.WaitGroup
	for i, e := range all {
		asked.Go(func() { knows[i] = knowsIRI(ctx, r, x, e.Name, l.IRI) })
	}
	asked.Wait()
	var names []string
	for i, e := range all {
		if knows[i] {
			names = append(names, e.Name)
		}
	}
	switch len(names) {
	case 0:
		return "", nil
	case 1:
		return names[0], nil
	}
	several := registry.WrongField(registry.KindUnknownEndpoint, "/endpoint", "choose one: %s", strings.Join(names, ", "))
	several.Title = "Several endpoints know this IRI"
	return "", several
}

// knowsIRI reports whether an endpoint has triples of an IRI. One that does not answer has none.
func knowsIRI(ctx context.Context, r *registry.Registry, x Daemon, endpoint, iri string) bool {
	q, err := r.Analyse(registry.Registration{Endpoint: endpoint, Text: "ASK { { <" + iri + "> ?a ?b } UNION { ?c ?d <" + iri + "> } }"})
	if err != nil {
		return false
	}
	a, err := x.Trial(ctx, &q)
	return err == nil && a.Outcome.Complete() && a.Result != nil && a.Result.Boolean()
}

// RunSoon makes a new query run at once, as far as the endpoint's budget allows. Without an
// answer of the endpoint's loop, it runs in the next slot.
func (c *Config) RunSoon(endpoint string) {
	_, _ = c.Hint(endpoint, registry.Hint{New: true})
}

func (c watchAPI) register() error {
	_, reg, err := c.registration()
	if err != nil {
		return err
	}
	q, status, err := queryAPI(c).storeRegistration(reg, "/v1/watches/")
	if err != nil {
		return err
	}
	view, err := c.current(q.ID)
	if status == http.StatusCreated { // the answer describes it before its first run
		c.RunSoon(q.Endpoint)
	}
	return c.reply(status, view, err)
}

// current describes a watch as it is now. It does not ask for labels.
func (c watchAPI) current(id string) (api.Watch, error) {
	it, err := c.Queries.Item(id)
	if err != nil {
		return api.Watch{}, err
	}
	v := queryAPI(c).viewer()
	if err := v.expect(it); err != nil {
		return api.Watch{}, err
	}
	return c.view(v, it)
}

// view renders a watch with the labels that are known.
func (c watchAPI) view(v *viewer, it registry.ListedQuery) (api.Watch, error) {
	w, _ := watch.Of(&it.Query, c.caller.Name)
	query, err := v.item(it)
	return api.Watch{ID: it.Query.ID, Watch: w, Describes: w.Describe(c.Labels.Known(it.Query.Endpoint, w.Labels)), Query: query}, err
}

func (c watchAPI) list() error {
	f := registry.QueryFilter{Endpoint: c.params.Get("endpoint"), Text: c.params.Get("q"), Tag: watch.Tag}
	limit, cursor := c.params.limit(usualPage, mostPage), c.params.cursor("q_")
	if c.params.err != nil {
		return c.params.err
	}
	items, next, err := c.Queries.List(f, cursor, limit)
	if err != nil {
		return err
	}
	v, views := queryAPI(c).viewer(), []api.Watch{}
	if err := v.expect(items...); err != nil {
		return err
	}
	for _, it := range items {
		if _, ok := watch.Of(&it.Query, c.caller.Name); !ok {
			continue
		}
		view, err := c.view(v, it)
		if err != nil {
			return err
		}
		views = append(views, view)
	}
	return c.page("watches", views, next, "endpoint", "q", "limit")
}

// names returns the labels of the IRIs of a watch and its changes.
func (c watchAPI) names(endpoint string, w watch.Watch, changes ...*diff.Delta) watch.Namer {
	if !c.caller.MayRead(nil) { // strangers cause no requests
		return c.Labels.Known(endpoint, w.Labels)
	}
	return c.WatchNames(c.r.Context(), labelTime, endpoint, w, changes)
}

// WatchNames returns the labels of the IRIs of a watch and its changes. It waits for them for a time.
func (c *Config) WatchNames(ctx context.Context, wait time.Duration, endpoint string, w watch.Watch, changes []*diff.Delta) watch.Namer {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	return c.Labels.Lookup(ctx, endpoint, w.Labels, w.IRIs(changes...))
}

// Deltas returns what changes add and remove.
func Deltas(log []registry.Change) []*diff.Delta {
	deltas := make([]*diff.Delta, len(log))
	for i := range log {
		deltas[i] = log[i].Delta
	}
	return deltas
}

func (c watchAPI) show(w watched) error {
	_, r, err := c.History.Current(w.query.ID, true)
	if err != nil {
		return err
	}
	sample := w.watch.Sample(r)
	names := c.names(w.query.Endpoint, w.watch, sample)
	view, err := c.current(w.query.ID)
	view.Now = w.watch.Now(r, sample, names)
	return c.reply(http.StatusOK, view, err)
}

func (c watchAPI) release() error {
	if _, err := c.watched(); err != nil {
		return err
	}
	return queryAPI(c).release()
}

func (c watchAPI) validate() error {
	run := c.params.flag("run")
	if c.params.err != nil {
		return c.params.err
	}
	w, reg, err := c.registration()
	if err != nil {
		return err
	}
	a, err := queryAPI(c).analyse(reg, run, trialRows)
	if err != nil {
		return err
	}
	return c.json(http.StatusOK, api.WatchPreview{Watch: w, Describes: w.Describe(c.names(a.Endpoint, w)), Query: reg.Text, Analysis: a})
}

// changes answers with a page of the log in words.
func (c watchAPI) changes(w watched) error {
	limit, after, given, err := changeAPI(c).pageAfter()
	if err != nil {
		return err
	}
	if !given {
		if after, err = changeAPI(c).oldest(w.query.ID); err != nil {
			return err
		}
	}
	log, err := c.History.After(w.query.ID, after, limit)
	if err != nil {
		return err
	}
	page := struct {
		Changes []api.WatchChange `json:"changes"`
		Next    string            `json:"next"`
	}{[]api.WatchChange{}, after.String()}
	names := c.names(w.query.Endpoint, w.watch, Deltas(log)...)
	for _, ch := range log {
		v := api.WatchChange{Epoch: ch.Epoch, Prev: ch.Prev, Seq: ch.Seq, Time: ch.Time.UTC(), CheckedAt: ch.CheckedAt.UTC(),
			Baseline: ch.Baseline, Summary: watch.InWords(ch.Delta, &w.watch, names).By(ch.Edits).All()}
		if ch.Delta != nil {
			v.Added, v.Removed = len(ch.Delta.Added), len(ch.Delta.Removed)
		}
		page.Changes, page.Next = append(page.Changes, v), ch.Position().String()
	}
	return c.json(http.StatusOK, page)
}
