package ui

import (
	"testing"

	"github.com/freshet/freshet/registry"
)

// The form of a new endpoint can begin with a pack. Settings that the form does not show
// come from the pack, too.
func TestAddFromPack(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.get("/add-endpoint").status(200).has(`href="/add-endpoint?pack=wikidata"`).lacks(`name="pack"`)
	r.get("/add-endpoint?pack=none").status(422)
	r.get("/add-endpoint?pack=wikidata").status(200).has(`name="pack" value="wikidata"`, `value="https://query.wikidata.org/sparql"`, "Retry-After", "conservative choice")
	r.follow(r.post("/endpoints", "pack", "wikidata", "name", "wd", "url", "http://127.0.0.1:3030/sparql", "slot", "@every 5m", "budget", "20s")).has("Endpoint wd was added.")
	e, err := r.reg.Endpoint("wd")
	if err != nil || len(e.OwnServices) == 0 || e.Budget.String() != "20s" || e.URL != "http://127.0.0.1:3030/sparql" || e.MinGap == 0 {
		t.Errorf("%+v, %v", e, err)
	}
}
