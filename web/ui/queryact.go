package ui

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/freshet/freshet/registry"
)

// actOnQuery does what a button of a query's page says.
func actOnQuery(v *visit) error {
	q, err := v.resolve()
	if err != nil {
		return err
	}
	verb, ok := verbs[v.r.PostForm.Get("do")]
	if !ok {
		return &registry.Problem{Type: "malformed", Status: http.StatusBadRequest, Title: "The form cannot be read", Detail: "It does not say what to do."}
	}
	if _, err := verb.do(v.Registry, v.caller, q.ID); err != nil {
		return err
	}
	v.catalogue.stale()
	v.say("good", "The query "+verb.done+".", "")
	return v.to(queryPath(q.ID))
}

// A releasePage asks before a registration is given up, and names what is lost.
type releasePage struct {
	Head        queryHead
	Others      int
	Changes     string
	Last        bool // nobody else holds it
	Mine, Force bool
}

func release(v *visit) (content, error) {
	q, err := v.resolve()
	if err != nil {
		return content{}, err
	}
	st, _, err := v.History.Current(q.ID, false)
	if err != nil {
		return content{}, err
	}
	_, mine := q.Holder(v.caller.Name)
	d := releasePage{Head: v.queryHead(&q, st), Others: len(q.Holders), Changes: plural(int(st.Position.Seq), "change", "changes"), Mine: mine, Force: v.May(registry.RoleAdmin)}
	if mine {
		d.Others--
	}
	d.Last = d.Others == 0
	return content{Title: "Release " + clip(d.Head.Name, 60), Data: d}, nil
}

func doRelease(v *visit) error {
	q, err := v.resolve()
	if err != nil {
		return err
	}
	name := clip(v.name(&q), 200)
	if err := v.Registry.Release(v.caller, q.ID, v.r.PostForm.Get("everybody") != ""); err != nil {
		return err
	}
	v.catalogue.stale()
	if _, err := v.Registry.Query(q.ID); err == nil {
		v.say("good", "You do not hold "+name+" any more.", "Others do: it goes on.")
		return v.to(queryPath(q.ID))
	}
	v.say("good", name+" has ended.", "Registering the same question again brings it back under the same address.")
	return v.to("/queries")
}

// A settingsPage edits the caller's own registration of a query.
type settingsPage struct {
	Head                                   queryHead
	Name, Tags, Weight, Staleness, Minimum string
	Public                                 bool
	Problem                                *registry.Problem
	Field                                  map[string]string // what is wrong, by field
}

func editQuery(v *visit) (content, error) {
	q, st, h, err := v.held()
	if err != nil {
		return content{}, err
	}
	d := settingsPage{Head: v.queryHead(&q, st), Name: h.Name, Tags: strings.Join(h.Tags, ", "), Weight: figures(max(h.Weight, 0)), Public: h.Public}
	if h.Weight == 0 {
		d.Weight = "1"
	}
	if h.MaxStaleness > 0 {
		d.Staleness = h.MaxStaleness.String()
	}
	if h.MinInterval > 0 {
		d.Minimum = h.MinInterval.String()
	}
	return content{Title: "Settings of " + clip(d.Head.Name, 60), Data: d}, nil
}

func (v *visit) held() (registry.Query, registry.Status, registry.Holder, error) {
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

// saveQuery takes the form of a registration's settings. What does not fit is
// shown beside its field, and nothing is lost.
func saveQuery(v *visit) error {
	q, st, _, err := v.held()
	if err != nil {
		return err
	}
	f := v.r.PostForm
	d := settingsPage{Head: v.queryHead(&q, st), Name: f.Get("name"), Tags: f.Get("tags"), Weight: f.Get("weight"), Staleness: f.Get("max_staleness"), Minimum: f.Get("min_interval"),
		Public: f.Get("public") != "", Field: map[string]string{}}
	patch := d.patch()
	if len(d.Field) == 0 {
		if _, err = v.Registry.Patch(v.caller, q.ID, patch); err == nil {
			v.catalogue.stale()
			v.say("good", "The settings are saved.", "They hold from the next slot on.")
			return v.to(queryPath(q.ID))
		}
		if !errors.As(err, &d.Problem) {
			return err
		}
		for _, e := range d.Problem.Errors {
			d.Field[strings.TrimPrefix(e.Pointer, "/")] = e.Detail
		}
	}
	v.render(http.StatusUnprocessableEntity, "query-settings", v.frame("queries", content{Title: "Settings of " + clip(d.Head.Name, 60), Data: d}))
	return nil
}

// patch reads the fields and notes those that cannot be read.
func (d *settingsPage) patch() registry.Patch {
	var p registry.Patch
	tags := []string{}
	for t := range strings.SplitSeq(d.Tags, ",") {
		if t = strings.TrimSpace(t); t != "" {
			tags = append(tags, t)
		}
	}
	weight, err := strconv.ParseFloat(strings.TrimSpace(d.Weight), 64)
	if err != nil {
		d.Field["weight"] = "A weight is a number."
	}
	duration := func(field, s string) *registry.Duration {
		var v registry.Duration
		if s = strings.ReplaceAll(strings.TrimSpace(s), " ", ""); s != "" {
			if err := v.UnmarshalText([]byte(s)); err != nil {
				d.Field[field] = "A length of time is written like 90s, 5m or 1h30m."
			}
		}
		return &v
	}
	p.Name, p.Tags, p.Weight, p.Public = &d.Name, &tags, &weight, &d.Public
	p.MaxStaleness, p.MinInterval = duration("max_staleness", d.Staleness), duration("min_interval", d.Minimum)
	return p
}
