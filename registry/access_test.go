package registry_test

import (
	"testing"

	"github.com/freshet/freshet/registry"
)

// Those without the role read see the names only that holders gave who made the query public.
func TestPublicName(t *testing.T) {
	q := &registry.Query{Holders: []registry.Holder{{Caller: "ops", Public: true}, {Caller: "aaa", Name: "secret"}}}
	if got := q.PublicName(); got != "" {
		t.Errorf("%q", got)
	}
	q.Holders = append(q.Holders, registry.Holder{Caller: "zzz", Name: "free spaces", Public: true})
	if got := q.PublicName(); got != "free spaces" {
		t.Errorf("%q", got)
	}
}

func TestAccess(t *testing.T) {
	public := &registry.Query{Holders: []registry.Holder{{Caller: "alice", Public: true}}}
	private := &registry.Query{Holders: []registry.Holder{{Caller: "alice"}}}
	for _, x := range []struct {
		name                                 string
		role                                 registry.Role
		readPublic, readPrivate, all, writes bool
	}{
		{"without a token", "", true, false, false, false},
		{"of an unknown role", "owner", true, false, false, false},
		{"read", registry.RoleRead, true, true, true, false},
		{"app", registry.RoleApp, true, true, true, true},
		{"admin", registry.RoleAdmin, true, true, true, true},
	} {
		// Holding a query gives no right to read it: a name alone proves nothing.
		for _, name := range []string{"alice", "bob", registry.Anonymous} {
			c := registry.Caller{Name: name, Role: x.role}
			got := [5]bool{c.MayRead(public), c.MayRead(private), c.MayRead(nil), c.MayRead(&registry.Query{}), c.MayRegister()}
			if want := [5]bool{x.readPublic, x.readPrivate, x.all, x.all, x.writes}; got != want {
				t.Errorf("%s as %s: reads public, private, all, none, registers: %v, want %v", x.name, name, got, want)
			}
		}
	}
}
