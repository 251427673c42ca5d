package ui

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Plots are SVG with x in the units of a stretched viewBox and y in pixels. They fill
// any width while their text keeps its size. This file computes paths; the templates
// write the elements and escape the text.

// A drawing collects SVG path commands with two decimals at most.
type drawing struct{ strings.Builder }

func (p *drawing) num(x float64) {
	s := strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64)
	if strings.HasPrefix(s, "0.") {
		s = s[1:]
	}
	p.WriteString(s)
}

// bar adds a rectangle with a corner at (x, y).
func (p *drawing) bar(x, y, w, h float64) {
	if h <= 0 || w <= 0 {
		return
	}
	p.WriteByte('M')
	p.num(x)
	p.WriteByte(' ')
	p.num(y)
	p.WriteByte('h')
	p.num(w)
	p.WriteByte('v')
	p.num(h)
	p.WriteString("h-")
	p.num(w)
	p.WriteByte('z')
}

func (p *drawing) to(cmd byte, x, y float64) {
	p.WriteByte(cmd)
	p.num(x)
	p.WriteByte(' ')
	p.num(y)
}

// A spark is a trend line without axes; a dot marks its last value.
type spark struct {
	Line, Area, End string   // paths in a viewBox of 100 × 22
	Low, High       string   // the smallest and the largest value
	Values, Times   []string // of each point; Times may be empty
	Covers          time.Duration
}

// sparkline draws values from left to right; it needs at least two. The scale goes from zero to
// full, or to the largest value.
func sparkline(values []float64, full float64, write func(float64) string) *spark {
	if len(values) < 2 {
		return nil
	}
	low, high := slices.Min(values), slices.Max(values)
	const top, bottom = 3.0, 20.0
	scale := max(full, high)
	y := func(v float64) float64 {
		if scale == 0 {
			return bottom
		}
		return bottom - v/scale*(bottom-top)
	}
	var line, area, end drawing
	for i, v := range values {
		cmd := byte('L')
		if i == 0 {
			cmd = 'M'
		}
		line.to(cmd, float64(i)/float64(len(values)-1)*100, y(v))
	}
	area.WriteString(line.String() + "L100 22L0 22z")
	end.to('M', 100, y(values[len(values)-1]))
	end.WriteString("h0")
	s := &spark{Line: line.String(), Area: area.String(), End: end.String(), Low: write(low), High: write(high)}
	for _, x := range values {
		s.Values = append(s.Values, write(x))
	}
	return s
}

// A levelGauge is the small gauge in the navigation: the budget use of the last slot.
type levelGauge struct {
	Y, Height       float64
	Failing, Paused bool
}

func (l *levelGauge) fill(part float64) {
	part = max(0, min(1, part))
	l.Height = math.Round(part*200) / 10
	l.Y = 20 - l.Height
}

// A meter is a bar of 100 × 8 filled to a fraction.
func meter(part float64) string {
	return strconv.FormatFloat(math.Round(max(0, min(1, part))*1000)/10, 'f', -1, 64)
}

type label struct{ X, Anchor, Text string }
