package catalog

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// mentions implements a text search in the simplest way.
func mentions(q *registry.Query, text string) bool {
	in := func(s string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(text)) }
	return in(q.ID) || in(q.Text) || slices.ContainsFunc(q.Holders, func(h registry.Holder) bool { return in(h.Name) })
}

// A search finds a text in any case in each field alone, whatever characters both have.
func TestTextSearch(t *testing.T) {
	const seed = 3
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	pieces := []string{"SELECT", "select ", "?s", "<http://x/", ">", `"`, "\\", "\n", "kI", "i", "K", "\u212a", "\u0130", "é", "É",
		"\u2028", "ß", "日本", "\xff", "\x00", "e", "ee", "eE"}
	some := func(most int) string {
		var b strings.Builder
		for range rnd.IntN(most + 1) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		return b.String()
	}
	found := 0
	for i := range 20_000 {
		q := registry.Query{ID: fmt.Sprint("q_", i), Endpoint: some(2), Text: some(9), Normal: some(9), Constants: []string{some(3)},
			Holders: []registry.Holder{{Caller: some(3), Name: some(4), Tags: []string{some(3)}}, {Caller: "b", Name: some(2)}}}
		text := some(3)
		got := len(New([]*Entry{NewEntry(&q, 1, &policy.Stats{})}).Find(&registry.QueryFilter{Text: text}, "", 1, time.Now())) == 1
		if want := mentions(&q, text); got != want {
			t.Fatalf("%q in %+v: %v, want %v", text, q, got, want)
		}
		if got {
			found++
		}
	}
	if found < 2000 || found > 18_000 {
		t.Errorf("%d of 20,000 searches find something: they test too little", found)
	}
}

// After any edits a catalog has each query once and in order.
func TestCatalogFollowsEdits(t *testing.T) {
	const seed = 5
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	c, model := New(nil), map[string]registry.QueryDigest{}
	for serial := range uint64(20_000) {
		id, at := fmt.Sprintf("q_%04d", rnd.IntN(3*scanAtOnce)), fmt.Sprint("e", rnd.IntN(3))
		switch rnd.IntN(2000) {
		case 0:
			for _, id := range c.Of(at) {
				c.Drop(id)
			}
			maps.DeleteFunc(model, func(_ string, x registry.QueryDigest) bool { return x.Endpoint == at })
		case 1, 2, 3:
			if got, want := c.Digests("", time.Now()), slices.Sorted(maps.Keys(model)); !slices.EqualFunc(got, want,
				func(x registry.QueryDigest, id string) bool {
					return x.ID == id && x.Endpoint == model[id].Endpoint && x.Changes == model[id].Changes
				}) {
				t.Fatalf("step %d: %d queries, want %d", serial, len(got), len(want))
			}
		default:
			switch rnd.IntN(4) {
			case 0:
				c.Drop(id)
				delete(model, id)
			case 1:
				e := c.byID[id]
				c.Ran(id, serial, &policy.Stats{Changes: 99}) // of another registration
				if x, ok := model[id]; ok {
					x.Changes = serial
					model[id] = x
					c.Ran(id, e.serial, &policy.Stats{Changes: serial})
				}
			default:
				c.Put(NewEntry(&registry.Query{ID: id, Endpoint: at, Holders: []registry.Holder{{}}}, serial, &policy.Stats{}))
				model[id] = registry.QueryDigest{Endpoint: at}
			}
		}
	}
}

// Registrations that come and go between two lists take no memory.
func TestCatalogForgetsWithoutLists(t *testing.T) {
	c := New(nil)
	for i := range 20 * scanAtOnce {
		id := fmt.Sprint("q_", i)
		c.Put(NewEntry(&registry.Query{ID: id, Endpoint: "city", Holders: []registry.Holder{{}}}, uint64(i), &policy.Stats{}))
		c.Drop(id)
	}
	if n := len(c.fresh) + len(c.ordered); n > 3*scanAtOnce {
		t.Errorf("a catalog without queries keeps %d entries", n)
	}
}

// A search without a match allocates nothing for each query.
func TestSearchWithoutMatchAllocatesLittle(t *testing.T) {
	var list []*Entry
	for i := range 5 * scanAtOnce {
		q := registry.Query{ID: fmt.Sprint("q_", i), Endpoint: "city", Text: "SELECT ?s { ?s a <http://x/Stop> }",
			Holders: []registry.Holder{{Caller: "app"}}}
		list = append(list, NewEntry(&q, 1, &policy.Stats{}))
	}
	c := New(list)
	for _, f := range []registry.QueryFilter{{Text: "nowhere"}, {Text: "nowhere", Endpoint: "city"}, {State: registry.Stale}, {Tag: "none"}} {
		if n := testing.AllocsPerRun(5, func() { c.Find(&f, "", 10, time.Now()) }); n > 100 {
			t.Errorf("%+v: %.0f allocations for %d queries", f, n, len(list))
		}
	}
}

// A search reads few of the texts that lack what it looks for, also if its letters are frequent in them.
func TestGramsPassTextsOver(t *testing.T) {
	const n = 1000
	for _, text := range []string{"nowhere", "tea", "select ?items", "<http://www.wikidata.org/nowhere>"} {
		read, g := 0, gramsOf(text)
		for i := range n {
			q := registry.Query{ID: fmt.Sprintf("q_%026d", i), Text: fmt.Sprintf("PREFIX wdt: <http://www.wikidata.org/prop/direct/> "+
				"SELECT ?item ?label WHERE { ?item wdt:P31 wd:Q%d ; wdt:P276 ?place . FILTER(STRLEN(?label) > %d) } ORDER BY ?label", i, i%7)}
			if NewEntry(&q, 1, &policy.Stats{}).grams.has(&g) {
				read++
			}
		}
		if read > n/5 {
			t.Errorf("%q: %d of %d texts are read", text, read, n)
		}
	}
}
