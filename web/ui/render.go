package ui

import (
	"cmp"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// render writes a page.
func (v *visit) render(status int, look string, f *frame) {
	b, err := pack(func(w io.Writer) error { return v.templates[look].page(w, f) })
	if err != nil {
		if look != "error" {
			v.fail(err)
			return
		}
		web.Answer(v.w, v.r, err)
		return
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	v.endBuild()
	b.send(v.w, v.r, status)
}

// fragment sends one part of a page to the script.
func (v *visit) fragment(look, name string, data any) error {
	b, err := pack(func(w io.Writer) error { return v.templates[look].part(w, name, data) })
	if err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	b.send(v.w, v.r, http.StatusOK)
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
	Status   int
	Type     string
	Title    string
	Detail   string
	Fields   []registry.FieldError
	Internal bool // the error is the server's, and only its log says what it is
	Section  string
}

// fail answers with a page that explains the error.
func (v *visit) fail(err error) {
	p, told := web.ProblemOf(err)
	web.NoteError(v.w, err)
	if p.RetryAfter > 0 {
		v.w.Header().Set("Retry-After", strconv.Itoa(int(p.RetryAfter.Seconds())))
	}
	e := errorPage{Status: web.Status(p.Kind), Type: string(p.Kind), Title: p.Heading(), Detail: p.Detail, Fields: p.Errors, Internal: !told, Section: section(v.r.URL.Path)}
	v.render(web.Status(p.Kind), "error", v.frame(section(v.r.URL.Path), content{Data: e}))
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
