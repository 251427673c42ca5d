package ui

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/freshet/freshet/registry"
)

// act performs the action of a button on a query's page.
func (v queryHandler) act() error {
	q, err := v.resolve()
	if err != nil {
		return err
	}
	verb, ok := verbs[v.r.PostForm.Get("do")]
	if !ok {
		return &registry.Problem{Kind: registry.KindMalformed, Title: "The form cannot be read", Detail: "It does not say what to do."}
	}
	if q, err = verb.do(v.Registry, v.caller, q.ID); err != nil {
		return err
	}
	v.catalogue.drop()
	if v.r.PostForm.Get("do") == "pause" && q.Paused() == nil {
		v.say("good", "You have paused the query.", "It runs as long as another holder wants it.")
	} else {
		v.say("good", "The query "+verb.done+".", "")
	}
	return v.to(queryPath(q.ID))
}

// A releasePage asks for confirmation before a registration is given up, and lists
// what will be lost.
type releasePage struct {
	Head        queryHead
	Others      int
	Changes     string
	Last        bool // the caller is the only holder
	Mine, Force bool
}

func (v holderHandler) releasePage() (content, error) {
	q, err := v.resolve()
	if err != nil {
		return content{}, err
	}
	st, _, err := v.History.Current(q.ID, false)
	if err != nil {
		return content{}, err
	}
	_, mine := q.Holder(v.caller.Name)
	d := releasePage{Head: queryHandler(v).head(&q, st), Others: len(q.Holders), Changes: plural(int(st.Position.Seq), "change", "changes"), Mine: mine, Force: v.May(registry.RoleAdmin)}
	if mine {
		d.Others--
	}
	d.Last = d.Others == 0
	return content{Title: "Release " + clip(d.Head.Name, 60), Data: d}, nil
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
		v.say("good", "You do not hold "+name+" any more.", "Others do: it goes on.")
		return v.to(queryPath(q.ID))
	}
	v.say("good", name+" has ended.", "Registering the same question again brings it back under the same address.")
	return v.to("/queries")
}

// A settingsPage edits the caller's own registration of a query.
type settingsPage struct {
	Head queryHead
	Form form
}

var holderFields = registerFields[1:]

func (v holderHandler) settings(q *registry.Query, st registry.Status, f form) content {
	d := settingsPage{queryHandler(v).head(q, st), f}
	return content{Title: "Edit " + clip(d.Head.Name, 60), Data: d}
}

func (v holderHandler) edit() (content, error) {
	q, st, h, err := v.held()
	if err != nil {
		return content{}, err
	}
	f := form{Fields: holderFields, Values: url.Values{"query": {q.Text}, "name": {h.Name}, "tags": {strings.Join(h.Tags, ", ")}, "weight": {"1"}}}
	if h.Weight > 0 {
		f.Values.Set("weight", figures(h.Weight))
	}
	for name, d := range map[string]registry.Duration{"max_staleness": h.MaxStaleness, "min_interval": h.MinInterval} {
		if d > 0 {
			f.Values.Set(name, short(d))
		}
	}
	if h.Alone {
		f.Values.Set("alone", "1")
	}
	if h.Public {
		f.Values.Set("public", "1")
	}
	return v.settings(&q, st, f), nil
}

func (v holderHandler) held() (registry.Query, registry.Status, registry.Holder, error) {
	q, err := v.resolve()
	if err != nil {
		return q, registry.Status{}, registry.Holder{}, err
	}
	st, _, err := v.History.Current(q.ID, false)
	h, ok := q.Holder(v.caller.Name)
	if err == nil && !ok {
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
	patch := f.patch()
	text := strings.TrimSpace(strings.ReplaceAll(f.Get("query"), "\r\n", "\n"))
	if f.Status == 0 && f.Values.Has("query") && text != strings.TrimSpace(q.Text) {
		next, err := v.Registry.Exchange(v.caller, q.ID, registry.Registration{Endpoint: q.Endpoint, Text: text, Name: *patch.Name, Tags: *patch.Tags, Weight: *patch.Weight,
			MaxStaleness: *patch.MaxStaleness, MinInterval: *patch.MinInterval, Alone: *patch.Alone, Public: *patch.Public, From: h.From, Until: h.Until, Urgency: h.Urgency, Life: h.Life,
			DefaultGraphURI: q.DefaultGraphs, NamedGraphURI: q.NamedGraphs})
		if err == nil {
			v.catalogue.drop()
			v.say("good", "The edited query is registered.", "It begins its own history; you have released the one before.")
			return v.to(queryPath(next.ID))
		}
		if err := f.refuse(err); err != nil {
			return err
		}
	} else if f.Status == 0 {
		if _, err = v.Registry.Patch(v.caller, q.ID, patch); err == nil {
			v.catalogue.drop()
			v.say("good", "The settings are saved.", "They hold from the next slot on.")
			return v.to(queryPath(q.ID))
		}
		if err := f.refuse(err); err != nil {
			return err
		}
	}
	return v.again(f, "query-settings", "queries", v.settings(&q, st, f))
}

// patch reads the fields and records those that cannot be parsed.
func (f *form) patch() registry.Patch {
	name, tags := f.Get("name"), append([]string{}, lines(f.Get("tags"))...)
	public, alone := f.Get("public") != "", f.Get("alone") != ""
	weight, err := strconv.ParseFloat(strings.TrimSpace(f.Get("weight")), 64)
	if err != nil {
		f.bad("weight", "A weight is a number.")
	}
	var staleness, interval registry.Duration
	f.duration("max_staleness", &staleness)
	f.duration("min_interval", &interval)
	return registry.Patch{Name: &name, Tags: &tags, Weight: &weight, Public: &public, MaxStaleness: &staleness, MinInterval: &interval, Alone: &alone}
}
