package ui

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
)

type fakeMerging struct{}

func (fakeMerging) Templates(string) ([]cohort.Snapshot, error) {
	return []cohort.Snapshot{
		{Template: "t_0123456789abcdef", Members: 84, Kind: cohort.Values, A: 0.01, B: 0.001, Asks: map[cohort.Kind]uint64{cohort.Values: 3},
			Asked: map[cohort.Kind]uint64{cohort.Values: 200}, Audits: 5, Different: 1,
			OffUntil: map[cohort.Kind]time.Time{cohort.Values: time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)}},
	}, nil
}

func (fakeMerging) Asked(string) (scheduler.Asked, error) { return scheduler.Asked{}, nil }

// The page of an endpoint shows its templates unless queries are asked alone.
func TestMergingSection(t *testing.T) {
	r := newRigWith(t, func(_ *rig, c *Config) { c.Merging = fakeMerging{} })
	r.endpoint("city")
	set := func(merge string) {
		if _, err := r.reg.UpdateEndpoint(admin, "city", func(e *registry.Endpoint) error { e.Merge = merge; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	set(registry.MergeOff)
	r.get("/endpoints/city?tab=queries").status(200).lacks("Asked together")
	set(registry.MergeAuto)
	r.get("/endpoints/city?tab=queries").status(200).has("Asked together", "t_0123456789abcdef", ">84<", "values",
		"off until 2 Jan, 03:04 UTC", "for 200", "1 different")
}

func TestExecutionsSaved(t *testing.T) {
	if saved, _ := executionsSaved([][]scheduler.Slot{{{Run: 5, Asks: 5}, {Run: 7}}}); saved != 0 {
		t.Errorf("%d saved without merged requests", saved)
	}
	if saved, ran := executionsSaved([][]scheduler.Slot{{{Run: 50, Asks: 10}}, {{Run: 50, Asks: 40}}}); saved != 50 || ran != 100 {
		t.Errorf("%d of %d saved", saved, ran)
	}
}

// The page of an endpoint shows what ran in a slot, and names the queries of a template.
func TestSlotShowsWhatRan(t *testing.T) {
	r := newRigWith(t, func(_ *rig, c *Config) { c.Merging = exampleMerging{} })
	r.endpoint("city")
	first, second := r.register("city", "first", "PREFIX ex: <http://example.org/> SELECT ?s WHERE { ?s ex:line ex:L1 }"),
		r.register("city", "second", "ASK { ?a ?b ?c }")
	example = first.ID
	r.tick("city")
	r.oracle.refuse(second.ID, "it is too long")
	r.tick("city")
	r.get("/").has(`data-href="/endpoints/city?tab=queries&amp;slot=1"`, `<a href="/endpoints/city?tab=queries&amp;slot=1">1</a>`)
	r.get("/endpoints/city").has("h-health", ">Queries<", `href="/endpoints/city?tab=settings"`).lacks("What ran", `name="budget"`,
		"Asked together")
	r.get("/endpoints/city?tab=queries").has("Asked together", `href="/queries/`+first.ID+`">first</a>`,
		"SELECT ?s WHERE { ?s ex:line $1 }", "such as").lacks("t_0123456789abcdef", "What ran", "h-health")
	r.get("/endpoints/city?tab=queries&slot=1").has("What ran in slot 1", ">first</a>", ">second</a>")
	r.get("/endpoints/city?tab=queries&slot=2").has("What ran in slot 2", "rejected", "it is too long")
	r.get("/endpoints/city?tab=queries&slot=99").has("The slot itself is not recorded any more", "No query remembers a run in this slot.")
	r.get("/endpoints/city?tab=settings").has(`name="budget"`, "In force from the next slot on").lacks("Asked together", "h-health")
}

var example string

type exampleMerging struct{ fakeMerging }

func (exampleMerging) Templates(endpoint string) ([]cohort.Snapshot, error) {
	list, err := fakeMerging{}.Templates(endpoint)
	list[0].Example = example
	return list, err
}
