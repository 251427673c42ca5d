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

// A form holds what somebody typed and what is wrong with each field. The label of
// a field is its name, which is the name of the setting in the configuration file and
// the API. Its element has the id f-NAME, its sentence of help f-NAME-h and its
// error f-NAME-e.
type form struct {
	Values  url.Values
	Fields  []string          // their names, in their order on the page
	Errors  map[string]string // by field
	Problem string            // what is wrong with the whole
	Status  int               // of the answer, 0 when nothing is wrong
}

// typed is a form with what the request brings.
func (v *visit) typed(fields []string) form { return form{Values: v.r.PostForm, Fields: fields} }

// Get is the value of a field.
func (f form) Get(name string) string { return f.Values.Get(name) }

// Bad is what is wrong with a field, "" when nothing is.
func (f form) Bad(name string) string { return f.Errors[name] }

// Is says whether a field has a value; of a group, whether it is the chosen one.
func (f form) Is(name, value string) bool { return f.Values.Get(name) == value }

// Attrs returns the attributes that name the help and the error of a field. The first
// wrong field gets the focus when the page opens.
func (f form) Attrs(name string) template.HTMLAttr {
	id := "f-" + template.HTMLEscapeString(name)
	if f.Errors[name] == "" {
		return template.HTMLAttr(` aria-describedby="` + id + `-h"`)
	}
	wrong := ` aria-describedby="` + id + "-e " + id + `-h" aria-invalid="true"`
	if f.wrong()[0] == name {
		wrong += " autofocus"
	}
	return template.HTMLAttr(wrong)
}

// A fieldError is the text of an error and the name of its field.
type fieldError struct{ Name, Text string }

// Wrong is the error of a field, nil when there is none.
func (f form) Wrong(name string) *fieldError {
	if f.Errors[name] == "" {
		return nil
	}
	return &fieldError{name, f.Errors[name]}
}

// wrong returns the fields that need a change, in the form's order.
func (f form) wrong() (list []string) {
	for _, name := range f.Fields {
		if f.Errors[name] != "" {
			list = append(list, name)
		}
	}
	return list
}

// A refusal heads the page that answers a refused form. It links to each field that
// needs a change.
type refusal struct {
	Problem string
	Fields  []fieldError
}

// refusal is nil when nothing is wrong.
func (f form) refusal() *refusal {
	if f.Status < 400 {
		return nil
	}
	r := &refusal{Problem: f.Problem}
	for _, name := range f.wrong() {
		r.Fields = append(r.Fields, fieldError{name, f.Errors[name]})
	}
	return r
}

// again answers a form with its page: typed values stay, and errors show at the top
// and beside their fields.
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
	if !told || web.Status(p.Kind) >= 500 || web.Status(p.Kind) == http.StatusNotFound {
		return err
	}
	for _, e := range p.Errors {
		name, rest := fieldOf(e.Pointer)
		if slices.Contains(f.Fields, name) {
			f.bad(name, sentence(lineOf(rest)+e.Detail))
		}
	}
	if len(f.Errors) == 0 {
		f.Problem = sentence(p.Detail)
		if f.Problem == "" {
			f.Problem = p.Heading() + "."
		}
	}
	f.Status = web.Status(p.Kind)
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
// what is lost. Its form is posted to the page's own address.
type confirmation struct {
	What   string // endpoint, profile, token, websub, webhook or connection
	Name   string
	Action string
	Back   string
	// What is lost with it, where it has such.
	Queries  string // of an endpoint
	Callback string // of a subscription
	GivenUp  int    // messages of a webhook
	Held     int    // queries of a token, at least
	HeldMore bool
	Mine     bool // the token of this session
}

func (c confirmation) content(verb string, r *http.Request) content {
	c.Action = r.URL.EscapedPath()
	return content{Title: verb + " " + c.Name + "?", Data: c}
}
