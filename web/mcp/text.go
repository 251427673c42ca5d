package mcp

// This file escapes the text of strangers, and reads pages of large documents.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// harmless escapes in a JSON document what a model, a terminal or a reader could take for something else than the text of
// a string: characters that are invisible, that reorder text or control terminals, and the brackets of tags. The document
// has the same meaning as before. Such characters occur in its strings only.
func harmless(doc []byte) []byte {
	out := make([]byte, 0, len(doc))
	for len(doc) > 0 {
		r, n := utf8.DecodeRune(doc)
		if visible(r) {
			out = append(out, doc[:n]...)
		} else if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		} else {
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		doc = doc[n:]
	}
	return out
}

// visible reports whether a character may stay as it is. Selectors of variants are marks that can carry hidden text.
func visible(r rune) bool {
	switch r {
	case '<', '>', '&', unicode.ReplacementChar:
		return false
	}
	return unicode.IsPrint(r) && !unicode.Is(unicode.Variation_Selector, r)
}

// sizes returns how many bytes a JSON document has once harmless has escaped it, and how many that is as a JSON string.
func sizes(doc []byte) (plain, quoted int) {
	for len(doc) > 0 {
		r, n := utf8.DecodeRune(doc)
		switch {
		case r == '"' || r == '\\':
			plain, quoted = plain+1, quoted+2
		case visible(r):
			plain, quoted = plain+n, quoted+n
		case r > 0xffff:
			plain, quoted = plain+12, quoted+14
		default:
			plain, quoted = plain+6, quoted+7
		}
		doc = doc[n:]
	}
	return plain, quoted
}

// cost returns how many bytes a JSON document has in the answer of a tool, which has it twice.
func cost(doc []byte) int {
	plain, quoted := sizes(doc)
	return plain + quoted
}

// quoted returns a document as text for clients that read no structured content.
func quoted(v any) (doc json.RawMessage, text string, err error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, "", err
	}
	b = harmless(b)
	return b, string(b), nil
}

// A table is a page of a result.
type table struct {
	Vars    []string         `json:"vars,omitempty"`
	Boolean *bool            `json:"boolean,omitempty"`
	Rows    []jsontext.Value `json:"rows,omitempty"`
	Triples []string         `json:"triples,omitempty"`
	more    bool
}

// readTable reads some rows of a result in the SPARQL JSON format. It reads no further than it must.
func readTable(r io.Reader, from, limit int) (t table, err error) {
	d := jsontext.NewDecoder(r)
	err = members(d, func(name string) error {
		switch name {
		case "head":
			return decode(d, &struct {
				Vars *[]string `json:"vars"`
			}{&t.Vars})
		case "boolean":
			return decode(d, &t.Boolean)
		case "results":
			return members(d, func(string) error {
				var rows []jsontext.Value
				rows, t.more, err = page(d, from, limit, cutRow)
				if t.Rows = rows; t.more {
					return errEnough
				}
				return err
			})
		}
		return d.SkipValue()
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return t, err
}

// cutRow returns a row with the beginnings of its long values only.
func cutRow(row jsontext.Value) (jsontext.Value, error) {
	var terms map[string]any
	if err := json.Unmarshal(row, &terms); err != nil {
		return nil, err
	}
	cutTexts(terms)
	return json.Marshal(terms)
}

// cutTexts leaves the beginnings of the long texts in an object, which then says that it is truncated.
func cutTexts(object map[string]any) {
	for name, v := range object {
		switch v := v.(type) {
		case map[string]any: // a term, or a part of a triple that is a term
			cutTexts(v)
		case string:
			if short := shortened(v, mostText); short != v {
				object[name], object["truncated"] = short, true
			}
		}
	}
}

// errEnough reports that the rest of a document is not needed.
var errEnough = errors.New("enough was read")

func decode(d *jsontext.Decoder, v any) error {
	doc, err := d.ReadValue()
	if err != nil {
		return err
	}
	return json.Unmarshal(doc, v)
}

// members reads an object.
func members(d *jsontext.Decoder, read func(name string) error) error {
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return errors.Join(errors.New("an object is missing"), err)
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err == nil {
			err = read(t.String())
		}
		if err != nil {
			return err
		}
	}
	_, err := d.ReadToken()
	return err
}

// page reads at most limit elements of an array after the first from, and no more of them than an answer may have. more
// reports that others follow; the rest is then not read. An element that is too large on its own comes as smaller makes it.
func page(d *jsontext.Decoder, from, limit int, smaller func(jsontext.Value) (jsontext.Value, error)) (list []jsontext.Value,
	more bool, err error) {
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return nil, false, errors.Join(errors.New("an array is missing"), err)
	}
	list = []jsontext.Value{}
	for i, size := 0, 0; d.PeekKind() != ']'; i++ {
		if i < from {
			if err := d.SkipValue(); err != nil {
				return nil, false, err
			}
			continue
		}
		if len(list) == limit {
			return list, true, nil
		}
		v, err := d.ReadValue()
		if err != nil {
			return nil, false, err
		}
		each := cost(v)
		if size+each > mostAnswer && len(list) > 0 {
			return list, true, nil
		}
		if v = v.Clone(); each > mostAnswer {
			if v, err = smaller(v); err != nil {
				return nil, false, err
			}
			each = cost(v)
		}
		size += each
		list = append(list, v)
	}
	_, err = d.ReadToken()
	return list, false, err
}
