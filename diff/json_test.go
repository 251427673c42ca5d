package diff

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func selectBody(rows string) string {
	return `{"head":{"vars":["s","l"]},"results":{"bindings":[` + rows + `]}}`
}

func TestDecodeJSONWritesCanonically(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"no rows", selectBody(``), selectBody(``)},
		{"empty row", selectBody(`{}`), selectBody(`{}`)},
		{"white space and extra members",
			"\n{ \"head\": { \"link\": [], \"vars\": [ \"s\", \"l\" ] },\n \"results\": { \"distinct\": false, \"ordered\": true, " +
				"\"bindings\": [ { \"s\": { \"type\": \"uri\", \"value\": \"u\", \"x\": {\"y\":[1e3,null,true,\"\"]} } } ] }, \"extra\": -0.5 } \r\n\t",
			selectBody(`{"s":{"type":"uri","value":"u"}}`)},
		{"results before head", `{"results":{"bindings":[{"l":{"value":"x","type":"literal"}}]},"head":{"vars":["s","l"]}}`,
			selectBody(`{"l":{"type":"literal","value":"x"}}`)},
		{"members in any order, variables in head order",
			selectBody(`{"l":{"xml:lang":"EN-gb","value":"x","type":"literal"},"s":{"value":"u","type":"uri"}}`),
			selectBody(`{"s":{"type":"uri","value":"u"},"l":{"type":"literal","value":"x","xml:lang":"en-gb"}}`)},
		{"typed-literal", selectBody(`{"l":{"type":"typed-literal","datatype":"http://d","value":"1"}}`),
			selectBody(`{"l":{"type":"literal","value":"1","datatype":"http://d"}}`)},
		{"xsd:string is no datatype", selectBody(`{"l":{"type":"typed-literal","datatype":"` + xsdString + `","value":"1"}}`),
			selectBody(`{"l":{"type":"literal","value":"1"}}`)},
		{"langString beside a language", selectBody(`{"l":{"type":"literal","datatype":"` + langString + `","xml:lang":"de","value":"1"}}`),
			selectBody(`{"l":{"type":"literal","value":"1","xml:lang":"de"}}`)},
		{"escapes", selectBody(`{"l":{"type":"\u006citeral","value":"\/\u00FC\ud83d\ude00\u0001\u0008\b\u001F\u007f\"\\\u2028"}}`),
			selectBody(`{"l":{"type":"literal","value":"/ü😀\u0001\b\b\u001f` + "\x7f" + `\"\\` + "\u2028" + `"}}`)},
		{"rows in byte order, repeated ones kept",
			selectBody(`{"s":{"type":"uri","value":"b"}},{},{"s":{"type":"uri","value":"a"}},{"s":{"type":"uri","value":"b"}}`),
			selectBody(`{"s":{"type":"uri","value":"a"}},{"s":{"type":"uri","value":"b"}},{"s":{"type":"uri","value":"b"}},{}`)},
		{"ask", ` {"boolean" : true, "head" : {"link":[]}}`, `{"head":{},"boolean":true}`},
		{"no variables", `{"head":{"vars":[]},"results":{"bindings":[{},{}]}}`, `{"head":{"vars":[]},"results":{"bindings":[{},{}]}}`},
	} {
		form := Select
		if c.name == "ask" {
			form = Ask
		}
		r, err := DecodeJSON([]byte(c.body), form, Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := string(r.Document()); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestDecodeJSONRefuses(t *testing.T) {
	long := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	for name, body := range map[string]string{
		"nothing":                 ``,
		"html":                    `<html><body>Virtuoso 42000 Error</body></html>`,
		"error document":          `{"error":"quota"}`,
		"no results":              `{"head":{"vars":["s"]}}`,
		"no head":                 `{"results":{"bindings":[]}}`,
		"no vars":                 `{"head":{},"results":{"bindings":[]}}`,
		"no bindings":             `{"head":{"vars":[]},"results":{}}`,
		"cut off":                 `{"head":{"vars":["s"]},"results":{"bindings":[{"s":{"type":"uri","value":"u"}}`,
		"garbage behind":          selectBody(``) + `x`,
		"NUL behind":              selectBody(``) + "\x00",
		"second document":         selectBody(``) + selectBody(``),
		"boolean":                 `{"head":{},"boolean":true}`,
		"both":                    `{"head":{"vars":[]},"results":{"bindings":[]},"boolean":true}`,
		"unknown type":            selectBody(`{"s":{"type":"triple","value":"x"}}`),
		"no type":                 selectBody(`{"s":{"value":"x"}}`),
		"no value":                selectBody(`{"s":{"type":"uri"}}`),
		"null value":              selectBody(`{"s":{"type":"uri","value":null}}`),
		"number":                  selectBody(`{"s":{"type":"literal","value":1}}`),
		"variable not in head":    selectBody(`{"z":{"type":"uri","value":"x"}}`),
		"variable twice":          selectBody(`{"s":{"type":"uri","value":"x"},"s":{"type":"uri","value":"x"}}`),
		"variable twice, escaped": selectBody(`{"s":{"type":"uri","value":"x"},"\u0073":{"type":"uri","value":"x"}}`),
		"member twice":            selectBody(`{"s":{"type":"uri","type":"uri","value":"x"}}`),
		"extra member twice":      selectBody(`{"s":{"type":"uri","a":1,"a":1,"value":"x"}}`),
		"head twice":              `{"head":{"vars":[]},"head":{"vars":[]},"results":{"bindings":[]}}`,
		"vars repeated":           `{"head":{"vars":["s","s"]},"results":{"bindings":[]}}`,
		"lone high surrogate":     selectBody(`{"s":{"type":"literal","value":"\ud800"}}`),
		"lone low surrogate":      selectBody(`{"s":{"type":"literal","value":"\udc00x"}}`),
		"wrong pair":              selectBody(`{"s":{"type":"literal","value":"\ud800\u0041"}}`),
		"bad escape":              selectBody(`{"s":{"type":"literal","value":"\x"}}`),
		"short escape":            selectBody(`{"s":{"type":"literal","value":"\u12"}}`),
		"control character":       selectBody("{\"s\":{\"type\":\"literal\",\"value\":\"a\nb\"}}"),
		"not UTF-8":               selectBody("{\"s\":{\"type\":\"literal\",\"value\":\"\xff\"}}"),
		"comma too many":          selectBody(`{},`),
		"comma missing":           selectBody(`{}{}`),
		"comma in row":            selectBody(`{"s":{"type":"uri","value":"x"},}`),
		"bad number":              `{"x":01,"head":{"vars":[]},"results":{"bindings":[]}}`,
		"too deep":                `{"x":` + long + `,"head":{"vars":[]},"results":{"bindings":[]}}`,
		"language and datatype":   selectBody(`{"s":{"type":"literal","value":"x","xml:lang":"en","datatype":"http://d"}}`),
		"array":                   `[]`,
	} {
		if r, err := DecodeJSON([]byte(body), Select, Options{}); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: result %v, error %v", name, r, err)
		}
	}
	for name, body := range map[string]string{
		"select answer": selectBody(``), "string": `{"head":{},"boolean":"true"}`, "cut": `{"head":{},"boolean":tru`,
		"twice": `{"head":{},"boolean":true,"boolean":true}`,
	} {
		if _, err := DecodeJSON([]byte(body), Ask, Options{}); !errors.Is(err, ErrMalformed) {
			t.Errorf("ASK, %s: %v", name, err)
		}
	}
}

// A shape learnt from one row must not let a later, broken row pass.
func TestShapesAreAsStrict(t *testing.T) {
	good := `{"s":{"type":"uri","value":"x"},"l":{"type":"literal","value":"y"}}`
	for name, bad := range map[string]string{
		"control character": "{\"s\":{\"type\":\"uri\",\"value\":\"x\x01\"},\"l\":{\"type\":\"literal\",\"value\":\"y\"}}",
		"lone surrogate":    `{"s":{"type":"uri","value":"x\ud800"},"l":{"type":"literal","value":"y"}}`,
		"no comma":          `{"s":{"type":"uri","value":"x"} "l":{"type":"literal","value":"y"}}`,
		"cut off":           `{"s":{"type":"uri","value":"x"},"l":{"type":"literal","value":"y`,
	} {
		if _, err := DecodeJSON([]byte(selectBody(good+","+good+","+bad)), Select, Options{}); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLimits(t *testing.T) {
	body := []byte(selectBody(`{},{},{}`))
	if _, err := DecodeJSON(body, Select, Options{MaxRows: 2}); !errors.Is(err, ErrRowLimit) || errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if _, err := DecodeJSON(body, Select, Options{MaxRows: 3, MaxBytes: len(body)}); err != nil {
		t.Error(err)
	}
	if _, err := DecodeJSON(body, Select, Options{MaxBytes: len(body) - 1}); !errors.Is(err, ErrByteLimit) {
		t.Error(err)
	}
	b := NewBuilder(Construct, Options{MaxRows: 1})
	for range 3 { // three equal triples count once
		_ = b.Triple(iri("s"), iri("p"), iri("o"))
	}
	if r, err := b.Finish(); err != nil || r.Len() != 1 {
		t.Error(r, err)
	}
}

func TestHeadOrderIsKept(t *testing.T) {
	body := []byte(selectBody(`{"s":{"type":"uri","value":"x"},"l":{"type":"literal","value":"y"}}`))
	r, err := DecodeJSON(body, Select, Options{Vars: []string{"l", "s"}})
	want := `{"head":{"vars":["l","s"]},"results":{"bindings":[{"l":{"type":"literal","value":"y"},"s":{"type":"uri","value":"x"}}]}}`
	if err != nil || string(r.Document()) != want {
		t.Fatalf("%v %s", err, r.Document())
	}
	if r, err = DecodeJSON(body, Select, Options{Vars: []string{"l", "z"}}); err != nil || !slices.Equal(r.Vars(), []string{"l", "s"}) {
		t.Fatalf("%v %v", err, r.Vars())
	}
	got := r.Terms(0)
	if diff := cmp.Diff([]Term{{Kind: Literal, Value: "y"}, {Kind: IRI, Value: "x"}}, got); diff != "" {
		t.Error(diff)
	}
}

// A head without the columns that no row binds, in any order, is no change. Rows keep their bytes whatever the head is.
func TestHeadsThatVary(t *testing.T) {
	read := func(vars []string, head, rows string) *Result {
		var arrived []string
		o := Options{Vars: vars, Head: func(vars []string) { arrived = vars }}
		r, err := DecodeJSON([]byte(`{"head":{"vars":`+head+`},"results":{"bindings":[`+rows+`]}}`), Select, o)
		if err != nil {
			t.Fatal(err)
		}
		if b, _ := json.Marshal(append([]string{}, arrived...)); string(b) != head {
			t.Fatalf("head %s, not %s", b, head)
		}
		b := NewBuilder(Select, Options{})
		_ = b.SetVars(r.Vars())
		for i := range r.Len() {
			_ = b.Row(r.Terms(i)...)
		}
		if same, err := b.Finish(); err != nil || same.Fingerprint() != r.Fingerprint() || same.Hash() != r.Hash() {
			t.Fatalf("%s: another fingerprint or hash than the same result read otherwise (%v)", r.Document(), err)
		}
		return r
	}
	const so, spo = `{"o":{"type":"uri","value":"y"},"s":{"type":"uri","value":"x"}}`, `{"s":{"type":"uri","value":"x"},` +
		`"p":{"type":"uri","value":"z"},"o":{"type":"uri","value":"y"}}`
	known := []string{"s", "p", "o"}
	old := read(known, `["s","p","o"]`, so)
	for _, head := range []string{`["o","s"]`, `["s","o"]`, `["p","o","s"]`, `["o","q","s"]`} {
		if d := Compare(old, read(known, head, so)); d != nil {
			t.Errorf("%s: removed %s, added %s, columns %v", head, d.Removed, d.Added, d.Vars)
		}
	}
	none := read(known, `["s","p","o"]`, "")
	if d := Compare(none, read(known, `[]`, "")); d != nil {
		t.Errorf("no rows: %+v", d)
	}
	grown := read([]string{"o", "s"}, `["s","p","o"]`, so+","+spo)
	if d := Compare(read(nil, `["o","s"]`, so), grown); len(d.Removed) != 0 || len(d.Added) != 1 ||
		!slices.Equal(grown.Vars(), []string{"o", "s", "p"}) {
		t.Errorf("a new column: %+v", d)
	}
}

// writeSloppily writes a row in one of its many equivalent forms.
func writeSloppily(t *rapid.T, vars []string, row []Term) string {
	quote := func(s string) string {
		if rapid.IntRange(0, 3).Draw(t, "ascii") > 0 {
			b, _ := json.Marshal(s)
			return string(b)
		}
		var b strings.Builder
		for _, r := range s {
			if r > 0xffff {
				fmt.Fprintf(&b, `\u%04x\u%04X`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
			} else {
				fmt.Fprintf(&b, `\u%04X`, r)
			}
		}
		return `"` + b.String() + `"`
	}
	space := rapid.SampledFrom([]string{"", "", " ", "\n\t"}).Draw(t, "space")
	var members []string
	for i, x := range row {
		typ := map[Kind]string{IRI: "uri", Blank: "bnode", Literal: "literal"}[x.Kind]
		if typ == "" {
			continue
		}
		if x.Datatype != "" && rapid.Bool().Draw(t, "typed") {
			typ = "typed-literal"
		}
		m := []string{`"type":` + space + quote(typ), `"value":` + quote(x.Value)}
		if x.Lang != "" {
			m = append(m, `"xml:lang":`+quote(x.Lang))
		}
		if x.Datatype != "" {
			m = append(m, `"datatype":`+quote(x.Datatype))
		}
		m = rapid.Permutation(m).Draw(t, "members")
		members = append(members, quote(vars[i])+space+":{"+strings.Join(m, space+","+space)+"}")
	}
	members = rapid.Permutation(members).Draw(t, "bindings")
	return "{" + strings.Join(members, ","+space) + space + "}"
}

// The decoder and encoding/json read the same from a document, however it is written.
func TestDecoderAgreesWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, vars := world{t}, []string{"x", "y", "ü\""}
		var rows []string
		for range rapid.IntRange(0, 12).Draw(t, "rows") {
			var row []Term
			for range vars {
				if x := w.term("term"); x.Kind != Blank { // labels would be replaced
					row = append(row, x)
				} else {
					row = append(row, Term{})
				}
			}
			rows = append(rows, writeSloppily(t, vars, row))
		}
		head, _ := json.Marshal(map[string]any{"vars": vars})
		body := `{"head":` + string(head) + `,"results":{"bindings":[` + strings.Join(rows, " ,") + `]}}`
		got, err := DecodeJSON([]byte(body), Select, Options{Ordered: true})
		if err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		var p plain
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Fatal(err)
		}
		if got.Len() != len(p.Results.Bindings) {
			t.Fatalf("%d rows, want %d", got.Len(), len(p.Results.Bindings))
		}
		for i, binding := range p.Results.Bindings {
			for k, term := range got.Terms(i) {
				x, bound := binding[vars[k]]
				if bound != (term.Kind != Unbound) {
					t.Fatalf("row %d: %v, want %v", i, term, x)
				}
				if !bound {
					continue
				}
				want, _ := Term{Kind: kindOf([]byte(x.Type)), Value: x.Value, Lang: x.Lang, Datatype: x.Datatype}.normal()
				if term != want {
					t.Fatalf("row %d: %v, want %v", i, term, want)
				}
			}
		}
		var back plain
		if err := json.Unmarshal(got.Document(), &back); err != nil {
			t.Fatalf("canonical document is not JSON: %v", err)
		}
	})
}

// Rows of typical results are read by learnt shapes. Each row must be the same as if it
// were parsed alone.
func TestShapesWriteWhatParsingWrites(t *testing.T) {
	for name, body := range map[string][]byte{"virtuoso": virtuosoBody(500, 0, 0), "mixed": mixedBody(2000)} {
		all, err := DecodeJSON(body, Select, Options{Ordered: true})
		if err != nil {
			t.Fatal(name, err)
		}
		var p struct {
			Head    json.RawMessage
			Results struct{ Bindings []json.RawMessage }
		}
		if err := json.Unmarshal(body, &p); err != nil {
			t.Fatal(err)
		}
		if all.Len() != len(p.Results.Bindings) {
			t.Fatalf("%s: %d rows, want %d", name, all.Len(), len(p.Results.Bindings))
		}
		for i, row := range p.Results.Bindings {
			one, err := DecodeJSON(fmt.Appendf(nil, `{"head":%s,"results":{"bindings":[%s]}}`, p.Head, row), Select, Options{})
			if err != nil {
				t.Fatal(err)
			}
			if string(one.Row(0)) != string(all.Row(i)) {
				t.Fatalf("%s: row %d is %s, alone %s", name, i, all.Row(i), one.Row(0))
			}
		}
	}
}

func FuzzDecodeJSON(f *testing.F) {
	f.Add([]byte(selectBody(`{"l":{"xml:lang":"EN","value":"\u00fc\n","type":"literal"}},{},{"s":{"type":"bnode","value":"b1"},`+
		`"l":{"type":"bnode","value":"b2"}}`)), false)
	f.Add([]byte(`{"head":{},"boolean":true}`), true)
	f.Add(virtuosoBody(3, 0, 0), false)
	f.Add(mixedBody(6), true)
	f.Fuzz(func(t *testing.T, body []byte, ordered bool) {
		for _, form := range []Form{Select, Ask} {
			a, err := DecodeJSON(body, form, Options{Ordered: ordered})
			if err != nil {
				continue
			}
			if !json.Valid(body) || !utf8.Valid(body) {
				t.Fatal("accepted what is not JSON")
			}
			if !json.Valid(a.Document()) {
				t.Fatalf("wrote what is not JSON: %s", a.Document())
			}
			b, err := DecodeJSON(a.Document(), form, Options{Ordered: ordered})
			if err != nil || !a.Approximate() && string(a.Document()) != string(b.Document()) {
				t.Fatalf("%v\n%s\n%s", err, a.Document(), b.Document())
			}
			c, err := Decode(a.Document(), form, ordered)
			if err != nil || Compare(a, c) != nil || a.Fingerprint() != c.Fingerprint() {
				t.Fatalf("stored %s: %v", a.Document(), err)
			}
			for i := range a.Len() {
				if len(a.Terms(i)) != len(a.Vars()) {
					t.Fatal("terms are not aligned with vars")
				}
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(selectBody(`{"s":{"type":"uri","value":"}}"}},{}`)), false)
	f.Add([]byte("<s> <p> \"o\\n\"@en .\n_:b <p> <o> .\n"), true)
	f.Fuzz(func(t *testing.T, doc []byte, ordered bool) {
		for _, form := range []Form{Select, Ask, Construct} {
			r, err := Decode(doc, form, ordered)
			if err != nil {
				continue
			}
			r.Hash()
			for i := range r.Len() {
				r.Terms(i)
			}
			Compare(r, r)
		}
	})
}

func FuzzDeltaBinary(f *testing.F) {
	one, _ := Decode([]byte(selectBody(`{},{"s":{"type":"uri","value":"u"}}`)), Select, true)
	two, _ := Decode([]byte(selectBody(`{"s":{"type":"uri","value":"v"}},{}`)), Select, true)
	seed, _ := Compare(one, two).MarshalBinary()
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var d Delta
		if d.UnmarshalBinary(data) != nil {
			return
		}
		again, err := d.MarshalBinary()
		var e Delta
		if err != nil || e.UnmarshalBinary(again) != nil || !cmp.Equal(d, e) {
			t.Fatalf("%v: %v became %v", err, d, e)
		}
		_, _ = d.Apply(one)
		_, _ = Compose(&d, &d)
		_, _, _ = ParseRowsJSON(d.Form, d.AddedJSON())
	})
}

// The cost of a document grows linearly with each part that a hostile endpoint can
// make long.
func TestLongHeadsAreCheap(t *testing.T) {
	const n = 50_000
	var vars, row, rows []string
	for i := range n {
		vars = append(vars, fmt.Sprintf(`"v%d"`, i))
		row = append(row, fmt.Sprintf(`"v%d":{"type":"uri","value":"u"}`, n-1-i))
		rows = append(rows, fmt.Sprintf(`{"v%d":{"type":"uri","value":"u"}},{}`, i))
	}
	body := `{"head":{"vars":[` + strings.Join(vars, ",") + `]},"results":{"bindings":[{` + strings.Join(row, ",") + `},` +
		strings.Join(rows, ",") + `]}}`
	r, err := DecodeJSON([]byte(body), Select, Options{})
	if err != nil || r.Len() != 2*n+1 {
		t.Fatal(err)
	}
	if got := string(r.Row(0)[:10]); got != `{"v0":{"ty` {
		t.Errorf("head order is not kept: %s", got)
	}
}

// A client keeps the labels that it receives.
func TestKeepLabels(t *testing.T) {
	body := selectBody(`{"s":{"type":"bnode","value":"zz"}}`)
	for _, keep := range []bool{true, false} {
		r, err := DecodeJSON([]byte(body), Select, Options{KeepLabels: keep})
		if err != nil || (string(r.Document()) == body) != keep {
			t.Errorf("keep %t: %v %s", keep, err, r.Document())
		}
	}
	b := NewBuilder(Construct, Options{KeepLabels: true})
	if err := b.Triple(Term{Kind: Blank, Value: "a b"}, iri("p"), iri("o")); !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
}

// A member that reports an error makes the answer incomplete, wherever it is. Others are ignored, and
// so are those that report nothing.
func TestMembersThatReportErrors(t *testing.T) {
	documents := []string{
		`{"head":{"vars":["x"]},"results":{"bindings":[]},%s}`, `{%s,"head":{"vars":["x"]},"results":{"bindings":[]}}`,
		`{"head":{"vars":["x"],%s},"results":{"bindings":[]}}`, `{"head":{"vars":["x"]},"results":{%s,"bindings":[]}}`,
		`{"results":{"bindings":[],%s},"head":{"vars":["x"]}}`,
	}
	for member, bad := range map[string]bool{
		`"error":"timeout"`: true, `"Error": {"code":5}`: true, `"errors":["x"]`: true, `"exception" : "e"`: true, `"error":1`: true,
		`"timeout":true`: true, `"timedOut":true`: true, `"partial":true`: true, `"truncated":"after 100 rows"`: true, `"incomplete":true`: true,
		`"error":null`: false, `"error":false`: false, `"error":""`: false, `"errors":[]`: false, `"exception":{}`: false,
		`"timeout":30`: false, `"partial":false`: false, `"truncated":""`: false, `"meta":{"error":"x"}`: false, `"link":[]`: false,
		`"distinct":false`: false, `"timed-out":true`: true, `"timed_out":true`: true, `"isPartial":true`: true, `"is_partial":false`: false,
		`"complete":false`: true, `"is-complete":"false"`: true, `"complete":true`: false,
	} {
		for _, d := range documents {
			_, err := DecodeJSON(fmt.Appendf(nil, d, member), Select, Options{})
			if (err != nil) != bad || bad && (!errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), "beside its rows")) {
				t.Errorf("%s in %s: %v", member, d, err)
			}
		}
	}
}
