package figure

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// evenTicks puts three to nine labels at multiples of 1, 2 or 5 times a power of
// ten.
type evenTicks struct{}

// Ticks implements plot.Ticker.
func (evenTicks) Ticks(low, high float64) (out []plot.Tick) {
	width := max(high-low, 1e-9)
	step := math.Pow10(int(math.Floor(math.Log10(width / 10))))
	for _, f := range []float64{1, 2, 5, 10, 20} { // width / step is below 100
		if width/(f*step) <= 8 || f == 20 {
			step *= f
			break
		}
	}
	for n := math.Ceil(low / step); n*step <= high+step/1e6; n++ {
		out = append(out, plot.Tick{Value: n * step, Label: label(n * step)})
	}
	return out
}

// decades puts the ticks of a logarithmic axis at powers of ten. A short axis has
// more labels between them, so that there are at least three.
type decades struct{}

// Ticks implements plot.Ticker.
func (decades) Ticks(low, high float64) (out []plot.Tick) {
	if low <= 0 {
		return nil
	}
	wide := math.Log10(high/low) >= 3
	for e := math.Floor(math.Log10(low)); math.Pow(10, e) <= high; e++ {
		for d := 1.0; d < 10; d++ {
			v := d * math.Pow(10, e)
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if d == 1 || !wide && (d == 2 || d == 5) {
				t.Label = label(v)
			}
			out = append(out, t)
		}
	}
	return out
}

func label(v float64) string {
	if r := math.Round(v); math.Abs(v-r) < 1e-9*max(1, math.Abs(v)) {
		return Thousands(int(r))
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Thousands writes a count with commas.
func Thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Labels writes names beside points so that no name covers another one. Points in
// the same place share one label.
type Labels struct {
	Points plotter.XYs
	Texts  []string
	Others plotter.XYs // further points that no label may cover
}

// Plot implements plot.Plotter.
func (l *Labels) Plot(c draw.Canvas, p *plot.Plot) {
	const same, gap = vg.Length(2), vg.Length(5)
	x, y := p.Transforms(&c)
	style := p.Legend.TextStyle
	style.Font.Size = vg.Points(7)
	var at []vg.Point
	var names []string
	var taken []vg.Rectangle
	for i, xy := range l.Points {
		here := vg.Point{X: x(xy.X), Y: y(xy.Y)}
		k := slices.IndexFunc(at, func(o vg.Point) bool { return math.Hypot(float64(o.X-here.X), float64(o.Y-here.Y)) < float64(same) })
		if k >= 0 {
			names[k] += ", " + l.Texts[i]
			continue
		}
		at, names = append(at, here), append(names, l.Texts[i])
		taken = append(taken, vg.Rectangle{Min: here.Sub(vg.Point{X: 3, Y: 3}), Max: here.Add(vg.Point{X: 3, Y: 3})})
	}
	for _, xy := range l.Others {
		o := vg.Point{X: x(xy.X), Y: y(xy.Y)}
		taken = append(taken, vg.Rectangle{Min: o.Sub(vg.Point{X: 3, Y: 3}), Max: o.Add(vg.Point{X: 3, Y: 3})})
	}
	for i, name := range names {
		lines := strings.Split(wrap(name), "\n")
		height := style.Font.Size * 1.15 * vg.Length(len(lines))
		width := vg.Length(0)
		for _, line := range lines {
			width = max(width, style.Width(line))
		}
		box := place(at[i], width, height, gap, c.Rectangle, taken)
		taken = append(taken, box)
		for n, line := range lines {
			c.FillText(style, vg.Point{X: box.Min.X, Y: box.Max.Y - style.Font.Size*1.15*vg.Length(n+1) + 2}, line)
		}
	}
}

// place finds room for a box near a point: to its right or left, and as far above
// or below as necessary.
func place(at vg.Point, width, height, gap vg.Length, within vg.Rectangle, taken []vg.Rectangle) vg.Rectangle {
	var box vg.Rectangle
	for n := range 160 {
		shift := vg.Length((n/2+1)/2) * 5
		if n/2%2 == 1 {
			shift = -shift
		}
		low := vg.Point{X: at.X + gap, Y: at.Y - height/2 + shift}
		if n%2 == 1 {
			low.X = at.X - gap - width
		}
		box = vg.Rectangle{Min: low, Max: low.Add(vg.Point{X: width, Y: height})}
		inside := box.Min.X >= within.Min.X && box.Max.X <= within.Max.X && box.Min.Y >= within.Min.Y && box.Max.Y <= within.Max.Y
		if inside && !slices.ContainsFunc(taken, func(o vg.Rectangle) bool {
			return box.Min.X < o.Max.X && o.Min.X < box.Max.X && box.Min.Y < o.Max.Y && o.Min.Y < box.Max.Y
		}) {
			break
		}
	}
	return box
}

// wrap breaks a list of names into lines.
func wrap(names string) string {
	const longest = 24
	var b strings.Builder
	n := 0
	for i, word := range strings.Split(names, ", ") {
		if i > 0 {
			b.WriteString(", ")
			if n += len(word) + 2; n > longest {
				b.WriteByte('\n')
				n = len(word)
			}
		} else {
			n = len(word)
		}
		b.WriteString(word)
	}
	return b.String()
}
