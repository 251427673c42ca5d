package diff

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// AddedJSON returns the added rows in their wire format: a complete SPARQL 1.1
// Query Results JSON document with the new head for SELECT, {"triples":["…"]}
// for graphs, nil for ASK.
func (d *Delta) AddedJSON() []byte { return RowsJSON(d.Form, d.Vars, d.Added) }

// RemovedJSON is AddedJSON for the removed rows, with the old head.
func (d *Delta) RemovedJSON() []byte { return RowsJSON(d.Form, d.OldVars, d.Removed) }

// RowsJSON encodes canonical rows as AddedJSON does.
func RowsJSON(form Form, vars []string, rows Rows) []byte {
	if form == Ask {
		return nil
	}
	n := 64
	for _, r := range rows {
		n += len(r) + 3
	}
	return AppendRowsJSON(make([]byte, 0, n), form, vars, rows)
}

// AppendRowsJSON appends RowsJSON to out.
func AppendRowsJSON(out []byte, form Form, vars []string, rows Rows) []byte {
	if form == Ask {
		return out
	}
	if form.Graph() {
		out = append(out, `{"triples":[`...)
	} else {
		out = appendHead(out, vars)
	}
	for i, r := range rows {
		if i > 0 {
			out = append(out, ',')
		}
		if form.Graph() {
			out = appendQuoted(out, r)
		} else {
			out = append(out, r...)
		}
	}
	if form.Graph() {
		return append(out, "]}"...)
	}
	return append(out, selectTail...)
}

// ParseRowsJSON decodes what RowsJSON encoded, even if it was encoded again on
// the way: rows are made canonical, their order is kept, and blank node labels
// are not changed.
func ParseRowsJSON(form Form, doc []byte) (vars []string, rows Rows, err error) {
	switch {
	case form == Ask:
		return nil, nil, malformed("an ASK change has no rows")
	case form.Graph():
		rows, err = parseTriples(doc)
		return nil, rows, err
	}
	r, err := decodeJSON(doc, form, Options{Ordered: true, KeepLabels: true})
	if err != nil {
		return nil, nil, err
	}
	return r.vars, r.All(), nil
}

func parseTriples(doc []byte) (Rows, error) {
	var body struct {
		Triples *[]string `json:"triples"`
	}
	if !utf8.Valid(doc) {
		return nil, malformed("not UTF-8")
	}
	if err := json.Unmarshal(bytes.Clone(doc), &body); err != nil || body.Triples == nil {
		return nil, malformed("not a document of triples")
	}
	var rows Rows
	for _, line := range *body.Triples {
		t, err := parseLine(line)
		if err != nil {
			return nil, err
		}
		rows = append(rows, appendLine(nil, t[0], t[1], t[2]))
	}
	return rows, nil
}

// SetAdded sets Added and Vars from what AddedJSON returned.
func (d *Delta) SetAdded(doc []byte) (err error) {
	d.Vars, d.Added, err = ParseRowsJSON(d.Form, doc)
	return err
}

// SetRemoved sets Removed and OldVars from what RemovedJSON returned.
func (d *Delta) SetRemoved(doc []byte) (err error) {
	d.OldVars, d.Removed, err = ParseRowsJSON(d.Form, doc)
	return err
}
