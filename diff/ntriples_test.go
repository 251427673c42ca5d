package diff

import (
	"errors"
	"testing"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	literal := func(value, lang, datatype string) Term {
		return Term{Kind: Literal, Value: value, Lang: lang, Datatype: datatype}
	}
	a, p := iri("a"), iri("p")
	for text, want := range map[string][3]Term{
		"<a> <p> <> .":                             {a, p, iri("")},
		"<a><p><b c>.":                             {a, p, iri("b c")},
		"\t_:x\t<p>_:y.z.# comment":                {{Kind: Blank, Value: "x"}, p, {Kind: Blank, Value: "y.z"}},
		`<a> <p> "\\\"\u00e9\U0001F600\t"@en-GB .`: {a, p, literal("\\\"é😀\t", "en-GB", "")},
		`<a> <p> "1"^^<http://\u0061> .`:           {a, p, literal("1", "", "http://a")},
		`<a> <p> "".`:                              {a, p, literal("", "", "")},
	} {
		l := Line(text)
		if got, err := l.Triple(); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "<a> <p> .", "<a> <p> <b>", "<a> <p> <b> . <c>", `"a" <p> <b> .`, "<a> _:p <b> .", `<a> "p" <b> .`, "<a <p> <b> .",
		"<a> <p> _: .", "<a> <p> _:. .", "<a> <p> _:x#y .", `<a> <p> "x .`, `<a> <p> "x\" .`, `<a> <p> "\x" .`, `<a> <p> "\uD800" .`,
		`<a> <p> "\U00110000" .`, `<a> <p> "\u00e" .`, `<a> <p> "x"@ .`, `<a> <p> "x"@1 .`, `<a> <p> "x"@en- .`, `<a> <p> "x"^^<> .`,
		`<a> <p> "x"^^y .`, `<a\t> <p> <b> .`, `<a> <p> <b\`,
	} {
		l := Line(text)
		if got, err := l.Triple(); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

// A triple that is read and written is read as the same triple again.
func FuzzLine(f *testing.F) {
	for _, seed := range []string{"<a> <p> <> .", "_:a.b<p>\"\\\"\"@en.#", `<a b> <p\u003c> "\r\u007f\\"^^<\U00000020> .`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l := Line(text)
		was, err := l.Triple()
		if err != nil || !utf8.ValidString(text) {
			return
		}
		again := Line(appendLine(nil, was[0], was[1], was[2]))
		if now, err := again.Triple(); err != nil || now != was {
			t.Fatalf("%v is written as %s and read as %v, %v", was, appendLine(nil, was[0], was[1], was[2]), now, err)
		}
	})
}
