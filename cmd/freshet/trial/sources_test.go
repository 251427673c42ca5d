package trial

import (
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
)

// The file's settings of an endpoint may differ from those in force. Every place that shows
// settings says which of them it shows and where they come from: after an edit, a reload, a crash
// and another value in the file.
func TestSourcesOfEndpoints(t *testing.T) {
	e := toEdit(t, answers(t, "Server", "one", `{"head":{},"boolean":true}`))
	e.Kill()
	e.yaml = strings.Replace(e.yaml, "slot: never", "budget: 2s, slot: never", 1)
	e.begin(t)
	shown := func(key string) string {
		resp, err := http.Get(e.Url + "/settings")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		page, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		row := regexp.MustCompile(`(?s)>` + regexp.QuoteMeta(key) +
			`</th>.*?<span class="term">(.*?)</span>.*?<b>(.*?)</b>`).FindStringSubmatch(string(page))
		if row == nil {
			return ""
		}
		return row[1] + " " + regexp.MustCompile(` on \d+ \w+ \d+`).ReplaceAllString(row[2], "")
	}
	file := func() string { return e.Process.Cmd.Args[3] }
	reload := func() {
		t.Helper()
		before := strings.Count(e.Stderr.String(), "is reloaded")
		if err := e.Process.Cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		clitest.Eventually(t, "reloaded", func() bool { return strings.Count(e.Stderr.String(), "is reloaded") > before })
	}
	const key = "endpoints.city.budget"
	if got := shown(key); got != "2s file" {
		t.Errorf("before: %q", got)
	}
	code, _, says := runCLI(t, e.Env, "", "endpoint", "set", "city", "budget=1s")
	if code != cli.ExitOK || !strings.Contains(says, "note: budget: the configuration file says 2s") {
		t.Errorf("endpoint set: exit code %d: %s", code, says)
	}
	edited := "1s changed here by anonymous; the file says 2s"
	for _, when := range []func(){func() {}, reload, func() { e.crash(t) }} {
		when()
		if got := shown(key); got != edited {
			t.Errorf("edited: %q, want %q", got, edited)
		}
	}
	if out := e.must(t, "", "endpoint", "show", "city"); !regexp.MustCompile(`budget +1s +changed here by anonymous on .*; the ` +
		`file says 2s`).MatchString(out) {
		t.Errorf("endpoint show prints\n%s", out)
	}
	if out := e.must(t, "", "config", "print", "--config", file()); !strings.Contains(out, "  budget: 2s  # file\n") ||
		!strings.Contains(out, "# What the configuration file,") {
		t.Errorf("config print prints\n%s", out)
	}
	if out := e.must(t, "", "config", "print", "--config", file(), "--server", e.Url); !regexp.MustCompile(`  budget: 1s  # `+
		`changed here by anonymous on .*; the file says 2s\n`).MatchString(out) || !strings.Contains(out, "in force at "+e.Url) {
		t.Errorf("config print --server prints\n%s", out)
	}
	if err := os.WriteFile(file(), []byte(strings.Replace(e.yaml, "budget: 2s", "budget: 4s", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	reload()
	if got := shown(key); got != "4s file" {
		t.Errorf("another value in the file: %q", got)
	}
	e.set(t, "budget=1s")
	e.must(t, "", "endpoint", "revert", "city", "budget")
	if got := shown(key); got != "4s file" {
		t.Errorf("taken back: %q", got)
	}
}
