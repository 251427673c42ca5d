package formats

import (
	"errors"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
)

// Every format refuses what RDF 1.2 and RDF-star have added, with their name: an answer that is read
// without it would look unchanged when it changes.
func TestRDF12IsRefused(t *testing.T) {
	jsonOf := func(term string) string {
		return `{"head":{"vars":["x"]},"results":{"bindings":[{"x":{"type":"uri","value":"http://e/"}},{"x":` + term + `}]}}`
	}
	xmlOf := func(term string) string {
		return `<sparql xmlns="http://www.w3.org/2005/sparql-results#" xmlns:its="http://www.w3.org/2005/11/its" ` +
			`its:version="2.0"><head><variable name="x"/></head>` +
			`<results><result><binding name="x">` + term + `</binding></result></results></sparql>`
	}
	const nested = `{"subject":{"type":"uri","value":"http://e/s"},"predicate":{"type":"uri","value":"http://e/p"},` +
		`"object":{"type":"uri","value":"http://e/o"}}`
	for name, c := range map[string]struct {
		format Format
		body   string
	}{
		"json, its:dir":              {JSON, jsonOf(`{"type":"literal","value":"x","xml:lang":"en","its:dir":"ltr"}`)},
		"json, its:dir first":        {JSON, jsonOf(`{"its:dir":"rtl","type":"literal","value":"x","xml:lang":"en"}`)},
		"json, direction in the tag": {JSON, jsonOf(`{"type":"literal","value":"x","xml:lang":"en--ltr"}`)},
		"json, triple":               {JSON, jsonOf(`{"type":"triple","value":` + nested + `}`)},
		"json, statement":            {JSON, jsonOf(`{"type":"statement","value":` + nested + `}`)},
		"xml, its:dir":               {XML, xmlOf(`<literal xml:lang="en" its:dir="ltr">x</literal>`)},
		"xml, direction in the tag":  {XML, xmlOf(`<literal xml:lang="en--ltr">x</literal>`)},
		"xml, triple":                {XML, xmlOf(`<triple><subject><uri>http://e/s</uri></subject></triple>`)},
		"nt, direction":              {NTriples, `<http://e/s> <http://e/p> "x"@en--ltr .`},
		"nt, triple term":            {NTriples, `<http://e/s> <http://e/p> <<( <http://e/s> <http://e/p> "x" )>> .`},
		"nt, quoted triple":          {NTriples, `<< <http://e/s> <http://e/p> "x" >> <http://e/p> "y" .`},
		"nt, version":                {NTriples, "VERSION \"1.2\"\n"},
		"turtle, direction":          {Turtle, `<http://e/s> <http://e/p> "x"@en--ltr .`},
		"turtle, triple term":        {Turtle, `<http://e/s> <http://e/p> <<( <http://e/s> <http://e/p> "x" )>> .`},
		"turtle, reified triple":     {Turtle, `<< <http://e/s> <http://e/p> "x" >> <http://e/p> "y" .`},
		"turtle, annotation":         {Turtle, `<http://e/s> <http://e/p> "x" {| <http://e/q> 1 |} .`},
		"turtle, reifier":            {Turtle, `<http://e/s> <http://e/p> "x" ~ <http://e/r> .`},
		"turtle, version":            {Turtle, "VERSION \"1.2\"\n<http://e/s> <http://e/p> 1 ."},
	} {
		form := diff.Select
		if c.format != JSON && c.format != XML {
			form = diff.Construct
		}
		_, _, err := Decode(c.format, []byte(c.body), form, diff.Options{})
		if !errors.Is(err, diff.ErrMalformed) || !strings.Contains(err.Error(), "RDF 1.2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
