package ui

// This file reads the templates of pages and renders them.

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// render writes a page.
func (v *visit) render(status int, look string, f *frame) {
	var b bytes.Buffer
	if err := v.templates[look].ExecuteTemplate(&b, "layout", f); err != nil {
		if look != "error" {
			v.fail(err)
			return
		}
		web.Answer(v.w, v.r, err)
		return
	}
	sendHTML(v, status, b.Bytes())
}

// sendHTML sends a page or a part of one. While a slow browser reads it, it is compressed and no longer counts as built.
func sendHTML(v *visit, status int, b []byte) {
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	b = web.Packed(h, v.r, b)
	v.endBuild()
	writeAll(v.w, v.r, status, b)
}

// fragment sends one part of a page to the script.
func (v *visit) fragment(look, name string, data any) error {
	var b bytes.Buffer
	if err := v.templates[look].ExecuteTemplate(&b, name, data); err != nil {
		return err
	}
	sendHTML(v, http.StatusOK, b.Bytes())
	return nil
}

// again answers a rejected form with its page. Submitted values are kept; errors show
// at the top and beside their fields.
func (v *visit) again(f form, look, section string, c content) error {
	frame := v.frame(section, c)
	frame.Refused = f.refusal()
	v.render(cmp.Or(f.Status, http.StatusOK), look, frame)
	return nil
}

// An errorPage says what failed, why, and what to do next.
type errorPage struct {
	*registry.Problem
	Status   int
	Internal bool // the error is the server's, and only its log says what it is
	Section  string
}

// fail answers with a page that explains the error, or with the sign-in form if a token may help.
func (v *visit) fail(err error) {
	if errors.Is(err, web.ErrUnauthorized) {
		sessionHandler{v}.ask()
		return
	}
	p, told := web.ProblemOf(err)
	web.NoteError(v.w, err)
	if p.RetryAfter > 0 {
		v.w.Header().Set("Retry-After", strconv.Itoa(int(p.RetryAfter.Seconds())))
	}
	e := errorPage{p, web.Status(p.Kind), !told, section(v.r.URL.Path)}
	v.render(e.Status, "error", v.frame(e.Section, content{Data: e}))
}

// section returns the navigation section that a path belongs to.
func section(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return first
}

// refused shows on the next page why an action was refused if the user can correct it.
// It returns any other error.
func (v *visit) refused(code string, err error, path string) error {
	f := form{}
	if err := f.refuse(err); err != nil {
		return err
	}
	v.say("fail", code, "", f.Problem)
	return v.back(path)
}

// parsed holds the templates of all pages by the names of their files, which define
// "main". All servers of a process share them: to parse them takes longer than all else
// that a server does at its start.
var parsed = sync.OnceValues(func() (map[string]*template.Template, error) {
	a, err := loadAssets()
	if err != nil {
		return nil, err
	}
	shared, err := template.New("").Funcs(functions(a)).ParseFS(templateFiles, "templates/layout.html", "templates/partials.html",
		"templates/forms.html", "templates/messages.html")
	if err != nil {
		return nil, fmt.Errorf("ui: %w", err)
	}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	all := map[string]*template.Template{}
	for _, file := range files {
		t, err := shared.Clone()
		if err == nil {
			t, err = t.ParseFS(templateFiles, file)
		}
		if err != nil {
			return nil, fmt.Errorf("ui: %w", err)
		}
		all[strings.TrimSuffix(path.Base(file), ".html")] = t
	}
	return all, err
})

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
		"add":      func(a, b int) int { return a + b },
		"next":     func(n any) int64 { return whole(n) + 1 },
		"ordinal":  ordinal,
		"upper":    upper,
		"figures":  figures,
		"cut":      func(n int, s string) string { return clip(s, n) },
		"list":     func(v ...any) []any { return v },
		"sentence": sentence,
		"interval": interval,
		"worded":   func(name string) bool { return slices.Contains(worded, name) },
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
