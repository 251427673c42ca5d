package formats

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/knakk/rdf"
	"github.com/knakk/sparql"
	"pgregory.net/rapid"

	"github.com/freshet/freshet/diff"
)

const srxSample = `<?xml version="1.0"?>
<!-- by hand -->
<sparql xmlns="http://www.w3.org/2005/sparql-results#" xmlns:other="http://e/">
 <head><variable name="a"/><variable name="b"/><link href="x"/></head>
 <results distinct="false" ordered="true">
  <result><binding name="b"><literal xml:lang="EN">x &lt; y</literal></binding><binding name="a"><uri> http://e/a </uri></binding></result>
  <result><binding name="a"><bnode>n1</bnode></binding></result>
  <result><binding name="a"><literal datatype="http://www.w3.org/2001/XMLSchema#integer">01</literal></binding><binding ` +
	`name="b"><unbound/></binding></result>
  <result><binding name="a"><literal> two  spaces </literal></binding><binding name="b"><literal/></binding></result>
 </results>
 <other:note>no<other:error/></other:note>
</sparql>
`

const srxAsJSON = `{"head":{"vars":["a","b"]},"results":{"bindings":[
 {"a":{"type":"uri","value":"http://e/a"},"b":{"type":"literal","xml:lang":"en","value":"x < y"}},
 {"a":{"type":"bnode","value":"z"}},
 {"a":{"type":"typed-literal","datatype":"http://www.w3.org/2001/XMLSchema#integer","value":"01"}},
 {"a":{"type":"literal","value":" two  spaces "},"b":{"type":"literal","value":""}}]}}`

func document(t testing.TB, f Format, body string, form diff.Form, ordered ...bool) string {
	t.Helper()
	res, _, err := Decode(f, []byte(body), form, diff.Options{Ordered: len(ordered) > 0})
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return string(res.Document())
}

func TestXMLIsJSON(t *testing.T) {
	if d := cmp.Diff(document(t, JSON, srxAsJSON, diff.Select), document(t, XML, srxSample, diff.Select)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(document(t, JSON, srxAsJSON, diff.Select, true), document(t, XML, srxSample, diff.Select, true)); d != "" {
		t.Error(d)
	}
}

func TestXMLIsStrict(t *testing.T) {
	in := func(s string) string {
		return `<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head><variable name="a"/></head>` + s + `</sparql>`
	}
	result := func(s string) string { return in("<results><result>" + s + "</result></results>") }
	if document(t, XML, result(`<binding name="a"><uri>u</uri></binding>`), diff.Select) == "" {
		t.Fatal("the frame of the cases is no document")
	}
	for name, s := range map[string]string{
		"no head":             `<sparql xmlns="http://www.w3.org/2005/sparql-results#"><results/></sparql>`,
		"no results":          in(""),
		"boolean":             in("<boolean>true</boolean>"),
		"twice":               in("<results/><results/>"),
		"other name space":    strings.Replace(in("<results/>"), "results#", "other#", 1),
		"unknown variable":    result(`<binding name="b"><uri>u</uri></binding>`),
		"bound twice":         result(strings.Repeat(`<binding name="a"><uri>u</uri></binding>`, 2)),
		"two terms":           result(`<binding name="a"><uri>u</uri><uri>u</uri></binding>`),
		"unknown term":        result(`<binding name="a"><triple/></binding>`),
		"element in a term":   result(`<binding name="a"><uri>u<b xmlns="x"/></uri></binding>`),
		"empty IRI":           result(`<binding name="a"><uri/></binding>`),
		"text beside results": in("<results>and</results>"),
		"unknown element":     in("<results/><more/>"),
		"something behind":    in("<results/>") + "<x/>",
		"text behind":         in("<results/>") + "x",
		"text before":         "x" + in("<results/>"),
		"no end":              strings.TrimSuffix(in("<results/>"), "</sparql>"),
		"entity":              in("<results>&e;</results>"),
		"html":                "<html><body/></html>",
		"row of no space":     in(`<results><result xmlns=""><binding name="a"><uri>u</uri></binding></result></results>`),
		"binding of no space": result(`<binding xmlns="" name="a"><uri>u</uri></binding>`),
		"term of no space":    result(`<binding name="a"><uri xmlns="">u</uri></binding>`),
		"note among rows":     result(`<e:note xmlns:e="urn:e">no</e:note>`),
		"error behind":        in(`<results/><e:error xmlns:e="urn:e">timeout</e:error>`),
		"error in head":       strings.Replace(in("<results/>"), "</head>", `<e:error xmlns:e="urn:e"/></head>`, 1),
		"flag behind":         in(`<results/><truncated xmlns="">true</truncated>`),
		"two languages":       result(`<binding name="a"><literal xml:lang="en" xml:lang="de">u</literal></binding>`),
		"two names":           result(`<binding name="a" name="b"><uri>u</uri></binding>`),
		"latin-1":             `<?xml version="1.0" encoding="ISO-8859-1"?>` + in("<results/>"),
	} {
		if _, _, err := Decode(XML, []byte(s), diff.Select, diff.Options{}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// White space of Unicode that is none in XML is part of an IRI or a label.
func TestXMLKeepsOtherSpaces(t *testing.T) {
	for _, space := range []string{"&#xA0;", "&#x85;", "&#x2003;"} {
		for _, kind := range []string{"uri", "bnode"} {
			row := func(s string) string {
				return "<result><binding name=\"a\"><" + kind + ">" + s + "</" + kind + "></binding></result>"
			}
			two := document(t, XML, `<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head><variable name="a"/></head><results>`+
				row("http://x/a")+row("http://x/a"+space)+`</results></sparql>`, diff.Select, true)
			one := document(t, XML, `<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head><variable name="a"/></head><results>`+
				row("http://x/a")+row("http://x/a")+`</results></sparql>`, diff.Select, true)
			if one == two {
				t.Errorf("%s: a %s with %s at its end is read as one without", two, kind, space)
			}
		}
	}
}

func TestNTriplesIsStrict(t *testing.T) {
	for _, s := range []string{
		"<a> <b> <c>", "<a> <b> .", "<a> <b> <c> . x", "<a> <b> <c> . <a> <b> <c> .", "\"s\" <b> <c> .", "<a> _:b <c> .", "<a> \"p\" <c> .",
		"<a> <b> \"c .", "<a> <b> \"\\x\" .", "<a> <b> \"\\uD800\" .", "<a> <b> \"x\"@ .", "<a> <b> \"x\"@1 .", "<a> <b> \"x\"^^y .",
		"<a> <b> <c",
		"_: <b> <c> .", "<a> <b> <c> <d> .", "<a<x> <b> <c> .", "<> <b> <c> .", "\xff", "<a> <b> \"\xff\" .", "Error: time is up",
	} {
		if _, _, err := Decode(NTriples, []byte(s), diff.Construct, diff.Options{}); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

// An empty graph has no bytes, prefixes alone, or the comment of Virtuoso. Any other comment alone may say why there is
// nothing.
func TestGraphsWithoutTriples(t *testing.T) {
	for _, f := range []Format{NTriples, Turtle} {
		for body, empty := range map[string]bool{
			"": true, "\n": true, "# Empty NT\n": true, "# Empty TURTLE\n": true, "#\n# ----\n": true,
			"# Error: query timed out after 60 s\n": false, "\n  #timeout": false, "# Empty NT\n# incomplete\r\n": false,
			"# note\n<http://e/a> <http://e/b> <http://e/c> .\n": true,
		} {
			if _, _, err := Decode(f, []byte(body), diff.Construct, diff.Options{}); (err == nil) != empty {
				t.Errorf("%q: %v", body, err)
			}
		}
	}
	for body, empty := range map[string]bool{
		"@prefix : <http://e/#> .\n": true, "@prefix : <http://e/> .\n# Timeout\n": false,
	} {
		if _, _, err := Decode(Turtle, []byte(body), diff.Construct, diff.Options{}); (err == nil) != empty {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// Cases that a careless reader misinterprets.
func TestTurtle(t *testing.T) {
	const p = "@prefix : <http://e/> .\n"
	for body, nt := range map[string]string{
		":a :b 1.":               `<http://e/a> <http://e/b> "1"^^<` + xsdSpace + `integer> .`,
		":a :b 1.0.":             `<http://e/a> <http://e/b> "1.0"^^<` + xsdSpace + `decimal> .`,
		":a :b 1.e0.":            `<http://e/a> <http://e/b> "1.e0"^^<` + xsdSpace + `double> .`,
		":a :b -.5E+1 .":         `<http://e/a> <http://e/b> "-.5E+1"^^<` + xsdSpace + `double> .`,
		":a :b :c.d.":            `<http://e/a> <http://e/b> <http://e/c.d> .`,
		":a a true.":             `<http://e/a> <` + rdfSpace + `type> "true"^^<` + xsdSpace + `boolean> .`,
		`:a :b\~c :d%2e.`:        `<http://e/a> <http://e/b~c> <http://e/d%2e> .`,
		`:a :b """x"y""z\"""" .`: `<http://e/a> <http://e/b> "x\"y\"\"z\"" .`,
		":a :b '''\n''' .":       `<http://e/a> <http://e/b> "\n" .`,
		"@base <http://f/x/y?q> . <z> <../p> <?r>, <#s>, <//t>, </u/./v> .": "<http://f/x/z> <http://f/p> <http://f/x/y?r> " +
			".\n<http://f/x/z> <http://f/p> <http://f/x/y?q#s> .\n" +
			"<http://f/x/z> <http://f/p> <http://t> .\n<http://f/x/z> <http://f/p> <http://f/u/v> .",
		"<http://e/A/../b%7e> :p <urn:x> .": "<http://e/A/../b%7e> <http://e/p> <urn:x> .", // absolute IRIs stay as they are
		":a :b :c ; ; :d :e ; .":            "<http://e/a> <http://e/b> <http://e/c> .\n<http://e/a> <http://e/d> <http://e/e> .",
		`:a :b "x" ^^ :d, "y"
	@en .`: `<http://e/a> <http://e/b> "x"^^<http://e/d> .` + "\n" + `<http://e/a> <http://e/b> "y"@en .`,
		":a :b () .":            `<http://e/a> <http://e/b> <` + rdfSpace + `nil> .`,
		"[ :b :c ] .":           "_:x <http://e/b> <http://e/c> .",
		"[] :b [] .":            "_:x <http://e/b> _:y .",
		"_:a1 :b [ :c _:b1 ] .": "_:x <http://e/b> _:y .\n_:y <http://e/c> _:z .",
		"(1) :b :c .": "_:x <" + rdfSpace + `first> "1"^^<` + xsdSpace + "integer> .\n_:x <" + rdfSpace + "rest> <" +
			rdfSpace + "nil> .\n_:x <http://e/b> <http://e/c> .",
		"PREFIX x: <http://x/> prefix:a x:b x:c .":       "",
		"@prefix prefix: <http://y/> . prefix:a :b :c .": "<http://y/a> <http://e/b> <http://e/c> .",
	} {
		if nt == "" {
			if _, _, err := Decode(Turtle, []byte(p+body), diff.Construct, diff.Options{}); err == nil {
				t.Errorf("%s is accepted", body)
			}
			continue
		}
		if d := cmp.Diff(document(t, NTriples, nt, diff.Construct), document(t, Turtle, p+body, diff.Construct)); d != "" {
			t.Errorf("%s: %s", body, d)
		}
	}
	for _, bad := range []string{
		":a :b :c", ":a :b .", ":a :b :c . :d", "x:a :b :c .", ":a :b \"x", ":a :b \"x\ny\" .", ":a :b [ :c :d .", ":a :b ( :c .",
		"[] .", "\"a\" :b :c .",
		":a \"b\" :c .", ":a :b <rel> .", ":a :b 'x'^^\"y\" .", "@prefix x <http://e> .", ":a :b +.", ":a :b \"x\"@-a .", ":a :b :c%zz .",
		":a :b " + strings.Repeat("(", 5000), ":a :b " + strings.Repeat("(", 5000) + strings.Repeat(")", 5000) + " .",
		strings.Repeat("[ :b ", 5000), "<html>", "Error",
	} {
		if _, _, err := Decode(Turtle, []byte(p+bad), diff.Construct, diff.Options{}); err == nil {
			t.Errorf("%.40q is accepted", bad)
		}
	}
}

// someTerm returns a random term that N-Triples, Turtle and results can all
// represent.
func someTerm(t *rapid.T, literal bool) diff.Term {
	switch k := rapid.IntRange(0, 3).Draw(t, "kind"); {
	case k == 0:
		return diff.Term{Kind: diff.Blank, Value: rapid.StringMatching(`b[0-9]{1,2}`).Draw(t, "label")}
	case k == 1 || !literal:
		return diff.Term{Kind: diff.IRI, Value: "http://e/" + rapid.StringMatching(`[a-zü#.]{0,4}`).Draw(t, "iri")}
	}
	l := diff.Term{Kind: diff.Literal, Value: rapid.StringMatching(`[a-z"\\\n\t ü€]{0,6}`).Draw(t, "value")}
	switch rapid.IntRange(0, 2).Draw(t, "tag") {
	case 0:
		l.Lang = rapid.SampledFrom([]string{"en", "de-AT"}).Draw(t, "lang")
	case 1:
		l.Datatype = "http://e/type"
	}
	return l
}

// knakk/rdf reads every well-formed graph as our readers do.
func TestGraphsAgainstKnakk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var doc strings.Builder
		for range rapid.IntRange(0, 6).Draw(t, "triples") {
			s, o := someTerm(t, false), someTerm(t, true)
			fmt.Fprintf(&doc, "%s <http://e/p> %s .\n", ntriple(s), ntriple(o))
		}
		body := doc.String()
		ours := graphDocument(t, NTriples, body)
		if d := cmp.Diff(ours, graphDocument(t, Turtle, body)); d != "" {
			t.Fatalf("as Turtle: %s", d)
		}
		for _, f := range []rdf.Format{rdf.NTriples, rdf.Turtle} {
			if d := cmp.Diff(ours, knakk(t, f, body)); d != "" {
				t.Fatalf("knakk's reader %v: %s", f, d)
			}
		}
	})
}

func graphDocument(t *rapid.T, f Format, body string) string {
	res, _, err := Decode(f, []byte(body), diff.Construct, diff.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	return string(res.Document())
}

func ntriple(x diff.Term) string {
	switch x.Kind {
	case diff.IRI:
		return "<" + x.Value + ">"
	case diff.Blank:
		return "_:" + x.Value
	}
	s := `"` + strings.NewReplacer("\\", `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(x.Value) + `"`
	if x.Lang != "" {
		return s + "@" + x.Lang
	}
	if x.Datatype != "" {
		return s + "^^<" + x.Datatype + ">"
	}
	return s
}

func knakk(t *rapid.T, f rdf.Format, body string) string {
	dec, b := rdf.NewTripleDecoder(strings.NewReader(body), f), diff.NewBuilder(diff.Construct, diff.Options{})
	term := func(x rdf.Term) diff.Term {
		switch x := x.(type) {
		case rdf.IRI:
			return diff.Term{Kind: diff.IRI, Value: x.String()}
		case rdf.Blank:
			return diff.Term{Kind: diff.Blank, Value: x.String()}
		case rdf.Literal:
			return diff.Term{Kind: diff.Literal, Value: x.String(), Lang: x.Lang(), Datatype: x.DataType.String()}
		}
		return diff.Term{}
	}
	for {
		x, err := dec.Decode()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = b.Triple(term(x.Subj), term(x.Pred), term(x.Obj))
		}
		if err != nil {
			t.Fatalf("knakk: %v\n%s", err, body)
		}
	}
	res, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return string(res.Document())
}

// Rows that we read from XML equal those that knakk/sparql reads from JSON.
func TestRowsAgainstKnakk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var x, j strings.Builder
		for i := range rapid.IntRange(0, 5).Draw(t, "rows") {
			o := someTerm(t, true)
			if o.Kind == diff.Blank {
				o.Value = "b" // one label: knakk does not canonicalise
			}
			sep := ","
			if i == 0 {
				sep = ""
			}
			fmt.Fprintf(&x, `<result><binding name="o">%s</binding></result>`, xmlTerm(o))
			fmt.Fprintf(&j, `%s{"o":%s}`, sep, jsonTerm(o))
		}
		xmlBody := `<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head><variable name="o"/></head><results>` + x.String() +
			`</results></sparql>`
		jsonBody := `{"head":{"vars":["o"]},"results":{"bindings":[` + j.String() + `]}}`
		res, _, err := Decode(XML, []byte(xmlBody), diff.Select, diff.Options{Ordered: true})
		if err != nil {
			t.Fatalf("%v\n%s", err, xmlBody)
		}
		theirs, err := sparql.ParseJSON(strings.NewReader(jsonBody))
		if err != nil {
			t.Fatal(err)
		}
		if res.Len() != len(theirs.Results.Bindings) {
			t.Fatalf("%d rows, knakk has %d", res.Len(), len(theirs.Results.Bindings))
		}
		for i, row := range theirs.Results.Bindings {
			o, k := res.Terms(i)[0], row["o"]
			kind := map[string]diff.Kind{"uri": diff.IRI, "literal": diff.Literal, "bnode": diff.Blank}[k.Type]
			if o.Kind != kind || o.Kind != diff.Blank && o.Value != k.Value || o.Lang != strings.ToLower(k.Lang) || o.Datatype != k.DataType {
				t.Fatalf("row %d: %+v, knakk has %+v", i, o, k)
			}
		}
	})
}

func xmlTerm(x diff.Term) string {
	var value bytes.Buffer
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;")
	value.WriteString(escape.Replace(x.Value))
	switch {
	case x.Kind == diff.IRI:
		return "<uri>" + value.String() + "</uri>"
	case x.Kind == diff.Blank:
		return "<bnode>" + value.String() + "</bnode>"
	case x.Lang != "":
		return `<literal xml:lang="` + x.Lang + `">` + value.String() + "</literal>"
	case x.Datatype != "":
		return `<literal datatype="` + x.Datatype + `">` + value.String() + "</literal>"
	}
	return "<literal>" + value.String() + "</literal>"
}

func jsonTerm(x diff.Term) string {
	s := fmt.Sprintf(`{"type":%q,"value":"%s"`, map[diff.Kind]string{diff.IRI: "uri", diff.Blank: "bnode", diff.Literal: "literal"}[x.Kind],
		strings.NewReplacer("\\", `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(x.Value))
	if x.Lang != "" {
		s += `,"xml:lang":"` + x.Lang + `"`
	}
	if x.Datatype != "" {
		s += `,"datatype":"` + x.Datatype + `"`
	}
	return s + "}"
}

// Triples gives the triples one by one, with the labels of the document, relative to its address.
func TestTriples(t *testing.T) {
	for _, c := range []struct {
		f          Format
		body, base string
		want       string
		fails      bool
	}{
		{Turtle, "<a> <b> _:x , 1 . _:x a <#c> .", "http://h/d/e", `<http://h/d/a> <http://h/d/b> _:lx|<http://h/d/a> ` +
			`<http://h/d/b> "1"^^<http://www.w3.org/2001/XMLSchema#integer>|_:lx <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> ` +
			`<http://h/d/e#c>`, false},
		{Turtle, "@base <http://i/> . <a> <b> <c> .", "http://h/", "<http://i/a> <http://i/b> <http://i/c>", false},
		{Turtle, "<a> <b> <c> .", "", "", true},
		{Turtle, "<u:a> <u:b>", "", "", true},
		{NTriples, "<u:a> <u:b> <u:c> .\n<u:a> <u:b> <u:c> .\n", "", "<u:a> <u:b> <u:c>|<u:a> <u:b> <u:c>", false},
		{NTriples, "<u:a> <u:b> .", "", "", true},
		{JSON, "{}", "", "", true},
	} {
		var got []string
		err := Triples(c.f, []byte(c.body), c.base, 0, func(s, p, o diff.Term) error {
			got = append(got, s.String()+" "+p.String()+" "+o.String())
			return nil
		})
		if strings.Join(got, "|") != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %s, %v", c.body, got, err)
		}
	}
	for _, f := range []Format{Turtle, NTriples} {
		if err := Triples(f, []byte("<u:a> <u:b> <u:c> ."), "", 0,
			func(s, p, o diff.Term) error { return diff.ErrRowLimit }); !errors.Is(err, diff.ErrRowLimit) {
			t.Error(err)
		}
	}
}
