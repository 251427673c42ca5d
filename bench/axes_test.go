package bench

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
	"pgregory.net/rapid"
)

// marks are the labels that an axis shows.
func marks(k plot.Ticker, low, high float64) (out []string) {
	for _, x := range k.Ticks(low, high) {
		if x.Label != "" {
			out = append(out, x.Label)
		}
	}
	return out
}

// Axes are marked at round numbers, three at least.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		axis      plot.Ticker
		low, high float64
		want      []string
	}{
		{evenTicks{}, 1, 2208, []string{"500", "1,000", "1,500", "2,000"}},
		{evenTicks{}, 0, 32, []string{"0", "5", "10", "15", "20", "25", "30"}},
		{evenTicks{}, 0, 0.7, []string{"0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"}},
		{evenTicks{}, 0, 0.9, []string{"0", "0.2", "0.4", "0.6", "0.8"}},
		{evenTicks{}, 0, 850, []string{"0", "200", "400", "600", "800"}},
		{decades{}, 15_000, 900_000, []string{"20,000", "50,000", "100,000", "200,000", "500,000"}},
		{decades{}, 1, 2208, []string{"1", "10", "100", "1,000"}},
	} {
		if d := cmp.Diff(c.want, marks(c.axis, c.low, c.high)); d != "" {
			t.Errorf("%g to %g: -want +got\n%s", c.low, c.high, d)
		}
	}
}

// An axis has three to nine labels, whatever its range.
func TestTickCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(-1e6, 1e6).Draw(t, "low")
		width := math.Pow(10, rapid.Float64Range(-3, 7).Draw(t, "log10 of the width"))
		if n := len(marks(evenTicks{}, low, low+width)); n < 3 || n > 9 {
			t.Fatalf("%d labels between %g and %g", n, low, low+width)
		}
	})
}

// A written is a text where a picture shows it, in points.
type written struct {
	text string
	box  vg.Rectangle
}

// texts lays a plot out and finds all of its texts.
func texts(t interface{ Fatal(...any) }, p *plot.Plot) (out []written) {
	canvas := new(recorder.Canvas)
	layout(p, draw.NewCanvas(canvas, figureWidth, figureHeight))
	type frame struct {
		origin vg.Point
		turned bool // by a quarter, as the names of vertical axes are
	}
	stack := []frame{{}}
	cache := font.DefaultCache
	for _, a := range canvas.Actions {
		at := &stack[len(stack)-1]
		switch a := a.(type) {
		case *recorder.Push:
			stack = append(stack, *at)
		case *recorder.Pop:
			stack = stack[:len(stack)-1]
		case *recorder.Translate:
			at.origin = at.origin.Add(a.Point)
		case *recorder.Rotate:
			at.turned = !at.turned
		case *recorder.FillString:
			face := cache.Lookup(a.Font, a.Size)
			size := vg.Point{X: face.Width(a.String), Y: a.Size * 0.7} // no descenders: a box of capitals and digits
			low := at.origin.Add(a.Point)
			if at.turned {
				low = at.origin.Add(vg.Point{X: -a.Point.Y - size.Y, Y: a.Point.X})
				size.X, size.Y = size.Y, size.X
			}
			out = append(out, written{a.String, vg.Rectangle{Min: low, Max: low.Add(size)}})
		case *recorder.Scale:
			t.Fatal("texts knows no scaled canvas")
		}
	}
	return out
}

// legible says what is wrong with the texts of a plot: one covers another, or
// leaves the picture.
func legible(t interface{ Fatal(...any) }, p *plot.Plot) error {
	list := texts(t, p)
	for i, a := range list {
		if a.text == "" {
			continue
		}
		if a.box.Min.X < 0 || a.box.Min.Y < 0 || a.box.Max.X > figureWidth || a.box.Max.Y > figureHeight {
			return fmt.Errorf("%q leaves the picture: %v", a.text, a.box)
		}
		for _, b := range list[:i] {
			if a.box.Min.X < b.box.Max.X && b.box.Min.X < a.box.Max.X && a.box.Min.Y < b.box.Max.Y && b.box.Min.Y < a.box.Max.Y {
				return fmt.Errorf("%q covers %q", a.text, b.text)
			}
		}
	}
	return nil
}

// No text of an experiment's plot covers another, whatever the curves, ranges
// and scales are.
func TestExperimentsAreLegible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := Experiment{
			Name: "any", Title: "Completeness against everything there is", X: "some parameter (x)", Y: "captured share",
			LogX: rapid.Bool().Draw(t, "LogX"), LogY: rapid.Bool().Draw(t, "LogY"),
		}
		n := rapid.IntRange(1, 40).Draw(t, "points")
		from := math.Pow(10, rapid.Float64Range(-2, 4).Draw(t, "log10 of the first x"))
		step := math.Pow(10, rapid.Float64Range(-2, 4).Draw(t, "log10 of the step"))
		top := math.Pow(10, rapid.Float64Range(-2, 6).Draw(t, "log10 of the largest y"))
		for c := range rapid.IntRange(1, 12).Draw(t, "curves") {
			for i := range n {
				e.add(fmt.Sprintf("overwrite, r = 0, FPN = 0.%d", c), from+float64(i)*step, top*rapid.Float64Range(0.01, 1).Draw(t, "y"))
			}
		}
		p, err := e.plot()
		if err != nil {
			t.Fatal(err)
		}
		if err := legible(t, p); err != nil {
			t.Fatal(err)
		}
	})
}
