package ui

import (
	"fmt"
	"html/template"
	"io"
)

// A pageTemplate is the parsed templates of a page: its own file among the shared ones.
type pageTemplate struct{ t *template.Template }

// newPageTemplate parses templates/{name}.html, which defines "main", with the layout,
// the rail and the partials.
func newPageTemplate(name string, a assets) (*pageTemplate, error) {
	t, err := template.New(name).Funcs(functions(a)).ParseFS(templateFiles, "templates/layout.html", "templates/partials.html", "templates/forms.html", "templates/"+name+".html")
	if err != nil {
		return nil, fmt.Errorf("ui: %w", err)
	}
	return &pageTemplate{t}, nil
}

func (l *pageTemplate) page(w io.Writer, f *frame) error {
	return l.t.ExecuteTemplate(w, "layout", f)
}

func (l *pageTemplate) part(w io.Writer, name string, data any) error {
	return l.t.ExecuteTemplate(w, name, data)
}

func functions(a assets) template.FuncMap {
	return template.FuncMap{
		"asset":    func(name string) string { return a[name].url },
		"count":    func(n int) string { return count(n) },
		"amount":   func(n int64) string { return amount(n) },
		"took":     took,
		"cut":      func(n int, s string) string { return clip(s, n) },
		"list":     func(v ...any) []any { return v },
		"plural":   plural,
		"sentence": sentence,
	}
}
