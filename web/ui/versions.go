package ui

// This file shows the changes of a query, and compares its versions.

import (
	"context"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

const (
	versionsOffered = 30

	// versionTime bounds the time that computing one past version takes.
	versionTime = 20 * time.Second
)

// between returns the difference between two of a query's versions; nil if they are equal.
func (v resultHandler) between(query string, from, to uint64) (*diff.Delta, error) {
	before, err := v.version(query, from)
	if err != nil {
		return nil, err
	}
	after, err := v.version(query, to)
	if err != nil {
		return nil, err
	}
	return diff.CompareUntil(v.r.Context().Err, before, after)
}

// version returns a query's result after change seq.
func (v resultHandler) version(query string, seq uint64) (*diff.Result, error) {
	st, r, err := v.History.Current(query, true)
	switch {
	case err != nil:
		return nil, err
	case r == nil:
		return nil, &registry.Problem{Kind: registry.KindNoResult, Title: "There is no result yet",
			Detail: "No execution has been complete so far."}
	case seq == st.Position.Seq:
		return r, nil
	case seq == 0, seq > st.Position.Seq:
		return nil, &registry.GapError{Reason: registry.Ahead}
	}
	ctx, cancel := context.WithTimeout(v.r.Context(), versionTime)
	defer cancel()
	return v.History.StateAt(ctx, query, registry.Position{Epoch: st.Position.Epoch, Seq: seq})
}

// placeOf returns when a version began, and its neighbours; zero if it is not kept.
func (v resultHandler) placeOf(query string, seq uint64) (registry.Place, error) {
	p, err := v.History.Place(query, registry.Moment{Position: registry.Position{Seq: seq}})
	if isGap(err) {
		return registry.Place{}, nil
	}
	return p, err
}

// A versionChoice is a version that can be selected.
type versionChoice struct {
	Seq      uint64
	Time     string // "" if it is unknown
	Newest   bool
	Delta    delta
	Selected bool
}

// versionChoices lists the newest versions with their times, and the selected one even
// if it is older.
func (v resultHandler) versionChoices(newest uint64, recent []registry.Change, chosen uint64, at time.Time) []versionChoice {
	var out []versionChoice
	for i, c := range slices.Backward(recent) {
		if len(out) == versionsOffered {
			break
		}
		out = append(out, versionChoice{c.Seq, v.plain(c.Time), i == len(recent)-1 && c.Seq == newest, deltaOf(c.Delta, c.Baseline),
			c.Seq == chosen})
	}
	if chosen > 0 && !slices.ContainsFunc(out, func(c versionChoice) bool { return c.Selected }) {
		c := versionChoice{Seq: chosen, Selected: true}
		if !at.IsZero() {
			c.Time = v.plain(at)
		}
		out = append(out, c)
	}
	return out
}

// A changePlot shows a query's last changes over time. The height of a point is the
// Jaccard distance between the results; the rows added and removed are drawn below it.
type changePlot struct {
	Changes int
	Covers  time.Duration
	Largest float64 // Jaccard distance
	Marks   []changeMark
	Labels  []label
}

type changeMark struct {
	X, Left string  // per cent
	Y       float64 // of the point
	AddY    float64
	AddH    float64
	DelH    float64
	Change  registry.Change
	Time    string
	Link    string // to the result at this version
	Newest  bool
	First   bool // the baseline
}

const (
	plottedChanges = 40
	listedChanges  = 8
	rowsInChange   = 5 // of each side, in the list
	rowsOnPage     = 50
	plotLeft       = 9.0 // per cent; position of the scale's labels
)

// plot draws changes, given oldest first.
func (v resultHandler) plot(changes []registry.Change) *changePlot {
	if len(changes) == 0 {
		return nil
	}
	first, last := changes[0].Time, v.now
	width := last.Sub(first)
	if width <= 0 {
		width = time.Second
	}
	p := &changePlot{Changes: len(changes), Covers: width.Round(time.Second)}
	most := 1
	for _, c := range changes {
		if c.Delta != nil && !c.Baseline {
			most = max(most, len(c.Delta.Added), len(c.Delta.Removed))
			p.Largest = max(p.Largest, c.Delta.Jaccard)
		}
	}
	for i, c := range changes {
		if c.Delta == nil {
			continue
		}
		x := plotLeft + (99.5-plotLeft)*float64(c.Time.Sub(first))/float64(width)
		m := changeMark{X: fmt.Sprintf("%.2f%%", x), Left: fmt.Sprintf("%.2f%%", x-.25), Newest: i == len(changes)-1, First: c.Baseline,
			Change: c, Time: c.Time.UTC().Format("2 Jan, 15:04:05"), Link: fmt.Sprintf("%s?b=%d#compare", queryPath(c.Query), c.Seq)}
		if c.Baseline {
			m.Y = 112
		} else {
			size := func(n int) float64 {
				if n == 0 {
					return 0
				}
				return max(1.6, float64(n)/float64(most)*18)
			}
			m.Y = float64(int((112-c.Delta.Jaccard*100)*100)) / 100
			m.AddH, m.DelH = size(len(c.Delta.Added)), size(len(c.Delta.Removed))
			m.AddY = 146 - m.AddH
		}
		p.Marks = append(p.Marks, m)
	}
	p.Labels = timeLabels(first, first.Add(width), plotLeft, "start", "middle", "middle", "end")
	return p
}

// A changeView is one change of a query with some of its rows.
type changeView struct {
	Seq         uint64
	When        template.HTML
	Delta       delta
	Words       string // what changed, for people
	Meter       string
	Jaccard     string
	Slot        string
	Ask, First  bool
	Added       side
	Removed     side
	Link, JSON  string
	Compare     string
	Open, Moved bool
	Edits       []registry.DataEdit // that may have caused it
}

// A side holds the added or the removed rows of a change.
type side struct {
	N       int // number of rows
	Graph   bool
	Removed bool
	Only    uint64 // the version that has these rows, in a comparison
	Grid    grid
	Rest    int // rows that are not shown
}

// view renders a change with at most the given number of rows per side, starting at
// row.
func (v resultHandler) view(q *registry.Query, n namer, c registry.Change, from, most int) changeView {
	d := c.Delta
	at := queryPath(q.ID)
	own := fmt.Sprintf("%s/changes/%d", at, c.Seq)
	out := changeView{Seq: c.Seq, When: v.Past(c.Time), Delta: deltaOf(d, c.Baseline), Slot: count(c.Slot), First: c.Baseline, Link: own,
		Ask: q.Form == diff.Ask, Compare: fmt.Sprintf("%s?b=%d#compare", at, c.Seq),
		JSON: fmt.Sprintf("/v1%s/changes?after=%s:%d&limit=1", at, c.Epoch, c.Prev), Edits: c.Edits}
	if d == nil {
		return out
	}
	if !c.Baseline {
		out.Meter, out.Jaccard = meter(d.Jaccard), fmt.Sprintf("%.2f", d.Jaccard)
		out.Moved, out.Words = d.Ordered && d.Jaccard == 0, inWords(v.visit, q, &c)
	}
	if out.Ask {
		return out
	}
	out.Added, out.Removed = n.sides(d, from, most, own+"/value?side=")
	return out
}

// sides renders the added and the removed rows; cells is the address of a cell's full
// value without its side, row and column.
func (n namer) sides(d *diff.Delta, from, most int, cells string) (added, removed side) {
	added = n.side(d, d.Added, d.Vars, d.AddedAt, "+", from, most, cells+"added")
	removed = n.side(d, d.Removed, d.OldVars, d.RemovedAt, minus, from, most, cells+"removed")
	removed.Removed = true
	return added, removed
}

// side renders rows starting at one. For ordered results the sign includes the
// position.
func (n namer) side(d *diff.Delta, rows diff.Rows, vars []string, places []int, sign string, from, most int, cells string) side {
	from = min(from, len(rows))
	some := rows[from:min(len(rows), from+most)]
	s := side{N: len(rows), Graph: d.Form.Graph(), Rest: len(rows) - from - len(some), Grid: n.grid(d.Form, vars, len(some),
		func(i int) []diff.Term { return diff.RowTerms(d.Form, vars, some[i]) }, func(i int) string {
			if from+i < len(places) {
				return fmt.Sprintf("%s %d", sign, places[from+i]+1)
			}
			return sign
		}, func(row, col int) string { return fmt.Sprintf("%s&row=%d&col=%d", cells, from+row, col) })}
	return s
}

// A delta summarises a change in a few words, of which the template has most.
type delta struct {
	Plus, Minus string
	D           *diff.Delta // nil if there is no change to show
	First       bool        // the first result
}

// Len returns the larger length of the two results.
func (d delta) Len() int { return max(d.D.NewLen, d.D.OldLen) }

func deltaOf(d *diff.Delta, baseline bool) delta {
	out := delta{D: d, First: baseline}
	switch {
	case d == nil:
	case d.Form == diff.Ask:
		out.Plus = strconv.FormatBool(d.Boolean)
		if !baseline {
			out.Minus = strconv.FormatBool(d.Previous)
		}
	case !baseline:
		if n := len(d.Added); n > 0 {
			out.Plus = "+" + count(n)
		}
		if n := len(d.Removed); n > 0 {
			out.Minus = minus + count(n)
		}
	}
	return out
}
