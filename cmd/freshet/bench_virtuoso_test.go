//go:build virtuoso

package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/freshet/freshet/endpoint/virtuosotest"
)

// Recorded on Virtuoso, interrupted half-way and taken up again, a history has
// the changes that it has on the embedded engine, in the same revisions.
func TestBenchRecordVirtuoso(t *testing.T) {
	needEngine(t)
	args := writeHistory(t, 8)
	dir := t.TempDir()
	plain, there := filepath.Join(dir, "plain.trace"), filepath.Join(dir, "virtuoso.trace")
	if code, _, stderr := cli(t, nil, "", append([]string{"bench", "record", "--out", plain}, args...)...); code != exitOK {
		t.Fatal(stderr)
	}
	v := virtuosotest.Start(t, virtuosotest.Options{})
	more := append([]string{"bench", "record", "--out", there, "--endpoint", v.URL, "--update-param", "query", "--graph", graph}, args...)
	if code, _, stderr := cli(t, nil, "", more...); code != exitOK {
		t.Fatal(stderr)
	}
	// As if it had been killed while the last frames were written.
	b, err := os.ReadFile(there)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(there+".part", b[:len(b)-20], 0o600); err != nil {
		t.Fatal(err)
	}
	whole := loadVersions(t, there)
	if err := os.Remove(there); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := cli(t, nil, "", more...); code != exitOK {
		t.Fatal(stderr)
	}
	again, want := loadVersions(t, there), loadVersions(t, plain)
	if g, w := versionsOf(again), versionsOf(whole); g != w {
		t.Errorf("taken up again it has\n%s\nwant\n%s", g, w)
	}
	for i, s := range want.Series {
		got := whole.Series[i]
		if len(got.Versions) != len(s.Versions) {
			t.Fatalf("query %d has %d versions, on the embedded engine %d", s.Query, len(got.Versions), len(s.Versions))
		}
		for k, w := range s.Versions {
			if g := got.Versions[k]; g.Rev != w.Rev || len(g.Rows) != len(w.Rows) {
				t.Errorf("query %d, version %d: revision %d with %d rows, on the embedded engine %d with %d", s.Query, k, g.Rev, len(g.Rows), w.Rev, len(w.Rows))
			}
		}
	}
	if len(whole.Gaps) > 0 {
		t.Errorf("gaps: %v", whole.Gaps)
	}
}
