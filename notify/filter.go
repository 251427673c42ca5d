package notify

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// A filter says which changes, and what of them, a subscription wants. A nil
// filter wants everything.
type filter struct {
	MinJaccard float64              `json:"min_jaccard,omitempty"`
	MinRows    int                  `json:"min_rows,omitempty"` // added and removed together
	Vars       []string             `json:"vars,omitempty"`     // SELECT: only these variables
	Where      []registry.Condition `json:"where,omitempty"`    // SELECT: only rows that meet all of them
}

// mostFilter is the size of a filter in bytes: it is kept for as long as a
// subscription lasts, and one client may have a thousand of those.
const mostFilter = 16 << 10

func parseFilter(raw json.RawMessage) (*filter, error) {
	if len(raw) > mostFilter {
		return nil, badParams("filter: at most %d bytes", mostFilter)
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields() // a filter that is not understood would show too much
	var f filter
	if err := dec.Decode(&f); err != nil {
		return nil, badParams("filter: %s; known are min_jaccard, min_rows, vars and where", unreadable(err))
	}
	if err := f.check(); err != nil {
		return nil, badParams("filter: %v", err)
	}
	if f.MinJaccard == 0 && f.MinRows == 0 && f.Vars == nil && f.Where == nil {
		return nil, nil
	}
	return &f, nil
}

// unreadable says what is wrong with JSON to whoever wrote it.
func unreadable(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		return wrong.Field + " cannot be a " + wrong.Value
	}
	return strings.TrimPrefix(err.Error(), "json: ")
}

func (f *filter) check() error {
	switch {
	case f.MinJaccard < 0 || f.MinJaccard > 1:
		return errors.New("min_jaccard must lie between 0 and 1")
	case f.MinRows < 0:
		return errors.New("min_rows must not be negative")
	case len(f.Vars) > 1000 || len(f.Where) > 100:
		return errors.New("too many vars or conditions")
	}
	for i := range f.Where {
		if err := f.Where[i].Check(); err != nil {
			return fmt.Errorf("where[%d]: %w", i, err)
		}
	}
	return nil
}

// byRow says whether the filter looks into rows.
func (f *filter) byRow() bool { return f != nil && (f.Vars != nil || f.Where != nil) }

// fits says whether the filter can be applied to a query's results.
func (f *filter) fits(q *registry.Query) error {
	if f.byRow() && (q.Form != diff.Select || q.Ordered) {
		return badParams("filter: vars and where are supported for unordered SELECT queries only")
	}
	return nil
}

// rows is what the filter leaves of a result.
func (f *filter) rows(r *diff.Result) *tableRows {
	if !f.byRow() {
		return &tableRows{res: r, vars: r.Vars()}
	}
	all := make(diff.Rows, r.Len())
	for i := range all {
		all[i] = r.Row(i)
	}
	return &tableRows{res: r, vars: f.head(r.Vars()), kept: f.keep(r.Vars(), all)}
}

// head is what is left of a head, in its order.
func (f *filter) head(vars []string) []string {
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

// keep is what is left of rows, in byte order and never nil.
func (f *filter) keep(vars []string, rows diff.Rows) diff.Rows {
	kept := make(diff.Rows, 0, len(rows))
	for _, row := range rows {
		if f.meets(vars, row) {
			kept = append(kept, f.project(vars, row))
		}
	}
	slices.SortFunc(kept, bytes.Compare)
	return kept
}

func (f *filter) meets(vars []string, row []byte) bool {
	if len(f.Where) == 0 {
		return true
	}
	terms := diff.RowTerms(diff.Select, vars, row)
	for i := range f.Where {
		at := slices.Index(vars, f.Where[i].Var)
		if at < 0 || !f.Where[i].Meets(terms[at]) {
			return false
		}
	}
	return true
}

// project keeps the wanted bindings of a row; their bytes stay as they are.
func (f *filter) project(vars []string, row []byte) []byte {
	if f.Vars == nil {
		return row
	}
	var bindings map[string]json.RawMessage
	if json.Unmarshal(row, &bindings) != nil {
		return row // not a row of ours
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
		out = append(appendJSON(out, v), ':')
		out = append(out, term...)
	}
	return append(out, '}')
}

// delta is what the filter leaves of a net change, nil for nothing. Rows that
// become equal cancel out.
func (f *filter) delta(d *diff.Delta) *diff.Delta {
	if d == nil || !f.byRow() {
		return d
	}
	left := *d
	left.Vars, left.OldVars = f.head(d.Vars), f.head(d.OldVars)
	left.OldHash, left.NewHash = "", ""
	left.Added, left.Removed = cancel(f.keep(d.Vars, d.Added), f.keep(d.OldVars, d.Removed))
	if len(left.Added)+len(left.Removed) == 0 && !left.Baseline && slices.Equal(left.Vars, left.OldVars) {
		return nil
	}
	return &left
}

// cancel takes out what two sorted bags have in common.
func cancel(a, b diff.Rows) (diff.Rows, diff.Rows) {
	var onlyA, onlyB diff.Rows
	for len(a) > 0 && len(b) > 0 {
		switch c := bytes.Compare(a[0], b[0]); {
		case c == 0:
			a, b = a[1:], b[1:]
		case c < 0:
			onlyA, a = append(onlyA, a[0]), a[1:]
		default:
			onlyB, b = append(onlyB, b[0]), b[1:]
		}
	}
	return append(onlyA, a...), append(onlyB, b...)
}

// passes says whether a net change is worth a message. A baseline always is.
func (f *filter) passes(d *diff.Delta) bool {
	if d == nil {
		return false
	}
	return d.Baseline || d.Jaccard >= f.MinJaccard && f.changed(d) >= f.MinRows
}

// changed counts rows; an ASK answer counts as one.
func (f *filter) changed(d *diff.Delta) int {
	if d.Form == diff.Ask && d.Boolean != d.Previous {
		return 1
	}
	return len(d.Added) + len(d.Removed)
}
