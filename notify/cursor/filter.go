package cursor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A Filter selects the changes, and the parts of them, that a reader wants. A nil Filter
// selects everything.
type Filter struct {
	MinJaccard float64              `json:"min_jaccard,omitempty"`
	MinRows    int                  `json:"min_rows,omitempty"` // added and removed together
	Vars       []string             `json:"vars,omitempty"`     // SELECT: only these variables
	Where      []registry.Condition `json:"where,omitempty"`    // SELECT: only rows that meet all conditions
}

// maxFilter is the maximum size of a filter in bytes. It is kept as long as its
// subscription, and one client may have a thousand subscriptions.
const maxFilter = 16 << 10

// ParseFilter reads the filter of the freshet.v1 protocol: {min_jaccard?, min_rows?,
// vars?, where?}. It returns nil for a filter that selects everything. Its errors are
// worded for the author of the filter.
func ParseFilter(raw json.RawMessage) (*Filter, error) {
	if len(raw) > maxFilter {
		return nil, fmt.Errorf("filter: at most %d bytes", maxFilter)
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields() // ignoring a part of a filter would show too much
	var f Filter
	if err := dec.Decode(&f); err != nil {
		return nil, fmt.Errorf("filter: %s; known are min_jaccard, min_rows, vars and where", unreadable(err))
	}
	if err := f.check(); err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	if f.MinJaccard == 0 && f.MinRows == 0 && f.Vars == nil && f.Where == nil {
		return nil, nil
	}
	return &f, nil
}

// A ParamError is the error of one parameter.
type ParamError struct{ Param, Detail string }

func (e *ParamError) Error() string { return e.Detail }

func wrong(param, format string, a ...any) error {
	return &ParamError{param, fmt.Sprintf(format, a...)}
}

// unreadable describes a JSON error for the author of the JSON.
func unreadable(err error) string {
	var of *json.UnmarshalTypeError
	if errors.As(err, &of) && of.Field != "" {
		return of.Field + " cannot be a " + of.Value
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

func (f *Filter) check() error {
	switch {
	case f.MinJaccard < 0 || f.MinJaccard > 1:
		return wrong("min_jaccard", "min_jaccard must lie between 0 and 1")
	case f.MinRows < 0:
		return wrong("min_rows", "min_rows must not be negative")
	case len(f.Vars) > 1000 || len(f.Where) > 100:
		return errors.New("too many vars or conditions")
	}
	for i := range f.Where {
		if err := f.Where[i].Check(); err != nil {
			return wrong("where", "where[%d]: %v", i, err)
		}
	}
	return nil
}

// ParseParams reads the filter and the rate of freshet.v1 from the parameters of a URL, as web/docs/openapi.yaml describes them.
// Its errors are worded for the author of the URL. Those of one parameter are *ParamError.
func ParseParams(q url.Values) (*Filter, time.Duration, error) {
	var f Filter
	var err error
	if s := q.Get("min_jaccard"); s != "" {
		if f.MinJaccard, err = strconv.ParseFloat(s, 64); err != nil || f.MinJaccard != f.MinJaccard {
			return nil, 0, wrong("min_jaccard", "min_jaccard is a number from 0 to 1, not %.64q", s)
		}
	}
	if s := q.Get("min_rows"); s != "" {
		if f.MinRows, err = strconv.Atoi(s); err != nil {
			return nil, 0, wrong("min_rows", "min_rows is a whole number, not %.64q", s)
		}
	}
	for _, s := range q["vars"] {
		f.Vars = append(f.Vars, strings.Split(s, ",")...)
	}
	for _, s := range q["where"] {
		name, rest, _ := strings.Cut(s, ":")
		op, value, ok := strings.Cut(rest, ":")
		if !ok {
			return nil, 0, wrong("where", "where has the form VAR:OP:VALUE, as in temp:>=:20, not %.64q", s)
		}
		f.Where = append(f.Where, registry.Condition{Var: name, Op: op, Value: value})
	}
	rate, err := parseRate(q.Get("rate"))
	if err != nil {
		return nil, 0, err
	}
	raw, err := json.Marshal(&f) // ParseFilter checks it
	if err != nil {
		return nil, 0, err
	}
	all, err := ParseFilter(raw)
	return all, rate, err
}

// MaxRate is the longest time between two messages that a reader may request.
const MaxRate = 24 * time.Hour

func parseRate(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	var d registry.Duration
	if err := d.UnmarshalText([]byte(s)); err != nil {
		return 0, wrong("rate", "rate is a duration like 5s, not %.64q", s)
	}
	if time.Duration(d) > MaxRate {
		return 0, wrong("rate", "rate is at most %s", MaxRate)
	}
	return time.Duration(d), nil
}

// JSON returns the filter in the form that ParseFilter reads, nil if it selects everything.
func (f *Filter) JSON() json.RawMessage {
	if f == nil {
		return nil
	}
	b, _ := json.Marshal(f) // cannot fail: numbers and texts that came from JSON
	return b
}

// All reports whether the filter selects everything.
func (f *Filter) All() bool { return f == nil }

// ByRow reports whether the filter depends on the content of rows. It then fits one query only.
func (f *Filter) ByRow() bool { return f != nil && (f.Vars != nil || f.Where != nil) }

// Fits returns why the filter cannot be applied to a query, nil if it can.
func (f *Filter) Fits(q *registry.Query) error {
	if f.ByRow() && (q.Form != diff.Select || q.Ordered) {
		return errors.New("filter: vars and where are supported for unordered SELECT queries only")
	}
	return nil
}

// concerns reports whether a change may contain anything that the filter selects.
func (f *Filter) concerns(d *diff.Delta) bool {
	if !f.ByRow() || d == nil {
		return true
	}
	known := f.Vars == nil || slices.ContainsFunc(f.Vars, func(v string) bool {
		return slices.Contains(d.Vars, v) ||
			slices.Contains(d.OldVars, v)
	})
	return d.Form == diff.Select && !d.Ordered && known
}

// Apply returns the part of a change that the filter selects, and reports whether it is
// worth a message. The Delta of the part is nil if the filter selects nothing.
func (f *Filter) Apply(c registry.Change) (left registry.Change, passes bool) {
	c.Delta = f.Delta(c.Delta)
	return c, c.Delta != nil && f.Passes(c.Delta)
}

// Delta returns the part of a net change that the filter selects, nil for nothing. Rows
// that become equal cancel out.
func (f *Filter) Delta(d *diff.Delta) *diff.Delta {
	if d == nil || !f.ByRow() {
		return d
	}
	left := *d
	left.Vars, left.OldVars = f.head(d.Vars), f.head(d.OldVars)
	left.OldHash, left.NewHash = "", ""
	left.Added, left.Removed = diff.Cancel(f.keep(d.Vars, d.Added), f.keep(d.OldVars, d.Removed))
	if len(left.Added)+len(left.Removed) == 0 && !left.Baseline && slices.Equal(left.Vars, left.OldVars) {
		return nil
	}
	return &left
}

// limitOfSum returns the limit of a net change before the filter is applied, 0 for none: a limit is about what the filter
// leaves.
func (f *Filter) limitOfSum(limit int64) int64 {
	if f.All() {
		return limit
	}
	return 0
}

// Passes reports whether a net change is worth a message. A baseline always is.
func (f *Filter) Passes(d *diff.Delta) bool {
	if d == nil {
		return false
	}
	return f == nil || d.Baseline || d.Jaccard >= f.MinJaccard && changedRows(d) >= f.MinRows
}

// changedRows returns the number of rows of a change. An ASK answer counts as one.
func changedRows(d *diff.Delta) int {
	if d.Form == diff.Ask && d.Boolean != d.Previous {
		return 1
	}
	return len(d.Added) + len(d.Removed)
}

// Rows returns the head and the rows of a result that the filter selects. Nil rows mean
// all rows of the result.
func (f *Filter) Rows(r *diff.Result) (vars []string, kept diff.Rows) {
	if !f.ByRow() {
		return r.Vars(), nil
	}
	return f.head(r.Vars()), f.keep(r.Vars(), r.All())
}

// head returns the selected variables in the order of vars.
func (f *Filter) head(vars []string) []string {
	if f.Vars == nil {
		return vars
	}
	kept := []string{}
	for _, v := range vars {
		if slices.Contains(f.Vars, v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// keep returns the selected rows in byte order, never nil.
func (f *Filter) keep(vars []string, rows diff.Rows) diff.Rows {
	kept := make(diff.Rows, 0, len(rows))
	for _, row := range rows {
		if f.meets(vars, row) {
			kept = append(kept, f.project(vars, row))
		}
	}
	slices.SortFunc(kept, bytes.Compare)
	return kept
}

func (f *Filter) meets(vars []string, row []byte) bool {
	return len(f.Where) == 0 || registry.MeetAll(f.Where, vars, diff.RowTerms(diff.Select, vars, row))
}

// project returns a row with only the selected bindings. Their bytes do not change.
func (f *Filter) project(vars []string, row []byte) []byte {
	if f.Vars == nil {
		return row
	}
	var bindings map[string]json.RawMessage
	if json.Unmarshal(row, &bindings) != nil {
		return row // not a canonical row
	}
	out := []byte{'{'}
	for _, v := range f.head(vars) {
		term, bound := bindings[v]
		if !bound {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		name, _ := json.Marshal(v)
		out = append(append(out, name...), ':')
		out = append(out, term...)
	}
	return append(out, '}')
}

// ResultJSON returns the selected part of a result as SPARQL results JSON or
// {"triples":[…]}.
func (f *Filter) ResultJSON(r *diff.Result) []byte {
	if r.Form() == diff.Ask {
		return r.Document()
	}
	vars, kept := f.Rows(r)
	if kept == nil {
		kept = r.All()
	}
	return diff.RowsJSON(r.Form(), vars, kept)
}
