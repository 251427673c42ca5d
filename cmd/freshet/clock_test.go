package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// timed lists the folders whose files count, number or delete by a time. It is that of the server's clock,
// which goes on if the clock of the machine is set.
var timed = []string{"registry", "registry/watch", "scheduler", "scheduler/plan", "scheduler/rounds", "store", "store/replica",
	"store/internal/batch", "notify/alert", "notify/cursor",
	"notify/deliver", "notify/rule", "notify/webhook", "notify/websub", "web", "cmd/internal/cluster"}

// spans lists the files in them that measure how long something takes.
var spans = []string{"scheduler/lock.go", "store/internal/batch/batch.go", "store/replica/barrier.go",
	"store/replica/outage.go", "store/replica/replica.go", "web/middleware.go"}

func TestOneClock(t *testing.T) {
	measuring := map[string]bool{}
	for _, folder := range timed {
		files, err := filepath.Glob("../../" + folder + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no files, %v", folder, err)
		}
		for _, file := range files {
			name := strings.TrimPrefix(filepath.ToSlash(file), "../../")
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			for i, line := range strings.Split(string(text), "\n") {
				bare := strings.Contains(line, "time.Now()") && !strings.Contains(line, "Deadline(time.Now()") || strings.Contains(line, "time.Until(")
				switch {
				case !bare:
				case slices.Contains(spans, name):
					measuring[name] = true
				default:
					t.Errorf("%s:%d reads the clock of the machine: take the server's, see registry/clock", name, i+1)
				}
			}
		}
	}
	if len(measuring) < len(spans) {
		t.Errorf("of spans, only %v measure something", measuring)
	}
}
