package formats

import (
	"errors"
	"testing"

	"github.com/freshet/freshet/diff"
)

// fuzzGraph checks that a reader does not panic, that its errors are about the
// document, and that the canonical form of what it read is read as the same
// graph.
func fuzzGraph(f *testing.F, form Format, seeds ...string) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		res, n, err := Decode(form, b, diff.Construct, diff.Options{MaxBytes: 1 << 20})
		if err != nil {
			if !errors.Is(err, diff.ErrMalformed) && !errors.Is(err, diff.ErrByteLimit) {
				t.Fatalf("%v is not about the document", err)
			}
			return
		}
		if n < res.Len() {
			t.Fatalf("%d triples came, %d are in the result", n, res.Len())
		}
		again, _, err := Decode(NTriples, res.Document(), diff.Construct, diff.Options{})
		if err != nil {
			t.Fatalf("canonical form is refused: %v\n%s", err, res.Document())
		}
		if !res.Approximate() && again.Hash() != res.Hash() {
			t.Fatalf("read\n%sand again\n%s", res.Document(), again.Document())
		}
	})
}

func FuzzNTriples(f *testing.F) {
	fuzzGraph(f, NTriples,
		"<http://e/a> <http://e/p> \"x\\u00e9\\\"\"@en-GB .\n# c\n\t_:b1 <http://e/p> _:c. # c\r\n",
		"<http://e/ü> <p> \"1\"^^<http://www.w3.org/2001/XMLSchema#integer>.",
		"_:a <p> _:a.b . ", "<a> <b> <c>", "<a><b><c>.", "<a> <b> \"\\U0010FFFF\" .", "<a b> <c> <d> .")
}

func FuzzTurtle(f *testing.F) {
	fuzzGraph(f, Turtle,
		"@prefix e: <http://e/> .\ne:a e:p 1, 2.5, 1e3, -.5E-1, true, \"x\"@en-GB, 'y'^^e:t, \"\"\"a\nb\"\"\", [ e:q ( 1 [] ) ] ; "+
			"a e:T .\n_:b0 e:p _:c .",
		"BASE <http://e/x/y>\nPREFIX : <#>\n<a> :p <../b>, :c\\-d, :e%20f.\n[ :p :o ] .\n[] :p (), 1. :a :b.c :d .",
		"@prefix : <http://e/> . :a :b ((((:c)))) .", "@prefix a: <b:> . a:b a a:c ;; .", ".5, 1e3")
}

func FuzzXML(f *testing.F) {
	for _, s := range []string{srxSample, `<sparql xmlns="http://www.w3.org/2005/sparql-results#"><head/><boolean>` +
		`true</boolean></sparql>`, "<sparql>"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, form := range []diff.Form{diff.Select, diff.Ask} {
			res, _, err := Decode(XML, b, form, diff.Options{MaxBytes: 1 << 20})
			if err != nil {
				if !errors.Is(err, diff.ErrMalformed) && !errors.Is(err, diff.ErrByteLimit) {
					t.Fatalf("%v is not about the document", err)
				}
				continue
			}
			again, err := diff.DecodeJSON(res.Document(), form, diff.Options{})
			if err != nil {
				t.Fatalf("%v\n%s", err, res.Document())
			}
			if !res.Approximate() && again.Hash() != res.Hash() {
				t.Fatalf("read\n%s\nand again\n%s", res.Document(), again.Document())
			}
		}
	})
}
