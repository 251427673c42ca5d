package web

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
)

type merging struct{}

func (merging) Templates(string) ([]cohort.Snapshot, error) {
	return []cohort.Snapshot{{Template: "t_0123456789abcdef", Members: 84, Kind: cohort.Values, A: 0.01, B: 0.001, C: 0.0001,
		Asks: map[cohort.Kind]uint64{cohort.Values: 3}, Asked: map[cohort.Kind]uint64{cohort.Values: 200}, Audits: 2, Different: 1,
		OffUntil: map[cohort.Kind]time.Time{cohort.Values: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)}}}, nil
}

func (merging) Asked(string) (scheduler.Asked, error) {
	return scheduler.Asked{Requests: map[cohort.Kind]uint64{cohort.Values: 3}, Members: map[cohort.Kind]uint64{cohort.Values: 200},
		Same: 7, Different: 1}, nil
}

func TestTemplates(t *testing.T) {
	w := newWorld(t)
	list := w.get("/v1/endpoints/city/templates").status(200).json()["templates"].([]any)
	x := list[0].(map[string]any)
	if len(list) != 1 || x["template"] != "t_0123456789abcdef" || x["members"] != 84.0 || x["kind"] != "values" ||
		x["off_until"].(map[string]any)["values"] != "2026-01-02T00:00:00Z" {
		t.Errorf("%v", list)
	}
	w.get("/v1/endpoints/none/templates").status(404)
	metrics := string(w.get("/metrics").status(200).body)
	for _, line := range []string{`freshet_asks_total{endpoint="city",kind="values"} 3`,
		`freshet_ask_members_total{endpoint="city",kind="values"} 200`,
		`freshet_merge_audits_total{endpoint="city",result="different"} 1`, `freshet_merge_audits_total{endpoint="city",result="same"} 7`} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("/metrics lacks %s", line)
		}
	}
}

// A query says whether it may be asked together with others, and why not.
func TestMergeOfQuery(t *testing.T) {
	w := newWorld(t)
	show := func(text, alone string) map[string]any {
		id := w.post("/v1/queries", `{"endpoint":"city","query":"`+text+`","alone":`+alone+`}`).status(201).string("id")
		return w.get("/v1/queries/" + id).status(200).json()
	}
	a := show("SELECT ?o { <http://x/a> ?p ?o }", "false")
	b := show("SELECT ?o { <http://x/b> ?p ?o }", "true")
	c := show("SELECT ?o { <http://x/a> ?p ?o } LIMIT 1", "false")
	if a["template"] == nil || a["template"] != b["template"] || c["template"] != nil {
		t.Errorf("templates %v, %v and %v", a["template"], b["template"], c["template"])
	}
	for reason, q := range map[string]map[string]any{"": a, "alone": b, "limit": c} {
		m := q["merge"].(map[string]any)
		if got, _ := m["reason"].(string); got != reason || m["allowed"] != (reason == "") {
			t.Errorf("%v, want %q", m, reason)
		}
	}
}
