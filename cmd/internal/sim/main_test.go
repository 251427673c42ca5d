package main

import (
	"slices"
	"strings"
	"testing"
)

// What makes no sense is refused before anything is built, with what is allowed.
func TestParse(t *testing.T) {
	for args, want := range map[string]string{
		"13 -seeds 0":                            `the argument "13" belongs to no flag: give a seed with -seed`,
		"-seeds -5":                              "-seeds is -5: give 0 or more",
		"-jobs 0":                                "-jobs is 0: give 1 or more",
		"-jobs -1 -bugs all":                     "-jobs is -1: give 1 or more",
		"-seed 0":                                "-seed is 0: seeds begin with 1",
		"-from 0":                                "-from is 0: seeds begin with 1",
		"-shrink":                                "-shrink needs the seed of a wrong world: give it with -seed",
		"-bugs gab":                              `-bugs: there is no bug "gab": give all, none or some of age-ahead, `,
		"-without z9":                            `-without: "z9" is no part of a world, such as f0: a part is a letter and `,
		"-seed 7 -without f99":                   "-without: the world of seed 7 has no part f99, but c1 to c",
		"-seed 7 -without f0,c9999":              "-without: the world of seed 7 has no part c9999, but c1 to c",
		"":                                       "",
		"-seeds 0":                               "",
		"-without p0,f99":                        "",
		"-seed 7 -shrink -bugs none":             "",
		"-seed 7 -without c60,q1 -bugs gap,debt": "",
	} {
		c, err := parse(strings.Fields(args))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
		if args == "-seed 7 -without c60,q1 -bugs gap,debt" && (err != nil || len(c.bugs) != 2 || c.seed != 7) {
			t.Errorf("%s: %+v", args, c)
		}
	}
}

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
