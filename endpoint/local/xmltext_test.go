package local

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
)

// Results in XML are well-formed for any characters in the terms.
func TestXMLIsWellFormed(t *testing.T) {
	e := openEngine(t)
	for format, text := range map[string]string{
		"xml": `SELECT ("a\u0001b\u000Bc\u001F\uFFFE\uFFFF\t\n\u0085é𝄞" AS ?x) {}`,
		"rdf": `CONSTRUCT { <http://x/s> <http://x/p> "a\u0001b\u000Bc\u001F\uFFFE\uFFFF\t\n\u0085é𝄞" } WHERE {}`,
	} {
		out, err := e.Query(t.Context(), text, format, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		dec, got := xml.NewDecoder(strings.NewReader(string(out))), ""
		for {
			x, err := dec.Token()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Errorf("%s: %v\n%q", format, err, out)
				break
			}
			if c, ok := x.(xml.CharData); ok {
				got += string(c)
			}
		}
		if want := "a\uFFFDb\uFFFDc\uFFFD\uFFFD\uFFFD\t\n\u0085é𝄞"; strings.TrimSpace(got) != want {
			t.Errorf("%s: %q, want %q", format, got, want)
		}
	}
}
