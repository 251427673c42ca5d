package figure_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/plotter"
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

// Lines with the same points are one line with one entry in the legend, and the strong
// line is the widest and drawn last. Labels never cover each other.
func TestLines(t *testing.T) {
	p := figure.New("Lines", "x", "y")
	l := figure.Lines{Strong: "hybrid"}
	for _, name := range []string{"cv", "hybrid", "rr", "cr:0", "dj", "sqrt"} {
		slope := 1.0
		if name == "hybrid" || name == "cv" {
			slope = 2
		}
		if name == "cv" {
			slope = 3
		}
		if err := l.Add(name, plotter.XYs{{X: 0, Y: 0}, {X: 1, Y: slope}}); err != nil {
			t.Fatal(err)
		}
	}
	l.AddTo(p)
	labels := &figure.Labels{}
	for i, name := range []string{"rr", "ljf:1", "ljf:0.5", "sjf:1", "sjf:0.5", "hybrid:d=1024", "ttl:32:half", "ttl:32:reset"} {
		labels.Points = append(labels.Points, plotter.XY{X: 0.5 + float64(i)*0.012, Y: 1.5 + float64(i%3)*0.01})
		labels.Texts = append(labels.Texts, name)
	}
	p.Add(labels)
	if err := figuretest.Legible(p); err != nil {
		t.Error(err)
	}
	words, err := figuretest.Texts(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cv", "hybrid", "rr, cr:0, dj, sqrt"} {
		if !slices.Contains(words, want) {
			t.Errorf("the legend has %q, not %q", words, want)
		}
	}
}

// Numbers are written as people write them: equal values have no deviation, and means and
// deviations have the same decimal places.
func TestNumbers(t *testing.T) {
	e := figure.Experiment{Name: "one", Title: "One", X: "x", Y: "y"}
	e.AddMean("same", 1, []float64{0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1})
	e.AddMean("same", 2, []float64{1 - 4e-14, 1, 1 + 4e-14})
	e.AddMean("large", 1, []float64{12_345, 12_346})
	e.AddMean("small", 1, []float64{0.012346, 0.022346})
	dir := t.TempDir()
	if err := figure.WriteExperiments(dir, "Numbers", []figure.Experiment{e}); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<td>0.1000 ± 0</td>", "<td>1 ± 0</td>", "<td>12346 ± 1</td>", "<td>0.01735 ± 0.00707</td>"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %s", want)
		}
	}
}
