package figure

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
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
	style := p.X.Tick.Label // the font of the plot; Layout draws the legend apart
	style.XAlign, style.YAlign, style.Font.Size = text.XLeft, text.YBottom, vg.Points(7)
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
		l.lead(&c, at[i], box)
		for n, line := range lines {
			c.FillText(style, vg.Point{X: box.Min.X, Y: box.Max.Y - style.Font.Size*1.15*vg.Length(n+1) + 2}, line)
		}
	}
}

// lead draws a line from a point to a label that is not beside it.
func (l *Labels) lead(c *draw.Canvas, at vg.Point, box vg.Rectangle) {
	if box.Min.Y <= at.Y && at.Y <= box.Max.Y {
		return
	}
	end := vg.Point{X: box.Max.X, Y: (box.Min.Y + box.Max.Y) / 2}
	if box.Min.X > at.X {
		end.X = box.Min.X
	}
	c.StrokeLine2(draw.LineStyle{Color: Palette[7], Width: vg.Points(0.4)}, at.X, at.Y, end.X, end.Y)
}

// place finds room for a box near a point: to its right or left, and as far above
// or below as necessary. Where there is no room it chooses what covers the fewest others.
func place(at vg.Point, width, height, gap vg.Length, within vg.Rectangle, taken []vg.Rectangle) (best vg.Rectangle) {
	const apart = vg.Length(3)
	fewest := math.MaxInt
	for n := 0; n < 320 && fewest > 0; n++ {
		shift := vg.Length((n/2+1)/2) * 4
		if n/2%2 == 1 {
			shift = -shift
		}
		low := vg.Point{X: at.X + gap, Y: at.Y - height/2 + shift}
		if n%2 == 1 {
			low.X = at.X - gap - width
		}
		box := vg.Rectangle{Min: low, Max: low.Add(vg.Point{X: width, Y: height})}
		covered := 0
		if box.Min.X < within.Min.X || box.Max.X > within.Max.X || box.Min.Y < within.Min.Y || box.Max.Y > within.Max.Y {
			covered = 1000
		}
		for _, o := range taken {
			if box.Min.X < o.Max.X+apart && o.Min.X < box.Max.X+apart && box.Min.Y < o.Max.Y && o.Min.Y < box.Max.Y {
				covered++
			}
		}
		if covered < fewest {
			best, fewest = box, covered
		}
	}
	return best
}

// wrap breaks a list of names into lines.
func wrap(names string) string {
	const longest = 24
	var b strings.Builder
	n := 0
	for i, word := range strings.Split(names, ", ") {
		if i > 0 {
			b.WriteByte(',')
			if n += len(word) + 2; n > longest {
				b.WriteByte('\n')
				n = len(word)
			} else {
				b.WriteByte(' ')
			}
		} else {
			n = len(word)
		}
		b.WriteString(word)
	}
	return b.String()
}
