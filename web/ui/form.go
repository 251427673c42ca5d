package ui

import (
	"cmp"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/web"
)

// A form is what somebody typed, with what is wrong about it beside each field.
type form struct {
	Values  url.Values
	Fields  []field           // those that it has, in their order on the page
	Errors  map[string]string // by field
	Problem string            // what is wrong with the whole
	Status  int               // of the answer, 0 when nothing is wrong
}

// A field of a form. Hint says that a text describes it, under the id ID-h.
type field struct {
	Name, Label, ID string
	Hint            bool
}

// typed is a form with what the request brings.
func (v *visit) typed(fields []field) form { return form{Values: v.r.PostForm, Fields: fields} }

// Get is the value of a field.
func (f form) Get(name string) string { return f.Values.Get(name) }

// Bad is what is wrong with a field, "" when nothing is.
func (f form) Bad(name string) string { return f.Errors[name] }

// Is says whether a field has a value; of a group, whether it is the chosen one.
func (f form) Is(name, value string) bool { return f.Values.Get(name) == value }

// field finds one of the form's fields.
func (f form) field(name string) (field, bool) {
	i := slices.IndexFunc(f.Fields, func(x field) bool { return x.Name == name })
	if i < 0 {
		return field{}, false
	}
	return f.Fields[i], true
}

// Attrs are the attributes that say what describes a field and whether it is
// wrong. The first wrong field gets the focus when the page opens.
func (f form) Attrs(name string) template.HTMLAttr {
	x, _ := f.field(name)
	id := template.HTMLEscapeString(x.ID)
	var hint, wrong string
	if x.Hint {
		hint = id + "-h"
	}
	if f.Errors[name] == "" {
		if hint != "" {
			hint = ` aria-describedby="` + hint + `"`
		}
		return template.HTMLAttr(hint)
	}
	wrong = ` aria-describedby="` + strings.TrimSpace(id+"-e "+hint) + `" aria-invalid="true"`
	if first := f.wrong(); first[0].Name == name {
		wrong += " autofocus"
	}
	return template.HTMLAttr(wrong)
}

// A fieldError is what a template writes under a field.
type fieldError struct{ ID, Text string }

// Wrong is what is written under a field, nil when nothing is wrong.
func (f form) Wrong(name string) *fieldError {
	if f.Errors[name] == "" {
		return nil
	}
	x, _ := f.field(name)
	return &fieldError{x.ID + "-e", f.Errors[name]}
}

// wrong are the fields that need a change, in the form's order.
func (f form) wrong() (list []field) {
	for _, x := range f.Fields {
		if f.Errors[x.Name] != "" {
			list = append(list, x)
		}
	}
	return list
}

// A refusal stands at the top of the page that answers a refused form. It leads
// to each field that needs a change.
type refusal struct {
	Strong, Rest string
	Fields       []refused
}

type refused struct{ Label, Link, Text string }

// refusal is nil when nothing is wrong.
func (f form) refusal() *refusal {
	if f.Status < 400 {
		return nil
	}
	r := &refusal{Strong: "Nothing was saved.", Rest: f.Problem}
	for _, x := range f.wrong() {
		r.Fields = append(r.Fields, refused{x.Label, "#" + x.ID, f.Errors[x.Name]})
	}
	switch n := len(r.Fields); {
	case n == 1:
		r.Strong = "Nothing was saved: one field needs a change."
	case n > 1:
		r.Strong = "Nothing was saved: " + count(n) + " fields need a change."
	}
	return r
}

// again answers a form with its page: what was typed stays, and what is wrong
// stands at the top and beside its field.
func (v *visit) again(f form, look, section string, c content) error {
	frame := v.frame(section, c)
	if frame.Refused = f.refusal(); frame.Refused != nil {
		frame.Title = "Not saved: " + frame.Title
	}
	v.render(cmp.Or(f.Status, http.StatusOK), look, frame)
	return nil
}

// bad notes what is wrong with a field.
func (f *form) bad(name, text string) {
	if f.Errors == nil {
		f.Errors = map[string]string{}
	}
	if f.Errors[name] == "" {
		f.Errors[name] = text
	}
	f.Status = http.StatusUnprocessableEntity
}

// refuse notes an error that the visitor can mend; any other it returns. What
// is wrong outside the form's fields is said about the whole.
func (f *form) refuse(err error) error {
	p, told := web.ProblemOf(err)
	if !told || p.Status >= 500 || p.Status == http.StatusNotFound {
		return err
	}
	for _, e := range p.Errors {
		name, rest := fieldOf(e.Pointer)
		if _, has := f.field(name); has {
			f.bad(name, sentence(lineOf(rest)+e.Detail))
		}
	}
	if len(f.Errors) == 0 {
		f.Problem = sentence(p.Detail)
		if f.Problem == "" {
			f.Problem = p.Title + "."
		}
	}
	f.Status = p.Status
	return nil
}

// lineOf names the line of a field whose lines are the elements of a list.
func lineOf(rest string) string {
	index, _, _ := strings.Cut(rest, "/")
	if n, err := strconv.Atoi(index); err == nil {
		return "line " + strconv.Itoa(n+1) + ": "
	}
	return ""
}

// fieldOf is the first part of a JSON pointer, and the rest.
func fieldOf(pointer string) (name, rest string) {
	name, rest, _ = strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	return name, rest
}

// sentence gives a message its capital and its full stop.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	if c := s[0]; c >= 'a' && c <= 'z' && !strings.HasPrefix(s, "max_") && !strings.HasPrefix(s, "min_") {
		s = string(c-'a'+'A') + s[1:]
	}
	if !strings.ContainsAny(s[len(s)-1:], ".!?:)") {
		s += "."
	}
	return s
}

// lines splits what was typed one a line, or separated by commas.
func lines(s string) []string {
	var out []string
	for _, x := range strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' || r == ',' }) {
		if x = strings.TrimSpace(x); x != "" {
			out = append(out, x)
		}
	}
	return out
}

// A confirmation is the page before something that cannot be undone: it names
// what is lost.
type confirmation struct {
	Title  string
	Bold   string // the sentence that answers what will happen
	Rest   string
	Loses  []string // what is lost, one a line
	Action string   // where the form goes
	Button string
	Keep   string // the words of the way back
	Back   string
	Crumb  string
}

func (c confirmation) content() content { return content{Title: c.Title, Data: c} }
