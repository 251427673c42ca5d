package ui

import (
	"context"
	"errors"
	"testing"

	"github.com/freshet/freshet/registry"
)

// The form of a new endpoint can begin with a pack. Settings that the form does not show
// come from the pack, too.
func TestAddFromPack(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.get("/add-endpoint").status(200).has(`href="/add-endpoint?pack=wikidata"`).lacks(`name="pack"`)
	r.get("/add-endpoint?pack=none").status(422)
	r.get("/add-endpoint?pack=wikidata").status(200).has(`name="pack" value="wikidata"`, `value="https://query.wikidata.org/sparql"`,
		"Retry-After", "conservative choice")
	r.follow(r.post("/endpoints", "pack", "wikidata", "name", "wd", "url", "http://127.0.0.1:3030/sparql", "slot", "@every 5m",
		"budget", "20s")).has("Endpoint wd was added.")
	e, err := r.reg.Endpoint("wd")
	if err != nil || len(e.OwnServices) == 0 || e.Budget.String() != "20s" || e.URL != "http://127.0.0.1:3030/sparql" || e.MinGap == 0 {
		t.Errorf("%+v, %v", e, err)
	}
}

// A check shows its findings and fills in the settings that it proposes.
func TestCheckPage(t *testing.T) {
	r := newRigWith(t, func(_ *rig, c *Config) {
		c.Check = func(_ context.Context, e registry.Endpoint) (registry.Report, error) {
			if e.URL == "http://127.0.0.1:2/" {
				return registry.Report{}, errors.New("the check broke")
			}
			return registry.Report{URL: e.URL, Answers: true, Requests: 17,
				Findings: []registry.Finding{{Topic: "no row cap", Detail: "it reports a cap of 77 rows"}},
				Settings: []registry.Proposal{{Name: "max_rows", Value: 77, Why: "its row cap"}}}, nil
		}
	})
	form := func(url string) []string {
		return []string{"name", "x", "url", url, "slot", "@every 1m", "budget", "10s", "do", "check"}
	}
	r.post("/endpoints", form("http://127.0.0.1:1/")...).status(200).has("What a check found", "17 requests",
		"it reports a cap of 77 rows", `value="77"`, "its row cap")
	r.post("/endpoints", form("http://127.0.0.1:2/")...).status(200).has("the check broke")
	if _, err := r.reg.Endpoint("x"); err == nil {
		t.Error("a check adds the endpoint")
	}
}
