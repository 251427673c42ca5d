package registry_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store"
)

// Two callers who ask the same question share one query, each with a name and settings of
// their own. The query is deleted when both have released it.
func ExampleRegistry_Register() {
	dir, err := os.MkdirTemp("", "freshet")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	db, err := store.Open(dir, store.Options{})
	if err != nil {
		panic(err)
	}
	defer db.Close()
	reg, err := registry.Open(registry.Config{Queries: db.Queries, Endpoints: db.Endpoints})
	if err != nil {
		panic(err)
	}
	admin := registry.Caller{Name: "admin", Role: registry.RoleAdmin}
	if _, err := reg.CreateEndpoint(admin, registry.Endpoint{Name: "city", URL: "http://127.0.0.1:7001/sparql"}); err != nil {
		panic(err)
	}

	ann, ben := registry.Caller{Name: "ann", Role: registry.RoleApp}, registry.Caller{Name: "ben", Role: registry.RoleApp}
	first, created, err := reg.Register(ann, registry.Registration{Text: "SELECT ?stop { ?stop a <http://example.org/Stop> }", Name: "stops"})
	fmt.Println(first.NameFor("ann"), created, err)
	second, created, err := reg.Register(ben, registry.Registration{Text: "SELECT ?stop\n  { ?stop a <http://example.org/Stop> " +
		"} # all of them", Name: "halts"})
	fmt.Println(second.NameFor("ben"), created, err, second.ID == first.ID)

	fmt.Println(reg.Release(ann, first.ID, false))
	q, err := reg.Query(first.ID)
	fmt.Println(len(q.Holders), err)
	fmt.Println(reg.Release(ben, first.ID, false))
	_, err = reg.Query(first.ID)
	fmt.Println(errors.Is(err, registry.ErrNotFound))
	// Output:
	// stops true <nil>
	// halts false <nil> true
	// <nil>
	// 1 <nil>
	// <nil>
	// true
}
