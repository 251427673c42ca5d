package ui

// This file shows the head of a query, and the registration of the visitor.

import (
	"cmp"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/web"
)

// act performs the action of a button on a query's page.
func (v queryHandler) act() error {
	q, err := v.resolve()
	if err != nil {
		return err
	}
	do, ok := verbs[v.r.PostForm.Get("do")]
	if !ok {
		return &registry.Problem{Kind: registry.KindMalformed, Title: "The form cannot be read", Detail: "It does not say what to do."}
	}
	if q, err = do(v.Registry, v.caller, q.ID); err != nil {
		return err
	}
	v.catalogue.drop()
	if v.r.PostForm.Get("do") == "pause" && q.Paused() == nil {
		v.say("good", "query-paused-for-you", "", "")
	} else {
		v.say("good", "query-"+v.r.PostForm.Get("do"), "", "")
	}
	return v.to(queryPath(q.ID))
}

// A releasePage asks for confirmation before a registration is given up, and lists
// what will be lost.
type releasePage struct {
	Head        queryHead
	Others      int
	Changes     uint64 // in the log
	Last        bool   // the caller is the only holder
	Mine, Force bool
}

func (v holderHandler) releasePage() (content, error) {
	q, st, err := queryHandler(v).resolveStatus()
	if err != nil {
		return content{}, err
	}
	_, mine := q.Holder(v.caller.Name)
	d := releasePage{Head: queryHandler(v).head(&q, st), Others: len(q.Holders), Changes: st.Position.Seq, Mine: mine,
		Force: v.May(registry.RoleAdmin)}
	if mine {
		d.Others--
	}
	d.Last = d.Others == 0
	return content{Data: d}, nil
}

func (v holderHandler) release() error {
	q, err := v.resolve()
	if err != nil {
		return err
	}
	name := clip(v.name(&q), 200)
	if err := v.Registry.Release(v.caller, q.ID, v.r.PostForm.Get("everybody") != ""); err != nil {
		return err
	}
	v.catalogue.drop()
	if _, err := v.Registry.Query(q.ID); err == nil {
		v.say("good", "query-released", name, "")
		return v.to(queryPath(q.ID))
	}
	v.say("good", "query-ended", name, "")
	return v.to("/queries")
}

// A settingsPage edits the caller's own registration of a query.
type settingsPage struct {
	Head queryHead
	Form form
}

func (v holderHandler) settings(q *registry.Query, st registry.Status, f form) content {
	return content{Data: settingsPage{queryHandler(v).head(q, st), f}}
}

func (v holderHandler) edit() (content, error) {
	q, st, h, err := v.held()
	if err != nil {
		return content{}, err
	}
	f := form{Fields: holderFields, Values: url.Values{}}
	f.fill(v.registration(&q, h))
	return v.settings(&q, st, f), nil
}

func (v holderHandler) held() (registry.Query, registry.Status, registry.Holder, error) {
	q, st, err := queryHandler(v).resolveStatus()
	if err != nil {
		return q, st, registry.Holder{}, err
	}
	h, ok := q.Holder(v.caller.Name)
	if !ok {
		err = forbidden("You do not hold this query: its settings are those of its holders. Register it to have your own.")
	}
	return q, st, h, err
}

// save applies the form of a registration's settings. An invalid value is reported
// beside its field, and all submitted values are kept.
func (v holderHandler) save() error {
	q, st, h, err := v.held()
	if err != nil {
		return err
	}
	f := v.typed(holderFields)
	was := v.registration(&q, h)
	reg := f.registration(was)
	if f.Status == 0 {
		next, err := v.apply(&q, was, reg)
		if err == nil {
			v.catalogue.drop()
			if next == q.ID {
				v.say("good", "query-saved", "", "")
			} else {
				v.say("good", "query-exchanged", "", "")
			}
			return v.to(queryPath(next))
		}
		if err := f.refuse(err); err != nil {
			return err
		}
	}
	return v.again(f, "query-settings", "queries", v.settings(&q, st, f))
}

// apply gives the holder the settings of a registration and returns the id of the query
// that it holds then. Another text, order or graph makes another query.
func (v holderHandler) apply(q *registry.Query, was, reg registry.Registration) (string, error) {
	reg.Text = strings.TrimSpace(reg.Text)
	same := reg.Text == strings.TrimSpace(was.Text) && write(&reg.Ordered) == write(&was.Ordered)
	if same && slices.Equal(reg.DefaultGraphURI, was.DefaultGraphURI) && slices.Equal(reg.NamedGraphURI, was.NamedGraphURI) {
		_, err := v.Registry.Patch(v.caller, q.ID, patchOf(&reg))
		return q.ID, err
	}
	next, err := v.Registry.Exchange(v.caller, q.ID, reg)
	return next.ID, err
}

// registerFields are the fields of a registration in page order. Those after "query"
// can also be edited later.
var registerFields = []string{"endpoint", "query", "name", "tags", "weight", "max_staleness", "min_interval", "alone", "public",
	"ordered", "default_graph_uri", "named_graph_uri", "from", "until", "urgency", "life"}

var holderFields = registerFields[1:]

// registrationSettings returns where a registration holds each setting of the form.
func registrationSettings(reg *registry.Registration) map[string]any {
	return map[string]any{
		"name": &reg.Name, "tags": &reg.Tags, "weight": &reg.Weight, "max_staleness": &reg.MaxStaleness, "min_interval": &reg.MinInterval,
		"alone": &reg.Alone, "public": &reg.Public, "ordered": &reg.Ordered, "default_graph_uri": &reg.DefaultGraphURI,
		"named_graph_uri": &reg.NamedGraphURI,
		"from":            &reg.From, "until": &reg.Until, "urgency": &reg.Urgency, "life": &reg.Life,
	}
}

// registration reads the form into reg and records fields that cannot be parsed.
func (f *form) registration(reg registry.Registration) registry.Registration {
	if f.Values.Has("weight") {
		reg.Weight = 0 // an empty field restores the default
	}
	f.readAll(registrationSettings(&reg))
	if f.Values.Has("query") {
		reg.Text = strings.ReplaceAll(f.Get("query"), "\r\n", "\n")
	}
	return reg
}

// registration returns the registration of one holder.
func (v holderHandler) registration(q *registry.Query, h registry.Holder) registry.Registration {
	reg := registry.Registration{Endpoint: q.Endpoint, Text: q.Text, Name: h.Name, Tags: h.Tags, Weight: cmp.Or(h.Weight, 1),
		MaxStaleness: h.MaxStaleness, MinInterval: h.MinInterval,
		DefaultGraphURI: q.DefaultGraphs, NamedGraphURI: q.NamedGraphs, From: h.From, Until: h.Until, Alone: h.Alone, Public: h.Public,
		Urgency: h.Urgency, Life: h.Life}
	if usual, err := v.Registry.Analyse(registry.Registration{Endpoint: q.Endpoint, Text: q.Text}); err != nil || usual.Ordered != q.Ordered {
		reg.Ordered = &q.Ordered
	}
	return reg
}

// fill writes a registration into the form.
func (f *form) fill(reg registry.Registration) {
	f.Values.Set("query", reg.Text)
	for name, setting := range registrationSettings(&reg) {
		if d, ok := setting.(*registry.Duration); !ok || *d > 0 {
			f.Values.Set(name, write(setting))
		}
	}
	f.Values.Set("tags", strings.Join(reg.Tags, ", "))
}

// patchOf returns the edit that gives a holder the settings of a registration.
func patchOf(reg *registry.Registration) registry.Patch {
	tags := append([]string{}, reg.Tags...)
	return registry.Patch{Name: &reg.Name, Tags: &tags, Weight: &reg.Weight, Alone: &reg.Alone, Public: &reg.Public,
		MaxStaleness: &reg.MaxStaleness, MinInterval: &reg.MinInterval,
		From: cmp.Or(reg.From, &time.Time{}), Until: cmp.Or(reg.Until, &time.Time{}), Urgency: &reg.Urgency, Life: &reg.Life}
}

// A queryHead shows a query's name, its state and the available actions.
type queryHead struct {
	ID, Name, Path         string
	Endpoint, EndpointLink string
	Form                   string
	State                  state
	Tags                   []string
	Paused, MayAct, Mine   bool
	Watch                  bool // its changes can be shown in words
}

func (v queryHandler) head(q *registry.Query, st registry.Status) queryHead {
	_, holds := q.Holder(v.caller.Name)
	v.halts.Show(q.Endpoint, &st)
	h := queryHead{ID: q.ID, Name: clip(v.name(q), 300), Path: queryPath(q.ID), Endpoint: q.Endpoint, Form: string(q.Form),
		State: stateOf(q, st), Tags: q.Tags(),
		EndpointLink: endpointPath(q.Endpoint), Paused: q.PausedFor(v.caller) != nil, Mine: holds,
		MayAct: v.May(registry.RoleApp) && (holds || v.May(registry.RoleAdmin))}
	_, h.Watch = watch.Of(q, v.caller.Name)
	return h
}

// resolve finds the query that the path names, by id or name. Strangers learn nothing of those that are not public.
func (v *visit) resolve() (registry.Query, error) {
	id := v.r.PathValue("id")
	q, err := v.Registry.Resolve(v.caller, id)
	if isMissing(err) && v.stranger() {
		return q, web.ErrUnauthorized
	}
	if isMissing(err) {
		return q, &registry.Problem{Kind: registry.KindNotFound, Title: "There is no query " + clip(id, 60),
			Detail: "It may have ended: a query ends when it has no holder any more. Its id is made from its text, so registering " +
				"the same query again brings it back under the same address."}
	}
	return q, err
}

// resolveStatus is resolve with the status of the query.
func (v queryHandler) resolveStatus() (registry.Query, registry.Status, error) {
	q, err := v.resolve()
	if err != nil {
		return q, registry.Status{}, err
	}
	st, _, err := v.History.Current(q.ID, false)
	return q, st, err
}

func stateOf(q *registry.Query, st registry.Status) state {
	if q.Paused() != nil {
		return state{"paused", "paused"}
	}
	return state{string(st.State), string(st.State)}
}

// A resultSize is the size of a result; the template "size" has the words.
type resultSize struct {
	Form    diff.Form
	Ordered bool
	Rows    int
}

func sizeOf(q *registry.Query, rows int) resultSize { return resultSize{q.Form, q.Ordered, rows} }

type kv struct{ Label, Link string }
