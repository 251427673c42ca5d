package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/freshet/freshet/scheduler"
)

// A study writes the paper's figures beside ours and needs nothing else; a
// second one writes the same bytes.
func TestStudy(t *testing.T) {
	tr, err := Generate(t.Context(), likeness(60, 60), 5)
	if err != nil {
		t.Fatal(err)
	}
	var first map[string][]byte
	for range 2 {
		done := 0
		s, err := RunStudy(t.Context(), "test.trace", tr, scheduler.RuleOverrun, func(Row) { done++ })
		if err != nil {
			t.Fatal(err)
		}
		if want := len(Configurations()) * len(Budgets()); done != want || len(s.Rows) != want {
			t.Fatalf("%d simulations, %d rows, want %d", done, len(s.Rows), want)
		}
		dir := t.TempDir()
		if err := s.Write(dir); err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
				t.Fatal(err)
			}
		}
		if first == nil {
			first = files
			continue
		}
		for name, b := range files {
			if !bytes.Equal(first[name], b) {
				t.Errorf("%s differs between two runs", name)
			}
		}
	}
	page := string(first["report.html"])
	for _, want := range []string{"2,860,301", "499,860", "503,826", "Knuth, Hartig, Sack", "Table 3. Budget 10 s", "<svg", "ttl:max=32:reset"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
	for _, not := range []string{"<script", "<link", "src=", "<?xml", "NaN"} {
		if strings.Contains(page, not) {
			t.Errorf("the page holds %q", not)
		}
	}
	if n := strings.Count(page, "<svg"); n != 3+4*len(Budgets()) {
		t.Errorf("%d plots", n)
	}
	for _, name := range []string{"detection-10s.svg", "delay-50s.png", "spent-10s.svg", "changes.png", "study.csv", "study.jsonl"} {
		if len(first[name]) == 0 {
			t.Errorf("%s is missing", name)
		}
	}
	if lines := strings.Count(string(first["study.csv"]), "\n"); lines != 1+len(Configurations())*len(Budgets()) {
		t.Errorf("the CSV has %d lines", lines)
	}
}

// Of the paper's figures: relevant and missed add up to all 15,256 changes, in
// all but three rows of ttl and in those of cv as printed.
func TestPublishedFigures(t *testing.T) {
	odd := 0
	for _, r := range Published() {
		if r.Relevant+r.AbsMiss != 15256 {
			odd++
			if !strings.HasPrefix(r.Policy, "ttl") {
				t.Errorf("%s %s: %d + %d", r.Policy, r.Budget, r.Relevant, r.AbsMiss)
			}
		}
	}
	if odd != 3 {
		t.Errorf("%d rows do not add up, want 3", odd)
	}
	if n := len(Published()); n != 3*15 {
		t.Errorf("%d rows", n)
	}
}

func TestSplitPolicies(t *testing.T) {
	got := strings.Join(SplitPolicies("rr, wic:urgency=exp,0.5:life=window,3,dj"), "|")
	if want := "rr|wic:urgency=exp,0.5:life=window,3|dj"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
