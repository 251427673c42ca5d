package web

import (
	"bufio"
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/freshet/freshet/diff"
)

// mediaTypes maps the suffixes of representations to media types: the one that is sent, and the aliases that
// clients may ask for.
var mediaTypes = map[string][]string{
	"srj":    {"application/sparql-results+json", "application/json"},
	"srx":    {"application/sparql-results+xml", "application/xml", "text/xml"},
	"csv":    {"text/csv"},
	"tsv":    {"text/tab-separated-values"},
	"nt":     {"application/n-triples", "text/plain"},
	"ttl":    {"text/turtle"},
	"jsonld": {"application/ld+json"},
}

// contentType returns the Content-Type of a representation.
func contentType(suffix string) string {
	sent := mediaTypes[suffix][0]
	if strings.HasPrefix(sent, "text/") {
		sent += "; charset=utf-8"
	}
	return sent
}

// Representations returns the suffixes of the representations of a form, the preferred
// one first.
func Representations(f diff.Form) []string {
	if f.Graph() {
		return []string{"nt", "ttl", "jsonld"}
	}
	return []string{"srj", "srx", "csv", "tsv"}
}

// errNotAcceptable reports that a form has no representation with that suffix.
var errNotAcceptable = errors.New("no such representation of a result of this form")

// Represent writes a result. Equal results give the same bytes. Its memory does not
// grow with the result, except for srj and nt, which are the canonical document. Turtle uses
// the prefixes that the text of the query declares.
func Represent(w io.Writer, r *diff.Result, suffix, text string) error {
	if !slices.Contains(Representations(r.Form()), suffix) {
		return errNotAcceptable
	}
	b := bufio.NewWriterSize(w, 32<<10)
	switch suffix {
	case "srx":
		writeXML(b, r)
	case "csv":
		writeCSV(b, r)
	case "tsv":
		writeTSV(b, r)
	case "ttl":
		writeTurtle(b, r, prefixesOf(text))
	case "jsonld":
		if err := writeJSONLD(b, r); err != nil {
			return err
		}
	default:
		_, err := w.Write(r.Document())
		return err
	}
	return b.Flush()
}

// writeXML follows "SPARQL Query Results XML Format (Second Edition)".
// Characters that XML 1.0 cannot hold become U+FFFD.
func writeXML(b *bufio.Writer, r *diff.Result) {
	b.WriteString(`<?xml version="1.0" encoding="utf-8"?>` + "\n" + `<sparql xmlns="http://www.w3.org/2005/sparql-results#">` + "\n<head>")
	for _, v := range r.Vars() {
		b.WriteString(`<variable name="`)
		escapeXML(b, v)
		b.WriteString(`"/>`)
	}
	b.WriteString("</head>\n")
	if r.Form() == diff.Ask {
		b.WriteString("<boolean>" + strconv.FormatBool(r.Boolean()) + "</boolean>\n</sparql>\n")
		return
	}
	b.WriteString("<results>\n")
	for i := range r.Len() {
		b.WriteString("<result>")
		for k, t := range r.Terms(i) {
			if t.Kind == diff.Unbound {
				continue
			}
			b.WriteString(`<binding name="`)
			escapeXML(b, r.Vars()[k])
			b.WriteString(`">`)
			termXML(b, t)
			b.WriteString("</binding>")
		}
		b.WriteString("</result>\n")
	}
	b.WriteString("</results>\n</sparql>\n")
}

func termXML(b *bufio.Writer, t diff.Term) {
	name, attr := "literal", ""
	switch {
	case t.Kind == diff.IRI:
		name = "uri"
	case t.Kind == diff.Blank:
		name = "bnode"
	case t.Lang != "":
		attr, t.Datatype = "xml:lang", t.Lang
	case t.Datatype != "":
		attr = "datatype"
	}
	b.WriteString("<" + name)
	if attr != "" {
		b.WriteString(" " + attr + `="`)
		escapeXML(b, t.Datatype)
		b.WriteString(`"`)
	}
	b.WriteString(">")
	escapeXML(b, t.Value)
	b.WriteString("</" + name + ">")
}

func escapeXML(b *bufio.Writer, s string) { _ = xml.EscapeText(b, []byte(s)) }

// askColumn is the header of the answer to ASK, for which those formats have none. Jena calls it
// the same.
const askColumn = "_askResult"

// writeCSV follows "SPARQL 1.1 Query Results CSV and TSV Formats", section 3.
func writeCSV(b *bufio.Writer, r *diff.Result) {
	if r.Form() == diff.Ask {
		b.WriteString(askColumn + "\r\n" + strconv.FormatBool(r.Boolean()) + "\r\n")
		return
	}
	for i, v := range r.Vars() {
		if i > 0 {
			b.WriteByte(',')
		}
		quoteCSV(b, v)
	}
	b.WriteString("\r\n")
	for i := range r.Len() {
		for k, t := range r.Terms(i) {
			if k > 0 {
				b.WriteByte(',')
			}
			if t.Kind == diff.Blank {
				b.WriteString("_:")
			}
			quoteCSV(b, t.Value)
		}
		b.WriteString("\r\n")
	}
}

func quoteCSV(b *bufio.Writer, s string) {
	if !strings.ContainsAny(s, "\",\r\n") {
		b.WriteString(s)
		return
	}
	b.WriteByte('"')
	b.WriteString(strings.ReplaceAll(s, `"`, `""`))
	b.WriteByte('"')
}

// writeTSV follows section 4 of that document: terms in the syntax of Turtle, of which N-Triples is a part.
func writeTSV(b *bufio.Writer, r *diff.Result) {
	if r.Form() == diff.Ask {
		b.WriteString("?" + askColumn + "\n" + strconv.FormatBool(r.Boolean()) + "\n")
		return
	}
	for i, v := range r.Vars() {
		if i > 0 {
			b.WriteByte('\t')
		}
		b.WriteByte('?')
		escapeTSV.WriteString(b, v)
	}
	b.WriteByte('\n')
	for i := range r.Len() {
		for k, t := range r.Terms(i) {
			if k > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(t.String())
		}
		b.WriteByte('\n')
	}
}

var escapeTSV = strings.NewReplacer(`"`, `\"`, `\`, `\\`, "\n", `\n`, "\r", `\r`, "\t", `\t`)
