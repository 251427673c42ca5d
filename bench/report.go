package bench

import (
	"fmt"
	"html/template"
	"io"
	"strconv"
	"time"

	"github.com/freshet/freshet/bench/figure"
	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/registry"
)

// html writes the report as one page with tables, plots and style.
func (s *Study) html(w io.Writer, pictures []figure.Picture) error {
	type figureView struct {
		Name, Caption string
		SVG           template.HTML
	}
	var figures []figureView
	for i, p := range pictures {
		figures = append(figures, figureView{p.Name, p.Caption, p.Inline(i)})
	}
	var tables []tableView
	for i, b := range s.Budgets {
		tables = append(tables, s.table(i+1, b))
	}
	t := s.world.t
	return page.Execute(w, map[string]any{
		"Trace": s.name, "Rule": s.Rules[0],
		"Measures": tableColumns, "Clairvoyant": clairvoyant, "Default": registry.DefaultPolicy,
		"Queries": figure.Thousands(t.Queries), "Revisions": figure.Thousands(t.Revisions), "Changes": figure.Thousands(s.world.changes),
		"Compare": s.Compare, "Why": whyExecutions, "Published": PublishedSource, "Tables": tables, "Figures": figures,
		"Statistics": trace.Knuth2016().Compare(t), "Source": trace.Knuth2016().Source,
	})
}

type tableView struct {
	Title string
	Rows  []tableRow
}

type tableRow struct {
	Policy string
	Cells  []cell
}

// A cell holds our value and those of others.
type cell struct {
	Ours, Published string
	Best            bool
}

func (s *Study) table(n int, budget time.Duration) tableView {
	v := tableView{Title: fmt.Sprintf("Table %d. Budget %s", n, seconds(budget))}
	list := s.rowsOf(budget)
	if len(list) > 0 && list[0].Bound > 0 {
		v.Title += fmt.Sprintf(". No schedule finds more than %s changes", figure.Thousands(list[0].Bound))
	}
	for _, r := range list {
		published := s.published(r.Policy, budget)
		row := tableRow{Policy: r.Policy}
		for _, k := range tableColumns {
			v := k.of(r)
			row.Cells = append(row.Cells, cell{decimal(v, k.digits), k.others(published, v), k.isBest(r, list)})
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// others writes a published value and the difference of ours.
func (m tableColumn) others(r *Reference, ours float64) string {
	if r == nil || m.paper == nil || m.paper(r) < 0 {
		return ""
	}
	text := decimal(m.paper(r), m.digits)
	if by := percentDifference(ours, m.paper(r)); by != "" {
		text += " (" + by + ")"
	}
	return text
}

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"name":    func(m tableColumn) string { return m.name },
	"meaning": func(m tableColumn) string { return m.meaning },
	"digits": func(s trace.Statistic, v float64) string {
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
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}dt{font-weight:600}dd{margin:0}
.p{color:#a33c00;font-size:.85em;display:block}
figure{margin:2rem 0}figure svg{max-width:100%;height:auto;border:1px solid #eee}figcaption{color:#444;max-width:60rem}
</style>
<h1>Refresh policies over {{.Trace}}</h1>
<p>{{.Queries}} queries, {{.Revisions}} revisions, {{.Changes}} changes; budget rule <code>{{.Rule}}</code>.
All columns are taken from the trace, not from what happened to be executed.</p>
<h2>Columns</h2>
<dl>{{range .Measures}}<dt>{{name .}}</dt><dd>{{meaning .}}</dd>
{{end}}</dl>
<p>A slot is one revision. <strong>Bold</strong>: the best value of a column, the yardsticks left out, which no live ` +
	`endpoint can run: <code>{{.Clairvoyant}}</code> and <code>edf</code> know all results beforehand, and run what is stale ` +
	`longest or what changes again first; <code>rates</code> knows how often each result changes. The plots of ` +
	`detection have a bound that no schedule of requests for one query each exceeds.
<code>{{.Default}}</code> is the server's default policy.{{if .Compare}}
Below our figures are, where there are any, <span class="p" style="display:inline">those of the paper</span> ` +
	`({{.Published}}; DBpedia Live, so not the same trace), and by how many per cent ours are above or below.
{{.Why}}{{end}}</p>
{{range .Tables}}<h2>{{.Title}}</h2>
<div class="scroll"><table><thead><tr><th>policy</th>{{range $.Measures}}<th title="{{meaning .}}">{{name .}}</th>{{end}}</tr></thead>
<tbody>{{range .Rows}}<tr><td><code>{{.Policy}}</code></td>{{range .Cells}}<td>{{if ` +
	`.Best}}<strong>{{.Ours}}</strong>{{else}}{{.Ours}}{{end}}{{with .Published}}<span class="p">{{.}}</span>{{end}}</td>{{end}}</tr>
{{end}}</tbody></table></div>
{{end}}<h2>Plots</h2>
{{range .Figures}}<figure id="{{.Name}}">{{.SVG}}<figcaption>{{.Caption}}</figcaption></figure>
{{end}}{{if .Compare}}<h2>The trace beside what is published</h2>
<table><thead><tr><th>{{.Source}}</th><th>this trace</th><th>published</th></tr></thead>
<tbody>{{range .Statistics}}<tr><td>{{.Name}}</td><td>{{digits . .Value}}</td><td>{{digits . .Target}}</td></tr>
{{end}}</tbody></table>
{{end}}</html>
`))
