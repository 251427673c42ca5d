package formats

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/diff/growth"
)

const (
	sparqlXML = `<sparql xmlns="http://www.w3.org/2005/sparql-results#">`
)

func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if strings.Contains(format, "%") {
			fmt.Fprintf(&b, format, i)
		} else {
			b.WriteString(format)
		}
	}
	return b.String()
}

// A hostile is an answer of about n bytes that is hard to decode. A refusal must be cheap too.
type hostile struct {
	format Format
	form   diff.Form
	body   func(n int) string
}

func graphOf(f Format, body func(n int) string) hostile { return hostile{f, diff.Construct, body} }
func tableOf(f Format, body func(n int) string) hostile { return hostile{f, diff.Select, body} }

var hostileAnswers = map[string]hostile{
	"turtle: long base, rebased": graphOf(Turtle, func(n int) string {
		return "@base <http://x/" + strings.Repeat("b", n/2) + "/> .\n" + many(n/20, "@base <b>.\n")
	}),
	"turtle: long base, short references": graphOf(Turtle, func(n int) string {
		return "@base <http://x/" + strings.Repeat("b", n/2) + "/c> .\n" + many(n/30, "</a> </b> </%d> .\n")
	}),
	"turtle: long base, dots": graphOf(Turtle, func(n int) string {
		return "@base <http://x/" + strings.Repeat("b", n/2) + "/c> .\n" + many(n/30, "<../a> <../b> <../%d> .\n")
	}),
	"turtle: long base, prefixes": graphOf(Turtle, func(n int) string {
		return "@base <http://x/" + strings.Repeat("b", n/2) + "/c> .\n" + many(n/40, "@prefix p%d: <x> .\n")
	}),
	"turtle: long prefix": graphOf(Turtle, func(n int) string {
		return "@prefix p: <http://x/" + strings.Repeat("b", n/2) + "/c> .\n" + many(n/20, "p:a p:b p:%d .\n")
	}),
	"turtle: blank nodes in brackets": graphOf(Turtle, func(n int) string {
		return many(n/40, "[ <http://p> [ <http://q> %d ] ] .\n")
	}),
	"turtle: collection": graphOf(Turtle, func(n int) string { return "<http://s> <http://p> (" + many(n/6, "%d ") + ") ." }),
	"turtle: comments":   graphOf(Turtle, func(n int) string { return many(n/8, "# x\n") }),
	"turtle: no end":     graphOf(Turtle, func(n int) string { return many(n/2, "<a") }),
	"ntriples: one node": graphOf(NTriples, func(n int) string { return many(n/30, "_:a <http://p> _:b%d .\n") }),
	"ntriples: empty":    graphOf(NTriples, func(n int) string { return many(n/2, "\r\n") }),
	"ntriples: repeated": graphOf(NTriples, func(n int) string { return many(n/30, "_:a <http://p> <http://o> .\n") }),
	"srx: variables and empty results": tableOf(XML, func(n int) string {
		return sparqlXML + "<head>" + many(n/50, `<variable name="v%d"/>`) + "</head><results>" + many(n/18, "<result/>") + "</results></sparql>"
	}),
	"srx: a wide row": tableOf(XML, func(n int) string {
		return sparqlXML + "<head>" + many(n/100, `<variable name="v%d"/>`) + "</head><results><result>" +
			many(n/100, `<binding name="v%d"><bnode>b</bnode></binding>`) + "</result></results></sparql>"
	}),
	"srx: a wide row of nodes": tableOf(XML, func(n int) string {
		var b strings.Builder
		for i := range n / 100 {
			fmt.Fprintf(&b, `<binding name="v%d"><bnode>b%d</bnode></binding>`, i, i)
		}
		return sparqlXML + "<head>" + many(n/100, `<variable name="v%d"/>`) + "</head><results><result>" + b.String() +
			"</result></results></sparql>"
	}),
	"srx: deep, foreign": tableOf(XML, func(n int) string { return sparqlXML + `<head/><results/><b xmlns="http://x/">` + many(n/3, "<b>") }),
	"srx: deep, in a variable": tableOf(XML, func(n int) string {
		return sparqlXML + `<head><variable name="v">` + many(n/3, "<b>")
	}),
	"srx: foreign elements": tableOf(XML, func(n int) string {
		return sparqlXML + `<head><variable name="v"/></head><results/>` + many(n/22, `<b xmlns="http://x/"/>`) + "</sparql>"
	}),
	"srj: variables and empty results": tableOf(JSON, func(n int) string {
		return `{"head":{"vars":["v"` + many(n/20, `,"v%d"`) + `]},"results":{"bindings":[{}` + many(n/6, ",{}") + `]}}`
	}),
	"srj: a wide row": tableOf(JSON, func(n int) string {
		return `{"head":{"vars":["v"` + many(n/80, `,"v%d"`) + `]},"results":{"bindings":[{"v":{"type":"uri","value":"u"}` +
			many(n/80, `,"v%d":{"type":"bnode","value":"b"}`) + `}]}}`
	}),
	"srj: foreign members": tableOf(JSON, func(n int) string {
		return `{"head":{"vars":["v"]},"x":{"":0` + many(n/12, `,"m%d":[0]`) + `},"results":{"bindings":[]}}`
	}),
	"srj: deep": tableOf(JSON, func(n int) string { return `{"head":{"vars":["v"]},"x":` + many(n, "[") }),
}

// The cost of reading an answer is bounded by its length, whatever its content.
func TestLongDecodersAreNotQuadratic(t *testing.T) {
	for name, h := range hostileAnswers {
		t.Run(name, func(t *testing.T) {
			growth.Check(t, growth.Sizes(32<<10, func(n int) growth.Input {
				body := []byte(h.body(n))
				return growth.Input{Size: len(body), Work: func() {
					_, _, _ = Decode(h.format, body, h.form, diff.Options{MaxBytes: 64 * len(body)})
				}}
			})...)
		})
	}
}

// Reading stops soon after it is asked to.
func TestDecodersStop(t *testing.T) {
	for name, h := range hostileAnswers {
		body := []byte(h.body(4 << 20))
		asked := 0
		stop := func() error {
			if asked++; asked > 1 {
				return ErrStopped
			}
			return nil
		}
		_, _, err := Decode(h.format, body, h.form, diff.Options{MaxBytes: 64 * len(body), Stop: stop})
		if asked > 2 || asked == 2 && !errors.Is(err, ErrStopped) {
			t.Errorf("%s: asked %d times, %v", name, asked, err)
		}
	}
}

// Endlessly nested elements are refused before they take memory.
func TestDeepXMLIsRefused(t *testing.T) {
	for name, h := range hostileAnswers {
		if !strings.Contains(name, "deep") {
			continue
		}
		if _, _, err := Decode(h.format, []byte(h.body(1<<20)), h.form, diff.Options{}); err == nil || !strings.Contains(err.Error(), "deep") {
			t.Errorf("%s: %v", name, err)
		}
	}
	nested := sparqlXML + `<head><variable name="v"/></head><results/><b xmlns="http://x/">` + strings.Repeat("<b>", 900) +
		strings.Repeat("</b>", 901) + `</sparql>`
	if _, _, err := Decode(XML, []byte(nested), diff.Select, diff.Options{}); err != nil {
		t.Errorf("elements of others, 900 deep: %v", err)
	}
	crossed := sparqlXML + `<head><variable name="v"/></head><results/><b xmlns="http://x/"><c></b></c></sparql>`
	if _, _, err := Decode(XML, []byte(crossed), diff.Select, diff.Options{}); err == nil {
		t.Error("elements of others that cross are taken for XML")
	}
}

// The expansion of relative IRIs is bounded like the answer itself.
func TestExpansionIsBounded(t *testing.T) {
	base := "http://x/" + strings.Repeat("b", 1000) + "/"
	for f, body := range map[Format]string{
		Turtle: "@base <" + base + "> .\n" + many(2000, "@base <b>.\n"),
	} {
		if _, _, err := Decode(f, []byte(body), diff.Construct, diff.Options{MaxBytes: 1 << 20}); !errors.Is(err, diff.ErrByteLimit) {
			t.Errorf("format %d: two megabytes of IRIs: %v", f, err)
		}
		if _, _, err := Decode(f, []byte(body), diff.Construct, diff.Options{MaxBytes: 1 << 22}); err != nil {
			t.Errorf("format %d: below the limit: %v", f, err)
		}
	}
	long := bytes.Repeat([]byte("<http://x/s> <http://x/p> <http://x/o> .\n"), 1000)
	if _, _, err := Decode(NTriples, long, diff.Construct, diff.Options{MaxBytes: 100}); !errors.Is(err, diff.ErrByteLimit) {
		t.Errorf("N-Triples above the limit: %v", err)
	}
}
