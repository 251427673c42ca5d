package formats

// This file has what the readers of SPARQL Results XML and RDF/XML share.

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"

	"github.com/freshet/freshet/diff"
)

const xmlSpace = "http://www.w3.org/XML/1998/namespace"

// A chunkReader is deliberately not an io.ByteReader, so that the decoder reads
// some kilobytes at a time.
type chunkReader struct {
	from *bytes.Reader
	stop func() error // called before each read; its error ends the reading; may be nil
}

func (p *chunkReader) Read(b []byte) (int, error) {
	if p.stop != nil {
		if err := p.stop(); err != nil {
			return 0, err
		}
	}
	return p.from.Read(b)
}

// skip skips an element and returns its text. The decoder's own Skip follows any
// depth and keeps a record of each level.
func skip(dec *xml.Decoder) (string, error) {
	var text strings.Builder
	for depth := 1; depth > 0; {
		t, err := dec.Token()
		if err != nil {
			return "", err
		}
		switch t := t.(type) {
		case xml.StartElement:
			if depth++; depth > deepest {
				return "", malformed("more than %d elements deep", deepest)
			}
		case xml.EndElement:
			depth--
		case xml.CharData:
			text.Write(t)
		}
	}
	return strings.TrimSpace(text.String()), nil
}

// xmlError turns an error of the XML decoder into one about the document.
func xmlError(err error) error {
	var syntax *xml.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return malformed("%v", err)
	case errors.Is(err, diff.ErrMalformed), limited(err):
		return err
	}
	return malformed("%v", err) // for example an encoding other than UTF-8
}

// firstElement finds the root element.
func firstElement(dec *xml.Decoder) (xml.StartElement, error) {
	for {
		t, err := dec.Token()
		if err != nil {
			return xml.StartElement{}, err
		}
		switch t := t.(type) {
		case xml.StartElement:
			return t, nil
		case xml.CharData:
			if len(bytes.TrimSpace(t)) > 0 {
				return xml.StartElement{}, malformed("text before the document")
			}
		}
	}
}

// nothingMore reads what may follow the root element. comment judges comments.
func nothingMore(dec *xml.Decoder, comment func(xml.Comment) error) error {
	for {
		t, err := dec.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.ProcInst:
		case xml.Comment:
			if err := comment(t); err != nil {
				return err
			}
		case xml.CharData:
			if len(bytes.TrimSpace(t)) > 0 {
				return malformed("text after the document")
			}
		default:
			return malformed("text after the document")
		}
	}
}

// eachChild calls f for each child element of the current one, up to its end
// tag. Text between them is an error. f has to read up to the child's end tag. comment judges comments.
func eachChild(dec *xml.Decoder, comment func(xml.Comment) error, f func(xml.StartElement) error) error {
	for {
		t, err := dec.Token()
		if err != nil {
			return err
		}
		switch t := t.(type) {
		case xml.EndElement:
			return nil
		case xml.Comment:
			if err := comment(t); err != nil {
				return err
			}
		case xml.CharData:
			if len(bytes.TrimSpace(t)) > 0 {
				return malformed("text between elements")
			}
		case xml.StartElement:
			if repeats(t.Attr) {
				return malformed("element %q has an attribute twice", t.Name.Local)
			}
			if err := f(t); err != nil {
				return err
			}
		}
	}
}

// repeats reports whether an attribute is there twice, which XML forbids and the decoder lets pass.
func repeats(list []xml.Attr) bool {
	if len(list) < 2 {
		return false
	}
	seen := make(map[xml.Name]bool, len(list))
	for _, a := range list {
		if seen[a.Name] {
			return true
		}
		seen[a.Name] = true
	}
	return false
}

// attribute is the value of an attribute; "" if it is missing. The prefix xml
// needs no declaration, and the decoder may or may not resolve it.
func attribute(e xml.StartElement, space, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name && (a.Name.Space == space || space == xmlSpace && a.Name.Space == "xml") {
			return a.Value
		}
	}
	return ""
}
