package ui

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/freshet/freshet/registry"
)

// Numbers have at most three significant digits, and a narrow no-break space before
// their unit. "–" means "none", never 0.
const (
	thin  = "\u202f"
	none  = "–"
	minus = "−"
)

type integer interface {
	~int | ~int64 | ~uint | ~uint64
}

// count groups digits in threes: 11,306.
func count[N integer](n N) string {
	s := strings.TrimPrefix(strconv.FormatInt(int64(n), 10), "-") // counters stay far below 2^63
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	if n < 0 {
		s = minus + s
	}
	return s
}

func plural[N integer](n N, one, many string) string { return count(n) + " " + agree(n, one, many) }

// agree returns the form of a word that fits a number.
func agree[N integer](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// A measure is a number with its unit, which is displayed in smaller type.
type measure struct{ Value, Unit string }

// String returns the plain text, for attributes.
func (m measure) String() string {
	if m.Unit == "" {
		return m.Value
	}
	return m.Value + thin + m.Unit
}

// HTML renders the unit in grey.
func (m measure) HTML() template.HTML {
	if m.Unit == "" {
		return template.HTML(template.HTMLEscapeString(m.Value))
	}
	return template.HTML(template.HTMLEscapeString(m.Value) + `<span class="unit">` + thin + template.HTMLEscapeString(m.Unit) + `</span>`)
}

// figures formats three significant digits: 0.84, 8.4, 84.
func figures(x float64) string {
	switch a := math.Abs(x); {
	case a == 0:
		return "0"
	case a < 0.995:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case a < 99.5:
		return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
	}
	return count(int64(math.Round(x)))
}

// share formats a fraction as a percentage.
func share(x float64) measure {
	p := x * 100
	if p > 0 && p < 0.1 { // do not round a small share to 0 %
		return measure{"<0.1", "%"}
	}
	if p > 99.4 && p < 100 { // do not round a large share to 100 %
		return measure{strconv.FormatFloat(math.Floor(p*10)/10, 'f', 1, 64), "%"}
	}
	return measure{figures(p), "%"}
}

// cost formats an execution time: in ms below a second, in s below 100 s.
func cost(d time.Duration) measure {
	switch {
	case d <= 0:
		return measure{Value: none}
	case d < time.Millisecond:
		return measure{strconv.FormatFloat(float64(d)/1e6, 'f', 2, 64), "ms"}
	case d < time.Second:
		return measure{figures(math.Round(float64(d) / 1e6)), "ms"}
	case d < 100*time.Second:
		return measure{figures(d.Seconds()), "s"}
	}
	return measure{Value: span(d)}
}

// took is cost for templates that hold seconds.
func took(seconds float64) string { return cost(time.Duration(seconds * 1e9)).String() }

// span formats a duration in at most two units: 2 min 40 s, 7 h 48 min.
func span(d time.Duration) string {
	d = max(d, 0)
	units := []struct {
		d    time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}}
	if d < time.Second {
		if d == 0 {
			return "0" + thin + "s"
		}
		return cost(d).String()
	}
	for i, u := range units {
		if d < u.d {
			continue
		}
		out := count(int64(d/u.d)) + thin + u.name
		if i+1 < len(units) {
			if rest := d % u.d / units[i+1].d; rest > 0 {
				out += " " + count(int64(rest)) + thin + units[i+1].name
			}
		}
		return out
	}
	return ""
}

// amount formats a size in bytes: 1.2 GiB.
func amount[N integer](n N) string {
	x, units := float64(n), []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; x >= 1024 && i < len(units)-1; i++ {
		x /= 1024
	}
	return measure{figures(x), units[i]}.String()
}

// ago formats the distance of a time from now: within a day in one unit, rounded down;
// beyond that as a date.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case d >= 24*time.Hour || d <= -24*time.Hour:
		if t.Year() != now.Year() {
			return t.UTC().Format("2 Jan 2006")
		}
		return t.UTC().Format("2 Jan, 15:04 UTC")
	case d >= 0:
		return unit(d) + " ago"
	}
	return "in " + unit(-d)
}

func unit(d time.Duration) string {
	switch s := int64(d / time.Second); {
	case s < 60:
		return strconv.FormatInt(s, 10) + thin + "s"
	case s < 3600:
		return strconv.FormatInt(s/60, 10) + thin + "min"
	default:
		return strconv.FormatInt(s/3600, 10) + thin + "h"
	}
}

// A clock formats times relative to one moment, the same for a whole page.
type clock struct{ now time.Time }

// When formats a time as text that the script keeps current; the title attribute has
// the full time. A past time never reads as a future one, however long the page has
// been open.
func (c clock) When(t time.Time) template.HTML {
	if !t.IsZero() && t.After(c.now) {
		return timeTag("", t, ago(t, c.now))
	}
	return c.Past(t)
}

// Past is like When, for events that have happened. An event that occurred while the
// page was built is not shown as a future one.
func (c clock) Past(t time.Time) template.HTML {
	if t.IsZero() {
		return none
	}
	return timeTag(" data-past", t, ago(t, later(t, c.now)))
}

func timeTag(kind string, t time.Time, text string) template.HTML {
	t = t.UTC()
	return template.HTML(fmt.Sprintf(`<time%s datetime="%s" title="%s UTC">%s</time>`, kind, t.Format(time.RFC3339),
		t.Format("2 Jan 2006, 15:04:05"), text))
}

// Next is like When, for future events: once one is due, it reads "now" until the page
// is updated.
func (c clock) Next(t time.Time) template.HTML {
	if t.IsZero() {
		return none
	}
	text := "now"
	if t.After(c.now) {
		text = ago(t, c.now)
	}
	return timeTag(" data-next", t, text)
}

// Fixed formats a time as a static clock time: 06:00:00 UTC, with the date unless it is
// today.
func (c clock) Fixed(t time.Time) template.HTML {
	if t.IsZero() {
		return none
	}
	t = t.UTC()
	short := t.Format("15:04:05 UTC")
	if y, m, d := t.Date(); c.now.Year() != y || c.now.Month() != m || c.now.Day() != d {
		short = t.Format("2 Jan, 15:04 UTC")
	}
	return timeTag(" data-fixed", t, short)
}

// plain formats a static time: the time of day if it is today, else with the date.
func (c clock) plain(t time.Time) string {
	t = t.UTC()
	if t.Format(time.DateOnly) == c.now.UTC().Format(time.DateOnly) {
		return t.Format("15:04:05")
	}
	return t.Format("2 Jan 2006, 15:04:05")
}

// hour formats a time of the last hours without the seconds, "" for the zero time.
func (c clock) hour(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case c.now.Sub(t) > 20*time.Hour:
		return t.UTC().Format("2 Jan, 15:04 UTC")
	}
	return t.UTC().Format("15:04 UTC")
}

// Coming reports whether a time lies ahead.
func (c clock) Coming(t time.Time) bool { return t.After(c.now) }

// Ago formats the distance of a time from now.
func (c clock) Ago(t time.Time) string { return ago(t, c.now) }

// clip truncates a text after about n bytes, at a character boundary.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func queryPath(id string) string      { return "/queries/" + url.PathEscape(id) }
func endpointPath(name string) string { return "/endpoints/" + url.PathEscape(name) }

func seconds(s float64) string {
	if s <= 0 {
		return "0" + thin + "s"
	}
	return took(s)
}

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func ordinal(n int) string {
	suffix := "th"
	if n%100 < 11 || n%100 > 13 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return count(n) + suffix
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// lengthOf formats a duration as a number in its largest unit.
func lengthOf(d time.Duration) measure {
	value, name, _ := strings.Cut(unit(max(0, d)), thin)
	return measure{value, name}
}

// A state is displayed as a shape and a word.
type state struct{ Class, Word string }

// sentence capitalises a message and adds a full stop.
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

// interval returns the distance of the slots of a schedule like "@every 10s", else 0.
func interval(slot string) time.Duration {
	every, ok := strings.CutPrefix(slot, "@every ")
	if !ok {
		return 0
	}
	d, _ := time.ParseDuration(strings.TrimSpace(every)) // 0 for what does not parse
	return d
}

// readMoment reads a time in an address: as links have it, as browsers send it, or as people type it.
func readMoment(s string) (time.Time, error) {
	t, err := registry.ParseTime(strings.TrimSpace(s))
	if err == nil {
		return t, nil
	}
	return t, &registry.Problem{Kind: registry.KindMalformed, Title: "Not a moment",
		Detail: "Write a date and a time in UTC, such as 2026-11-20T09:30:00."}
}
