package main

import (
	"slices"
	"testing"
)

// The command that runs a world again names the planted bug and what is left out.
func TestAgain(t *testing.T) {
	for want, c := range map[string]command{
		"go run ./cmd/internal/sim -seed 7":                          {},
		"go run ./cmd/internal/sim -seed 7 -without f0,w2":           {without: "f0,w2"},
		"go run ./cmd/internal/sim -seed 7 -bugs gap -without f0,w2": {planted: "gap", without: "f0,w2"},
	} {
		if got := c.again(7); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Worlds that were wrong once are run with each list that begins with the first one.
func TestSeeds(t *testing.T) {
	first := command{from: 1, seeds: 50}
	if got := first.list(); len(got) <= 50 || got[50] != 181 {
		t.Errorf("50 seeds: %v", got)
	}
	for _, c := range []command{{from: 200, seeds: 3}, {from: 1, seeds: 3, seed: 9}} {
		if got := c.list(); len(got) > 3 || c.seed != 0 && got[0] != 9 {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// The world that showed a bug before is tried first, and each world once.
func TestOrder(t *testing.T) {
	n := slices.IndexFunc(bugs, func(b bug) bool { return b.name == "keep-fewer" })
	f := finder{command: &command{from: 2, seeds: 40}}
	if got := f.order(n); len(got) != 40 || got[0] != 32 || got[1] != 2 || got[31] != 33 {
		t.Errorf("%v", got)
	}
	if f.seed = 7; !slices.Equal(f.order(n), []uint64{7}) {
		t.Errorf("with one seed: %v", f.order(n))
	}
	for name := range showed {
		if !slices.ContainsFunc(bugs, func(b bug) bool { return b.name == name }) {
			t.Errorf("there is no bug %s", name)
		}
	}
}
