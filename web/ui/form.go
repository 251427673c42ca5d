package ui

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/freshet/freshet/web"
)

// A form is what somebody typed, with what is wrong about it beside each field.
type form struct {
	Values  url.Values
	Errors  map[string]string // by field
	Problem string            // what is wrong with the whole
	Status  int               // of the answer, 0 when nothing is wrong
}

// Get is the value of a field.
func (f form) Get(name string) string { return f.Values.Get(name) }

// Bad is what is wrong with a field, "" when nothing is.
func (f form) Bad(name string) string { return f.Errors[name] }

// Is says whether a field has a value; of a group, whether it is the chosen one.
func (f form) Is(name, value string) bool { return f.Values.Get(name) == value }

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

// refuse notes an error that whoever typed can mend; any other it returns.
// fields are those that the form has: what is wrong elsewhere is told above it.
func (f *form) refuse(err error, fields ...string) error {
	p, told := web.ProblemOf(err)
	if !told || p.Status >= 500 || p.Status == http.StatusNotFound {
		return err
	}
	f.Status = p.Status
	for _, e := range p.Errors {
		if name := fieldOf(e.Pointer); slices.Contains(fields, name) {
			f.bad(name, sentence(e.Detail))
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

// fieldOf is the first part of a JSON pointer.
func fieldOf(pointer string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	return name
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
