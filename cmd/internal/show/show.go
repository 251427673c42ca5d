// Package show writes results and changes for people at a terminal.
package show

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// PrintFirst prints the first rows of a result.
func PrintFirst(w io.Writer, r *diff.Result, most int) {
	if r == nil || r.Form() == diff.Ask {
		return
	}
	n := min(most, r.Len())
	for i := range n {
		fmt.Fprintf(w, "    %s\n", Row(r.Form(), r.Vars(), r.Row(i)))
	}
	if n > 0 && n < r.Len() {
		fmt.Fprintf(w, "    … %d more\n", r.Len()-n)
	}
}

// Clock writes the time of day, as far as it is known.
func Clock(t time.Time) string {
	if t.IsZero() {
		return "--:--:--"
	}
	return t.Local().Format("15:04:05")
}

// Quantity writes a number of things.
func Quantity(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Size describes how large a result is.
func Size(r *diff.Result) string {
	switch {
	case r == nil:
		return "no result"
	case r.Form() == diff.Ask:
		return fmt.Sprint(r.Boolean())
	case r.Form().Graph():
		return Quantity(r.Len(), "triple")
	}
	return Quantity(r.Len(), "row")
}

// A Painter colours text, if true: green for added, yellow for removed.
type Painter bool

func (p Painter) added(s string) string   { return p.paint("32", s) }
func (p Painter) removed(s string) string { return p.paint("33", s) }
func (p Painter) paint(code, s string) string {
	if !p {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// DeltaSize describes how large a change is.
func DeltaSize(d *diff.Delta, p Painter) string {
	if d.Form == diff.Ask {
		return fmt.Sprintf("now %v, before %v", d.Boolean, d.Previous)
	}
	return p.added(fmt.Sprintf("+%d", len(d.Added))) + " " + p.removed(fmt.Sprintf("−%d", len(d.Removed)))
}

// PrintDelta prints at most max rows of each side.
func PrintDelta(w io.Writer, d *diff.Delta, max int, p Painter) {
	side := func(sign string, rows diff.Rows, vars []string, paint func(string) string) {
		for i, row := range rows {
			if i == max {
				fmt.Fprintf(w, "    … %d more\n", len(rows)-max)
				return
			}
			fmt.Fprintf(w, "  %s\n", paint(sign+" "+Row(d.Form, vars, row)))
		}
	}
	side("−", d.Removed, d.OldVars, p.removed)
	side("+", d.Added, d.Vars, p.added)
}

// Row writes one row as text: variables with short terms, or a triple.
func Row(form diff.Form, vars []string, row []byte) string {
	if form.Graph() {
		return Bounded(string(row))
	}
	var b strings.Builder
	for i, t := range diff.RowTerms(form, vars, row) {
		if t.Kind == diff.Unbound {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("  ")
		}
		fmt.Fprintf(&b, "%s=%s", vars[i], shortTerm(t))
	}
	return b.String()
}

func shortTerm(t diff.Term) string {
	s := Bounded(t.Value)
	switch t.Kind {
	case diff.IRI:
		if i := strings.LastIndexAny(s, "/#"); i > 0 && i < len(s)-1 {
			s = s[i+1:]
		}
		return "<" + s + ">"
	case diff.Blank:
		return "_:" + s
	}
	if t.Lang != "" {
		return s + "@" + t.Lang
	}
	return s
}

// Escape replaces characters of an endpoint's text that control a terminal.
func Escape(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '·'
		}
		return r
	}, s)
}

// Bounded returns at most 200 characters of a text, with control characters replaced.
func Bounded(s string) string {
	s = Escape(s)
	const most = 200
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// Change writes one change in a line, with its first rows below.
func Change(name string, c registry.Change, color bool) string {
	var b strings.Builder
	p := Painter(color)
	if c.Baseline {
		first := Quantity(c.Delta.NewLen, "row")
		if c.Delta.Form == diff.Ask {
			first = fmt.Sprint(c.Delta.Boolean)
		} else if c.Delta.Form.Graph() {
			first = Quantity(c.Delta.NewLen, "triple")
		}
		fmt.Fprintf(&b, "%s %-26s first result, %s", Clock(c.Time), name, first)
		return b.String()
	}
	fmt.Fprintf(&b, "%s %-26s #%d %s\n", Clock(c.Time), name, c.Seq, DeltaSize(c.Delta, p))
	PrintDelta(&b, c.Delta, 2, p)
	return strings.TrimSuffix(b.String(), "\n")
}

// Shortened returns a text in one line of at most so many bytes.
func Shortened(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// Ago writes the time since t in one unit, for lists.
func Ago(t *time.Time, now time.Time) string {
	if t == nil {
		return "–"
	}
	d := now.Sub(*t)
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return t.UTC().Format("2 Jan, 15:04")
}

// Rounded shortens a duration to tenths of a second, or to seconds from a minute on.
func Rounded(d time.Duration) string {
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
