package trace

import (
	"bytes"
	"strings"
	"testing"
)

// The generated trace has the published statistics: counts exactly, measures to the
// published precision.
func TestLongGenerateLikeKnuth2016(t *testing.T) {
	l := Knuth2016()
	for _, seed := range []uint64{1} {
		tr, err := Generate(t.Context(), l, seed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, s := range l.Compare(tr) {
			if !s.Holds() {
				t.Errorf("seed %d: %s: %g, published %g", seed, s.Name, s.Value, s.Target)
			}
		}
		if m := measure(tr, l.Burst); m.inBurst < 1.3 {
			t.Errorf("seed %d: in the burst there are %.2f times as many changes as elsewhere, want clearly more", seed, m.inBurst)
		}
		var b strings.Builder
		if err := l.WriteCheck(&b, tr); err != nil || strings.Contains(b.String(), "differs") || strings.Count(b.String(), "as published") != 14 {
			t.Errorf("seed %d: the check says\n%s", seed, b.String())
		}
	}
}

// small is a target small enough for the race detector.
func small() Target {
	return Target{
		Name: "small", Source: "these tests", Queries: 300, Forms: map[string]int{"ASK": 20, "SELECT": 280},
		Revisions: 200, Empty: 30, Changing: 40, Changes: 700, Once: 15, Twice: 6, Most: 150, Crowd: 12,
		Interval: 8, Deviation: 22, Total: [2]float64{200, 420}, Affected: 40, Burst: [2]int{60, 80},
	}
}

func TestGenerateIsReproducible(t *testing.T) {
	write := func(seed uint64) []byte {
		tr, err := Generate(t.Context(), small(), seed)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range small().Compare(tr)[:9] { // the counts, which are exact
			if !s.Holds() {
				t.Errorf("seed %d: %s: %g, want %g", seed, s.Name, s.Value, s.Target)
			}
		}
		var b bytes.Buffer
		if err := tr.Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	if !bytes.Equal(write(7), write(7)) {
		t.Error("the same seed gives another trace")
	}
	if bytes.Equal(write(7), write(8)) {
		t.Error("another seed gives the same trace")
	}
}
