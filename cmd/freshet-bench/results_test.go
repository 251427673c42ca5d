package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/freshet/freshet/bench"
	"github.com/freshet/freshet/cmd/internal/cli"
)

// The commands of web/docs/results.md, which take hours, exist with their flags, policies and rules, and read traces that
// commands above them have made.
func TestResultsCommands(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "web", "docs", "results.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, howTo, _ := strings.Cut(string(page), "\n## How to repeat it\n")
	loop := regexp.MustCompile(`^for (\w+) in (.*); do (.*); done$`)
	made, n := map[string]bool{}, 0
	check := func(line string) {
		t.Helper()
		n++
		c, args, err := newRoot(cli.OSEnv()).Find(strings.Fields(line)[1:])
		if err == nil {
			err = c.ParseFlags(args)
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
			return
		}
		text := func(flag string) string {
			if f := c.Flags().Lookup(flag); f != nil {
				return strings.Trim(f.Value.String(), "[]")
			}
			return ""
		}
		switch c.Name() {
		case "generate", "record":
			made[text("out")] = true
			return
		case "arena":
			_, err = bench.Competitors(text("policy"))
		case "simulate":
			_, err = simulations(text("policy"), strings.Split(text("budget"), ","), strings.Split(text("merge"), ","), text("rule"))
		}
		if err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if trace := text("trace"); trace != "" && !made[trace] || c.Name() == "simulate" && trace == "" {
			t.Errorf("%s: no command above it makes the trace", line)
		}
	}
	for _, line := range strings.Split(howTo, "\n") {
		if m := loop.FindStringSubmatch(line); m != nil {
			for _, x := range strings.Fields(m[2]) {
				check(strings.ReplaceAll(m[3], "$"+m[1], x))
			}
		} else if strings.HasPrefix(line, "freshet bench ") {
			check(line)
		}
	}
	if n < 30 {
		t.Errorf("the page has %d commands", n)
	}
}
