package registry_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/freshet/freshet/registry"
)

var stranger = registry.Caller{Name: registry.Anonymous} // without a token on a server that has tokens

func asks(n int) string { return fmt.Sprintf("ASK { <urn:%d> ?p ?o }", n) }

// A name resolves to the caller's own query first, then to the only query that
// others gave it to. For callers without a token only public queries count.
func TestResolveName(t *testing.T) {
	r := newRig(t, registry.Limits{})
	bobs := r.must(t, bob, registry.Registration{Text: asks(1), Name: "prices"}) // the older one
	alices := r.must(t, alice, registry.Registration{Text: asks(2), Name: "prices", Public: true})
	for _, x := range []struct {
		c    registry.Caller
		want string
	}{{alice, alices.ID}, {bob, bobs.ID}, {stranger, alices.ID}} {
		if q, err := r.Resolve(x.c, "prices"); err != nil || q.ID != x.want {
			t.Errorf("for %s: %s, %v", x.c.Name, q.ID, err)
		}
	}
	for _, c := range []registry.Caller{carol, admin} {
		_, err := r.Resolve(c, "prices")
		p := problem(t, err)
		if p.Kind != registry.KindAmbiguousName || !slices.Equal(p.IDs, []string{bobs.ID, alices.ID}) || !strings.Contains(p.Detail, alices.ID) {
			t.Errorf("for %s: %+v", c.Name, p)
		}
	}
	yes := true
	if _, err := r.Patch(bob, bobs.ID, registry.Patch{Public: &yes}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Resolve(stranger, "prices"); problem(t, err).Kind != registry.KindAmbiguousName {
		t.Errorf("two public ones: %v", err)
	}
	r.must(t, carol, registry.Registration{Text: asks(1), Name: "prices"}) // the same query twice is one
	if err := r.Release(alice, alices.ID, false); err != nil {
		t.Fatal(err)
	}
	if q, err := r.Resolve(admin, "prices"); err != nil || q.ID != bobs.ID {
		t.Errorf("one query that two call so: %s, %v", q.ID, err)
	}
	if _, err := r.Resolve(admin, "pric"); problem(t, err).Kind != registry.KindNotFound {
		t.Error(err)
	}
	// Queries registered without tokens are not visible to callers without a token
	// once there are tokens.
	old := r.must(t, registry.Caller{Name: registry.Anonymous, Role: registry.RoleApp}, registry.Registration{Text: asks(3), Name: "secret"})
	if _, err := r.Resolve(stranger, "secret"); problem(t, err).Kind != registry.KindNotFound {
		t.Errorf("a stranger finds %s by its name: %v", old.ID, err)
	}
}

// A caller uses a name for one query: another text under it is refused, or
// takes over the name.
func TestNameTaken(t *testing.T) {
	var moved []string
	r := newRig(t, registry.Limits{})
	r.conf.QueryEdited = func(id string) { moved = append(moved, id) }
	r.reopen(t)
	one := r.must(t, alice, registry.Registration{Text: asks(1), Name: "sel", Tags: []string{"v1"}})
	r.must(t, bob, registry.Registration{Text: asks(1), Name: "sel"}) // of another holder
	r.must(t, alice, registry.Registration{Text: asks(1), Name: "sel", Tags: []string{"v2"}})
	_, _, err := r.Register(alice, registry.Registration{Text: asks(2), Name: "sel"})
	p := problem(t, err)
	if p.Kind != registry.KindNameTaken || !slices.Equal(p.IDs, []string{one.ID}) || p.Errors[0].Pointer != "/name" ||
		!strings.Contains(p.Detail, "replace") {
		t.Fatalf("%+v", p)
	}
	if n, _ := r.store.Queries.CountQueries(); n != 1 {
		t.Fatalf("%d queries after a refusal", n)
	}
	name := "sel"
	other := r.must(t, alice, registry.Registration{Text: asks(3), Name: "other"})
	if _, err := r.Patch(alice, other.ID, registry.Patch{Name: &name}); problem(t, err).Kind != registry.KindNameTaken {
		t.Errorf("an edit: %v", err)
	}
	moved = nil
	two := r.must(t, alice, registry.Registration{Text: asks(2), Name: "sel", Replace: true})
	if q, err := r.Resolve(alice, "sel"); err != nil || q.ID != two.ID {
		t.Errorf("the name leads to %s, %v", q.ID, err)
	}
	if q := r.query(t, one.ID); len(q.Holders) != 1 || q.Holders[0].Caller != "bob" || !slices.Equal(moved, []string{one.ID}) {
		t.Errorf("the old query: %+v, followers of %v were woken", q.Holders, moved)
	}
	three := r.must(t, alice, registry.Registration{Text: asks(4), Name: "sel", Replace: true})
	if _, err := r.Query(two.ID); problem(t, err).Kind != registry.KindNotFound {
		t.Errorf("without a holder, yet there: %v", err)
	}
	r.must(t, alice, registry.Registration{Text: asks(4), Name: "sel", Replace: true}) // nothing to replace
	if _, _, err := r.Register(alice, registry.Registration{Text: asks(4), Replace: true}); problem(t, err).Errors[0].Pointer != "/replace" {
		t.Error(err)
	}
	// The pages exchange one query for another, whatever its name.
	q, err := r.Exchange(alice, other.ID, registry.Registration{Text: asks(5), Name: "other"})
	if err != nil || q.NameFor("alice") != "other" {
		t.Fatalf("%+v, %v", q, err)
	}
	if _, err := r.Query(other.ID); problem(t, err).Kind != registry.KindNotFound {
		t.Error(err)
	}
	if _, err := r.Exchange(alice, q.ID, registry.Registration{Text: asks(6), Name: "sel"}); problem(t, err).IDs[0] != three.ID {
		t.Error(err)
	}
	if x, err := r.Exchange(alice, one.ID, registry.Registration{Text: asks(7)}); err != nil || len(r.query(t, one.ID).Holders) != 1 {
		t.Errorf("in the place of what alice does not hold: %+v, %v", x, err)
	}
}

// Concurrent registrations under one name leave one query with that name.
func TestNameTakenAtOnce(t *testing.T) {
	r := newRig(t, registry.Limits{})
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() { _, _, _ = r.Register(alice, registry.Registration{Text: asks(i), Name: "sel"}) })
	}
	callers.Wait()
	if list, err := r.store.Queries.FindName("alice", "sel", false, 9); err != nil || len(list) != 1 {
		t.Errorf("%d queries of the name, %v", len(list), err)
	}
}

// A name that an earlier version stored for two queries stays valid: the oldest
// is found, and registering either of them again works.
func TestNameOfAnEarlierVersion(t *testing.T) {
	r := newRig(t, registry.Limits{})
	var ids []string
	for n := range 2 {
		q := r.must(t, alice, registry.Registration{Text: asks(n)})
		ids = append(ids, q.ID)
		if _, err := r.store.Queries.EditQuery(q.ID, func(q *registry.Query, _ bool) error {
			q.Holders[0].Name = "a b/c"
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if q, err := r.Resolve(alice, "a b/c"); err != nil || q.ID != ids[0] {
		t.Errorf("%s, %v", q.ID, err)
	}
	name := "a b/c"
	for n, id := range ids {
		r.must(t, alice, registry.Registration{Text: asks(n), Name: name})
		if _, err := r.Patch(alice, id, registry.Patch{Name: &name}); err != nil {
			t.Error(err)
		}
	}
	_, _, err := r.Register(alice, registry.Registration{Text: asks(3), Name: name})
	if problem(t, err).Kind != registry.KindBadSetting {
		t.Error(err)
	}
}

// A name is visible and can be part of a path without escapes.
func TestNames(t *testing.T) {
	r := newRig(t, registry.Limits{})
	for name, good := range map[string]bool{
		"prices": true, "a.b-c_d~2": true, "wärme": true, "температура": true, "मात्रा": true, "a:b@c": true, strings.Repeat("n", 128): true,
		"a b": false, "a/b": false, "a?b": false, "a#b": false, "a%20b": false, "validate": false, ".": false, "..": false, "q_x": false,
		"\u202e": false, "a\u202eb": false, "a\u200bb": false, "\u3164": false, "a\u034f": false, "a\ufe0f": false, "\u0301a": false,
		"a\u00a0b": false,
		"a\nb":     false, "a\x00b": false, "a\xff": false, "<b>": false, `a"b`: false, `a\b`: false, strings.Repeat("n", 129): false,
	} {
		reg := registry.Registration{Text: "ASK {}", Name: name}
		_, err := r.Analyse(reg)
		q, _, again := r.Register(alice, reg)
		if (err == nil) != good || (again == nil) != good {
			t.Errorf("%q: %v, %v", name, err, again)
		}
		if good && q.NameFor("alice") != name {
			t.Errorf("%q is %q", name, q.NameFor("alice"))
		}
		if !good && (problem(t, again).Errors[0].Pointer != "/name" || problem(t, again).Kind != registry.KindBadSetting) {
			t.Errorf("%q: %v", name, again)
		}
	}
	for tag, good := range map[string]bool{"two words": true, "👩‍💻": true, "\u202e": false, "a\u202eb": false, "\u200d": false, " ": false} {
		if _, err := r.Analyse(registry.Registration{Text: "ASK {}", Tags: []string{tag}}); (err == nil) != good {
			t.Errorf("tag %q: %v", tag, err)
		}
	}
}
