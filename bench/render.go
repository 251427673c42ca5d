package bench

import (
	"bytes"
	"image/color"
	"math"
	"slices"
	"strings"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgpdf"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A figure is one plot with its caption.
type figure struct {
	name, caption string
	make          func() (*plot.Plot, error)
}

// A picture is a figure in every format: SVG for pages, PDF for print, PNG at
// pictureDPI for everything else.
type picture struct {
	figure
	svg, pdf, png []byte
}

const (
	figureWidth, figureHeight = 22 * vg.Centimeter, 12 * vg.Centimeter
	pictureDPI                = 192
)

// The same figures give the same bytes, so a PDF carries no time of its own.
func init() {
	fpdf.SetDefaultCatalogSort(true)
	fpdf.SetDefaultCreationDate(time.Unix(0, 0).UTC())
	fpdf.SetDefaultModificationDate(time.Unix(0, 0).UTC())
}

func (f figure) draw() (picture, error) {
	out := picture{figure: f}
	p, err := f.make()
	if err != nil {
		return out, err
	}
	image := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(figureWidth, figureHeight), vgimg.UseDPI(pictureDPI))}
	print := vgpdf.New(figureWidth, figureHeight)
	for _, format := range []struct {
		bytes  *[]byte
		file   vg.CanvasWriterTo
		canvas vg.Canvas
	}{
		{&out.svg, vgsvg.New(figureWidth, figureHeight), nil},
		{&out.png, image, nil},
		{&out.pdf, print, latin{print}},
	} {
		if format.canvas == nil {
			format.canvas = format.file
		}
		layout(p, draw.NewCanvas(format.canvas, figureWidth, figureHeight))
		var b bytes.Buffer
		if _, err := format.file.WriteTo(&b); err != nil {
			return out, err
		}
		*format.bytes = b.Bytes()
	}
	return out, nil
}

// latin spells Greek letters out, because the PDF's fonts are encoded as
// Windows-1252.
type latin struct{ vg.Canvas }

var greek = strings.NewReplacer("α", "alpha", "β", "beta", "λ", "lambda", "π", "pi", "σ", "sigma")

func (c latin) FillString(f font.Face, at vg.Point, s string) {
	c.Canvas.FillString(f, at, greek.Replace(s))
}

// layout draws a plot with its legend to the right of it, where the legend
// covers no data. It names the axes itself: the library reserves room for the
// names of logarithmic axes in the wrong place.
func layout(p *plot.Plot, all draw.Canvas) {
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

// palette holds colours that differ also for the colour-blind (Okabe and Ito).
var palette = []color.Color{
	color.RGBA{0x00, 0x00, 0x00, 0xff}, color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff},
	color.RGBA{0x00, 0x9e, 0x73, 0xff}, color.RGBA{0xd5, 0x5e, 0x00, 0xff}, color.RGBA{0x00, 0x72, 0xb2, 0xff},
	color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0x99, 0x99, 0x99, 0xff}, color.RGBA{0xf0, 0xe4, 0x42, 0xff},
}

// pale is the colour of the palette that fills an area, but is no line on white.
const pale = 8

func newPlot(title, x, y string) *plot.Plot {
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

// lines adds lines to a plot. Lines through the same points look the same, so
// that each stays visible: their names share one line.
type lines struct {
	p     *plot.Plot
	drawn []*plotter.Line
}

func (l *lines) add(name string, points plotter.XYs) error {
	if len(points) == 0 {
		return nil
	}
	k := slices.IndexFunc(l.drawn, func(o *plotter.Line) bool { return slices.Equal(o.XYs, points) })
	if k >= 0 {
		l.p.Legend.Add(name, l.drawn[k])
		return nil
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	style(line, len(l.drawn))
	l.drawn = append(l.drawn, line)
	l.p.Add(line)
	if name != "" {
		l.p.Legend.Add(name, line)
	}
	return nil
}

// style gives the n-th line of a plot its colour and, from the fifth on, dashes:
// lines differ without colours too.
func style(l *plotter.Line, n int) {
	l.Color, l.Width = palette[n%pale], vg.Points(1.3)
	if n >= 4 {
		l.Dashes = [][]vg.Length{{vg.Points(5), vg.Points(2)}, {vg.Points(1.5), vg.Points(1.5)}, {vg.Points(7), vg.Points(2), vg.Points(1.5), vg.Points(2)}}[n%3]
	}
}

func logarithmic(a *plot.Axis) {
	a.Scale = plot.LogScale{}
	a.Tick.Marker = decades{}
}

// padded gives logarithmic axes a range that is not empty.
func padded(p *plot.Plot) *plot.Plot {
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
