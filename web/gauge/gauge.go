// Package gauge reads numbers for Prometheus from results of queries. It is pure.
//
// A column is a gauge if it holds numbers only, at least one. The other columns are
// labels. Each row gives one sample for each gauge column. An ASK result is one sample,
// 1 or 0, of the column "boolean".
package gauge

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/diff"
)

// A Label is a label of a sample. Its name has the syntax of Prometheus.
type Label struct{ Name, Value string }

// A Sample is one number of a result.
type Sample struct {
	Column string
	Labels []Label // in the order of the columns; unbound values are left out
	Value  float64
}

// Why rows give no sample.
const (
	Limit     = "limit"     // the result has more rows than are read
	Ambiguous = "ambiguous" // other rows have the same labels and other numbers
	Long      = "long"      // a label exceeds MaxLabel
	NoNumber  = "no_number" // no column is a gauge
	Graph     = "graph"     // the result is a graph, which has no columns
)

// Reasons lists why rows give no sample.
func Reasons() []string { return []string{Limit, Ambiguous, Long, NoNumber, Graph} }

// MaxLabel is the longest value of a label in bytes.
const MaxLabel = 1024

// Reserved are the names of labels that every sample has. A column of such a name gets
// an underscore.
var Reserved = []string{"query", "holder", "column"}

// Read returns the samples of a result, and the number of rows that give none, by reason.
// It reads the first rows in canonical order, at most limit. The columns in labels are
// labels although they hold numbers.
func Read(r *diff.Result, limit int, labels []string) (samples []Sample, left map[string]int) {
	left = map[string]int{}
	switch {
	case r.Form() == diff.Ask:
		value := 0.0
		if r.Boolean() {
			value = 1
		}
		return []Sample{{Column: "boolean", Value: value}}, left
	case r.Form().Graph():
		left[Graph] = r.Len()
		return nil, left
	}
	rows := make([][]diff.Term, min(limit, r.Len()))
	for i := range rows {
		rows[i] = r.Terms(i)
	}
	if r.Len() > len(rows) {
		left[Limit] = r.Len() - len(rows)
	}
	gauges := gaugeColumns(r.Vars(), rows, labels)
	if len(gauges) == 0 {
		if len(rows) > 0 {
			left[NoNumber] = len(rows)
		}
		return nil, left
	}
	names := labelNames(r.Vars())
	var groups []*group
	byLabels := map[string]*group{}
	for _, row := range rows {
		g, long := newGroup(row, names, gauges)
		if long {
			left[Long]++
			continue
		}
		if same := byLabels[g.key]; same == nil {
			byLabels[g.key] = g
			groups = append(groups, g)
		} else {
			same.rows++
			same.ambiguous = same.ambiguous || !slices.Equal(same.numbers, g.numbers)
		}
	}
	for _, g := range groups {
		if g.ambiguous {
			left[Ambiguous] += g.rows
			continue
		}
		for i, k := range gauges {
			if f, ok := number(diff.Term{Kind: diff.Literal, Value: g.numbers[i], Datatype: xsd + "double"}); ok {
				samples = append(samples, Sample{Column: r.Vars()[k], Labels: g.labels, Value: f})
			}
		}
	}
	return samples, left
}

// A group is the rows with the same labels.
type group struct {
	key       string
	labels    []Label
	numbers   []string // lexical forms, "" = unbound
	rows      int
	ambiguous bool
}

func newGroup(row []diff.Term, names []string, gauges []int) (g *group, long bool) {
	g = &group{rows: 1}
	var key strings.Builder
	for i, t := range row {
		if slices.Contains(gauges, i) {
			g.numbers = append(g.numbers, t.Value)
			continue
		}
		if t.Kind == diff.Unbound {
			continue
		}
		value := t.Value
		if t.Kind == diff.Blank {
			value = "_:" + value
		}
		if len(value) > MaxLabel {
			return nil, true
		}
		if value != "" { // to Prometheus, an empty label is none
			g.labels = append(g.labels, Label{names[i], value})
			key.WriteString(strconv.Itoa(i) + " " + strconv.Quote(value))
		}
	}
	g.key = key.String()
	return g, false
}

// gaugeColumns returns the indexes of the columns that hold numbers only.
func gaugeColumns(vars []string, rows [][]diff.Term, labels []string) (gauges []int) {
	for k, v := range vars {
		numbers, others := 0, 0
		for _, row := range rows {
			if _, ok := number(row[k]); ok {
				numbers++
			} else if row[k].Kind != diff.Unbound {
				others++
			}
		}
		if numbers > 0 && others == 0 && !slices.Contains(labels, v) {
			gauges = append(gauges, k)
		}
	}
	return gauges
}

const xsd = "http://www.w3.org/2001/XMLSchema#"

// numeric lists the numeric types of SPARQL 1.1, section 17.1.
var numeric = []string{
	"integer", "decimal", "double", "float", "nonPositiveInteger", "negativeInteger", "long", "int", "short", "byte",
	"nonNegativeInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte", "positiveInteger",
}

var lexical = regexp.MustCompile(`^(?:[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN)$`)

// number returns the value of a numeric literal. One with a wrong lexical form is none.
func number(t diff.Term) (float64, bool) {
	local, ok := strings.CutPrefix(t.Datatype, xsd)
	if !ok || t.Kind != diff.Literal || !slices.Contains(numeric, local) || !lexical.MatchString(t.Value) {
		return 0, false
	}
	f, _ := strconv.ParseFloat(t.Value, 64) // beyond its range it is infinite
	return f, true
}

var notInNames = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// labelNames returns the names of the labels of columns, all different.
func labelNames(vars []string) []string {
	names := make([]string, len(vars))
	for i, v := range vars {
		name := notInNames.ReplaceAllString(v, "_")
		if name[0] >= '0' && name[0] <= '9' {
			name = "_" + name
		}
		if strings.HasPrefix(name, "__") { // reserved by Prometheus
			name = "v" + name
		}
		for slices.Contains(Reserved, name) || slices.Contains(names[:i], name) {
			name += "_"
		}
		names[i] = name
	}
	return names
}
