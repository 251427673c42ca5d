package ui

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	known "github.com/freshet/freshet/endpoint/pack"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/web"
)

// A watchPage is the form of a link, and what it would watch.
type watchPage struct {
	Form      form
	Endpoints []registry.Endpoint
	Seen      *seenWatch       // nil until the visitor looks
	Missing   *missingEndpoint // nil if the server has the endpoint of the link
}

// A seenWatch shows a watch before it is registered.
type seenWatch struct {
	Describes, Text string
	Endpoint        registry.Endpoint
	Notes           []known.Note // about the endpoint
	Warnings        []registry.Warning
	Trial           *trial
	Lines           []string // of a watch that is no query
	Rest            int      // rows without a line
}

// A missingEndpoint is an endpoint that a link names and the server does not have.
type missingEndpoint struct {
	registry.Endpoint
	Title     string // for people
	Pack      *known.Pack
	May       bool // the visitor may add it
	NoContact bool // it cannot be added, because it is public
	Tried     *probed
	Report    *registry.Report // of a check in which it did not answer
}

var watchFields = append([]string{"link", "kind", "direction", "properties", "within", "labels", "endpoint", "name", "to"}, notifyFields...)

// labelWait is how long a page waits for labels.
const labelWait = 3 * time.Second

func (v watchHandler) page() (content, error) {
	q := v.r.URL.Query()
	f := form{Fields: watchFields, Values: url.Values{"link": {cmp.Or(q.Get("link"), q.Get("iri"))}, "labels": {"en"}}}
	p, err := v.fill(f, nil, nil)
	return content{Data: p}, err
}

func (v watchHandler) fill(f form, seen *seenWatch, missing *missingEndpoint) (watchPage, error) {
	all, err := v.Registry.Endpoints()
	return watchPage{Form: f, Endpoints: all, Seen: seen, Missing: missing}, err
}

// typed reads the form. A file counts as the link.
func (v watchHandler) typed() (form, watch.Link, error) {
	f := v.visit.typed(watchFields)
	f.Values.Set("link", strings.ReplaceAll(f.Get("link"), "\r\n", "\n"))
	if file, _, err := v.r.FormFile("file"); err == nil {
		defer file.Close()
		text, err := io.ReadAll(file)
		if err != nil {
			return f, watch.Link{}, err
		}
		if len(text) > 0 {
			f.Values.Set("link", string(text))
		}
	}
	text := cmp.Or(f.Get("link"), " ") // one that is missing is an error of the link
	l, err := web.ReadLink(text, watch.Watch{Kind: watch.Kind(f.Get("kind")), Direction: f.Get("direction"),
		Properties: lines(f.Get("properties")), Within: f.Get("within"), Labels: lines(f.Get("labels"))})
	if err != nil {
		return f, l, f.refuse(err)
	}
	return f, l, nil
}

// watch shows or registers the watch of the form, depending on the button, or adds its endpoint first.
func (v watchHandler) watch() error {
	f, l, err := v.typed()
	if err != nil {
		return err
	}
	if f.Status != 0 {
		return v.again(f, nil, nil)
	}
	do := f.Get("do")
	reg := registry.Registration{Endpoint: f.Get("endpoint"), Name: f.Get("name")}
	err = web.ApplyLink(v.r.Context(), v.Registry, v.Daemon, v.tries, v.caller.Name, l, &reg)
	if missing := v.missing(l, reg); missing != nil {
		if do != "add" {
			return v.again(f, nil, missing)
		}
		if err := v.add(missing, &f); err != nil {
			return err
		}
		if missing.Report != nil || missing.Tried != nil || f.Status != 0 {
			return v.again(f, nil, missing)
		}
		reg = registry.Registration{Endpoint: missing.Name, Name: f.Get("name")}
		err = web.ApplyLink(v.r.Context(), v.Registry, v.Daemon, v.tries, v.caller.Name, l, &reg)
	}
	if err != nil {
		return f.refused(err, func() error { return v.again(f, nil, nil) })
	}
	if do != "" {
		if f.Get("name") == "" {
			f.Values.Set("name", l.Name())
		}
		seen, err := v.look(l.Watch, reg)
		if err == nil {
			return v.again(f, seen, nil)
		}
		return f.refused(v.aboutLink(err), func() error { return v.again(f, nil, nil) })
	}
	return v.register(f, l, reg)
}

// aboutLink makes an error of the query one of the link that holds it.
func (v watchHandler) aboutLink(err error) error { return pointAt(err, "/query", "/link") }

// register registers a watch with its receivers.
func (v watchHandler) register(f form, l watch.Link, reg registry.Registration) error {
	held, err := v.holds(reg)
	if err != nil {
		return f.refused(v.aboutLink(err), func() error { return v.again(f, nil, nil) })
	}
	q, created, err := v.Registry.Register(v.caller, reg)
	if err != nil {
		return f.refused(v.aboutLink(err), func() error { return v.again(f, nil, nil) })
	}
	names := v.Labels.Known(q.Endpoint, l.Labels)
	told, err := v.inform(f, l, q.ID, cmp.Or(reg.Name, l.Name(), l.RuleName(names), q.ID))
	if err != nil {
		if !held { // as if nothing had been done
			if err := v.Registry.Release(v.caller, q.ID, false); err != nil {
				return err
			}
		}
		return f.refused(err, func() error { return v.again(f, nil, nil) })
	}
	if created {
		v.RunSoon(q.Endpoint)
	}
	v.catalogue.drop()
	if len(told.Made) > 0 {
		return ruleHandler(v).again(rulesPage{Form: form{Fields: ruleFields, Status: http.StatusCreated}, Made: told.Made})
	}
	switch {
	case q.Paused() != nil:
		v.say("warn", "watch-paused", q.ID, "query")
	case told.Paused != "":
		v.say("warn", "watch-paused", q.ID, told.Paused)
	case told.Any:
		v.say("good", "watch-told", "", "")
	default:
		v.say("good", "watch-registered", "", "")
	}
	return v.to("/watches/" + url.PathEscape(q.ID))
}

// holds reports whether the visitor holds the query of a registration already.
func (v watchHandler) holds(reg registry.Registration) (bool, error) {
	q, err := v.Registry.Analyse(reg)
	if err != nil {
		return false, err
	}
	q, err = v.Registry.Query(q.ID)
	if isMissing(err) {
		return false, nil
	}
	_, held := q.Holder(v.caller.Name)
	return held, err
}

// An informed watch has a rule, a receiver, both or none.
type informed struct {
	Any    bool
	Made   []madeSecret // of the rule's receivers
	Paused string       // which of them is paused: rule, receiver or ""
}

// inform makes the rule and the receiver that the form asks for, both or none.
func (v watchHandler) inform(f form, l watch.Link, query, name string) (told informed, err error) {
	remove := func() error { return nil }
	if to := receiversOf(f); len(to) > 0 {
		r, old, err := ruleHandler(v).createOnce(registry.RuleSettings{Name: name, Query: query, When: "changed", To: to,
			Summary: strings.ReplaceAll(l.Describe(watch.Plain), "?", "") + ": ?added added, ?removed removed"}) // of which only two are variables
		if err != nil {
			return told, err
		}
		told = informed{Any: true, Made: secretsOf(r, old)}
		if r.Paused {
			told.Paused = "rule"
		}
		if old == nil {
			remove = func() error { return v.Rules.Remove(r.ID) }
		}
	}
	if to := receiverOf(f); to.Address != "" {
		to.Query, told.Any = query, true
		s, err := v.Receivers.Create(v.caller, to)
		if err != nil {
			return told, cmp.Or(remove(), err)
		}
		if s.State == registry.SubscriptionPaused {
			told.Paused = "receiver"
		}
	}
	return told, nil
}

// missing returns the endpoint that has to be added before a link can be watched, nil if there is none.
func (v watchHandler) missing(l watch.Link, reg registry.Registration) *missingEndpoint {
	e, p, ok := web.MissingEndpoint(v.Registry, l)
	if !ok || reg.Endpoint != "" { // which the visitor chose
		return nil
	}
	m := &missingEndpoint{Endpoint: e.WithDefaults(), Title: e.URL, Pack: p, May: v.May(registry.RoleAdmin)}
	m.NoContact = v.NoContact && v.Registry.MayCreate(e) != nil
	if p != nil {
		m.Title = p.Title
	}
	return m
}

// add adds an endpoint after a check: of one with a pack whether it answers, of any other what it can do.
func (v watchHandler) add(m *missingEndpoint, f *form) error {
	if !m.May {
		return forbidden("Adding an endpoint needs the role admin.")
	}
	refuse := func(err error) error { return f.refuse(pointAt(err, "/name", "/link")) } // the form's name is that of the watch
	h := newEndpointHandler(v)
	if m.Pack == nil {
		r, busy, err := h.examine(m.Endpoint)
		switch {
		case err != nil:
			return refuse(err)
		case busy:
			m.Tried = &probed{Busy: true}
			return nil
		case !r.Answers:
			m.Report = &r
			return nil
		}
		s := settingsOf(m.Endpoint)
		for _, p := range r.Settings {
			s.Values.Set(p.Name, fmt.Sprint(p.Value))
		}
		s.apply(&m.Endpoint)
	} else {
		ctx, stop := context.WithTimeout(v.r.Context(), tryTime)
		defer stop()
		if _, err := v.Probe(ctx, m.Endpoint); err != nil {
			if refuse(err) == nil {
				return nil
			}
			f.Status, m.Tried = 0, &probed{Error: clip(err.Error(), longestWord)}
			return nil
		}
	}
	if _, err := v.Registry.CreateEndpoint(v.caller, m.Endpoint); err != nil {
		return refuse(err)
	}
	return nil
}

func (v watchHandler) again(f form, seen *seenWatch, missing *missingEndpoint) error {
	p, err := v.fill(f, seen, missing)
	if err != nil {
		return err
	}
	return v.visit.again(f, "watch", "queries", content{Data: p})
}

// look executes the query of a watch once and describes what it brings.
func (v watchHandler) look(w watch.Watch, reg registry.Registration) (*seenWatch, error) {
	q, err := v.Registry.Analyse(reg)
	if err != nil {
		return nil, err
	}
	e, err := v.Registry.Endpoint(q.Endpoint)
	if err != nil {
		return nil, err
	}
	a, t, err := registerHandler(v).execute(&q)
	if err != nil {
		return nil, err
	}
	seen := &seenWatch{Endpoint: e, Text: reg.Text, Trial: t, Warnings: q.Warnings}
	if p, ok := known.Of(e.Name, e.URL); ok {
		seen.Notes = p.Quirks
	}
	var first []*diff.Delta
	if t.Table != nil && w.Kind != watch.ByQuery {
		first = append(first, watch.First(a.Result))
	}
	names := v.names(q.Endpoint, w, first...)
	seen.Describes = w.Describe(names)
	for _, d := range first {
		seen.Lines = w.Lines(d, names)
		seen.Rest = a.Result.Len() - len(seen.Lines)
	}
	return seen, nil
}

// names returns the labels of the IRIs of a watch and its changes.
func (v watchHandler) names(endpoint string, w watch.Watch, changes ...*diff.Delta) watch.Namer {
	return v.WatchNames(v.r.Context(), labelWait, endpoint, w, changes)
}

// A watchedPage shows the last changes of a watch in words.
type watchedPage struct {
	Head      queryHead
	Now       queryNow
	Describes string
	Changes   []watchedChange // newest first
	More      bool            // there are older ones
}

type watchedChange struct {
	When  template.HTML
	Lines []string
	Edits []registry.DataEdit // that may have caused it
	Link  string
}

const changesInWords = 20

func (v watchHandler) changes() (content, error) {
	q, st, err := queryHandler(v).resolveStatus()
	if err != nil {
		return content{}, err
	}
	w, ok := watch.Of(&q, v.caller.Name)
	if !ok {
		return content{}, &registry.Problem{Kind: registry.KindNotFound, Title: "This query is no watch",
			Detail: "It was registered as SPARQL. Its own page shows its changes."}
	}
	log, err := resultHandler(v).ending(q.ID, st.Position.Epoch, st.Position.Seq, changesInWords)
	if err != nil {
		return content{}, err
	}
	names := v.names(q.Endpoint, w, web.Deltas(log)...)
	p := watchedPage{Head: queryHandler(v).head(&q, st), Describes: w.Describe(names), More: len(log) > 0 && log[0].Seq > 1}
	stats, x, e, err := queryHandler(v).known(&q)
	if err != nil {
		return content{}, err
	}
	if p.Now, err = queryHandler(v).state(&q, st, stats, x, e); err != nil {
		return content{}, err
	}
	for _, c := range slices.Backward(log) {
		x, words := resultHandler(v).view(&q, newNamer(q.Text), c, 0, 0), watch.InWords(c.Delta, &w, names)
		p.Changes = append(p.Changes, watchedChange{x.When, words.All(), words.By(c.Edits).Edits, x.Link})
	}
	return content{Data: p, Live: []part{{"head", "watched-head", p}, {"lede", "query-lede", p.Now}, {"trouble", "query-trouble", p.Now},
		{"changes", "watched-changes", p}}}, nil
}

// A trial is a single execution whose result is not stored.
type trial struct {
	Table   *preview // nil if it brought no result
	Form    diff.Form
	Took    time.Duration
	Outcome registry.Outcome // "" if it was refused
	Error   string
	Busy    bool // too many trials run
}

// A preview shows the first rows of a result.
type preview struct {
	grid
	All int // total number of rows
}
