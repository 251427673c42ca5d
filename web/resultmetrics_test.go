package web

import (
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// counted is a result with numbers: a name, a count.
func counted(t *testing.T, rows ...[2]string) *diff.Result {
	var all [][2]diff.Term
	for _, r := range rows {
		all = append(all, [2]diff.Term{lit(r[0]), {Kind: diff.Literal, Value: r[1], Datatype: "http://www.w3.org/2001/XMLSchema#integer"}})
	}
	return table(t, all...)
}

func TestResultMetrics(t *testing.T) {
	w := newWorld(t)
	shops := w.register(selectText, `"name":"shops","tags":["metrics"]`)
	w.register("SELECT * {?s ?p ?o}", `"name":"later"`)
	unnamed := w.register("SELECT * {?s ?p 1}")
	w.m.publish(shops, counted(t, [2]string{"Ulm", "12"}, [2]string{"Bonn", "7"}))
	w.m.publish(unnamed, counted(t, [2]string{"x", "1"}))
	vars := strings.Fields("s o")
	s := string(w.get("/metrics/results").status(200).body)
	holder := `holder="` + registry.Anonymous + `"`
	for _, want := range []string{
		`freshet_result{column="` + vars[1] + `",` + holder + `,query="shops",` + vars[0] + `="Ulm"} 12`,
		`freshet_result{column="` + vars[1] + `",` + holder + `,query="shops",` + vars[0] + `="Bonn"} 7`,
		`freshet_result_rows{` + holder + `,query="shops"} 2`,
		`freshet_result_stale{` + holder + `,query="shops"} 0`,
		`freshet_result_stale{` + holder + `,query="later"} 1`,
		`freshet_result_checked_timestamp_seconds{` + holder + `,query="shops"} `,
		`freshet_result_changed_timestamp_seconds{` + holder + `,query="shops"} `,
		"freshet_result_series_left_out 0",
	} {
		if !strings.Contains(s, want) {
			t.Errorf("no %s in\n%s", want, s)
		}
	}
	if strings.Contains(s, `"x"`) || strings.Contains(s, `rows{`+holder+`,query="later"`) {
		t.Errorf("a query without a name or result:\n%s", s)
	}
	for target, want := range map[string]string{
		"?query=" + unnamed:             `query="` + unnamed + `",s="x"} 1`,
		"?tag=metrics":                  `query="shops"`,
		"?query=shops&label=o":          `freshet_result_rows_left_out{` + holder + `,query="shops",reason="no_number"} 2`,
		"?query=shops&limit=1":          `freshet_result_rows_left_out{` + holder + `,query="shops",reason="limit"} 1`,
		"?query=shops&query=" + unnamed: `query="shops"`,
	} {
		if s := string(w.get("/metrics/results" + target).status(200).body); !strings.Contains(s, want) {
			t.Errorf("%s: no %s in\n%s", target, want, s)
		}
	}
	if s := string(w.get("/metrics/results?tag=none").status(200).body); strings.Contains(s, "shops") {
		t.Errorf("a query without the tag:\n%s", s)
	}
	w.get("/metrics/results?query=none").problem(404, "not-found")
	w.get("/metrics/results?limit=0").problem(400, "malformed")
	w.get("/metrics/results?query=shops", "Authorization", "Bearer "+strings.Repeat("x", 20)).problem(401, "unauthorized")
}

// A result is marked as stale while its query is not live, with the time of the last
// answer.
func TestResultMetricsShowStaleness(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText, `"name":"shops"`)
	w.m.publish(id, counted(t, [2]string{"Ulm", "12"}))
	for _, state := range registry.States() {
		st := w.m.status[id]
		st.State = state
		w.m.status[id] = st
		want := "0"
		if state != registry.Live {
			want = "1"
		}
		s := string(w.get("/metrics/results").status(200).body)
		if !strings.Contains(s, `freshet_result_stale{holder="`+registry.Anonymous+`",query="shops"} `+want) || !strings.Contains(s, `="Ulm"} 12`) {
			t.Errorf("%s: %s", state, s)
		}
	}
}

// historyDuring calls a function whenever a result is read.
type historyDuring struct {
	History
	during func()
}

func (h historyDuring) Current(id string, withResult bool) (registry.Status, *diff.Result, error) {
	h.during()
	return h.History.Current(id, withResult)
}

// Two scrapes read results at a time; a third one is told to come back.
func TestResultScrapesAreFew(t *testing.T) {
	var w *world
	depth := 0
	w = newWorld(t, func(c *Config) {
		c.History = historyDuring{c.History, func() {
			depth++
			defer func() { depth-- }()
			if depth < 2 {
				w.get("/metrics/results").status(200)
			} else if a := w.get("/metrics/results").problem(429, "busy"); a.Header.Get("Retry-After") != "5" {
				t.Error("429 without Retry-After")
			}
		}}
	})
	w.m.publish(w.register(selectText, `"name":"shops"`), counted(t, [2]string{"Ulm", "12"}))
	w.get("/metrics/results").status(200)
	w.get("/metrics/results").status(200) // both places are free again
}
