package notify_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

var update = flag.Bool("update", false, "write the golden files")

// TestMarshalChange compares the JSON of changes of every form with a file.
func TestMarshalChange(t *testing.T) {
	at := time.Date(2026, 11, 20, 10, 0, 0, 120_000_000, time.FixedZone("CET", 3600))
	var out bytes.Buffer
	for _, c := range []struct {
		old, new *diff.Result
		format   notify.Format
	}{
		{nil, rows("a"), notify.Format{}},
		{rows("a", "b"), rows("a", "c", "c"), notify.Format{}},
		{table(true, "a", "b", "c"), table(true, "c", "a", "b"), notify.Format{}},
		{table(true, "a"), table(true, "a", "b"), notify.Format{}},
		{nil, ask(false), notify.Format{}},
		{ask(false), ask(true), notify.Format{}},
		{graph("a"), graph("<b>", "a"), notify.Format{}},
		{rows("a"), rows("b", "c"), notify.Format{MaxChange: 30, PublicURL: "https://fresh.example/"}},
		{rows("a"), rows("b", "c"), notify.Format{Summary: true}},
		{ask(false), ask(true), notify.Format{Summary: true}},
		{graph("a"), graph("<b>", "a"), notify.Format{Summary: true}},
	} {
		d := diff.Compare(c.old, c.new)
		b, err := notify.MarshalChange(registry.Change{Query: "q_1", Endpoint: "e", Epoch: "Zq81", Prev: 41, Seq: 42, Offset: 7, Slot: 1711,
			Time: at, CheckedAt: at.Add(-time.Second), Baseline: d.Baseline, Delta: d}, c.format)
		if err != nil || !json.Valid(b) || bytes.ContainsAny(b, "\r\n") {
			t.Fatalf("%s: %v", b, err)
		}
		out.Write(append(b, '\n'))
	}
	const golden = "testdata/changes.jsonl"
	if *update {
		must(os.WriteFile(golden, out.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(out.String(), "\n") {
		if wants := strings.Split(string(want), "\n"); i >= len(wants) || line != wants[i] {
			t.Errorf("line %d is\n%s", i+1, line)
		}
	}
	if _, err := notify.MarshalChange(registry.Change{}, notify.Format{}); err == nil {
		t.Error("a change without a delta was written")
	}
}
