package ui

import (
	"fmt"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web"
)

// A busyDaemon has endpoints that use up their budgets, and one that fails.
type busyDaemon struct{ web.Daemon }

func (d busyDaemon) State(endpoint string) (scheduler.LoopState, error) {
	st, err := d.Daemon.State(endpoint)
	switch endpoint {
	case "archive":
		st.Last = scheduler.Slot{Number: 3, Budget: 1, Used: 1, Skipped: 70}
	case "broken":
		st.Health.State = registry.HealthFailing
	case "city":
		st.Last = scheduler.Slot{Number: 3, Budget: 1, Used: 0.2}
	case "town":
		st.Last = scheduler.Slot{Number: 3, Budget: 1, Used: 0.6}
	}
	return st, err
}

// Registering offers the endpoint with most room, not the first one of the alphabet.
func TestRegisterOffersRoom(t *testing.T) {
	r := newRigWith(t, func(_ *rig, c *Config) { c.Daemon = busyDaemon{c.Daemon} })
	for _, name := range []string{"archive", "broken", "city", "town"} {
		r.endpoint(name)
	}
	r.get("/register").has(`<option value="city" selected>`)
	r.get("/register?endpoint=town").has(`<option value="town" selected>`)
}

// The rail lists many endpoints and counts the others.
func TestRailCountsTheOthers(t *testing.T) {
	r := newRig(t)
	for i := range 16 {
		r.endpoint(fmt.Sprintf("e%02d", i))
	}
	r.get("/about").has("/endpoints/e15").lacks(" more</a>")
	r.endpoint("e16")
	r.get("/about").has("1 more</a>").lacks("/endpoints/e16")
}

// The first page of an empty server offers packs, and the form says that public endpoints need a
// contact.
func TestFirstEndpoint(t *testing.T) {
	r := newRigWith(t, func(_ *rig, c *Config) { c.Managing.NoContact = true })
	r.get("/").has("Name an endpoint", `href="/add-endpoint?pack=wikidata"`)
	r.get("/add-endpoint").has("This server has no contact.", "--contact")
	newRig(t).get("/add-endpoint").lacks("This server has no contact.")
}

// Dates are not broken after a hyphen.
func TestDatesStayWhole(t *testing.T) {
	for text, want := range map[string]string{"2026-11-24": "nb", "2026-11-24T09:30:00Z": "nb", "2026-11": "nb",
		time.Time{}.String(): "", "a-b": "", "2026-11-24-x": ""} {
		if c := newNamer("").cell(diff.Term{Kind: diff.Literal, Value: text}, ""); c.Class != want {
			t.Errorf("%s has the class %q, want %q", text, c.Class, want)
		}
	}
}
