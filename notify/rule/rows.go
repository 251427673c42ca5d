// This file folds the rows of results into alerts.

package rule

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// rows takes the rows of a change, or those of a whole result. If too many meet the condition, the
// alerts stay as they are.
func (f *fold) rows(d *diff.Delta, whole bool) {
	before := f.state.Alerts
	f.state.Alerts, f.own = maps.Clone(before), map[string]bool{}
	if whole || d.Form == diff.Ask {
		for key := range before {
			f.alert(key).Rows = nil
		}
	} else {
		f.take(d)
	}
	if f.put(d); f.state.Problem != "" {
		f.state.Alerts = before
		return
	}
	for key := range f.own {
		if was := before[key]; was != nil && sameRows(was, f.state.Alerts[key]) {
			f.state.Alerts[key] = was
			delete(f.own, key)
		}
	}
}

func sameRows(a, b *registry.Alert) bool {
	return a.Summary == b.Summary && a.First == b.First && maps.Equal(a.Rows, b.Rows)
}

// alert returns an alert that may be changed, nil if there is none.
func (f *fold) alert(key string) *registry.Alert {
	a := f.state.Alerts[key]
	if a == nil || f.own[key] {
		return a
	}
	f.own[key] = true
	copied := *a
	copied.Rows = maps.Clone(a.Rows)
	f.state.Alerts[key] = &copied
	return &copied
}

// take removes the rows that a change removes.
func (f *fold) take(d *diff.Delta) {
	for _, row := range d.Removed {
		key, _, met := f.match(d.Form, d.OldVars, row)
		if a := f.alert(key); met && a != nil {
			hash := hashOf(row)
			if a.Rows[hash]--; a.Rows[hash] <= 0 {
				delete(a.Rows, hash)
			}
		}
	}
}

// put adds the rows that a change adds.
func (f *fold) put(d *diff.Delta) {
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
		a := f.alert(key)
		if a == nil {
			a = f.enter(key, labels)
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
		a := f.alert(key)
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
		f.state.Problem = fmt.Sprintf("more than %d rows (limits.rule_rows) meet the condition, so the rule is not evaluated: narrow the condition, or let the query count", f.most)
	case size > mostBytes:
		f.state.Problem = fmt.Sprintf("its alerts take more than %d KiB, so the rule is not evaluated: use fewer or shorter labels, a shorter summary, or narrow the condition", mostBytes>>10)
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
	switch {
	case form == diff.Ask:
		return []string{registry.AskVar}, []diff.Term{{Kind: diff.Literal, Value: string(row)}}
	case form.Graph():
		return registry.TripleVars, diff.RowTerms(form, vars, row)
	}
	return vars, diff.RowTerms(form, vars, row)
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
