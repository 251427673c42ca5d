package watch

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// Words are a change for people. No line is longer than 240 characters, and none has control characters.
type Words struct {
	Headline string   // what happened in numbers, such as "1 row added, 2 removed"
	Lines    []string // what happened to single rows, such as "dock 7: bikes 3 → 4"; at most 50
	More     int      // rows without a line
	Cause    string   // what may have changed it, such as "possibly by revision 2145 of Q42"; empty if nothing tells
	// Edits are those of the cause, one after another.
	Edits []registry.DataEdit
}

// By returns the words with the edits of the data that may have caused the change.
func (w Words) By(edits []registry.DataEdit) Words {
	for i, e := range edits {
		sep := ", "
		if i == 0 {
			sep = "possibly by "
		}
		e.Text = Line(e.Text, mostLine-1)
		w.Cause, w.Edits = w.Cause+sep+e.Text, append(w.Edits, e)
	}
	w.Cause = Line(w.Cause, mostLine-1)
	return w
}

// Short returns one line: that of the rows, if there are at most three short ones, else the headline.
func (w Words) Short() string {
	if w.More > 0 || len(w.Lines) == 0 || len(w.Lines) > 3 {
		return w.Headline
	}
	if all := strings.Join(w.Lines, "; "); utf8.RuneCountInString(all) <= mostLine {
		return all
	}
	return w.Headline
}

// All returns the lines, at most 50, and how many more there are; without lines the headline. The cause is the last.
func (w Words) All() []string {
	if len(w.Lines) == 0 {
		return w.caused([]string{w.Headline})
	}
	return w.caused(w.first(len(w.Lines), math.MaxInt))
}

func (w Words) caused(lines []string) []string {
	if w.Cause != "" {
		lines = append(lines, w.Cause)
	}
	return lines
}

// What fits on the screen of a phone.
const screenLines, screenText = 10, 700

// Screen returns what fits on the screen of a phone: at most 10 lines and 700 characters. The lines are
// separated by line feeds. The headline is the first if not all rows have a line, and the cause the last.
func (w Words) Screen() string {
	most, text := screenLines, screenText
	if w.Cause != "" {
		most, text = most-1, text-mostLine
	}
	lines := w.first(most, text)
	if len(lines) == 0 || len(lines) < len(w.Lines) || w.More > 0 {
		lines = append([]string{w.Headline}, w.first(most-2, text-mostLine)...)
	}
	return strings.Join(w.caused(lines), "\n")
}

// first returns the first lines, at most so many and of so many characters, and how many more there are.
func (w Words) first(most, text int) (list []string) {
	for _, line := range w.Lines[:min(len(w.Lines), most)] {
		if text -= utf8.RuneCountInString(line) + 1; text < 0 {
			break
		}
		list = append(list, line)
	}
	if more := len(w.Lines) - len(list) + w.More; more > 0 && len(list) > 0 {
		list = append(list, fmt.Sprintf("and %d more", more))
	}
	return list
}

// InWords writes a change of any form for people. The rows of a watch are written as its facts. A
// row that is removed and one that is added are written as one line if they have a term in common
// that names something, not only a number or a date, and no other row has more in common with them.
func InWords(d *diff.Delta, w *Watch, n Namer) Words {
	switch {
	case d == nil:
		return Words{Headline: "no change"}
	case d.Form == diff.Ask && d.Baseline:
		return Words{Headline: fmt.Sprintf("first result: %v", d.Boolean)}
	case d.Form == diff.Ask:
		return Words{Headline: fmt.Sprintf("now %v, was %v", d.Boolean, d.Previous)}
	case d.Baseline:
		return Words{Headline: "first result: " + counted(d.NewLen, d.Form)}
	}
	out := Words{Headline: headline(d)}
	if w != nil && w.Kind != ByQuery && d.Form == diff.Select {
		out.Lines, out.More = w.changed(d, n)
	} else {
		out.lines(d, n)
	}
	for i, line := range out.Lines {
		out.Lines[i] = Line(line, mostLine-1)
	}
	return out
}

func counted(n int, f diff.Form) string {
	kind := "row"
	if f.Graph() {
		kind = "triple"
	}
	if n != 1 {
		kind += "s"
	}
	return fmt.Sprintf("%d %s", n, kind)
}

func headline(d *diff.Delta) string {
	added, removed := len(d.Added), len(d.Removed)
	switch {
	case added == 0 && removed == 0 && d.Ordered:
		return "only the order changed"
	case added == 0 && removed == 0:
		return "no row changed"
	case added == 0:
		return counted(removed, d.Form) + " removed"
	case removed == 0:
		return counted(added, d.Form) + " added"
	}
	return fmt.Sprintf("%s added, %d removed", counted(added, d.Form), removed)
}

// mostPaired is the number of rows of each side that are compared with the other side.
const mostPaired = 50

// lines writes the rows, those that changed first.
func (w *Words) lines(d *diff.Delta, n Namer) {
	added, removed := terms(d.Form, d.Vars, d.Added), terms(d.Form, d.OldVars, d.Removed)
	vars := d.Vars
	if d.Form.Graph() {
		vars = nil
	}
	comparable := d.Form.Graph() || slices.Equal(d.Vars, d.OldVars)
	var rest []string
	taken := map[int]bool{}
	only := d.NewLen == 1 && len(added) == 1 && len(removed) == 1 && // one row of figures
		!slices.ContainsFunc(removed[0], names) && !slices.ContainsFunc(added[0], names)
	for _, old := range removed {
		i := -1
		switch {
		case !comparable:
		case only:
			i = 0
		default:
			i = closest(old, added, taken)
		}
		if i < 0 {
			rest = append(rest, "− "+n.row(d.OldVars, old))
			continue
		}
		taken[i] = true
		w.Lines = append(w.Lines, n.edit(vars, old, added[i]))
	}
	for i, row := range added {
		if !taken[i] {
			rest = append(rest, "+ "+n.row(vars, row))
		}
	}
	w.Lines = append(w.Lines, rest...)
	if len(w.Lines) > mostLines {
		w.Lines = w.Lines[:mostLines]
	}
	w.More = len(d.Added) + len(d.Removed) - len(taken) - len(w.Lines)
}

func terms(f diff.Form, vars []string, rows diff.Rows) (list [][]diff.Term) {
	for _, row := range rows[:min(len(rows), mostPaired)] {
		list = append(list, diff.RowTerms(f, vars, row))
	}
	return list
}

// closest returns the index of the row that has most terms in common with old, -1 if none has one that
// names something.
func closest(old []diff.Term, added [][]diff.Term, taken map[int]bool) int {
	best, most := -1, 0
	for i, row := range added {
		same, named := 0, false
		for j := range min(len(old), len(row)) {
			if old[j] == row[j] && old[j].Kind != diff.Unbound {
				same, named = same+1, named || names(old[j])
			}
		}
		if len(row) == len(old) && named && same > most && !taken[i] {
			best, most = i, same
		}
	}
	return best
}

// names reports whether a term may be what a row is about: it is not only a number, a date or an answer.
func names(t diff.Term) bool {
	return t.Kind != diff.Unbound && (t.Kind != diff.Literal || t.Datatype == "")
}

// row writes the terms of a row.
func (n Namer) row(vars []string, terms []diff.Term) string {
	var list []string
	for i, t := range terms {
		if t.Kind != diff.Unbound {
			list = append(list, n.cell(vars, i, t))
		}
	}
	return strings.Join(list, ", ")
}

// cell writes a term, and before it its variable if the term alone says little: a number, or a code such
// as t2.
func (n Namer) cell(vars []string, i int, t diff.Term) string {
	text := n.term(t)
	code := t.Lang == "" && !strings.Contains(text, " ") && strings.ContainsAny(text, "0123456789")
	if !code || i >= len(vars) || len(vars[i]) < 2 || strings.HasPrefix(strings.ToLower(text), strings.ToLower(vars[i])) {
		return text
	}
	return Line(vars[i], mostSide) + " " + text
}

// edit writes what two rows have in common, and then what differs.
func (n Namer) edit(vars []string, old, row []diff.Term) string {
	var same, differ []string
	for i := range row {
		if old[i] == row[i] {
			if row[i].Kind != diff.Unbound {
				same = append(same, n.cell(vars, i, row[i]))
			}
			continue
		}
		name := ""
		if i < len(vars) {
			name = Line(vars[i], mostSide) + " "
		}
		differ = append(differ, name+n.step(old[i], row[i]))
	}
	if len(differ) == 0 {
		return strings.Join(same, ", ") + " moved"
	}
	if len(same) == 0 {
		return strings.Join(differ, ", ")
	}
	// What differs must be seen although the line is cut.
	return Line(strings.Join(same, ", "), mostLine/3) + ": " + strings.Join(differ, ", ")
}

// Plain knows no label.
func Plain(string) string { return "" }
