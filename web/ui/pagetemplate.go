package ui

import (
	"fmt"
	"html/template"
	"io"
	"reflect"
	"time"
)

// A pageTemplate is the parsed templates of a page: its own file among the shared ones.
type pageTemplate struct{ t *template.Template }

// newPageTemplate parses templates/{name}.html, which defines "main", with the layout,
// the rail and the partials.
func newPageTemplate(name string, a assets) (*pageTemplate, error) {
	t, err := template.New(name).Funcs(functions(a)).ParseFS(templateFiles, "templates/layout.html", "templates/partials.html", "templates/forms.html", "templates/messages.html", "templates/"+name+".html")
	if err != nil {
		return nil, fmt.Errorf("ui: %w", err)
	}
	return &pageTemplate{t}, nil
}

func (l *pageTemplate) page(w io.Writer, f any) error {
	return l.t.ExecuteTemplate(w, "layout", f)
}

func (l *pageTemplate) part(w io.Writer, name string, data any) error {
	return l.t.ExecuteTemplate(w, name, data)
}

func functions(a assets) template.FuncMap {
	return template.FuncMap{
		"asset":    func(name string) string { return a[name].url },
		"count":    func(n any) string { return count(whole(n)) },
		"amount":   func(n any) string { return amount(whole(n)) },
		"plural":   func(n any, one, many string) string { return plural(whole(n), one, many) },
		"agree":    func(n any, one, many string) string { return agree(whole(n), one, many) },
		"took":     took,
		"seconds":  seconds,
		"back":     func(hour int) int { return hours - 1 - hour },
		"length":   lengthOf,
		"unit":     unit,
		"cost":     func(d any) measure { return cost(duration(d)) },
		"span":     func(d any) string { return span(duration(d)) },
		"share":    func(part, all any) measure { return share(float64(whole(part)) / float64(whole(all))) },
		"next":     func(n any) int64 { return whole(n) + 1 },
		"ordinal":  ordinal,
		"upper":    upper,
		"figures":  figures,
		"cut":      func(n int, s string) string { return clip(s, n) },
		"list":     func(v ...any) []any { return v },
		"sentence": sentence,
		"interval": interval,
	}
}

// whole returns a number of any integer type.
func whole(n any) int64 {
	v := reflect.ValueOf(n)
	if v.CanUint() {
		return int64(v.Uint())
	}
	return v.Int()
}

// duration returns a time.Duration or a registry.Duration.
func duration(d any) time.Duration { return time.Duration(whole(d)) }
