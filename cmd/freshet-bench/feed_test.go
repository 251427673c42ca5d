package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// A run over a stream with faults finds nothing wrong.
func TestLongFeed(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "Q42.ttl")
	document := "@prefix wd: <http://www.wikidata.org/entity/> . wd:Q42 <http://www.w3.org/2000/01/rdf-schema#label> " +
		"\"Adams\"@en, \"Adams\"@de ; <uri:p> [ <uri:q> 1 ] .\n"
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--polling"}, {"--position", "offset"}} {
		args = append([]string{"bench", "feed", "--json", "--events", "400", "--rate", "100", "--queries", "60", "--items", "60",
			"--entities", file}, args...)
		code, stdout, stderr := runCLI(t, nil, "", args...)
		var r feedReport
		if err := json.Unmarshal([]byte(stdout), &r); code != cli.ExitOK || err != nil {
			t.Fatalf("%v: %d %s %s %v", args, code, stdout, stderr, err)
		}
		if r.Events != 400 || r.Changes < 20 || r.Received < 15 || r.Lost+r.False+r.Doubled+r.Unproved > 0 || r.Polling &&
			r.Executions < 60 || r.DelayP50 <= 0 || r.DelayP50 > r.DelayP99 || r.Polling == (r.Claims > 0) {
			t.Errorf("%v: %s", args, stdout)
		}
	}
}

func TestFeedRefuses(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "Q1.ttl")
	if err := os.WriteFile(bad, []byte("<a> <b>"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{"--position is": {"--position", "x"}, "--compress is": {"--compress", "100"},
		"--items at least": {"--items", "1"}, "no such file": {"--entities", "none.ttl"}, "Turtle, line 1": {"--entities", bad}} {
		if code, _, stderr := runCLI(t, nil, "", append([]string{"bench", "feed"}, args...)...); code != cli.ExitUsage ||
			!strings.Contains(stderr, want) {
			t.Errorf("%v: %d %s", args, code, stderr)
		}
	}
}
