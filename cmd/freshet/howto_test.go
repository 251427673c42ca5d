package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/endpoint/local"
)

// The commands of all pages, which are their blocks "sh", run as they are written.
func TestHowTo(t *testing.T) {
	clitest.NeedEngine(t)
	pages, err := filepath.Glob("../../web/docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, file := range pages {
		page := filepath.Base(file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		// The studies take minutes, and a policy of one's own needs a checkout.
		if !strings.Contains(string(text), "\n```sh\n") || page == "results.md" || page == "policies.md" {
			continue
		}
		ran++
		t.Run(page, func(t *testing.T) {
			if strings.Contains(string(text), "python3") {
				needPython(t)
			}
			if strings.Contains(string(text), "$FRESHET_MODULES") {
				needNode(t)
			}
			runPage(t, page)
		})
	}
	if ran < 6 {
		t.Errorf("%d pages have commands", ran)
	}
}

var (
	fence    = regexp.MustCompile("(?ms)^```(sh|text)\n(.*?)^```$|^<!-- test: (.*?) -->$")
	listens  = regexp.MustCompile(`(?m)^.*--listen 127\.0\.0\.1:([0-9]+).* &$`)
	varying  = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ|\d\d:\d\d:\d\d|q_[0-9a-z]+|[0-9.]+ (?:s|ms)\b`)
	backdrop = regexp.MustCompile(`127\.0\.0\.1:(?:3030|808[0-2]|500[1-3])`)
)

// runPage runs the blocks "sh" of a page in one shell. A block "text" is the output of the
// block before it, except for times and ids. The addresses of the page are replaced by
// free ones. A comment "test" is a command that readers do not see.
func runPage(t *testing.T, page string) {
	text, err := os.ReadFile(filepath.Join("../../web/docs", page))
	if err != nil {
		t.Fatal(err)
	}
	addresses := map[string]string{}
	source := backdrop.ReplaceAllStringFunc(string(text), func(a string) string {
		if addresses[a] == "" {
			addresses[a] = clitest.FreeAddr(t)
		}
		return addresses[a]
	})
	// The shell ends what it started.
	script := "set -eu\ntrap 'kill $(jobs -p) 2>/dev/null; wait 2>/dev/null' EXIT\n"
	want := map[int]string{} // by block
	blocks := 0
	for _, m := range fence.FindAllStringSubmatch(source, -1) {
		switch {
		case m[1] == "text":
			want[blocks] = m[2]
		case m[1] == "sh":
			blocks++
			script += "echo '%%%'\n" + listens.ReplaceAllString(m[2], "$0\nuntil (: < /dev/tcp/127.0.0.1/$1) 2> /dev/null; do sleep 0.1; done")
		default:
			script += m[3] + "\n"
		}
	}
	engine, err := local.FindEngine("")
	if err != nil {
		t.Fatal(err)
	}
	program := binary(t)
	if strings.Contains(source, "freshet bench") {
		program = both(t)
	}
	modules, err := filepath.Abs("../../web/client/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "timeout", "600", "bash", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"), "FRESHET_ENGINE="+engine, "FRESHET_SERVER=http://"+addresses["127.0.0.1:8080"], "FRESHET_MODULES="+modules)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, stderr.String())
	}
	// Lines of CSV end with CR LF, which no terminal shows.
	got := strings.Split(strings.ReplaceAll(string(out), "\r\n", "\n"), "%%%\n")
	for block, output := range want {
		if diff := cmp.Diff(varying.ReplaceAllString(output, "…"), varying.ReplaceAllString(got[block], "…")); diff != "" {
			t.Errorf("the output of block %d differs from the page (-page +output)\n%s", block, diff)
		}
	}
	if blocks == 0 || len(got) != blocks+1 {
		t.Errorf("the page has %d blocks of commands with %d outputs, %d ran", blocks, len(want), len(got)-1)
	}
}
