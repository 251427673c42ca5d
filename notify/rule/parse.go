package rule

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// Limits of a rule.
const (
	maxConditions = 20
	maxLabels     = 20
	maxName       = 128
	maxText       = 2000 // bytes of a condition, a label or a summary
	maxTime       = 30 * 24 * time.Hour

	usualChanged = 5 * time.Minute // KeepFiringFor of a rule on changes
)

// kind is what the condition of a rule is about.
type kind uint8

const (
	byRow kind = iota
	byCount
	byChange
)

// A Program is a rule that can be evaluated. It is immutable.
type Program struct {
	kind    kind
	where   []registry.Condition // byRow, byChange
	change  string               // byChange: what must have happened, one of changes
	of      []string             // byChange: the variables whose values count; none for all
	count   registry.Condition   // byCount
	wait    time.Duration
	keep    time.Duration
	labels  []label
	common  map[string]string // the labels that all alerts have
	summary template
	most    int // rows that may meet the condition at a time
}

type label struct {
	name  string
	value template
}

// A template is a text with variables.
type template []part

type part struct {
	text string // as it is, if name is empty
	name string // of a variable
}

// changes are the words that begin a condition on changes.
var changes = []string{"changed", "added", "removed"}

// countVars are the variables of summaries of rules that are not about rows.
var countVars = []string{"rows", "added", "removed"}

var labelName = regexp.MustCompile(fmt.Sprintf(`^[a-zA-Z_][a-zA-Z0-9_]{0,%d}$`, maxName-1))

// Compile checks the settings of a rule for a query with this form and these variables; nil
// if they are unknown. A rule is not evaluated while more than most rows meet its condition.
// Its errors are *registry.Problem.
func Compile(r registry.RuleSettings, form diff.Form, vars []string, most int) (*Program, error) {
	vars = registry.RowVars(form, vars)
	p := &Program{wait: time.Duration(r.For), keep: time.Duration(r.KeepFiringFor), most: most}
	if err := checkName(r.Name); err != nil {
		return nil, err
	}
	if err := p.parseWhen(r.When, form); err != nil {
		return nil, err
	}
	for _, c := range p.where {
		if err := known(c.Var, "/when", "when", vars); err != nil {
			return nil, err
		}
	}
	switch {
	case p.wait > maxTime || p.keep > maxTime:
		return nil, registry.BadSetting("/for", "for and keep_firing_for are at most %d days", maxTime/(24*time.Hour))
	case p.kind == byChange && p.wait > 0:
		return nil, registry.BadSetting("/for", "a rule on changes fires with the change: leave out for")
	case p.kind == byChange && p.keep == 0:
		p.keep = usualChanged
	}
	for _, v := range p.of {
		if err := known(v, "/when", "when", vars); err != nil {
			return nil, err
		}
	}
	inText := vars
	switch {
	case p.kind == byCount:
		inText = countVars
	case p.kind == byChange && vars != nil:
		inText = slices.Concat(countVars, vars)
	}
	var err error
	if p.summary, err = parseTemplate(r.Summary, "/summary", "summary", inText); err != nil {
		return nil, err
	}
	return p, p.parseLabels(r.Labels, vars)
}

func checkName(name string) error {
	switch {
	case name == "":
		return registry.BadSetting("/name", "name is missing: it becomes the label alertname, as in LateDepartures")
	case len(name) > maxName:
		return registry.BadSetting("/name", "a name has at most %d bytes", maxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(c rune) bool {
		return unicode.IsControl(c) ||
			unicode.IsSpace(c) || c == '/'
	}):
		return registry.BadSetting("/name", "a name has no blanks, slashes or control characters: write late-departures")
	case strings.HasPrefix(name, "rule_"):
		return registry.BadSetting("/name", "names that begin with rule_ are ids: choose another one")
	}
	return nil
}

func known(name, pointer, setting string, vars []string) error {
	if vars == nil || slices.Contains(vars, name) {
		return nil
	}
	return registry.BadSetting(pointer, "%s names ?%s, which is not available here: there is %s", setting, name, "?"+strings.Join(vars, ", ?"))
}

func (p *Program) parseLabels(labels map[string]string, vars []string) error {
	if len(labels) > maxLabels {
		return registry.BadSetting("/labels", "a rule has at most %d labels", maxLabels)
	}
	inLabels := vars
	if p.kind != byRow {
		inLabels = []string{}
	}
	for name, text := range labels {
		pointer := "/labels/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		switch {
		case name == "alertname":
			return registry.BadSetting(pointer, "the label alertname is the name of the rule: leave it out")
		case !labelName.MatchString(name):
			return registry.BadSetting(pointer, "the label %.40q is not a name of letters, digits and _ that begins with a letter and has at most "+
				"%d bytes", name, maxName)
		}
		t, err := parseTemplate(text, pointer, "the label "+name, inLabels)
		if err != nil && p.kind != byRow {
			err = registry.BadSetting(pointer, "the label %s names a variable: labels identify an alert, and a rule on rows or "+
				"changes has one alert only; the summary may name ?%s", name, strings.Join(countVars, ", ?"))
		}
		if err != nil {
			return err
		}
		p.labels = append(p.labels, label{name, t})
	}
	if labels == nil && p.kind == byRow {
		// As in a query of Prometheus, what is compared is the value, and the rest identifies it.
		for _, v := range vars {
			if name := labelOf(v); name != "" && !slices.ContainsFunc(p.where, func(c registry.Condition) bool { return c.Var == v }) {
				p.labels = append(p.labels, label{name, template{{name: v}}})
			}
		}
		if vars == nil {
			return registry.BadSetting("/labels", "the variables of this query are not known yet, because it selects * and has no "+
				"result: name the labels, as in {\"s\": \"?s\"}")
		}
	}
	slices.SortFunc(p.labels, func(a, b label) int { return strings.Compare(a.name, b.name) })
	p.common = Common(labels)
	return nil
}

// Labels returns the labels of the rule as settings, including those that were left out.
func (p *Program) Labels() map[string]string {
	labels := make(map[string]string, len(p.labels))
	for _, l := range p.labels {
		labels[l.name] = l.value.fill(func(name string) string { return "?" + name })
	}
	return labels
}

// labelOf returns the name of the label for a variable, "" if there is none.
func labelOf(variable string) string {
	name := strings.Map(func(c rune) rune {
		if c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			return c
		}
		return '_'
	}, variable)
	if !labelName.MatchString(name) || name == "alertname" {
		return ""
	}
	return name
}

// parseTemplate parses a text with variables. A question mark without a name after it is a
// question mark.
func parseTemplate(text, pointer, setting string, vars []string) (t template, err error) {
	if len(text) > maxText || !utf8.ValidString(text) {
		return nil, registry.BadSetting(pointer, "%s is a text of at most %d bytes", setting, maxText)
	}
	for text != "" {
		at := strings.IndexByte(text, '?')
		if at < 0 {
			return append(t, part{text: text}), nil
		}
		name := variable(text[at+1:])
		if name == "" {
			t, text = append(t, part{text: text[:at+1]}), text[at+1:]
			continue
		}
		if err := known(name, pointer, setting, vars); err != nil {
			if len(vars) == 0 {
				return nil, registry.BadSetting(pointer, "%s names ?%s, but has no variables here", setting, name)
			}
			return nil, err
		}
		t, text = append(t, part{text: text[:at]}, part{name: name}), text[at+1+len(name):]
	}
	return t, nil
}

// variable returns the name of a variable at the beginning of a text.
func variable(text string) string {
	end := strings.IndexFunc(text, func(c rune) bool { return c != '_' && !unicode.IsLetter(c) && !unicode.IsDigit(c) })
	if end < 0 {
		end = len(text)
	}
	return text[:end]
}

func (t template) fill(value func(name string) string) string {
	var b strings.Builder
	for _, p := range t {
		if p.name == "" {
			b.WriteString(p.text)
		} else {
			b.WriteString(value(p.name))
		}
	}
	return b.String()
}

const whenExamples = `write rows > 0, ?value > 10, ?a >= 2 and ?b = "x", changed, or removed ?a where ?b = "x"`

func (p *Program) parseWhen(text string, form diff.Form) error {
	bad := func(format string, a ...any) error {
		return registry.BadSetting("/when", "when: %s; %s", fmt.Sprintf(format, a...), whenExamples)
	}
	rest := strings.TrimSpace(text)
	switch {
	case rest == "":
		return bad("the condition is missing")
	case len(text) > maxText || !utf8.ValidString(rest):
		return bad("the condition is a text of at most %d bytes", maxText)
	}
	word := variable(rest)
	if slices.Contains(changes, word) {
		p.kind, p.change = byChange, word
		if rest = strings.TrimSpace(rest[len(word):]); rest != "" || word != "changed" {
			if form == diff.Ask {
				return bad("an ASK query has no rows: its answer only changes")
			}
		}
		for strings.HasPrefix(rest, "?") || strings.HasPrefix(rest, "$") {
			v := variable(rest[1:])
			if v == "" {
				return bad("%.40q has no variable after %q", rest, rest[:1])
			}
			p.of = append(p.of, v)
			rest = strings.TrimLeft(rest[1+len(v):], ", \t\r\n")
		}
		if rest == "" {
			return nil
		}
		if word = variable(rest); word != "where" || strings.TrimSpace(rest[len(word):]) == "" {
			return bad("%.40q was expected to be variables, or \"where\" and comparisons", rest)
		}
		rest = strings.TrimSpace(rest[len("where"):])
	}
	for {
		c, after, err := comparison(rest)
		if err != nil {
			return bad("%v", err)
		}
		if c.Var == "" && p.kind == byChange {
			return bad("rows cannot be combined with other comparisons")
		}
		if c.Var == "" {
			if p.kind = byCount; len(p.where) > 0 || after != "" {
				return bad("rows cannot be combined with other comparisons")
			}
			number, ok := c.Value.(json.Number)
			n, err := number.Float64()
			if !ok || err != nil || n < 0 || n != float64(int64(n)) || c.Op == "contains" || c.Op == "starts" {
				return bad("rows is compared with a whole number")
			}
			if p.count = c; form == diff.Ask {
				return bad("an ASK query has no rows: its answer is ?boolean, as in ?boolean = true")
			}
			return nil
		}
		if err := c.Check(); err != nil {
			return bad("%v", err)
		}
		if p.where = append(p.where, c); len(p.where) > maxConditions {
			return bad("there are more than %d comparisons", maxConditions)
		}
		if after == "" {
			return nil
		}
		if word, rest = firstWord(after); !strings.EqualFold(word, "and") || rest == "" {
			return bad("%.40q was expected to begin with \"and\" and another comparison", after)
		}
	}
}

// operators in the order in which they are tried.
var operators = []string{">=", "<=", "!=", "=", "<", ">", "contains", "starts"}

// comparison parses one comparison. Its Var is empty for rows.
func comparison(text string) (c registry.Condition, rest string, err error) {
	switch {
	case text[0] == '?' || text[0] == '$':
		c.Var = variable(text[1:])
		if rest = text[1+len(c.Var):]; c.Var == "" {
			return c, "", fmt.Errorf("%.40q has no variable after %q", text, text[:1])
		}
	case variable(text) == "rows":
		rest = text[len("rows"):]
	default:
		return c, "", fmt.Errorf("%.40q begins with neither a variable nor rows", text)
	}
	rest = strings.TrimSpace(rest)
	at := slices.IndexFunc(operators, func(op string) bool { return strings.HasPrefix(rest, op) })
	if at < 0 {
		return c, "", fmt.Errorf("%.40q needs a comparison: one of %s", text, strings.Join(operators, " "))
	}
	c.Op = operators[at]
	if rest = strings.TrimSpace(rest[len(c.Op):]); rest == "" {
		return c, "", fmt.Errorf("%.40q needs a value at its end", text)
	}
	c.Value, rest, err = constant(rest)
	return c, strings.TrimSpace(rest), err
}

func firstWord(text string) (word, rest string) {
	end := strings.IndexAny(text, " \t\r\n")
	if end < 0 {
		return text, ""
	}
	return text[:end], strings.TrimSpace(text[end:])
}

// constant parses the value at the beginning of a text.
func constant(text string) (value any, rest string, err error) {
	switch end := strings.IndexByte(text, '>'); {
	case text[0] == '"':
		quoted, err := strconv.QuotedPrefix(text)
		if err != nil {
			return nil, "", fmt.Errorf("%.40q has no closing quote", text)
		}
		s, err := strconv.Unquote(quoted)
		return s, text[len(quoted):], err
	case text[0] == '<' && end > 0 && !strings.ContainsAny(text[:end], " \t"):
		return text[1:end], text[end+1:], nil
	case text[0] == '?' || text[0] == '$':
		return nil, "", fmt.Errorf("%.40q is a variable: a comparison is with a constant, and the query can compare variables itself", text)
	}
	word, rest := firstWord(text)
	switch word {
	case "true", "false":
		return word == "true", rest, nil
	}
	if n := json.Number(word); (registry.Condition{Op: "=", Value: n}).Check() == nil {
		return n, rest, nil
	}
	return word, rest, nil
}
