package main

// This file prints answers and results: as tables on a terminal, and exactly elsewhere.

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/show"
	"github.com/freshet/freshet/diff"
)

// maxEntries is how many entries of a list of objects are printed.
const maxEntries = 8

// Columns prints lines of aligned cells.
type columns struct{ *tabwriter.Writer }

// newColumns returns columns with a header, whose cells are separated by tabs.
func newColumns(w *cli.Env, header string) columns {
	t := columns{tabwriter.NewWriter(w.Stdout, 0, 4, 2, ' ', 0)}
	t.row(header)
	return t
}

func (t columns) row(cells ...any) {
	fmt.Fprintf(t, strings.TrimSuffix(strings.Repeat("%v\t", len(cells)), "\t")+"\n", cells...)
}

// printFields prints a JSON object as aligned lines, in the server's order. The
// members of a nested object follow its name, a list is one line, and a list of objects
// has one line for each. remark, if not nil, returns the text after a member. Members
// in skip are omitted.
func printFields(w io.Writer, raw json.RawMessage, remark func(name string) string, skip ...string) error {
	fields, ok := objectOf(raw)
	if !ok {
		return fmt.Errorf("the server did not answer with an object")
	}
	fields = slices.DeleteFunc(fields, func(f field) bool { return slices.Contains(skip, f.name) })
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, f := range fields {
		words := ""
		if remark != nil {
			words = remark(f.name)
		}
		f.print(t, "", words)
	}
	return t.Flush()
}

// A field is a member of a JSON object.
type field struct {
	name  string
	value json.RawMessage
}

// objectOf returns an object's members in their order.
func objectOf(raw json.RawMessage) (fields []field, ok bool) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		key, err := d.Token()
		f := field{name: fmt.Sprint(key)}
		if err != nil || d.Decode(&f.value) != nil {
			return nil, false
		}
		fields = append(fields, f)
	}
	return fields, true
}

func (f field) print(w io.Writer, indent, remark string) {
	inner, object := objectOf(f.value)
	lines, list := f.lines()
	switch {
	case object && len(inner) > 0:
		fmt.Fprintf(w, "%s%s\n", indent, f.name)
		for _, x := range inner {
			x.print(w, indent+"  ", "")
		}
		return
	case list:
		fmt.Fprintf(w, "%s%s\n", indent, f.name)
		for _, l := range lines {
			fmt.Fprintf(w, "%s  %s\n", indent, l)
		}
		return
	}
	fmt.Fprintf(w, "%s%s\t%s", indent, f.name, plainValue(f.value))
	if remark != "" {
		fmt.Fprintf(w, "\t%s", remark)
	}
	fmt.Fprintln(w)
}

// lines returns the lines of a value that needs several: text with line breaks, or a
// list of objects.
func (f field) lines() (lines []string, ok bool) {
	var text string
	if json.Unmarshal(f.value, &text) == nil && strings.Contains(text, "\n") {
		for l := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
			lines = append(lines, show.Escape(l))
		}
		return lines, true
	}
	var list []json.RawMessage
	if json.Unmarshal(f.value, &list) != nil || len(list) == 0 {
		return nil, false
	}
	if _, objects := objectOf(list[0]); !objects {
		return nil, false
	}
	for _, x := range list[:min(len(list), maxEntries)] {
		lines = append(lines, plainValue(x))
	}
	if n := len(list) - maxEntries; n > 0 {
		lines = append(lines, fmt.Sprintf("and %d more: --json shows them", n))
	}
	return lines, true
}

// plainValue writes a JSON value as text in one line.
func plainValue(raw json.RawMessage) string {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return string(raw)
	}
	switch v := v.(type) {
	case nil:
		return "–"
	case string:
		if v == "" {
			return "–"
		}
		return show.Escape(strings.Join(strings.Fields(v), " "))
	case []any:
		var list []json.RawMessage
		_ = json.Unmarshal(raw, &list) // it is one
		words := make([]string, len(list))
		for i, x := range list {
			words[i] = plainValue(x)
		}
		return orDash(strings.Join(words, ", "))
	case map[string]any:
		fields, _ := objectOf(raw)
		words := make([]string, len(fields))
		for i, f := range fields {
			words[i] = f.name + " " + plainValue(f.value)
		}
		return orDash(strings.Join(words, ", "))
	}
	if n, ok := v.(float64); ok && n != 0 && math.Abs(n) < 1e-9 { // to a person it is nothing
		return "about 0"
	}
	return string(raw)
}

func orDash(s string) string {
	if s == "" {
		return "–"
	}
	return s
}

// printResult prints the result at a path. In a format that the user names it is exact. Otherwise a terminal gets a
// table unless JSON is wanted, and JSON ends with a line break. It says which time a past result is of.
func (a *remote) printResult(ctx context.Context, path, format string) error {
	resp, err := a.send(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if then, err := http.ParseTime(resp.Header.Get("Memento-Datetime")); err == nil {
		fmt.Fprintf(a.w.Stderr, "the result of %s\n", then.UTC().Format(time.RFC3339))
	}
	isJSON := format == "" && strings.Contains(resp.Header.Get("Content-Type"), "json")
	if a.w.Screen && !a.asJSON && isJSON {
		return printResultTable(a.w, resp.Body)
	}
	if err := printRaw(a.w, resp.Body); err != nil || !isJSON {
		return err
	}
	_, err = io.WriteString(a.w.Stdout, "\n")
	return err
}

// printResultTable prints the rows of a result in SPARQL's JSON.
func printResultTable(w *cli.Env, in io.Reader) error {
	var r struct {
		Head    struct{ Vars []string }
		Boolean *bool
		Results struct{ Bindings []json.RawMessage }
	}
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("the result cannot be read: %w", err)
	}
	if r.Boolean != nil {
		_, err := fmt.Fprintln(w.Stdout, *r.Boolean)
		return err
	}
	t := newColumns(w, strings.Join(r.Head.Vars, "\t"))
	for _, row := range r.Results.Bindings {
		cells := make([]string, len(r.Head.Vars))
		for i, term := range diff.RowTerms(diff.Select, r.Head.Vars, row) {
			if cells[i] = show.Bounded(term.Value); term.Kind == diff.Blank {
				cells[i] = "_:" + cells[i]
			}
			if term.Lang != "" {
				cells[i] += "@" + term.Lang
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w.Stderr, show.Quantity(len(r.Results.Bindings), "row"))
	return nil
}

// printRaw copies an answer to the output. On a terminal it replaces the characters that
// control it; line breaks and tabs stay.
func printRaw(w *cli.Env, in io.Reader) error {
	if !w.Screen {
		_, err := io.Copy(w.Stdout, in)
		return err
	}
	for from := bufio.NewReader(in); ; {
		line, err := from.ReadString('\n')
		text := strings.TrimSuffix(strings.TrimSuffix(line, "\r\n"), "\n")
		cells := strings.Split(text, "\t")
		for i := range cells {
			cells[i] = show.Escape(cells[i])
		}
		if _, failed := io.WriteString(w.Stdout, strings.Join(cells, "\t")+line[len(text):]); failed != nil || errors.Is(err, io.EOF) {
			return failed
		}
		if err != nil {
			return err
		}
	}
}
