package main

import "testing"

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
