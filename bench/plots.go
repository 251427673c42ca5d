package bench

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A figure is one plot with what is said about it.
type figure struct {
	name, caption string
	make          func() (*plot.Plot, error)
}

type picture struct {
	figure
	svg, png []byte
}

const figureWidth, figureHeight = 22 * vg.Centimeter, 12 * vg.Centimeter

func (f figure) draw() (picture, error) {
	out := picture{figure: f}
	for format, b := range map[string]*[]byte{"svg": &out.svg, "png": &out.png} {
		p, err := f.make()
		if err != nil {
			return out, err
		}
		if *b, err = render(p, format); err != nil {
			return out, err
		}
	}
	return out, nil
}

// render draws a plot and names its axes. The library would reserve room for
// the names of logarithmic axes in the wrong place.
func render(p *plot.Plot, format string) ([]byte, error) {
	const margin = vg.Length(8)
	x, y := p.X.Label, p.Y.Label
	p.X.Label.Text, p.Y.Label.Text = "", ""
	w, err := draw.NewFormattedCanvas(figureWidth, figureHeight, format)
	if err != nil {
		return nil, err
	}
	all := draw.New(w)
	all.SetColor(p.BackgroundColor)
	all.Fill(all.Rectangle.Path())
	inner := draw.Crop(all, margin/2, -margin, margin/2, -margin/2)
	if y.Text != "" {
		inner.Min.X += y.TextStyle.Height(y.Text) + margin/2
	}
	if x.Text != "" {
		inner.Min.Y += x.TextStyle.Height(x.Text) + margin/2
	}
	p.Draw(inner)
	within := p.DataCanvas(inner)
	data := within.Center()
	x.TextStyle.XAlign, x.TextStyle.YAlign = text.XCenter, text.YBottom
	all.FillText(x.TextStyle, vg.Point{X: data.X, Y: all.Min.Y + margin/2}, x.Text)
	y.TextStyle.XAlign, y.TextStyle.YAlign, y.TextStyle.Rotation = text.XCenter, text.YTop, math.Pi/2
	all.FillText(y.TextStyle, vg.Point{X: all.Min.X + margin/2, Y: data.Y}, y.Text)
	var b bytes.Buffer
	_, err = w.WriteTo(&b)
	return b.Bytes(), err
}

// figures lists all plots of a study.
func (s *Study) figures() []figure {
	list := []figure{
		{"changes", "Queries whose result changes, by revision.", s.plotChanges},
		{"distinct", "Queries whose result has changed at least once up to each revision.", s.plotDistinct},
		{"runtime", "Seconds that executing all queries takes in each revision, and those whose result changed in it.", s.plotRuntime},
	}
	for _, b := range Budgets() {
		k := fmt.Sprintf("%gs", b.Seconds())
		list = append(list,
			figure{"detection-" + k, "Changes found against executions needed, budget " + seconds(b) + ". Filled: this trace; rings: the paper's own figures for the same policies. Up and to the left is better.", func() (*plot.Plot, error) { return s.plotDetection(b) }},
			figure{"delay-" + k, "How many of the results that went stale were so for at least so many slots, budget " + seconds(b) + ". Lower is better.", func() (*plot.Plot, error) { return s.plotDelays(b) }},
			figure{"progress-" + k, "Changes found up to each revision, budget " + seconds(b) + ".", func() (*plot.Plot, error) { return s.plotProgress(b) }},
			figure{"spent-" + k, "What each policy spent its seconds on: queries by how often their result changes over the whole trace, budget " + seconds(b) + ".", func() (*plot.Plot, error) { return s.plotSpent(b) }},
		)
	}
	return list
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
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.Padding, p.Legend.XOffs = vg.Points(1), vg.Points(6)
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

func seconds(budget time.Duration) string { return group(int(budget.Seconds())) + " s" }

func (s *Study) plotChanges() (*plot.Plot, error) {
	t := s.World.t
	p := newPlot("Changed results per revision", "revision", "queries whose result changed")
	bars := make(plotter.XYs, t.Revisions)
	for i := range bars {
		bars[i].X = float64(i + 1)
	}
	for _, q := range t.Series {
		for _, v := range q.Versions[1:] {
			bars[v.Rev-1].Y++
		}
	}
	for _, b := range bars {
		if b.Y == 0 {
			continue
		}
		l, err := plotter.NewLine(plotter.XYs{{X: b.X, Y: 0}, b})
		if err != nil {
			return nil, err
		}
		l.Color, l.Width = palette[5], vg.Points(0.4)
		p.Add(l)
	}
	return p, nil
}

func (s *Study) plotDistinct() (*plot.Plot, error) {
	t := s.World.t
	first := make([]int, t.Revisions+1)
	for _, q := range t.Series {
		if len(q.Versions) > 1 {
			first[q.Versions[1].Rev]++
		}
	}
	p := newPlot("Queries that have changed so far", "revision", "distinct queries")
	sum, line := 0, make(plotter.XYs, t.Revisions+1)
	for i := range line {
		sum += first[i]
		line[i] = plotter.XY{X: float64(i), Y: float64(sum)}
	}
	return p, addLine(p, "", line, 5)
}

func addLine(p *plot.Plot, name string, points plotter.XYs, colour int) error {
	if len(points) == 0 {
		return nil
	}
	l, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	l.Color, l.Width = palette[colour%pale], vg.Points(1.3)
	if colour >= 4 { // told apart without colours too
		l.Dashes = [][]vg.Length{{vg.Points(5), vg.Points(2)}, {vg.Points(1.5), vg.Points(1.5)}, {vg.Points(7), vg.Points(2), vg.Points(1.5), vg.Points(2)}}[colour%3]
	}
	p.Add(l)
	if name != "" {
		p.Legend.Add(name, l)
	}
	return nil
}

func (s *Study) plotRuntime() (*plot.Plot, error) {
	t := s.World.t
	p := newPlot("Runtime per revision", "revision", "seconds (logarithmic)")
	logarithmic(&p.Y)
	var all, changed plotter.XYs
	cost := make([]int64, t.Revisions+1)
	for _, q := range t.Series {
		for _, v := range q.Versions[1:] {
			cost[v.Rev] += int64(t.Times[v.Rev][q.Query])
		}
	}
	for rev := 1; rev <= t.Revisions; rev++ {
		if c := s.World.totals[rev].cost.Seconds(); c > 0 {
			all = append(all, plotter.XY{X: float64(rev), Y: c})
		}
		if cost[rev] > 0 {
			changed = append(changed, plotter.XY{X: float64(rev), Y: float64(cost[rev]) / 1000})
		}
	}
	if err := addLine(p, "all queries", all, 0); err != nil {
		return nil, err
	}
	p.Y.Max *= 4 // room for the legend
	return p, addLine(p, "queries that changed", changed, 1)
}

func logarithmic(a *plot.Axis) {
	a.Scale = plot.LogScale{}
	a.Tick.Marker = decades{}
}

func (s *Study) plotDetection(budget time.Duration) (*plot.Plot, error) {
	p := newPlot("Detection against executions, budget "+seconds(budget), "executions (logarithmic)", "changes found, %")
	logarithmic(&p.X)
	p.Legend.Top = false
	all := float64(max(1, s.World.changes))
	var ours, theirs plotter.XYs
	var names labels
	for _, r := range s.rowsOf(budget) {
		if r.Total == 0 {
			continue
		}
		at := plotter.XY{X: float64(r.Total), Y: 100 * float64(r.Relevant) / all}
		ours = append(ours, at)
		names.points, names.texts = append(names.points, at), append(names.texts, short(r.Policy))
		if ref := find(Published(), r); ref != nil {
			there := plotter.XY{X: float64(ref.Total), Y: 100 * float64(ref.Relevant) / 15256}
			theirs = append(theirs, there)
			if err := addBond(p, at, there); err != nil {
				return nil, err
			}
		}
	}
	if len(ours) == 0 {
		return p, nil
	}
	for _, set := range []struct {
		name   string
		points plotter.XYs
		shape  draw.GlyphDrawer
		colour int
	}{{"this trace", ours, draw.CircleGlyph{}, 5}, {"the paper", theirs, draw.RingGlyph{}, 4}} {
		if len(set.points) == 0 {
			continue
		}
		dots, err := plotter.NewScatter(set.points)
		if err != nil {
			return nil, err
		}
		dots.Shape, dots.Color, dots.Radius = set.shape, palette[set.colour], vg.Points(3)
		p.Add(dots)
		p.Legend.Add(set.name, dots)
	}
	names.others = theirs
	p.Add(&names)
	p.Y.Min, p.Y.Max = 0, 108
	p.X.Min /= 1.3
	p.X.Max *= 2.2 // room for names
	return p, nil
}

// addBond joins two points that belong together.
func addBond(p *plot.Plot, a, b plotter.XY) error {
	l, err := plotter.NewLine(plotter.XYs{a, b})
	if err == nil {
		l.Color, l.Width = palette[7], vg.Points(0.7)
		p.Add(l)
	}
	return err
}

// short spells a policy for the narrow places of a plot.
func short(policy string) string {
	for _, word := range []string{"lambda=", "max="} {
		policy = strings.ReplaceAll(policy, word, "")
	}
	return policy
}

func (s *Study) plotDelays(budget time.Duration) (*plot.Plot, error) {
	p := newPlot("Delays, budget "+seconds(budget), "delay in slots, + 1 (logarithmic)", "results stale at least as long (logarithmic)")
	logarithmic(&p.X)
	logarithmic(&p.Y)
	p.Legend.Top = false
	for i, r := range s.shown(budget) {
		delays := slices.Sorted(slices.Values(r.Detail.Delays))
		var points plotter.XYs
		for k, d := range delays {
			if k == 0 || delays[k-1] != d {
				points = append(points, plotter.XY{X: float64(d + 1), Y: float64(len(delays) - k)})
			}
		}
		if len(points) == 1 { // a line needs two ends
			points = append(points, plotter.XY{X: points[0].X * 1.05, Y: points[0].Y})
		}
		if err := addLine(p, short(r.Policy), points, i); err != nil {
			return nil, err
		}
	}
	return padded(p), nil
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

func (s *Study) plotProgress(budget time.Duration) (*plot.Plot, error) {
	p := newPlot("Changes found over time, budget "+seconds(budget), "revision", "changes found")
	for i, r := range s.shown(budget) {
		var points plotter.XYs
		step := max(1, len(r.Detail.Relevant)/400)
		for slot := 0; slot < len(r.Detail.Relevant); slot += step {
			points = append(points, plotter.XY{X: float64(slot), Y: float64(r.Detail.Relevant[slot])})
		}
		if err := addLine(p, short(r.Policy), points, i); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (s *Study) plotSpent(budget time.Duration) (*plot.Plot, error) {
	p := newPlot("Where the seconds went, budget "+seconds(budget), "", "share of all seconds, %")
	rows := s.rowsOf(budget)
	var names []string
	var below *plotter.BarChart
	for _, r := range rows {
		names = append(names, short(r.Policy))
	}
	for g := range Groups {
		values := make(plotter.Values, len(rows))
		for i, r := range rows {
			if r.Used > 0 {
				values[i] = 100 * r.Detail.Spent[g].Seconds() / r.Used
			}
		}
		if len(values) == 0 {
			return p, nil
		}
		bars, err := plotter.NewBarChart(values, vg.Points(16))
		if err != nil {
			return nil, err
		}
		bars.Color, bars.LineStyle.Width = palette[[...]int{7, 8, 1, 4, 5}[g]], 0
		if below != nil {
			bars.StackOn(below)
		}
		below = bars
		p.Add(bars)
		p.Legend.Add("change "+Groups[g].Name, bars)
	}
	p.NominalX(names...)
	p.X.Tick.Label.Rotation, p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = math.Pi/4, -1, -0.5
	p.X.Tick.Label.Font.Size = vg.Points(7)
	p.X.Min, p.X.Max = -1, float64(len(rows))
	p.Legend.ThumbnailWidth = vg.Points(10)
	p.Y.Min, p.Y.Max = 0, 142 // room for the legend
	p.Y.Tick.Marker = plot.ConstantTicks{{Value: 0, Label: "0"}, {Value: 25, Label: "25"}, {Value: 50, Label: "50"}, {Value: 75, Label: "75"}, {Value: 100, Label: "100"}}
	return p, nil
}
