package bench

import (
	"fmt"
	"html/template"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// html writes the page. It holds everything: tables, plots, style.
func (s *Study) html(w io.Writer, pictures []picture) error {
	type figureView struct {
		Name, Caption string
		SVG           template.HTML
	}
	var figures []figureView
	for i, p := range pictures {
		figures = append(figures, figureView{p.name, p.caption, template.HTML(inline(p.svg, i))}) // our own plots
	}
	var tables []tableView
	for i, b := range Budgets() {
		tables = append(tables, s.table(i+1, b))
	}
	t := s.World.t
	return page.Execute(w, map[string]any{
		"Trace": s.Trace, "Rule": s.Rule, "Queries": group(t.Queries), "Revisions": group(t.Revisions), "Changes": group(s.World.changes),
		"Published": PublishedSource, "Independent": IndependentSource, "Tables": tables, "Figures": figures,
		"Statistics": Knuth2016().Compare(t), "Source": Knuth2016().Source,
	})
}

var svgIDs = regexp.MustCompile(`(id="|url\(#|xlink:href="#|href="#)`)

// inline makes a plot part of a page: no XML head, and ids of its own.
func inline(svg []byte, n int) string {
	text := string(svg)
	if i := strings.Index(text, "<svg"); i > 0 {
		text = text[i:]
	}
	return svgIDs.ReplaceAllString(text, "${1}f"+strconv.Itoa(n)+"-")
}

type tableView struct {
	Title string
	Rows  []tableRow
}

type tableRow struct {
	Policy string
	Cells  []cell
}

// A cell holds our figure and those of others.
type cell struct{ Ours, Published, Independent string }

// tableHead is the paper's, with the clock and the cuts added.
var tableHead = []string{"total qe", "irrelevant", "relevant", "eff. (%)", "abs delay", "max delay", "abs miss", "max miss", "distinct", "cut", "used (s)", "over (s)"}

func (s *Study) table(n int, budget time.Duration) tableView {
	v := tableView{Title: fmt.Sprintf("Table %d. Budget %g s", n, budget.Seconds())}
	for _, r := range s.rowsOf(budget) {
		p, i := find(Published(), r), find(Independent(), r)
		row := tableRow{Policy: r.Policy}
		add := func(ours string, of func(*Reference) string) {
			c := cell{Ours: ours}
			if of != nil && p != nil {
				c.Published = of(p)
			}
			if of != nil && i != nil {
				c.Independent = of(i)
			}
			row.Cells = append(row.Cells, c)
		}
		count := func(ours int, of func(*Reference) int) {
			add(group(ours), func(r *Reference) string {
				if of(r) < 0 {
					return ""
				}
				return group(of(r))
			})
		}
		count(r.Total, func(r *Reference) int { return r.Total })
		count(r.Irrelevant, func(r *Reference) int { return r.Total - r.Relevant })
		count(r.Relevant, func(r *Reference) int { return r.Relevant })
		add(percent(r.Relevant, r.Total), func(r *Reference) string { return percent(r.Relevant, r.Total) })
		count(r.AbsDelay, func(r *Reference) int { return r.AbsDelay })
		count(r.MaxDelay, func(r *Reference) int { return r.MaxDelay })
		count(r.AbsMiss, func(r *Reference) int { return r.AbsMiss })
		count(r.MaxMiss, func(r *Reference) int { return r.MaxMiss })
		add(group(r.Distinct), nil)
		add(group(r.Cut), nil)
		add(group(int(r.Used)), nil)
		add(fmt.Sprintf("%.1f", r.MaxOverrun), nil)
		v.Rows = append(v.Rows, row)
	}
	return v
}

func percent(part, of int) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", 100*float64(part)/float64(of))
}

// group writes a count with commas.
func group(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"head": func() []string { return tableHead },
	"digits": func(s Statistic, v float64) string {
		return strconv.FormatFloat(v, 'f', s.Digits, 64)
	},
}).Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Refresh policies: {{.Trace}}</title>
<style>
body{font:15px/1.5 system-ui,sans-serif;max-width:80rem;margin:2rem auto;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.6rem}h2{font-size:1.2rem;margin-top:2.5rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .45rem;text-align:right;border-bottom:1px solid #ddd;vertical-align:top;white-space:nowrap}
th:first-child,td:first-child{text-align:left}thead th{border-bottom:2px solid #888}
.p{color:#a33c00;font-size:.85em;display:block}.i{color:#00598c;font-size:.85em;display:block}
figure{margin:2rem 0}figure svg{max-width:100%;height:auto;border:1px solid #eee}figcaption{color:#444;max-width:60rem}
</style>
<h1>Refresh policies over {{.Trace}}</h1>
<p>{{.Queries}} queries, {{.Revisions}} revisions, {{.Changes}} changes; budget rule <code>{{.Rule}}</code>.
All measures are taken from the trace, not from what happened to be executed.</p>
<p>Under our figures stand, where there are any: <span class="p" style="display:inline">those of the paper</span> ({{.Published}}; DBpedia Live, so not the same trace),
and <span class="i" style="display:inline">those of another implementation</span> ({{.Independent}}).</p>
{{range .Tables}}<h2>{{.Title}}</h2>
<div class="scroll"><table><thead><tr><th>policy</th>{{range head}}<th>{{.}}</th>{{end}}</tr></thead>
<tbody>{{range .Rows}}<tr><td><code>{{.Policy}}</code></td>{{range .Cells}}<td>{{.Ours}}{{with .Published}}<span class="p">{{.}}</span>{{end}}{{with .Independent}}<span class="i">{{.}}</span>{{end}}</td>{{end}}</tr>
{{end}}</tbody></table></div>
{{end}}<h2>Plots</h2>
{{range .Figures}}<figure id="{{.Name}}">{{.SVG}}<figcaption>{{.Caption}}</figcaption></figure>
{{end}}<h2>The trace beside what is published</h2>
<table><thead><tr><th>{{.Source}}</th><th>this trace</th><th>published</th></tr></thead>
<tbody>{{range .Statistics}}<tr><td>{{.Name}}</td><td>{{digits . .Value}}</td><td>{{digits . .Target}}</td></tr>
{{end}}</tbody></table>
</html>
`))
