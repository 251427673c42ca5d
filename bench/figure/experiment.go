package figure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"image/color"
	"math"
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
	Source string  `json:"source"` // the figure or table that it repeats
	Note   string  `json:"note"`   // what was run, and what it shows
	X      string  `json:"x"`
	Y      string  `json:"y"`
	LogX   bool    `json:"-"`
	LogY   bool    `json:"-"`
	Curves []Curve `json:"curves"`
	// Quotes are the values in the text of the paper, beside ours.
	Quotes []Quote `json:"printed,omitempty"`
}

// A Curve has one y for each x.
type Curve struct {
	Name   string       `json:"name"`
	Points [][2]float64 `json:"points"`
	// Deviations are the standard deviations over the seeds, one for each point. It is
	// nil with one seed, or where the points are no means.
	Deviations []float64 `json:"deviations,omitempty"`
}

// A Quote is a value in the text of a paper, and the value measured here.
type Quote struct {
	What  string `json:"what"`
	Paper string `json:"paper"`
	Ours  string `json:"ours"`
	// Why says why they differ: the workload, the definition, or what the paper leaves open.
	// It is empty where they agree.
	Why string `json:"why,omitempty"`
}

// index returns the point of an x, -1 if there is none.
func (c *Curve) index(x float64) int {
	return slices.IndexFunc(c.Points, func(p [2]float64) bool { return p[0] == x })
}

// Curve returns the curve of a name. It adds an empty one if there is none.
func (e *Experiment) Curve(name string) *Curve {
	i := slices.IndexFunc(e.Curves, func(c Curve) bool { return c.Name == name })
	if i < 0 {
		i = len(e.Curves)
		e.Curves = append(e.Curves, Curve{Name: name})
	}
	return &e.Curves[i]
}

// Add adds a point to the curve of a name.
func (e *Experiment) Add(name string, x, y float64) {
	c := e.Curve(name)
	c.Points = append(c.Points, [2]float64{x, y})
}

// AddMean adds the mean of the values of several seeds, with its deviation.
func (e *Experiment) AddMean(name string, x float64, seeds []float64) {
	mean, deviation := MeanDeviation(seeds)
	e.Add(name, x, mean)
	if len(seeds) > 1 {
		c := e.Curve(name)
		c.Deviations = append(c.Deviations, deviation)
	}
}

// MeanDeviation returns the mean of a sample and its standard deviation, which is 0
// for one value and for equal ones. The sample is not empty.
func MeanDeviation(sample []float64) (mean, deviation float64) {
	n := float64(len(sample))
	for _, x := range sample {
		mean += x
	}
	mean /= n
	for _, x := range sample {
		deviation += (x - mean) * (x - mean) / max(1, n-1)
	}
	if deviation = math.Sqrt(deviation); deviation < 1e-9*math.Abs(mean) {
		deviation = 0 // equal values, rounded
	}
	return mean, deviation
}

// Value returns the y of a curve at an x, NaN if there is none.
func (e *Experiment) Value(name string, x float64) float64 {
	c := e.Curve(name)
	if k := c.index(x); k >= 0 {
		return c.Points[k][1]
	}
	return math.NaN()
}

// Quote adds a value from the text of the paper.
func (e *Experiment) Quote(what, paper, format string, ours ...any) {
	e.Quotes = append(e.Quotes, Quote{What: what, Paper: paper, Ours: fmt.Sprintf(format, ours...)})
}

// Explain adds the reason why the values quoted last differ.
func (e *Experiment) Explain(why string) { e.Quotes[len(e.Quotes)-1].Why = why }

// Plot draws the curves.
func (e *Experiment) Plot() (*plot.Plot, error) {
	p := New(e.Title, e.X, e.Y)
	if e.LogX {
		Logarithmic(&p.X)
	}
	if e.LogY {
		Logarithmic(&p.Y)
	}
	for i, c := range e.Curves {
		same := func(o Curve) bool {
			return slices.Equal(o.Points, c.Points) && slices.Equal(o.Deviations, c.Deviations)
		}
		if len(c.Points) == 0 || slices.ContainsFunc(e.Curves[:i], same) {
			continue
		}
		for _, o := range e.Curves[i+1:] {
			if same(o) {
				c.Name += ",\n" + o.Name
			}
		}
		if err := c.draw(p, i); err != nil {
			return nil, err
		}
	}
	e.axes(p)
	return p, nil
}

// draw draws the i-th curve of a plot, with its entry in the legend.
func (c *Curve) draw(p *plot.Plot, i int) error {
	points := make(plotter.XYs, len(c.Points))
	for k, at := range c.Points {
		points[k] = plotter.XY{X: at[0], Y: at[1]}
	}
	dots, err := plotter.NewScatter(points)
	if err != nil {
		return err
	}
	colour := Palette[i%pale]
	dots.Shape, dots.Color, dots.Radius = shapes[i%len(shapes)], colour, vg.Points(max(2, 4.5-0.4*float64(i))) // the dots below stay visible
	p.Add(dots)
	if err := c.bars(p, colour); err != nil {
		return err
	}
	if len(points) == 1 {
		describe(p, c.Name, dots)
		return nil
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = colour, vg.Points(1.3)
	if i >= pale {
		line.Dashes = []vg.Length{vg.Points(4), vg.Points(2)}
	}
	p.Add(line)
	describe(p, c.Name, line, dots)
	return nil
}

// bars draws the deviations of a curve as error bars.
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

// axes gives each axis a range that is not empty, and labels the values of x if they
// are few.
func (e *Experiment) axes(p *plot.Plot) {
	if e.LogX || e.LogY {
		Padded(p)
	}
	if xs := e.Xs(); len(xs) <= 12 {
		p.X.Tick.Marker = plot.ConstantTicks(ticks(xs, e.LogX))
	}
	if !e.LogY {
		p.Y.Min = min(0, p.Y.Min)
		p.Y.Max += max(1e-3, p.Y.Max-p.Y.Min) * 0.05
	}
}

// shapes distinguishes curves where colours do not suffice.
var shapes = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.PyramidGlyph{}, draw.CrossGlyph{}, draw.PlusGlyph{},
	draw.RingGlyph{}, draw.BoxGlyph{},
}

// Xs returns the x values of all curves in ascending order, each once.
func (e *Experiment) Xs() (xs []float64) {
	for _, c := range e.Curves {
		for _, p := range c.Points {
			xs = append(xs, p[0])
		}
	}
	slices.Sort(xs)
	return slices.Compact(xs)
}

// ticks marks each x, and labels as many as have room: on an axis as wide as the
// picture, a character takes about a hundredth of the width.
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

// A table shows an experiment with a row for each x.
type table struct {
	Head []string
	Rows [][]string
}

// table returns the means with their deviations.
func (e *Experiment) table() table {
	g := table{Head: []string{e.X}}
	for _, c := range e.Curves {
		g.Head = append(g.Head, c.Name)
	}
	for _, x := range e.Xs() {
		row := []string{strconv.FormatFloat(x, 'g', 6, 64)}
		for i := range e.Curves {
			row = append(row, e.Curves[i].cell(x))
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}

// cell describes a curve at an x. A mean has four significant digits, and its deviation as many decimal
// places as the mean.
func (c *Curve) cell(x float64) string {
	k := c.index(x)
	if k < 0 {
		return ""
	}
	places := decimals(c.Points[k][1])
	mean := strconv.FormatFloat(c.Points[k][1], 'f', places, 64)
	switch {
	case c.Deviations == nil:
		return mean
	case c.Deviations[k] == 0:
		return mean + " ± 0"
	}
	return mean + " ± " + strconv.FormatFloat(c.Deviations[k], 'f', places, 64)
}

// decimals returns the decimal places that show a number with four significant digits,
// at most six and, for numbers without a fraction, none.
func decimals(v float64) int {
	if v == math.Trunc(v) {
		return 0
	}
	return min(6, max(0, 3-int(math.Floor(math.Log10(math.Abs(v))))))
}

// WriteExperiments writes report.html, which is complete in itself, and beside it
// every plot as SVG, and all values as JSON.
func WriteExperiments(dir, title string, list []Experiment) error {
	files := map[string][]byte{}
	var views []experimentView
	for i := range list {
		e := &list[i]
		p, err := Figure{Name: e.Name, Make: e.Plot}.Draw()
		if err != nil {
			return fmt.Errorf("plot %s: %w", e.Name, err)
		}
		p.AddTo(files)
		views = append(views, experimentView{e, e.table(), p.Inline(i)})
	}
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return err
	}
	var html bytes.Buffer
	if err := experimentPage.Execute(&html, map[string]any{"Title": title, "Views": views}); err != nil {
		return err
	}
	files["figures.json"], files["report.html"] = append(data, '\n'), html.Bytes()
	return WriteFiles(dir, files)
}

type experimentView struct {
	*Experiment
	Table table
	SVG   template.HTML
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
td.why{text-align:left;white-space:normal;min-width:24rem}
</style>
<h1>{{.Title}}</h1>
<p>Bars and the numbers behind ± are standard deviations over the seeds. The papers' figures print no numbers, so only the ` +
	`values that their texts
give can be compared: they are listed under the figures. Workloads are generated, not the traces of the papers.</p>
<ul>{{range .Views}}<li><a href="#{{.Name}}">{{.Title}}</a></li>
{{end}}</ul>
{{range .Views}}<h2 id="{{.Name}}">{{.Title}}</h2>
<p>{{.Note}} <span class="source">After: {{.Source}}.</span></p>
<figure>{{.SVG}}</figure>
<div class="scroll"><table><thead><tr>{{range .Table.Head}}<th>{{.}}</th>{{end}}</tr></thead>
<tbody>{{range .Table.Rows}}<tr>{{range .}}<td>{{.}}</td>{{end}}</tr>
{{end}}</tbody></table></div>
{{with .Quotes}}<h3>What the paper prints</h3>
<div class="scroll"><table><thead><tr><th></th><th>the paper</th><th>here</th><th>why they differ</th></tr></thead>
<tbody>{{range .}}<tr><td>{{.What}}</td><td>{{.Paper}}</td><td>{{.Ours}}</td><td class="why">{{.Why}}</td></tr>
{{end}}</tbody></table></div>
{{end}}{{end}}</html>
`))
