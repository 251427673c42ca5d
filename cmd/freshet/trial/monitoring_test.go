package trial

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// promtool accepts the alert rules. Each alert fires when it should, and none fires in normal
// operation.
func TestAlertRules(t *testing.T) {
	tool, err := exec.LookPath("promtool")
	if err != nil {
		clitest.SkipPart(t, "promtool", "apt-get install --no-install-recommends prometheus")
	}
	for _, args := range [][]string{{"check", "rules", "../dist/freshet.rules.yml"}, {"test", "rules", "../testdata/rules_test.yml"}} {
		if out, err := exec.Command(tool, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// Each alert says what happened and what to do, and has its test.
func TestAlertsHaveRemedies(t *testing.T) {
	tests, err := os.ReadFile("../testdata/rules_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alertRules(t) {
		if r.Annotations["summary"] == "" || strings.Count(r.Annotations["description"], ". ") == 0 || r.Labels["severity"] == "" {
			t.Errorf("%s lacks a summary, a description with a remedy, or a severity", r.Alert)
		}
		if strings.Count(string(tests), "alertname: "+r.Alert+"}") != 1 || strings.Count(string(tests), `{alertname="`+r.Alert+`"}`) != 1 {
			t.Errorf("%s is not tested to fire and to be silent", r.Alert)
		}
	}
}

type alertRule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func alertRules(t *testing.T) (rules []alertRule) {
	t.Helper()
	text, err := os.ReadFile("../dist/freshet.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct{ Groups []struct{ Rules []alertRule } }
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	for _, g := range doc.Groups {
		rules = append(rules, g.Rules...)
	}
	return rules
}

// The dashboard and the alerts use only metrics that the server has.
func TestDashboardAndAlertsUseMetricsThatExist(t *testing.T) {
	asked := map[string]string{}
	note := func(where, expr string) {
		for _, name := range regexp.MustCompile(`\b(freshet|go|process)_[a-z0-9_]+`).FindAllString(expr, -1) {
			asked[name] = where
		}
	}
	for _, r := range alertRules(t) {
		note(r.Alert, r.Expr)
	}
	text, err := os.ReadFile("../dist/freshet.dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct{ List []struct{ Query string } }
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		for _, x := range p.Targets {
			note(p.Title, x.Expr)
		}
	}
	for _, v := range board.Templating.List {
		note("a variable", v.Query)
	}
	if len(asked) < 20 {
		t.Fatalf("only %d metrics are asked for", len(asked))
	}
	has := scraped(t)
	for name, where := range asked {
		family := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
		if !has[name] && !has[family] {
			t.Errorf("%s asks for %s, which the server does not have", where, name)
		}
	}
}

// scraped returns the metrics of a server that has run a slot with a result.
func scraped(t *testing.T) map[string]bool {
	t.Helper()
	e := toEdit(t, answers(t, "Server", "one", `{"head":{},"boolean":true}`))
	e.yaml += "feeds: [{name: notes, kind: deltas}]\n"
	e.crash(t)
	e.set(t, "slot=@every 1h")
	e.set(t, "feed=notes")
	e.add(t, "ASK { <http://x/1> ?p ?o }")
	e.tick(t)
	resp, err := http.Get(e.Url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z0-9_]+)[{ ]`).FindAllSubmatch(body, -1) {
		name := string(m[1])
		has[name] = true
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if family, ok := strings.CutSuffix(name, suffix); ok {
				has[family] = true
			}
		}
	}
	return has
}
