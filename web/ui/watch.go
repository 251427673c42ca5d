package ui

import (
	"crypto/sha256"
	"html/template"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/web"
)

// A watchPage is the form of a watch, and what it would watch.
type watchPage struct {
	Form      form
	Endpoints []registry.Endpoint
	Seen      *seenWatch // nil until the visitor looks
}

// A seenWatch shows a watch before it is registered.
type seenWatch struct {
	Describes, Endpoint, Text string
	Trial                     *trial
	Lines                     []string
	Rest                      int // rows without a line
}

var watchFields = []string{"iri", "kind", "direction", "properties", "within", "labels", "endpoint", "name"}

// labelWait is how long a page waits for labels.
const labelWait = 3 * time.Second

func (v watchHandler) page() (content, error) {
	f := form{Fields: watchFields, Values: url.Values{"iri": {v.r.URL.Query().Get("iri")}, "labels": {"en"}}}
	p, err := v.fill(f, nil)
	return content{Data: p}, err
}

func (v watchHandler) fill(f form, seen *seenWatch) (watchPage, error) {
	all, err := v.Registry.Endpoints()
	return watchPage{Form: f, Endpoints: all, Seen: seen}, err
}

// typed reads the form.
func (v watchHandler) typed() (form, watch.Watch, registry.Registration, error) {
	f := v.visit.typed(watchFields)
	w, err := watch.Watch{Kind: watch.Kind(f.Get("kind")), IRI: f.Get("iri"), Direction: f.Get("direction"), Properties: lines(f.Get("properties")), Within: f.Get("within"), Labels: lines(f.Get("labels"))}.Normalize()
	reg := registry.Registration{Endpoint: f.Get("endpoint"), Name: f.Get("name")}
	if err != nil {
		return f, w, reg, f.refuse(err)
	}
	if reg.Endpoint == "" {
		reg.Endpoint, err = web.WatchEndpoint(v.r.Context(), v.Registry, v.Daemon, w)
	}
	if err != nil {
		return f, w, reg, f.refuse(err)
	}
	w.Apply(&reg)
	return f, w, reg, nil
}

// watch shows or registers the watch of the form, depending on the button.
func (v watchHandler) watch() error {
	f, w, reg, err := v.typed()
	if err != nil {
		return err
	}
	if f.Status != 0 {
		return v.again(f, nil)
	}
	if f.Get("do") == "look" {
		seen, err := v.look(w, reg)
		if err == nil {
			return v.again(f, seen)
		}
		return f.refused(err, func() error { return v.again(f, nil) })
	}
	q, created, err := v.Registry.Register(v.caller, reg)
	if err != nil {
		return f.refused(err, func() error { return v.again(f, nil) })
	}
	if created {
		v.RunSoon(q.Endpoint)
	}
	v.catalogue.drop()
	v.say("good", "watch-registered", "", "")
	return v.to("/watches/" + url.PathEscape(q.ID))
}

func (v watchHandler) again(f form, seen *seenWatch) error {
	p, err := v.fill(f, seen)
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
	a, t, err := registerHandler(v).execute(&q)
	if err != nil {
		return nil, err
	}
	seen := &seenWatch{Endpoint: q.Endpoint, Text: reg.Text, Trial: t}
	var first []*diff.Delta
	if t.Table != nil {
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
	Describes string
	Changes   []watchedChange // newest first
	More      bool            // there are older ones
}

type watchedChange struct {
	When  template.HTML
	Lines []string
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
		return content{}, &registry.Problem{Kind: registry.KindNotFound, Title: "This query is no watch", Detail: "It was registered as SPARQL. Its own page shows its changes."}
	}
	log, err := resultHandler(v).ending(q.ID, st.Position.Epoch, st.Position.Seq, changesInWords)
	if err != nil {
		return content{}, err
	}
	names := v.names(q.Endpoint, w, web.Deltas(log)...)
	p := watchedPage{Head: queryHandler(v).head(&q, st), Describes: w.Describe(names), More: len(log) > 0 && log[0].Seq > 1}
	for _, c := range slices.Backward(log) {
		x := resultHandler(v).view(&q, newNamer(q.Text), c, 0, 0)
		p.Changes = append(p.Changes, watchedChange{x.When, watch.InWords(c.Delta, &w, names).All(), x.Link})
	}
	return content{Data: p}, nil
}

// Trials keeps the last trial runs for a short time, so that their rows remain
// available when the form is shown again.
type trials struct {
	mu   sync.Mutex
	list []keptTrial // oldest first
}

type keptTrial struct {
	key [sha256.Size]byte
	at  time.Time
	*trial
}

const (
	mostTrials  = 8 // each holds the first rows of a result
	oldestTrial = 10 * time.Minute
)

// trialKey identifies a caller's trial of a query.
func trialKey(caller string, reg registry.Registration) [sha256.Size]byte {
	return sha256.Sum256([]byte(caller + "\x00" + reg.Endpoint + "\x00" + reg.Text))
}

func (k *trials) keep(key [sha256.Size]byte, t *trial, now time.Time) {
	if t == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = slices.DeleteFunc(k.list, func(x keptTrial) bool { return x.key == key })
	if len(k.list) == mostTrials {
		k.list = slices.Delete(k.list, 0, 1)
	}
	k.list = append(k.list, keptTrial{key, now, t})
}

// kept returns nil if there is no recent trial.
func (k *trials) kept(key [sha256.Size]byte, now time.Time) *trial {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = slices.DeleteFunc(k.list, func(x keptTrial) bool { return now.Sub(x.at) > oldestTrial })
	for _, x := range k.list {
		if x.key == key {
			return x.trial
		}
	}
	return nil
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
