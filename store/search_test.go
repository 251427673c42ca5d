package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
)

// mentions implements a text search in the simplest way.
func mentions(q *registry.Query, text string) bool {
	in := func(s string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(text)) }
	return in(q.ID) || in(q.Text) || slices.ContainsFunc(q.Holders, func(h registry.Holder) bool { return in(h.Name) })
}

// A search of the stored bytes finds the same as a search of the decoded fields, in texts with
// escapes, with JSON and with letters outside ASCII.
func TestTextSearch(t *testing.T) {
	const seed = 3
	rnd := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	pieces := []string{"SELECT", "select ", "?s", "<http://x/", ">", `"`, `\`, `\"`, "\n", "\t", "&", "{", "Key", "kI", "i", "K", "\u212a", "\u0130", "é", "É",
		"\u2028", "ß", "日本", `"text":"`, `"name":"`, "text", "name", "u003c", "caller", "holders", "\x00", "\x7f", "e", "ee", "eE"}
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
		h, err := readRegistrationHead(appendRegistration(nil, &q))
		if err != nil {
			t.Fatal(err)
		}
		text := some(3)
		got := newTextSearch(text).finds([]byte(q.ID), &h)
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

// A search without a match allocates per transaction, not per query.
func TestSearchWithoutMatchAllocatesLittle(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	many(t, d, 5*scanAtOnce)
	for _, f := range []registry.QueryFilter{{Text: "nowhere"}, {Text: "nowhere", Endpoint: "city"}, {State: registry.Stale}, {Tag: "none"}} {
		n := testing.AllocsPerRun(5, func() {
			if items, _, err := d.Catalog.List(f, "", 10); err != nil || len(items) > 0 {
				t.Fatal(items, err)
			}
		})
		if n > scanAtOnce {
			t.Errorf("%+v: %.0f allocations for %d queries", f, n, 5*scanAtOnce)
		}
	}
}
