// Package figure draws plots as SVG, and the figures of experiments: curves over a
// parameter, with their tables.
package figure

import (
	"bytes"
	"encoding/json"
	"html/template"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A Figure is one plot with its caption.
type Figure struct {
	Name, Caption string
	Make          func() (*plot.Plot, error)
}

// A Picture is a drawn figure.
type Picture struct {
	Figure
	svg []byte
}

// Width and Height are the size of a picture.
const Width, Height = 22 * vg.Centimeter, 12 * vg.Centimeter

// Draw draws a figure.
func (f Figure) Draw() (Picture, error) {
	out := Picture{Figure: f}
	p, err := f.Make()
	if err != nil {
		return out, err
	}
	canvas := vgsvg.New(Width, Height)
	Layout(p, draw.NewCanvas(canvas, Width, Height))
	var b bytes.Buffer
	_, err = canvas.WriteTo(&b)
	out.svg = bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,sans-serif;"))
	return out, err
}

// AddTo adds a picture's file, by its name.
func (p Picture) AddTo(files map[string][]byte) { files[p.Name+".svg"] = p.svg }

var svgIDs = regexp.MustCompile(`(id="|url\(#|xlink:href="#|href="#)`)

// Inline returns the n-th plot of a page for its HTML: without the XML header, and
// with ids that no other plot has.
func (p Picture) Inline(n int) template.HTML {
	text := string(p.svg)
	if i := strings.Index(text, "<svg"); i > 0 {
		text = text[i:]
	}
	return template.HTML(svgIDs.ReplaceAllString(text, "${1}f"+strconv.Itoa(n)+"-"))
}

// WriteFiles writes files into a directory, which it creates.
func WriteFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// WriteLines writes values as JSON, one a line.
func WriteLines[T any](w io.Writer, list []T) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for _, x := range list {
		if err := e.Encode(x); err != nil {
			return err
		}
	}
	return nil
}

// Layout draws a plot with its legend to the right, where the legend covers no
// data. It draws the names of the axes too, because the library reserves their
// room on logarithmic axes in the wrong place.
func Layout(p *plot.Plot, all draw.Canvas) {
	const margin = vg.Length(8)
	x, y, legend := p.X.Label, p.Y.Label, p.Legend
	defer func() { p.X.Label, p.Y.Label, p.Legend = x, y, legend }()
	p.X.Label.Text, p.Y.Label.Text, p.Legend = "", "", plot.NewLegend()

	all.SetColor(p.BackgroundColor)
	all.Fill(all.Rectangle.Path())
	inner := draw.Crop(all, margin/2, -margin, margin/2, -margin/2)
	if size := legend.Rectangle(all).Size(); size.Y > 0 {
		legend.Top, legend.Left = true, true
		side := draw.Crop(all, all.Max.X-all.Min.X-size.X-2*margin, -margin/2, 0, -3*margin)
		legend.Draw(side)
		inner.Max.X = side.Min.X - margin
	}
	if y.Text != "" {
		inner.Min.X += y.TextStyle.Height(y.Text) + margin/2
	}
	if x.Text != "" {
		inner.Min.Y += x.TextStyle.Height(x.Text) + margin/2
	}
	p.Draw(inner)
	data := p.DataCanvas(inner)
	centre := data.Center()
	x.TextStyle.XAlign, x.TextStyle.YAlign = text.XCenter, text.YBottom
	all.FillText(x.TextStyle, vg.Point{X: centre.X, Y: all.Min.Y + margin/2}, x.Text)
	y.TextStyle.XAlign, y.TextStyle.YAlign, y.TextStyle.Rotation = text.XCenter, text.YTop, math.Pi/2
	all.FillText(y.TextStyle, vg.Point{X: all.Min.X + margin/2, Y: centre.Y}, y.Text)
}

// Palette holds the colours of Okabe and Ito, which colour-blind readers can tell
// apart.
var Palette = []color.Color{
	color.RGBA{0x00, 0x00, 0x00, 0xff}, color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff},
	color.RGBA{0x00, 0x9e, 0x73, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff}, color.RGBA{0x00, 0x72, 0xb2, 0xff},
	color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0x99, 0x99, 0x99, 0xff}, color.RGBA{0xf0, 0xe4, 0x42, 0xff},
}

// pale is the colour of the palette that suits areas, but no lines on white.
const pale = 8

// New returns an empty plot with a grid.
func New(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(6)
	p.Legend.Padding = vg.Points(2)
	p.X.Tick.Marker, p.Y.Tick.Marker = evenTicks{}, evenTicks{}
	for _, f := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		f.Font.Variant = "Sans"
	}
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.Add(plotter.NewGrid())
	return p
}

// Lines are the lines of a plot. Lines with the same points are one line with one entry
// in the legend, which has the names of all.
type Lines struct {
	Strong string // the name of the widest line
	drawn  []*namedLine
}

type namedLine struct {
	names []string
	*plotter.Line
}

// Add adds a line. A line without a name is not in the legend.
func (l *Lines) Add(name string, points plotter.XYs) error {
	if len(points) == 0 {
		return nil
	}
	k := slices.IndexFunc(l.drawn, func(o *namedLine) bool { return slices.Equal(o.XYs, points) })
	if k >= 0 {
		l.drawn[k].names = append(l.drawn[k].names, name)
		return nil
	}
	line, err := plotter.NewLine(points)
	l.drawn = append(l.drawn, &namedLine{[]string{name}, line})
	return err
}

// AddTo adds the lines to a plot, the strong one above the others.
func (l *Lines) AddTo(p *plot.Plot) {
	strong := func(o *namedLine) bool { return l.Strong != "" && slices.Contains(o.names, l.Strong) }
	for n, line := range l.drawn {
		style(line.Line, n, strong(line))
		if name := wrap(strings.Join(line.names, ", ")); name != "" {
			describe(p, name, line)
		}
		if !strong(line) {
			p.Add(line)
		}
	}
	for _, line := range l.drawn {
		if strong(line) {
			p.Add(line)
		}
	}
}

// describe adds lines of names to the legend. Those after the first are entries without a
// picture, because all entries of a legend are as high as the highest one.
func describe(p *plot.Plot, names string, pictures ...plot.Thumbnailer) {
	for i, line := range strings.Split(names, "\n") {
		if i > 0 {
			pictures = nil
		}
		p.Legend.Add(line, pictures...)
	}
}

// style gives the n-th line of a plot its colour and, from the fifth on, dashes, so that
// lines differ without colours too. The strong line is black, full and twice as wide.
func style(l *plotter.Line, n int, strong bool) {
	if strong {
		l.Color, l.Width = Palette[0], vg.Points(2.6)
		return
	}
	l.Color, l.Width = Palette[1+n%(pale-1)], vg.Points(1.3)
	if n >= 4 {
		l.Dashes = [][]vg.Length{{vg.Points(5), vg.Points(2)}, {vg.Points(1.5), vg.Points(1.5)}, {vg.Points(7), vg.Points(2),
			vg.Points(1.5), vg.Points(2)}}[n%3]
	}
}

// Logarithmic makes an axis logarithmic.
func Logarithmic(a *plot.Axis) {
	a.Scale = plot.LogScale{}
	a.Tick.Marker = decades{}
}

// Padded gives the logarithmic axes of p a range that is not empty, and returns p.
func Padded(p *plot.Plot) *plot.Plot {
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		if math.IsInf(a.Min, 0) || a.Min <= 0 {
			a.Min = 1
		}
		if math.IsInf(a.Max, 0) || a.Max <= a.Min {
			a.Max = 10 * a.Min
		}
	}
	return p
}
