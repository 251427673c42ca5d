package bench

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/bench/trace/tracetest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
)

// The golden file has a hash of each schedule over a generated trace with gaps: every
// policy under each rule, with scarce and ample budgets, with all and with the latest
// execution times, and, without gaps, with merged requests. A schedule is which queries run in which
// slot, in which order, and which of them are cut.
func TestLongGoldenHashes(t *testing.T) {
	tr, err := trace.Generate(t.Context(), tracetest.Small(200, 120), 3)
	if err != nil {
		t.Fatal(err)
	}
	whole := *tr
	for i := range 60 {
		tr.Gaps = append(tr.Gaps, trace.Gap{Rev: 3 + i*i%110, Query: i * 37 % 200, Outcome: string(registry.Failed)})
	}
	if err := tr.Seal(); err != nil {
		t.Fatal(err)
	}
	if err := whole.Seal(); err != nil {
		t.Fatal(err)
	}
	gaps, merging := NewSimulator(tr), NewSimulator(&whole)
	var spellings []string
	for _, d := range scheduler.Policies() {
		spellings = append(spellings, d.Spelling())
	}
	spellings = append(spellings, "sjf:lambda=0", "cr:lambda=0.5", "ttl:max=16:half", "hybrid:d=4", "hybrid:d=1024",
		"wic:urgency=exp,0.5:life=window,9",
		"sup:x=2:life=window,3", "fbsup:x=2")
	var got bytes.Buffer
	for _, p := range spellings {
		for _, s := range goldenSetups(p) {
			w := gaps
			if s.merges() {
				w = merging
			}
			row, err := w.Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			h := fnv.New64a()
			fmt.Fprint(h, row.Slots, row.Cuts, row.Metrics)
			fmt.Fprintf(&got, "%s %s %s ring=%v merge=%s schedule=%v: %016x\n", p, s.Rule, s.Budget, s.Ring, s.Merge, s.Schedule, h.Sum64())
		}
	}
	compareGolden(t, filepath.Join("testdata", "schedules.golden.txt"), got.Bytes())
}

func goldenSetups(p string) (out []Setup) {
	for _, rule := range plan.Rules() {
		for _, budget := range []time.Duration{time.Second, 12 * time.Second} {
			s := Setup{Policy: p, Rule: rule, Budget: budget, Timeout: 5 * time.Second, Schedule: true}
			out = append(out, s)
			s.Ring, s.Schedule = true, false
			out = append(out, s)
			if rule != plan.RuleOverrun {
				s.Merge, s.Schedule = registry.MergeAuto, true
				out = append(out, s)
			}
		}
	}
	return out
}

// compareGolden compares with a golden file, or writes it again.
func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	was, now := bytes.Split(want, []byte("\n")), bytes.Split(got, []byte("\n"))
	for i := range was {
		if i >= len(now) || !bytes.Equal(was[i], now[i]) {
			t.Errorf("%s:%d: want %s, got %s", path, i+1, was[i], now[min(i, len(now)-1)])
		}
	}
	if len(was) != len(now) {
		t.Errorf("%s has %d lines, want %d", path, len(now), len(was))
	}
}
