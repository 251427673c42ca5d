package bench

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/bench/figure"
	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
)

var rewrite = flag.Bool("update", false, "write the golden files again")

// The golden file has the schedules of a small trace, slot by slot, for every policy under
// both rules.
func TestGoldenSchedules(t *testing.T) {
	tr, err := trace.Load(filepath.Join("testdata", "small.json"))
	if err != nil {
		t.Fatal(err)
	}
	w := NewSimulator(tr)
	for _, d := range scheduler.Policies() {
		p := d.Spelling()
		t.Run(d.Name, func(t *testing.T) {
			var got bytes.Buffer
			for _, rule := range []string{plan.RuleOverrun, plan.RuleStrict, plan.RuleDebt} {
				for _, budget := range []time.Duration{800 * time.Millisecond, 3 * time.Second} {
					row, err := w.Run(t.Context(), Setup{Policy: p, Budget: budget, Rule: rule, Schedule: true})
					if err != nil {
						t.Fatal(err)
					}
					if err := figure.WriteLines(&got, []Row{row}); err != nil {
						t.Fatal(err)
					}
				}
			}
			path := filepath.Join("testdata", d.Name+".golden.jsonl")
			if *rewrite {
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s: got\n%swant\n%s", p, got.Bytes(), want)
			}
		})
	}
}

// The keys of --json are part of the format.
func TestRowKeys(t *testing.T) {
	row := simulate(t, readTrace(t, tiny), Setup{Policy: "ttl:max=8:half", Budget: 10 * time.Second, Rule: plan.RuleStrict, Schedule: true})
	var b strings.Builder
	if err := figure.WriteLines(&b, []Row{row}); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, key := range []string{"policy", "params", "budget_ms", "rule", "total", "relevant", "irrelevant", "effectivity",
		"abs_delay", "max_delay",
		"abs_delay_detected", "max_delay_detected", "abs_miss", "max_miss", "distinct", "cut", "used", "max_overrun", "slots", "cuts"} {
		i := strings.Index(b.String(), `"`+key+`":`)
		if i < at {
			t.Errorf("%s is missing or out of place in %s", key, b.String())
		}
		at = i
	}
	if !strings.Contains(b.String(), `"params":{"max":8,"on":"half"}`) || !strings.Contains(b.String(), `"cuts":[]`) {
		t.Errorf("row is %s", b.String())
	}
}
