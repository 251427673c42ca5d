package ui

import (
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/web"
)

// A form holds submitted values and the error of each field. The label of a field is
// its name, which is also the name of the setting in the configuration file and the
// API, unless it is worded. Its element has the id f-NAME, its help text f-NAME-h and its error f-NAME-e.
type form struct {
	Values  url.Values
	Fields  []string         // field names in page order
	Faults  map[string]fault // by field
	Problem string           // an error of the form as a whole
	Status  int              // of the response, 0 if there is no error
}

// worded are the fields that people fill in who know no settings. The template "word" has their labels.
var worded = []string{"notify", "digest", "quiet", "zone", "most", "repeat", "to"}

// typed returns a form with the values of the request.
func (v *visit) typed(fields []string) form { return form{Values: v.r.PostForm, Fields: fields} }

func (f form) Get(name string) string { return f.Values.Get(name) }

// Bad reports whether a field has an error.
func (f form) Bad(name string) bool { return f.Faults[name] != fault{} }

// Is reports whether a field has a value; for a group, whether the value is the
// selected one.
func (f form) Is(name, value string) bool { return f.Values.Get(name) == value }

// Any reports whether one of the fields has a value or an error.
func (f form) Any(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return f.Get(name) != "" || f.Bad(name) })
}

// Attrs returns the attributes that name the help and the error of a field. The first
// invalid field gets the focus when the page opens.
func (f form) Attrs(name string) template.HTMLAttr {
	id := "f-" + template.HTMLEscapeString(name)
	if !f.Bad(name) {
		return template.HTMLAttr(` aria-describedby="` + id + `-h"`)
	}
	wrong := ` aria-describedby="` + id + "-e " + id + `-h" aria-invalid="true"`
	if f.wrong()[0] == name {
		wrong += " autofocus"
	}
	return template.HTMLAttr(wrong)
}

// A fault is the error of a field. The template "fault" has the sentence of each code;
// an error without a code has its own text.
type fault struct {
	Name string // of the field
	Code string
	Text string // the error, or the part of the input that the sentence quotes
	Line int    // of a field with several lines, 0 for the field as a whole
}

// Wrong returns the error of a field, nil if it has none.
func (f form) Wrong(name string) *fault {
	if x, ok := f.Faults[name]; ok {
		return &x
	}
	return nil
}

// wrong returns the invalid fields in form order.
func (f form) wrong() (list []string) {
	for _, name := range f.Fields {
		if f.Bad(name) {
			list = append(list, name)
		}
	}
	return list
}

// A refusal is the summary at the top of a page that answers a rejected form. It links
// to each invalid field.
type refusal struct {
	Problem string
	Fields  []fault
}

// refusal returns nil if there is no error.
func (f form) refusal() *refusal {
	if f.Status < 400 {
		return nil
	}
	r := &refusal{Problem: f.Problem}
	for _, name := range f.wrong() {
		r.Fields = append(r.Fields, f.Faults[name])
	}
	return r
}

// bad records an error of a field by its code.
func (f *form) bad(name, code string) { f.record(fault{Name: name, Code: code}) }

// record keeps the first error of a field.
func (f *form) record(x fault) {
	if f.Faults == nil {
		f.Faults = map[string]fault{}
	}
	if !f.Bad(x.Name) {
		f.Faults[x.Name] = x
	}
	f.Status = http.StatusUnprocessableEntity
}

// refuse records an error that the visitor can correct and returns any other. An error
// outside the form's fields applies to the form as a whole.
func (f *form) refuse(err error) error {
	p, told := web.ProblemOf(err)
	if !told || web.Status(p.Kind) >= 500 || web.Status(p.Kind) == http.StatusNotFound {
		return err
	}
	for _, e := range p.Errors {
		name, rest := fieldOf(e.Pointer)
		if slices.Contains(f.Fields, name) {
			f.record(fault{Name: name, Line: lineOf(rest), Text: e.Detail})
		}
	}
	if len(f.Faults) == 0 {
		f.Problem = sentence(p.Detail)
		if f.Problem == "" {
			f.Problem = p.Heading() + "."
		}
	}
	f.Status = web.Status(p.Kind)
	return nil
}

// refused shows a form again with an error that the visitor can correct. It returns any other.
func (f *form) refused(err error, again func() error) error {
	if err := f.refuse(err); err != nil {
		return err
	}
	return again()
}

// pointAt makes an error about one field one about another, in which the visitor wrote what is wrong.
func pointAt(err error, from, to string) error {
	p, told := web.ProblemOf(err)
	if !told {
		return err
	}
	about := *p
	about.Errors = slices.Clone(p.Errors)
	for i, e := range about.Errors {
		if e.Pointer == from {
			about.Errors[i].Pointer = to
		}
	}
	return &about
}

// lineOf returns the line of a field in which each line is a list element, else 0.
func lineOf(rest string) int {
	index, _, _ := strings.Cut(rest, "/")
	if n, err := strconv.Atoi(index); err == nil {
		return n + 1
	}
	return 0
}

// fieldOf splits a JSON pointer into its first part and the rest.
func fieldOf(pointer string) (name, rest string) {
	name, rest, _ = strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	return name, rest
}

// lines splits a value that is separated by line breaks or commas.
func lines(s string) []string {
	var out []string
	for _, x := range strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' || r == ',' }) {
		if x = strings.TrimSpace(x); x != "" {
			out = append(out, x)
		}
	}
	return out
}

// A confirmation is the page before an irreversible action. It lists what will be
// lost. Its form is posted to the page's own address.
type confirmation struct {
	What   string // endpoint, profile, rule, token, letters, websub, webhook or connection
	Name   string
	Action string
	Back   string
	// What is lost with it, if applicable.
	Queries  int      // of an endpoint
	Known    bool     // Queries is known
	InFile   bool     // the configuration names the endpoint
	Callback string   // of a subscription
	GivenUp  int      // messages of a webhook
	Newest   []string // dead letters, one of each subscription
	Held     int      // queries held by a token, a lower bound
	HeldMore bool
	Mine     bool // it is the token of this session
}

func (c confirmation) content(r *http.Request) content {
	if c.Action == "" {
		c.Action = r.URL.EscapedPath()
	}
	return content{Data: c}
}

// A choice is an option of a select.
type choice struct {
	Value, Label string
	Selected     bool
}
