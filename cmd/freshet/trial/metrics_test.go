// Tests of `freshet metrics`.

package trial

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// The commands print what a scrape gives: as text, as a list of queries, and as objects. A
// query without a result is listed as stale.
func TestMetricsCommands(t *testing.T) {
	e := toEdit(t, answers(t, "Server", "one", twoCities))
	e.set(t, "slot=@every 1h")
	e.must(t, "SELECT ?city ?bikes { ?city <http://example.org/bikes> ?bikes }", "query", "add", "--name", "bikes", "--tag", "city", "-")
	e.tick(t)
	e.must(t, "", "query", "pause", "bikes")
	e.must(t, "ASK { ?s ?p ?o }", "query", "add", "--name", "later", "-")

	const samples = `freshet_result{city="Ulm \"an der\" Donau\n\\",column="bikes",holder="anonymous",query="bikes"} 12` + "\n"
	for _, args := range [][]string{{"bikes"}, {"--tag", "city"}, {"--endpoint", "city", "--q", "bike", "--state", "paused"},
		{"bikes", "later"}} {
		if out := e.must(t, "", append([]string{"metrics", "show"}, args...)...); !strings.Contains(out, samples) ||
			strings.Contains(out, "later") != (len(args) == 2 && args[1] == "later") {
			t.Errorf("metrics show %v: %s", args, out)
		}
	}
	lines := strings.Split(e.must(t, "", "metrics", "list"), "\n")
	want := []string{"QUERY HOLDER COLUMNS SERIES ROWS LEFT OUT TRUE", "bikes anonymous bikes 2 2 stale", "later anonymous 0 0 stale", ""}
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if out := e.must(t, "", "metrics", "list", "bikes", "--limit", "1"); !strings.Contains(out, "1 limit") {
		t.Errorf("%s", out)
	}

	var q struct {
		Series, Rows int
		LeftOut      map[string]uint64 `json:"left_out"`
		Stale        bool
		Checked      time.Time `json:"checked_at"`
		Changed      time.Time `json:"changed_at"`
	}
	if out := e.must(t, "", "metrics", "list", "bikes", "--label", "bikes", "--json"); json.Unmarshal([]byte(out), &q) != nil ||
		q.Series != 0 || q.Rows != 2 || q.LeftOut["no_number"] != 2 || q.Checked.IsZero() || q.Changed.IsZero() || !q.Stale {
		t.Errorf("%s", out)
	}
	found := false
	for line := range strings.Lines(e.must(t, "", "metrics", "show", "bikes", "--json")) {
		var v struct {
			Metric, Value string
			Labels        map[string]string
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		found = found || v.Metric == "freshet_result" && v.Value == "9.5" && v.Labels["city"] == "http://example.org/Bonn"
	}
	if !found {
		t.Error("no object of the number of Bonn")
	}

	for args, want := range map[string]int{"show none": cli.ExitNotFound, "list --limit 0": cli.ExitUsage,
		"list --limit 1x": cli.ExitUsage, "show --state odd": cli.ExitUsage} {
		if code, out, stderr := runCLI(t, e.Env, "", append([]string{"metrics"}, strings.Fields(args)...)...); code != want ||
			out != "" || stderr == "" {
			t.Errorf("metrics %s: exit code %d, %s%s", args, code, out, stderr)
		}
	}
}
