package docstest

import (
	"regexp"
	"strings"
)

// varying are the parts of an output that differ from run to run, in the order in which
// they are masked: times, addresses of this machine, ids, secrets and measured values.
var varying = []struct {
	pattern *regexp.Regexp
	name    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\b)`), "<time>"},
	{regexp.MustCompile(`[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT`), "<time>"},
	{regexp.MustCompile(`\d{1,2} [A-Z][a-z]{2} (?:\d{4} )?\d\d:\d\d(?::\d\d)?`), "<time>"},
	{regexp.MustCompile(`\d{1,2} [A-Z][a-z]{2} \d{4}\b`), "<time>"},
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "<time>"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "<address>"},
	{regexp.MustCompile(`\bsha256:[0-9a-f]{64}\b`), "<hash>"},
	{regexp.MustCompile(`\b(?:[pqr]|rule|w[hs]|nt|msg|whsec)_[0-9A-Za-z+/=_-]{16,}`), "<id>"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "<id>"},
	{regexp.MustCompile(`v1,[A-Za-z0-9+/]{43}=`), "<signature>"},
	{regexp.MustCompile(`\b[0-9a-f]{32,}\b`), "<id>"},
	{regexp.MustCompile(`\b(?:[0-9a-v]{20,}|[0-9A-Z]{26})\b`), "<id>"},
	{regexp.MustCompile(`(?m)(^|[^A-Za-z0-9_-])[A-Za-z0-9_-]{43}([^A-Za-z0-9_-]|$)`), "$1<secret>$2"},
	{regexp.MustCompile(`\b[0-9a-z]{8}-\d+\b`), "<epoch>"},
	{regexp.MustCompile(`\bv\d+\.\d+\.\d+\S*`), "<version>"},
	{regexp.MustCompile(`\b\d{10}\b`), "<time>"},
	{regexp.MustCompile(`(?m)^slot +\d+$`), "slot <n>"},
	{regexp.MustCompile(`"slot":\d+`), `"slot":"<n>"`},
	{regexp.MustCompile(`(?m)^asking \S+; it runs again at .*\n`), ""}, // unless the answer is there at once
	{regexp.MustCompile(`(?m)^slot \d+: \d+ ran, \d+ changed`), "slot <n>: <n> ran, <n> changed"},
	{regexp.MustCompile(`(passed over, )[\d.]+( of )`), "${1}<n>$2"},                   // seconds with any number of digits
	{regexp.MustCompile(`(?m)\d+(?:\.\d+)? s(?: +\d+(?:\.\d+)?){8,} *$`), "<figures>"}, // measured by a simulation
	{regexp.MustCompile(`(finds more than )\d[\d,]*`), "$1<figure>"},                   // its bound
	{regexp.MustCompile(`\b(?:\d+(?:\.\d+)?(?:e-?\d+)? ?(?:ns|µs|ms|s|min|seconds|minutes)\b|\d+\.\d{3,}(?:e-?\d+)?|` +
		`now\b)(?: ago\b)?`), "<n>"},
	{regexp.MustCompile(` {2,}|-{2,}`), " "},
	{regexp.MustCompile(` +\n`), "\n"},
}

// Mask replaces what differs from run to run in the output of a command or in an answer
// by names in angle brackets, so that an output in the documentation is comparable with
// one that has just been made.
func Mask(output string) string {
	output = strings.ReplaceAll(output, "\r\n", "\n") // as lines of CSV and HTTP end, which no terminal shows
	for _, v := range varying {
		output = v.pattern.ReplaceAllString(output, v.name)
	}
	return output
}

// elision means any number of lines if it is alone in a line, and for any text within
// a line.
const elision = "…"

// Shows reports whether a shown output is that of a command, apart from what Mask hides.
func Shows(shown, output string) bool {
	return matches(strings.Split(Mask(shown), "\n"), strings.Split(Mask(output), "\n"))
}

func matches(shown, lines []string) bool {
	for i, line := range shown {
		if strings.TrimSpace(line) == elision {
			for skipped := range len(lines) + 1 {
				if matches(shown[i+1:], lines[skipped:]) {
					return true
				}
			}
			return false
		}
		if len(lines) == 0 || !alike(line, lines[0]) {
			return false
		}
		lines = lines[1:]
	}
	return len(lines) == 0
}

// alike reports whether a shown line is a line of an output.
func alike(shown, line string) bool {
	first, rest, elided := strings.Cut(shown, elision)
	if !elided {
		return shown == line
	}
	line, found := strings.CutPrefix(line, first)
	for i := 0; found && i <= len(line); i++ {
		if alike(rest, line[i:]) {
			return true
		}
	}
	return false
}
