package rule

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// rows takes the rows of a change, or those of a whole result. If too many meet the condition, the
// alerts stay as they are.
func (f *fold) rows(d *diff.Delta, whole bool) {
	before := f.state.Clone().Alerts
	if whole || d.Form == diff.Ask {
		for _, a := range f.state.Alerts {
			a.Rows = nil
		}
	} else {
		f.removeRows(d)
	}
	if f.addRows(d); f.state.Problem != "" {
		f.state.Alerts = before
	}
}

func (f *fold) removeRows(d *diff.Delta) {
	for _, row := range d.Removed {
		key, _, met := f.match(d.Form, d.OldVars, row)
		if a := f.state.Alerts[key]; met && a != nil {
			hash := hashOf(row)
			if a.Rows[hash]--; a.Rows[hash] <= 0 {
				delete(a.Rows, hash)
			}
		}
	}
}

func (f *fold) addRows(d *diff.Delta) {
	rows := d.Added
	if d.Form == diff.Ask {
		rows = diff.Rows{[]byte(strconv.FormatBool(d.Boolean))}
	}
	meeting, size := 0, 0
	for _, a := range f.state.Alerts {
		meeting += len(a.Rows)
		size += f.size(a)
	}
	first := map[string]string{} // of the added rows of each alert
	for _, row := range rows {
		key, labels, met := f.match(d.Form, d.Vars, row)
		if !met {
			continue
		}
		a := f.state.Alerts[key]
		if a == nil {
			a = f.addAlert(key, labels)
			size += f.size(a)
		}
		if a.Rows == nil {
			a.Rows = map[string]int{}
		}
		hash := hashOf(row)
		if a.Rows[hash]++; a.Rows[hash] == 1 {
			meeting++
			size += registry.RowBytes
		}
		if f.exceeds(meeting, size) {
			return
		}
		if was, some := first[key]; !some || string(row) < was {
			first[key] = string(row)
		}
	}
	for key, row := range first {
		a := f.state.Alerts[key]
		if a.Rows[a.First] > 0 { // the row that the summary is about is there still
			continue
		}
		text := cut(f.summary.fill(values(d.Form, d.Vars, []byte(row))), mostSummary)
		size += len(text) - len(a.Summary)
		if a.Summary, a.First = text, hashOf([]byte(row)); f.exceeds(meeting, size) {
			return
		}
	}
}

// size returns about how many bytes an alert takes in a message.
func (f *fold) size(a *registry.Alert) int { return a.Size() + registry.TextBytes(f.common) }

// hashOf returns the hash of a row. A state has hashes in place of rows, which may be large.
func hashOf(row []byte) string {
	h := sha256.Sum256(row)
	return base64.RawURLEncoding.EncodeToString(h[:12])
}

// exceeds sets the problem of a rule with too many rows, or too large alerts.
func (f *fold) exceeds(meeting, size int) bool {
	switch {
	case meeting > f.most:
		f.state.Problem = fmt.Sprintf("more than %d rows (limits.rule_rows) meet the condition, so the rule is not evaluated: "+
			"narrow the condition, or let the query count", f.most)
	case size > mostBytes:
		f.state.Problem = fmt.Sprintf("its alerts take more than %d KiB, so the rule is not evaluated: use fewer or shorter "+
			"labels, a shorter summary, or narrow the condition", mostBytes>>10)
	default:
		return false
	}
	return true
}

// match returns the labels of a row and their fingerprint if it meets the condition.
func (f *fold) match(form diff.Form, vars []string, row []byte) (key string, labels map[string]string, met bool) {
	names, terms := terms(form, vars, row)
	if !registry.MeetAll(f.where, names, terms) {
		return "", nil, false
	}
	labels = f.labelled(valueOf(names, terms))
	return fingerprint(labels), labels, true
}

func (p *Program) labelled(value func(string) string) map[string]string {
	labels := make(map[string]string, len(p.labels))
	for _, l := range p.labels {
		if v := cut(l.value.fill(value), mostLabelText); v != "" {
			labels[l.name] = v
		}
	}
	return labels
}

// terms returns the variables of a row and their terms. The row of an ASK query is its
// answer.
func terms(form diff.Form, vars []string, row []byte) ([]string, []diff.Term) {
	names := registry.RowVars(form, vars)
	if form == diff.Ask {
		return names, []diff.Term{{Kind: diff.Literal, Value: string(row)}}
	}
	return names, diff.RowTerms(form, vars, row)
}

func values(form diff.Form, vars []string, row []byte) func(string) string {
	return valueOf(terms(form, vars, row))
}

func valueOf(names []string, terms []diff.Term) func(string) string {
	return func(name string) string {
		at := slices.Index(names, name)
		if at < 0 || at >= len(terms) {
			return ""
		}
		if terms[at].Kind == diff.Blank {
			return "_:" + terms[at].Value
		}
		return terms[at].Value
	}
}

// A projection is the rows of a side of a change that have the same values of the variables that count.
type projection struct {
	rows  int
	first []byte // the smallest row
}

// changes takes the rows of a change for a rule on changes. Rows that are removed and added with the same
// values of the variables that count have not changed.
func (f *fold) changes(d *diff.Delta) {
	switch {
	case d.Form == diff.Ask:
		return
	case f.change == "changed" && len(f.of)+len(f.where) == 0: // any change
		if len(d.Added) > 0 {
			f.value = values(d.Form, d.Vars, d.Added[0])
		} else if len(d.Removed) > 0 {
			f.value = values(d.Form, d.OldVars, d.Removed[0])
		}
		return
	}
	came, gone := f.project(d.Form, d.Vars, d.Added), f.project(d.Form, d.OldVars, d.Removed)
	var now, was []byte
	f.added, now = beyond(came, gone)
	f.removed, was = beyond(gone, came)
	switch { // what there is now says more than what there was
	case now != nil && f.change != "removed":
		f.value = values(d.Form, d.Vars, now)
	case was != nil:
		f.value = values(d.Form, d.OldVars, was)
	}
	switch f.change {
	case "added":
		f.changed = f.added > 0
	case "removed":
		f.changed = f.removed > 0
	default:
		f.changed = f.added+f.removed > 0
	}
}

// beyond counts the rows of one side that the other does not have, and returns the smallest.
func beyond(one, other map[string]projection) (n int, first []byte) {
	for key, x := range one {
		if more := x.rows - other[key].rows; more > 0 {
			if n += more; first == nil || string(x.first) < string(first) {
				first = x.first
			}
		}
	}
	return n, first
}

// project groups the rows that meet the condition by the values that count.
func (f *fold) project(form diff.Form, vars []string, rows diff.Rows) map[string]projection {
	out := map[string]projection{}
	for _, row := range rows {
		names, terms := terms(form, vars, row)
		if !registry.MeetAll(f.where, names, terms) {
			continue
		}
		key := string(row)
		if len(f.of) > 0 {
			key = ""
			for _, v := range f.of {
				if at := slices.Index(names, v); at >= 0 {
					key += fmt.Sprintf("%d %q %q %q ", terms[at].Kind, terms[at].Value, terms[at].Datatype, terms[at].Lang)
				}
			}
		}
		x := out[key]
		if x.rows++; x.first == nil || string(row) < string(x.first) {
			x.first = row
		}
		out[key] = x
	}
	return out
}
