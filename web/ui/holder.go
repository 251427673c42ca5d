package ui

import (
	"net/url"
	"slices"
	"strings"

	"github.com/freshet/freshet/registry"
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
	q, err := v.resolve()
	if err != nil {
		return content{}, err
	}
	st, _, err := v.History.Current(q.ID, false)
	if err != nil {
		return content{}, err
	}
	_, mine := q.Holder(v.caller.Name)
	d := releasePage{Head: queryHandler(v).head(&q, st), Others: len(q.Holders), Changes: st.Position.Seq, Mine: mine, Force: v.May(registry.RoleAdmin)}
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
