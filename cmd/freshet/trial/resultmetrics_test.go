package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

const twoCities = `{"head":{"vars":["city","bikes"]},"results":{"bindings":[
 {"city":{"type":"literal","value":"Ulm \"an der\" Donau\n\\"},"bikes":{"type":"literal","value":"12",` +
	`"datatype":"http://www.w3.org/2001/XMLSchema#integer"}},
 {"city":{"type":"uri","value":"http://example.org/Bonn"},"bikes":{"type":"literal","value":"9.5",` +
	`"datatype":"http://www.w3.org/2001/XMLSchema#decimal"}}]}}`

// A Prometheus scrapes the numbers in results, and its queries return them. promtool
// accepts the format, and each expression of the dashboard finds something.
func TestPrometheusScrapesResults(t *testing.T) {
	for _, tool := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(tool); err != nil {
			clitest.SkipPart(t, "promtool", "apt-get install --no-install-recommends prometheus")
		}
	}
	e := toEdit(t, answers(t, "Server", "one", twoCities))
	e.set(t, "slot=@every 1h")
	e.must(t, "SELECT ?city ?bikes { ?city <http://example.org/bikes> ?bikes }", "query", "add", "--name", "bikes", "-")
	e.tick(t)
	for _, path := range []string{"/metrics", "/metrics/results"} {
		resp, err := http.Get(e.Url + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		check := exec.Command("promtool", "check", "metrics")
		check.Stdin = resp.Body
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("promtool on %s: %v\n%s", path, err, out)
		}
	}

	p := prometheus(t, e.Url)
	const want = `"column":"bikes","holder":"anonymous"`
	var got string
	clitest.Eventually(t, "Prometheus has scraped", func() bool {
		got = p.query(t, `freshet_result{query="bikes"} unless on(query, holder) freshet_result_stale == 1`)
		return strings.Count(got, want) == 2
	})
	for _, part := range []string{`"city":"Ulm \"an der\" Donau\n\\"`, `"city":"http://example.org/Bonn"`, `"12"]`, `"9.5"]`} {
		if !strings.Contains(got, part) {
			t.Errorf("no %s in %s", part, got)
		}
	}
	text, err := os.ReadFile("../dist/freshet.results.dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil || len(board.Panels) < 5 {
		t.Fatal(err, len(board.Panels))
	}
	variables := strings.NewReplacer("$query", "bikes", "$column", "bikes")
	for _, x := range board.Panels {
		found := false
		for _, target := range x.Targets {
			found = found || strings.Contains(p.query(t, variables.Replace(target.Expr)), `"value"`)
		}
		if !found {
			t.Errorf("the panel %q finds nothing", x.Title)
		}
	}
}

// A prometheusServer is a Prometheus that runs until the test ends.
type prometheusServer string

// prometheus starts a Prometheus that scrapes the results of a server.
func prometheus(t *testing.T, target string) prometheusServer {
	t.Helper()
	dir, addr := t.TempDir(), clitest.FreeAddr(t)
	config := fmt.Sprintf("global: {scrape_interval: 200ms, scrape_timeout: 200ms}\nscrape_configs:\n  - {job_name: results, "+
		"metrics_path: /metrics/results, scrape_interval: 1s, scrape_timeout: 1s, params: {query: [bikes]}, static_configs: [{targets: [%q]}]}\n",
		strings.TrimPrefix(target, "http://"))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, "prometheus", "--config.file", filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path",
		filepath.Join(dir, "data"), "--web.listen-address", addr)
	var log strings.Builder
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stop()
		cmd.Wait()
		if t.Failed() {
			t.Logf("Prometheus:\n%s", regexp.MustCompile(`(?m)^.*level=info.*\n`).ReplaceAllString(log.String(), ""))
		}
	})
	p := prometheusServer("http://" + addr)
	clitest.Eventually(t, "Prometheus has scraped", func() bool {
		resp, err := http.Get(string(p) + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return p
}

// query returns the answer to an instant query.
func (p prometheusServer) query(t *testing.T, expr string) string {
	t.Helper()
	c := http.Client{Timeout: time.Minute}
	resp, err := c.Get(string(p) + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v\n%s", expr, resp.Status, err, body)
	}
	return string(body)
}
