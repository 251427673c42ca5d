package people_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/people"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/registry/watch"
)

// form returns the page with which visitors ask for the changes of a query.
func (r *rig) form(q string) string {
	w := httptest.NewRecorder()
	people.NewDesk(r.Manager, 2).ServeHTTP(w, httptest.NewRequest("GET", "/notify-me?query="+q, nil))
	return w.Body.String()
}

// Visitors see no name that was given by a holder who did not make the query public.
func TestNameIsPrivate(t *testing.T) {
	r, b, ask := bouncing(t)
	both := func(q *registry.Query) {
		q.Holders = []registry.Holder{{Caller: "ops", Public: true}, {Caller: "aaa", Name: "secret-merger-target"}}
	}
	resolve := r.Resolve
	r.Resolve = func(c registry.Caller, ref string) (registry.Query, error) {
		q, err := resolve(c, ref)
		both(&q)
		return q, err
	}
	r.edit.Store(&both)
	page := r.form(*r.public.Load())
	if strings.Contains(page, "SELECT") || strings.Contains(page, "secret") || !strings.Contains(page, `name="email"`) {
		t.Error(page)
	}
	ask()
	until(t, "the question", func() bool { return len(b.Letters()) == 1 })
	if m := b.Letters()[0]; strings.Contains(m.Header.Get("Subject")+m.Body, "secret") {
		t.Errorf("%+v", m)
	}
}

// A query without a name is called what it watches, with the labels that come, or the beginning of its text.
func TestTitleWithoutName(t *testing.T) {
	r, watched, other := newRig(t), newRoom(t), newRoom(t)
	w, err := watch.Watch{IRI: "http://www.wikidata.org/entity/Q42"}.Normalize()
	a, failed := sparql.Analyse(w.Query())
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
	of := registry.Query{Holders: []registry.Holder{{Caller: "app", Tags: []string{watch.Tag}}}, Text: w.Query(), Normal: a.Normal}
	r.stop()
	r.names = func(_ string, _, iris []string) (watch.Namer, bool) {
		return func(iri string) string { return map[string]string{w.IRI: "Douglas Adams"}[iri] }, false
	}
	r.start()
	long := r.log.Add("SELECT * { ?s ?p ?o }"+strings.Repeat(" # much more", 50), diff.Select, false)
	q := r.log.Add("watch", diff.Select, false)
	edit := func(q *registry.Query) {
		if q.Text == "watch" {
			q.Holders, q.Text, q.Normal = of.Holders, of.Text, of.Normal
			return
		}
		q.Holders = nil
	}
	r.edit.Store(&edit)
	for query, h := range map[string]*room{q: watched, long: other} {
		r.record(query, "a")
		r.create(registry.ReceiverRequest{Address: h.address(), Query: query})
		r.record(query, "b")
		until(t, "a message", func() bool { return len(h.messages()) == 1 })
	}
	if got := watched.messages()[0]; !strings.HasPrefix(got, "all properties of Douglas Adams\n") {
		t.Errorf("%q", got)
	}
	title, _, _ := strings.Cut(other.messages()[0], "\n")
	if !strings.HasPrefix(title, "the query SELECT * {") || len(title) > 120 {
		t.Errorf("%q", title)
	}
}
