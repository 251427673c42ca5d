// Package figuretest checks plots.
package figuretest

import (
	"errors"
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"github.com/freshet/freshet/bench/figure"
)

// A text is one in the place where a picture shows it, in points.
type text struct {
	words string
	font  font.Font
	box   vg.Rectangle
}

// texts lays a plot out and returns all of its texts.
func texts(p *plot.Plot) (out []text, err error) {
	canvas := new(recorder.Canvas)
	figure.Layout(p, draw.NewCanvas(canvas, figure.Width, figure.Height))
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
			out = append(out, text{a.String, a.Font, vg.Rectangle{Min: low, Max: low.Add(size)}})
		case *recorder.Scale:
			return nil, errors.New("the canvas is scaled")
		}
	}
	return out, nil
}

// Texts returns the texts of a plot.
func Texts(p *plot.Plot) (words []string, err error) {
	list, err := texts(p)
	for _, t := range list {
		words = append(words, t.words)
	}
	return words, err
}

// Legible returns an error if a text of a plot covers another one or leaves the
// picture, or if there are two fonts.
func Legible(p *plot.Plot) error {
	list, err := texts(p)
	if err != nil {
		return err
	}
	for i, a := range list {
		if a.words == "" {
			continue
		}
		if a.box.Min.X < 0 || a.box.Min.Y < 0 || a.box.Max.X > figure.Width || a.box.Max.Y > figure.Height {
			return fmt.Errorf("%q leaves the picture: %v", a.words, a.box)
		}
		if a.font.Typeface != list[0].font.Typeface || a.font.Variant != list[0].font.Variant {
			return fmt.Errorf("%q is in %s, %q in %s", a.words, a.font.Name(), list[0].words, list[0].font.Name())
		}
		for _, b := range list[:i] {
			if a.box.Min.X < b.box.Max.X && b.box.Min.X < a.box.Max.X && a.box.Min.Y < b.box.Max.Y && b.box.Min.Y < a.box.Max.Y {
				return fmt.Errorf("%q covers %q", a.words, b.words)
			}
		}
	}
	return nil
}
