package bench

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/freshet/freshet/bench/figure"
	"github.com/freshet/freshet/registry"
)

// figures lists all plots of a study.
func (s *Study) figures() []figure.Figure {
	var list []figure.Figure
	add := func(name, caption string, draw func() (*plot.Plot, error)) {
		list = append(list, figure.Figure{Name: name, Caption: caption, Make: draw})
	}
	add("changes", "Queries whose result changes, by revision.", s.plotChanges)
	add("runtime", "Seconds that executing all queries takes in each revision, and those whose result changed in it.", s.plotRuntime)
	rings := ""
	if s.Compare {
		rings = " Filled: this trace; rings: the paper's own figures for the same policies."
	}
	for _, b := range s.Budgets {
		k := fmt.Sprintf("%gs", b.Seconds())
		add("detection-"+k, "Changes found against executions needed, budget "+seconds(b)+"."+rings+" Up and to the left is better.",
			func() (*plot.Plot, error) { return s.plotDetection(b) })
		add("delay-"+k, "How many of the results that went stale were so for at least so many slots, budget "+seconds(b)+
			". Lower is better.", func() (*plot.Plot, error) { return s.plotDelays(b) })
	}
	return list
}

func seconds(budget time.Duration) string {
	whole := budget.Truncate(time.Second)
	text := figure.Thousands(int(whole.Seconds()))
	if rest := budget - whole; rest > 0 {
		text += strings.TrimPrefix(strconv.FormatFloat(rest.Seconds(), 'f', -1, 64), "0")
	}
	return text + " s"
}

func (s *Study) plotChanges() (*plot.Plot, error) {
	t := s.world.t
	p := figure.New("Changed results per revision", "revision", "queries whose result changed")
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
		l.Color, l.Width = figure.Palette[5], vg.Points(0.4)
		p.Add(l)
	}
	return p, nil
}

func (s *Study) plotRuntime() (*plot.Plot, error) {
	t := s.world.t
	p := figure.New("Runtime per revision", "revision", "seconds (logarithmic)")
	figure.Logarithmic(&p.Y)
	var all, changed plotter.XYs
	cost := make([]int64, t.Revisions+1)
	for _, q := range t.Series {
		for _, v := range q.Versions[1:] {
			cost[v.Rev] += int64(t.Times[v.Rev][q.Query])
		}
	}
	for rev := 1; rev <= t.Revisions; rev++ {
		if c := s.world.totals[rev].cost.Seconds(); c > 0 {
			all = append(all, plotter.XY{X: float64(rev), Y: c})
		}
		if cost[rev] > 0 {
			changed = append(changed, plotter.XY{X: float64(rev), Y: float64(cost[rev]) / 1000})
		}
	}
	var l figure.Lines
	defer l.AddTo(p)
	if err := l.Add("all queries", all); err != nil {
		return nil, err
	}
	return p, l.Add("queries that changed", changed)
}

func (s *Study) plotDetection(budget time.Duration) (*plot.Plot, error) {
	p := figure.New("Detection against executions, budget "+seconds(budget), "executions (logarithmic)", "changes found, %")
	figure.Logarithmic(&p.X)
	all := float64(max(1, s.world.changes))
	var ours, theirs plotter.XYs
	var names figure.Labels
	for _, r := range s.rowsOf(budget) {
		if r.Total == 0 {
			continue
		}
		at := plotter.XY{X: float64(r.Total), Y: 100 * float64(r.Relevant) / all}
		ours = append(ours, at)
		names.Points, names.Texts = append(names.Points, at), append(names.Texts, short(r.Policy))
		if ref := s.published(r.Policy, budget); ref != nil {
			there := plotter.XY{X: float64(ref.Total), Y: 100 * float64(ref.Relevant) / 15256}
			theirs = append(theirs, there)
			if err := connect(p, at, there); err != nil {
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
		dots.Shape, dots.Color, dots.Radius = set.shape, figure.Palette[set.colour], vg.Points(3)
		p.Add(dots)
		p.Legend.Add(set.name, dots)
	}
	if b := s.rowsOf(budget)[0].Bound; b > 0 {
		y := 100 * float64(b) / all
		line, err := plotter.NewLine(plotter.XYs{{X: p.X.Min, Y: y}, {X: p.X.Max, Y: y}})
		if err != nil {
			return nil, err
		}
		line.Color, line.Width, line.Dashes = figure.Palette[7], vg.Points(0.7), []vg.Length{vg.Points(3), vg.Points(2)}
		p.Add(line)
		p.Legend.Add("no schedule finds more", line)
	}
	names.Others = theirs
	p.Add(&names)
	p.Y.Min, p.Y.Max = 0, 108
	p.X.Min /= 1.3
	p.X.Max *= 2.2 // room for names
	return p, nil
}

// connect draws a line between our point and the paper's.
func connect(p *plot.Plot, a, b plotter.XY) error {
	l, err := plotter.NewLine(plotter.XYs{a, b})
	if err == nil {
		l.Color, l.Width = figure.Palette[7], vg.Points(0.7)
		p.Add(l)
	}
	return err
}

// short abbreviates a spelling for plots.
func short(policy string) string {
	for _, word := range []string{"lambda=", "max="} {
		policy = strings.ReplaceAll(policy, word, "")
	}
	return policy
}

func (s *Study) plotDelays(budget time.Duration) (*plot.Plot, error) {
	p := figure.New("Delays, budget "+seconds(budget), "delay in slots, + 1 (logarithmic)", "results stale at least as long (logarithmic)")
	figure.Logarithmic(&p.X)
	figure.Logarithmic(&p.Y)
	l := figure.Lines{Strong: registry.DefaultPolicy}
	for _, r := range s.shown(budget) {
		delays := slices.Sorted(slices.Values(r.Delays))
		var points plotter.XYs
		for k, d := range delays {
			if k == 0 || delays[k-1] != d {
				points = append(points, plotter.XY{X: float64(d + 1), Y: float64(len(delays) - k)})
			}
		}
		if len(points) == 1 { // a line needs two ends
			points = append(points, plotter.XY{X: points[0].X * 1.05, Y: points[0].Y})
		}
		if err := l.Add(short(r.Policy), points); err != nil {
			return nil, err
		}
	}
	l.AddTo(p)
	return figure.Padded(p), nil
}
