package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/bench/figure/figuretest"
	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/bench/trace/tracetest"
	"github.com/freshet/freshet/scheduler/plan"
)

// A study writes the paper's figures beside ours and needs no other input. A second run writes
// the same bytes.
func TestLongStudy(t *testing.T) {
	tr, err := trace.Generate(t.Context(), tracetest.Small(60, 60), 5)
	if err != nil {
		t.Fatal(err)
	}
	setups := (len(Configurations()) + 1) * len(PaperBudgets()) // rr is included already
	var first map[string][]byte
	for range 2 {
		done := 0
		s := NewStudy(plan.RuleOverrun, PaperBudgets(), "ttl:max=4:half", "rr")
		s.Compare = true
		if err := s.Run(t.Context(), "0.trace", tr, func(Row) { done++ }); err != nil {
			t.Fatal(err)
		}
		if done != setups || len(s.rows) != setups {
			t.Fatalf("%d simulations of %d setups", done, setups)
		}
		for _, f := range s.figures() {
			p, err := f.Make()
			if err != nil {
				t.Fatal(err)
			}
			if err := figuretest.Legible(p); err != nil {
				t.Errorf("figure %s: %v", f.Name, err)
			}
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
	for _, want := range []string{"2,860,301", "499,860", "Knuth, Hartig, Sack", "Table 3. Budget 10 s", "<svg", "ttl:max=32:reset",
		"<code>hybrid</code>", "<code>ttl:max=4:half</code>", "<strong>",
		"effectivity: relevant of total"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
	for _, not := range []string{"<script", "<link", "src=", "<?xml", "NaN"} {
		if strings.Contains(page, not) {
			t.Errorf("the page holds %q", not)
		}
	}
	if n := strings.Count(page, "<svg"); n != 2+2*len(PaperBudgets()) {
		t.Errorf("%d plots", n)
	}
	for _, name := range []string{"detection-10s.svg", "delay-50s.svg", "changes.svg", "study.jsonl"} {
		if len(first[name]) == 0 {
			t.Errorf("%s is missing", name)
		}
	}
	if lines := strings.Count(string(first["study.jsonl"]), "\n"); lines != setups {
		t.Errorf("study.jsonl has %d lines", lines)
	}
}

// In the paper's figures relevant and missed add up to all 15,256 changes, except in three rows
// of ttl and in those of cv as printed.
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

// A study of any trace says nothing about the paper's, and has budgets of its own.
func TestStudyOfOwnTrace(t *testing.T) {
	tr, err := trace.Generate(t.Context(), tracetest.Small(60, 60), 5)
	if err != nil {
		t.Fatal(err)
	}
	budgets := []time.Duration{1500 * time.Millisecond, 20 * time.Millisecond}
	s := NewStudy(plan.RuleStrict, budgets)
	if err := s.Run(t.Context(), "own.trace", tr, func(Row) {}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := s.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"report.html", "study.jsonl"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, not := range []string{"Knuth", "paper", "published", "another implementation", "Budget 10 s"} {
			if strings.Contains(string(b), not) {
				t.Errorf("%s holds %q", name, not)
			}
		}
		if want := "Table 1. Budget 1.5 s"; name == "report.html" && !strings.Contains(string(b), want) {
			t.Errorf("%s does not hold %q", name, want)
		}
	}
}

// The budgets of a trace are its costliest slot, a tenth and a fiftieth of it, in two digits.
func TestBudgets(t *testing.T) {
	tr := &trace.Trace{Queries: 2, Revisions: 1, Times: [][]int32{{10, 20}, {1000, 7321}}}
	want := []time.Duration{8400 * time.Millisecond, 840 * time.Millisecond, 170 * time.Millisecond}
	if got := Budgets(tr); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
