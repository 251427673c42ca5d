package bench

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"html/template"
	"image/color"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// An Experiment repeats one figure of a paper: curves over a parameter.
type Experiment struct {
	Name   string  `json:"name"`
	Title  string  `json:"title"`
	Source string  `json:"source"` // the figure or table it is after
	Note   string  `json:"note"`   // what was run, and what it shows
	X      string  `json:"x"`
	Y      string  `json:"y"`
	LogX   bool    `json:"-"`
	LogY   bool    `json:"-"`
	Curves []Curve `json:"curves"`
	// Printed are the values that the paper's text gives, beside ours.
	Printed []Printed `json:"printed,omitempty"`
}

// A Curve has one y for each x.
type Curve struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
	// Deviations are the standard deviations over the seeds, one for each point;
	// nil where there is one seed, or a point is no mean.
	Deviations []float64 `json:"deviations,omitempty"`
	Dots       bool      `json:"-"` // not joined by a line
}

// Printed is a value printed in a paper, and the value measured here.
type Printed struct {
	What  string `json:"what"`
	Paper string `json:"paper"`
	Ours  string `json:"ours"`
}

// at finds the y of an x.
func (c *Curve) at(x float64) (float64, bool) {
	if k := c.index(x); k >= 0 {
		return c.Points[k][1], true
	}
	return 0, false
}

// index finds the point of an x, -1 where there is none.
func (c *Curve) index(x float64) int {
	return slices.IndexFunc(c.Points, func(p [2]float64) bool { return p[0] == x })
}

// curve finds or adds one.
func (e *Experiment) curve(name string) *Curve {
	i := slices.IndexFunc(e.Curves, func(c Curve) bool { return c.Name == name })
	if i < 0 {
		i = len(e.Curves)
		e.Curves = append(e.Curves, Curve{Name: name})
	}
	return &e.Curves[i]
}

// add adds a point to the curve of a name.
func (e *Experiment) add(name string, x, y float64) {
	c := e.curve(name)
	c.Points = append(c.Points, [2]float64{x, y})
}

// addMean adds the mean of what several seeds gave, with its deviation.
func (e *Experiment) addMean(name string, x float64, seeds []float64) {
	mean, deviation := meanDeviation(seeds)
	e.add(name, x, mean)
	if len(seeds) > 1 {
		c := e.curve(name)
		c.Deviations = append(c.Deviations, deviation)
	}
}

// meanDeviation is the mean of a sample and its standard deviation, 0 for one value.
func meanDeviation(sample []float64) (mean, deviation float64) {
	n := float64(len(sample))
	for _, x := range sample {
		mean += x / n
	}
	for _, x := range sample {
		deviation += (x - mean) * (x - mean) / max(1, n-1)
	}
	return mean, math.Sqrt(deviation)
}

// y is the y of a curve at an x, NaN where there is none.
func (e *Experiment) y(name string, x float64) float64 {
	if y, ok := e.curve(name).at(x); ok {
		return y
	}
	return math.NaN()
}

// print adds a value that the paper prints.
func (e *Experiment) print(what, paper, format string, ours ...any) {
	e.Printed = append(e.Printed, Printed{what, paper, fmt.Sprintf(format, ours...)})
}

func (e *Experiment) plot() (*plot.Plot, error) {
	p := newPlot(e.Title, e.X, e.Y)
	if e.LogX {
		logarithmic(&p.X)
	}
	if e.LogY {
		logarithmic(&p.Y)
	}
	for i, c := range e.Curves {
		points := make(plotter.XYs, len(c.Points))
		for k, at := range c.Points {
			points[k] = plotter.XY{X: at[0], Y: at[1]}
		}
		if len(points) == 0 {
			continue
		}
		dots, err := plotter.NewScatter(points)
		if err != nil {
			return nil, err
		}
		dots.Shape, dots.Color, dots.Radius = shapes[i%len(shapes)], palette[i%len(palette)], vg.Points(max(2, 4.5-0.4*float64(i))) // those below stay visible
		p.Add(dots)
		if err := c.bars(p, palette[i%len(palette)]); err != nil {
			return nil, err
		}
		if c.Dots || len(points) == 1 {
			p.Legend.Add(c.Name, dots)
			continue
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		line.Color, line.Width = palette[i%len(palette)], vg.Points(1.3)
		if i >= len(palette) {
			line.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
		}
		p.Add(line)
		p.Legend.Add(c.Name, line, dots)
	}
	e.axes(p)
	return p, nil
}

// bars draws the deviations of a curve.
func (c *Curve) bars(p *plot.Plot, colour color.Color) error {
	if len(c.Deviations) != len(c.Points) {
		return nil
	}
	values := struct {
		plotter.XYs
		plotter.YErrors
	}{}
	for k, at := range c.Points {
		values.XYs = append(values.XYs, plotter.XY{X: at[0], Y: at[1]})
		values.YErrors = append(values.YErrors, struct{ Low, High float64 }{c.Deviations[k], c.Deviations[k]})
	}
	b, err := plotter.NewYErrorBars(values)
	if err != nil {
		return err
	}
	b.Color, b.Width, b.CapWidth = colour, vg.Points(0.7), vg.Points(4)
	p.Add(b)
	return nil
}

// axes gives no axis an empty range, and labels the values of x where they are few.
func (e *Experiment) axes(p *plot.Plot) {
	if e.LogX || e.LogY {
		padded(p)
	}
	if xs := e.xs(); len(xs) <= 12 {
		p.X.Tick.Marker = plot.ConstantTicks(ticks(xs, e.LogX))
	}
	if !e.LogY {
		p.Y.Min = min(0, p.Y.Min)
		p.Y.Max += max(1e-3, p.Y.Max-p.Y.Min) * 0.05
	}
}

// shapes distinguish curves if colours do not suffice.
var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{},
}

// xs are those of all curves, ascending.
func (e *Experiment) xs() (xs []float64) {
	for _, c := range e.Curves {
		for _, p := range c.Points {
			xs = append(xs, p[0])
		}
	}
	slices.Sort(xs)
	return slices.Compact(xs)
}

// ticks marks each x and labels those that have room: on an axis as wide as the
// picture, a character takes about a hundredth of it.
func ticks(xs []float64, logarithmic bool) (out []plot.Tick) {
	at := func(x float64) float64 { return x }
	if logarithmic {
		at = math.Log
	}
	low, width := at(xs[0]), max(1e-9, at(xs[len(xs)-1])-at(xs[0]))
	end := math.Inf(-1) // of the last label
	for _, x := range xs {
		t := plot.Tick{Value: x}
		text := strconv.FormatFloat(x, 'g', 4, 64)
		middle, half := (at(x)-low)/width, float64(len(text))*0.008
		if middle-half > end+0.01 {
			t.Label, end = text, middle+half
		}
		out = append(out, t)
	}
	return out
}

// A grid is an experiment as a table: a row for each x.
type grid struct {
	Head []string
	Rows [][]string
}

// table has the deviations behind the means, or in columns of their own.
func (e *Experiment) table(columns bool) grid {
	g := grid{Head: []string{e.X}}
	for _, c := range e.Curves {
		g.Head = append(g.Head, c.Name)
		if columns && c.Deviations != nil {
			g.Head = append(g.Head, c.Name+": deviation")
		}
	}
	for _, x := range e.xs() {
		row := []string{strconv.FormatFloat(x, 'g', 6, 64)}
		for i := range e.Curves {
			row = append(row, e.Curves[i].cells(x, columns)...)
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// cells are what a table has of a curve at an x.
func (c *Curve) cells(x float64, columns bool) []string {
	var mean, deviation string
	if k := c.index(x); k >= 0 {
		mean = strconv.FormatFloat(c.Points[k][1], 'g', 4, 64)
		if c.Deviations != nil {
			deviation = strconv.FormatFloat(c.Deviations[k], 'g', 2, 64)
		}
	}
	switch {
	case c.Deviations == nil:
		return []string{mean}
	case columns:
		return []string{mean, deviation}
	case deviation == "":
		return []string{mean}
	}
	return []string{mean + " ± " + deviation}
}

// WriteExperiments writes report.html, which needs nothing else, and beside it
// every plot as SVG, PDF and PNG, every table as CSV, and all figures as JSON.
func WriteExperiments(dir, title string, list []Experiment) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	files := map[string][]byte{}
	var views []experimentView
	for i := range list {
		e := &list[i]
		p, err := figure{name: e.Name, make: e.plot}.draw()
		if err != nil {
			return fmt.Errorf("plot %s: %w", e.Name, err)
		}
		g := e.table(true)
		var text bytes.Buffer
		c := csv.NewWriter(&text)
		if err := c.WriteAll(append([][]string{g.Head}, g.Rows...)); err != nil {
			return err
		}
		files[e.Name+".svg"], files[e.Name+".pdf"], files[e.Name+".png"], files[e.Name+".csv"] = p.svg, p.pdf, p.png, text.Bytes()
		views = append(views, experimentView{e, e.table(false), template.HTML(inline(p.svg, i))}) // our own plots
	}
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	var html bytes.Buffer
	if err := writeExperimentPage(&html, title, views); err != nil {
		return err
	}
	files["figures.json"], files["report.html"] = append(data, '\n'), html.Bytes()
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

type experimentView struct {
	*Experiment
	Table grid
	SVG   template.HTML
}

func writeExperimentPage(w io.Writer, title string, views []experimentView) error {
	return experimentPage.Execute(w, map[string]any{"Title": title, "Views": views})
}

var experimentPage = template.Must(template.New("experiments").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}}</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:3rem}h3{font-size:1rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9em}
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #ddd;white-space:nowrap}
th:first-child,td:first-child{text-align:left}thead th{border-bottom:2px solid #888}
figure{margin:1rem 0}figure svg{max-width:100%;height:auto;border:1px solid #eee}.source{color:#555}
</style>
<h1>{{.Title}}</h1>
<p>Bars and the numbers behind ± are standard deviations over the seeds. The papers' figures print no numbers, so only the values that their texts
give can be compared: they are listed under the figures. Workloads are generated, not the traces of the papers.</p>
<ul>{{range .Views}}<li><a href="#{{.Name}}">{{.Title}}</a></li>
{{end}}</ul>
{{range .Views}}<h2 id="{{.Name}}">{{.Title}}</h2>
<p>{{.Note}} <span class="source">After: {{.Source}}.</span></p>
<figure>{{.SVG}}</figure>
<div class="scroll"><table><thead><tr>{{range .Table.Head}}<th>{{.}}</th>{{end}}</tr></thead>
<tbody>{{range .Table.Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</tbody></table></div>
{{with .Printed}}<h3>What the paper prints</h3>
<div class="scroll"><table><thead><tr><th></th><th>the paper</th><th>here</th></tr></thead>
<tbody>{{range .}}<tr><td>{{.What}}</td><td>{{.Paper}}</td><td>{{.Ours}}</td></tr>
{{end}}</tbody></table></div>
{{end}}{{end}}</html>
`))
