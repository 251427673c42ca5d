package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// What is proposed holds the settings that were given, except secrets.
func TestCheckKeepsWhatIsGiven(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/sparql-results+json")
		io.WriteString(w, `{"head":{},"boolean":true}`)
	}))
	defer s.Close()
	code, out, stderr := runCLI(t, nil, "", "endpoint", "check", s.URL+"/sparql", "--set", "timeout=10s", "--set", "timeout=90s",
		"--set", "max_rows=10000", "--set", "merge=values", "--set", "name=town", "--set", `auth={"bearer":{"token":"hush"}}`,
		"--set", `default_graph_uri=["http://x/g"]`, "--set", `headers={"X-Key":"hush"}`)
	for _, want := range []string{
		"freshet endpoint add town " + s.URL + "/sparql --set timeout=90s --set max_rows=10000 --set merge=values --set " +
			`'default_graph_uri=["http://x/g"]'`,
		"  timeout: 90s\n  max_rows: 10000\n  merge: values\n  default_graph_uri:\n  - http://x/g\n",
	} {
		if code != cli.ExitOK || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %s\n%s\nwant %s", code, stderr, out, want)
		}
	}
	if strings.Contains(out+stderr, "hush") || strings.Count(out, "merge: ") > 2 || !strings.Contains(stderr, "auth and headers") {
		t.Errorf("it prints %s, says %s", out, stderr)
	}
}

// The name that is proposed fits any host, and a setting that there is not is refused.
func TestCheckNames(t *testing.T) {
	for address, want := range map[string]string{"http://[::1]:3030/sparql": "1", "http://[fe80::2]/": "fe80--2",
		"https://sparql.example.org/": "example.org", "http://bücher.example/": "b-cher.example",
		"http://" + strings.Repeat("long.", 20) + "example/": strings.Repeat("long.", 12) + "long"} {
		if e, err := checkedEndpoint(address, nil); err != nil || e.Name != want {
			t.Errorf("%s: %q, want %q, %v", address, e.Name, want, err)
		}
	}
	code, _, stderr := runCLI(t, nil, "", "endpoint", "check", "http://127.0.0.1:1/", "--set", "bugdet=5s")
	if code != cli.ExitUsage || !strings.Contains(stderr, `--set: there is no setting "bugdet", did you mean budget?`) {
		t.Errorf("exit code %d, says %s", code, stderr)
	}
}
