package figure_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/freshet/freshet/bench/figure"
	"github.com/freshet/freshet/bench/figure/figuretest"
)

// No text of an experiment's plot covers another, whatever the curves, ranges
// and scales are.
func TestExperimentsAreLegible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := figure.Experiment{
			Name: "any", Title: "Completeness against everything there is", X: "some parameter (x)", Y: "captured share",
			LogX: rapid.Bool().Draw(t, "LogX"), LogY: rapid.Bool().Draw(t, "LogY"),
		}
		n := rapid.IntRange(1, 40).Draw(t, "points")
		from := math.Pow(10, rapid.Float64Range(-2, 4).Draw(t, "log10 of the first x"))
		step := math.Pow(10, rapid.Float64Range(-2, 4).Draw(t, "log10 of the step"))
		top := math.Pow(10, rapid.Float64Range(-2, 6).Draw(t, "log10 of the largest y"))
		for c := range rapid.IntRange(1, 12).Draw(t, "curves") {
			for i := range n {
				e.Add(fmt.Sprintf("overwrite, r = 0, FPN = 0.%d", c), from+float64(i)*step, top*rapid.Float64Range(0.01, 1).Draw(t, "y"))
			}
		}
		p, err := e.Plot()
		if err != nil {
			t.Fatal(err)
		}
		if err := figuretest.Legible(p); err != nil {
			t.Fatal(err)
		}
	})
}
