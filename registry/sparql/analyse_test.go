package sparql

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// In the wanted values Limit and Offset 0 mean none.
func TestAnalyse(t *testing.T) {
	for _, c := range []struct {
		text string
		want Analysis
	}{
		{`select ?x { ?x <#service> "ORDER BY now()" } # LIMIT 3`,
			Analysis{Form: "SELECT", Vars: []string{"x"}}},
		{`SELECT * { {SELECT ?x {?x ?y ?z} ORDER BY ?x LIMIT 3} }`,
			Analysis{Form: "SELECT", Star: true}},
		{`SELECT ?x (now() as ?t) {?x ?y ?z SERVICE SILENT <http://e/> {?a ?b ?c}} ORDER BY ?x LIMIT 3`,
			Analysis{Form: "SELECT", Vars: []string{"x", "t"}, Ordered: true, OrderKeys: []string{"x"}, Limit: 3,
				NonDeterministic: []string{"NOW"}, Services: []string{"<http://e/>"}}},
		{`PREFIX now: <http://x/> SELECT ?now { ?now now:rand ?limit . ?x now:service <http://x/RAND()> }`,
			Analysis{Form: "SELECT", Vars: []string{"now"}, Constants: []string{"http://x/RAND()", "http://x/rand", "http://x/service"}}},
		{`PREFIX e: <http://e/> SELECT ?i { SERVICE wikibase:label { bd:serviceParam wikibase:language "en". } SERVICE e:s {} ` +
			`SERVICE ?v {} SERVICE <http://e/s> {} }`,
			Analysis{Form: "SELECT", Vars: []string{"i"}, Services: []string{"wikibase:label", "<http://e/s>", "?v"}}},
		{`SELECT ?x WITH { SELECT ?x {?x ?y ?z} LIMIT 9 } AS %a WHERE { INCLUDE %a hint:Prior hint:rangeSafe true. }`,
			Analysis{Form: "SELECT", Vars: []string{"x"}}},
		{`DEFINE sql:describe-mode "CBD" DESCRIBE <http://x>`,
			Analysis{Form: "DESCRIBE", Pragmas: true, Constants: []string{"http://x"}}},
		{`DESCRIBE * FROM <http://g> FROM NAMED <http://h> { ?s <http://p> ?o } LIMIT 2`,
			Analysis{Form: "DESCRIBE", Star: true, HasFrom: true, Limit: 2, Constants: []string{"http://p"}}},
		{`DESCRIBE <http://x> ?y ORDER BY ?y LIMIT 2 OFFSET 3`,
			Analysis{Form: "DESCRIBE", Ordered: true, OrderKeys: []string{"y"}, Limit: 2, Offset: 3, Constants: []string{"http://x"}}},
		{`CONSTRUCT { ?s <http://t> _:b } FROM <http://g> WHERE { ?s <http://p> ?o } ORDER BY ?s OFFSET 4`,
			Analysis{Form: "CONSTRUCT", HasFrom: true, Ordered: true, OrderKeys: []string{"s"}, Offset: 4, Constants: []string{"http://p",
				"http://t"}}},
		{`CONSTRUCT WHERE { ?s <http://p> ?o } LIMIT 5`,
			Analysis{Form: "CONSTRUCT", Limit: 5, Constants: []string{"http://p"}}},
		{`ASK{?s a <http://c>}`, Analysis{Form: "ASK", Constants: []string{"http://c"}}},
		{`SELECT DISTINCT ?a,?b, count(?c) AS ?n WHERE { ?a ?b ?c } ORDER BY DESC(?n), ?a ASC ?b (?c)`,
			Analysis{Form: "SELECT", Distinct: true, Vars: []string{"a", "b", "n"}, Ordered: true, OrderKeys: []string{"n", "a", "b", "c"}}},
		{`SELECT DISTINCT(?a) WHERE { ?a ?b ?c } ORDER BY lcase(?a)`,
			Analysis{Form: "SELECT", Distinct: true, Vars: []string{"a"}, Ordered: true}},
		{`SELECT (COUNT(DISTINCT ?a) AS ?n) { ?a ?b ?c } ORDER BY <http://f>(?a) ?a`,
			Analysis{Form: "SELECT", Vars: []string{"n"}, Ordered: true}},
		{`SELECT * { FILTER(?x<?y&&rand()>uuid()) FILTER(struuid() = ?a) bnode(?b) BNODE now }`,
			Analysis{Form: "SELECT", Star: true, NonDeterministic: []string{"RAND", "UUID", "STRUUID", "BNODE"}}},
		{`SELECT * { FILTER(?x<<http://i>) ?s ?p "1"^^<http://d>, -5, .5, 5.e3 . FILTER <http://f>(?s, <http://arg>) ?s ` +
			`<http://q> (<http://l>) ; a (<http://m> (1)) FILTER(<http://g>(<http://n>)) }`,
			Analysis{Form: "SELECT", Star: true, Constants: []string{"http://arg", "http://i", "http://l", "http://m", "http://n", "http://q"}}},
		{`SELECT ?a { ?a (<http://p>/(<http://q>|^<http://r>)*)+ ?b } GROUP BY <http://f>(?a) HAVING EXISTS { ?a ?b <http://h> } ` +
			`VALUES (?a ?b) { (<http://v> UNDEF) (<rel> <http://w>) }`,
			Analysis{Form: "SELECT", Vars: []string{"a"}, Constants: []string{"http://h", "http://p", "http://q", "http://r", "http://v",
				"http://w"}}},
		{`SELECT ?a { { SELECT (<http://f>(?b) AS ?a) (<http://c> AS ?d) { ?b <http://p> ?a } GROUP BY ?b LIMIT 1 } VALUES ?b { <http://v> } }`,
			Analysis{Form: "SELECT", Vars: []string{"a"}, Constants: []string{"http://p", "http://v"}}},
		{`SELECT * { <<( :a :b <http://c> )>> ?p << :a :b <http://o>>> {| :q 1 |} ~ :r }`,
			Analysis{Form: "SELECT", Star: true, Constants: []string{"http://c", "http://o"}}},
		{`SELECT * {} LIMIT 99999999999999999999 OFFSET 007`,
			Analysis{Form: "SELECT", Star: true, Limit: math.MaxInt64, Offset: 7}},
		{"\ufeff\\u0053elect\t* # {\r\n{ ?x bif:contains 'a' } OPTION (ORDER)",
			Analysis{Form: "SELECT", Star: true}},
	} {
		got, err := Analyse(c.text)
		if err != nil {
			t.Errorf("%s\nrefused: %v", c.text, err)
			continue
		}
		checkFixpoint(t, got)
		if c.want.Limit == 0 {
			c.want.Limit = -1
		}
		if c.want.Offset == 0 {
			c.want.Offset = -1
		}
		if d := cmp.Diff(&c.want, got, cmpopts.IgnoreFields(Analysis{}, "Normal", "Warnings"), cmpopts.EquateEmpty()); d != "" {
			t.Errorf("%s\n(-want +got)\n%s", c.text, d)
		}
	}
}

func TestZeroIsNotNone(t *testing.T) {
	a, err := Analyse("SELECT * {} OFFSET 0 LIMIT 0")
	if err != nil || a.Limit != 0 || a.Offset != 0 {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestOrderKeysNilUnlessPlain(t *testing.T) {
	for text, want := range map[string]bool{
		`SELECT * {} ORDER BY ?a`:           true,
		`SELECT * {} ORDER BY (?a + 1)`:     false,
		`SELECT * {} ORDER BY ?a str(?b)`:   false,
		`SELECT * {} ORDER BY ?a p:f(?b)`:   false,
		`SELECT * {} ORDER BY DESC(str(?))`: false,
		`SELECT * {}`:                       false,
	} {
		a, err := Analyse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := a.OrderKeys != nil; got != want {
			t.Errorf("%s: order keys %q", text, a.OrderKeys)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, c := range []struct {
		text string
		want []Warning // Message is a part of the wanted message
	}{
		{`SELECT ?x { ?x ?y ?z } ORDER BY ?x LIMIT 3`, nil},
		{`ASK { ?x ?y ?z } LIMIT 3`, nil},
		{"SELECT ?x { ?x ?y ?z }\n LIMIT 3", []Warning{{LimitWithoutOrder, "ORDER BY", 2, 2}}},
		{`ASK { { SELECT ?x { ?x ?y ?z } OFFSET 3 } }`, []Warning{{LimitWithoutOrder, "ORDER BY", 1, 32}}},
		{`SELECT ?x { ?x ?y ?z } ORDER BY ?x ?z`, []Warning{{OrderTies, "?z", 1, 24}}},
		{`SELECT * { ?x ?y ?z } ORDER BY str(?z)`, []Warning{{OrderTies, "expression", 1, 23}}},
		{"SELECT * {\r\n ?é ?y ?z BIND(uuid() AS ?u) FILTER(?z < Now()) }", []Warning{{NonDeterministic, "UUID, NOW", 2, 16}}},
		{`SELECT * { SERVICE <http://e> {} }`, []Warning{{Service, "<http://e>", 1, 12}}},
		{`SELECT * { a:b c:d e:f, g:h, i:j, k:l, m:n, a:c }`, []Warning{{UndeclaredPrefix, "a:, c:, e:, g:, i: and 2 more", 1, 12}}},
		{`SELECT * { ?s rdfs:label ?l . ?s ex:p ?o }`, []Warning{{UndeclaredPrefix, "no PREFIX for rdfs:, ex:, so only", 1, 15}}},
		{`SELECT * { ?s rdfs:label ?l . ?s ex:p ?o }`,
			[]Warning{{UndeclaredPrefix, "it is PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>", 1, 15}}},
		{`DEFINE input:inference "x" ASK {}`, []Warning{{Pragma, "Virtuoso", 1, 1}}},
		{"#pragma reasoning on\nASK {}", []Warning{{Pragma, "Stardog", 2, 1}}},
		{`PREFIX franzOption_engine: <franz:mjqe> ASK {}`, []Warning{{Pragma, "AllegroGraph", 1, 8}}},
	} {
		a, err := Analyse(c.text)
		if err != nil {
			t.Errorf("%s\nrefused: %v", c.text, err)
			continue
		}
		if d := cmp.Diff(c.want, a.Warnings, cmpopts.IgnoreFields(Warning{}, "Message")); d != "" {
			t.Errorf("%s\n(-want +got)\n%s", c.text, d)
			continue
		}
		for i, w := range a.Warnings {
			if !strings.Contains(w.Message, c.want[i].Message) {
				t.Errorf("%s\nwarning %q does not say %q", c.text, w.Message, c.want[i].Message)
			}
		}
	}
}

func TestUpdateRefused(t *testing.T) {
	for _, text := range []string{
		`INSERT DATA { <a> <b> <c> }`,
		"PREFIX a: <b> # SELECT\n INSERT DATA { <a> <b> <c> }",
		`BASE <http://b/> DEFINE a:b "c" delete where { ?s ?p ?o }`,
		`WITH <g> DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }`,
		`LOAD <http://x>`, `CLEAR ALL`, `DROP SILENT DEFAULT`, `CREATE GRAPH <g>`, `COPY <a> TO <b>`, `MOVE <a> TO <b>`, `ADD <a> TO <b>`,
		`MODIFY GRAPH <g> DELETE {} INSERT {}`,
		`INSERT DATA { <a> <b> "broken }`,
		`\u0049NSERT DATA { }`,
		`SELECT * { ?s ?p ?o } ; DROP ALL`,
		`SELECT * { ?s ?p ?o } DROP ALL`,
		`SELECT * { ?s ?p ?o } ORDER BY ?s DELETE WHERE { ?s ?p ?o }`,
		`SELECT * { ?s ?p ?o } LIMIT 1 ; PREFIX a: <b> INSERT { a:b a:c a:d } WHERE {}`,
		`DESCRIBE <x> DELETE WHERE { ?s ?p ?o }`,
		`ASK {} WITH <g> DELETE {} WHERE {}`,
	} {
		if _, err := Analyse(text); !errors.Is(err, ErrUpdate) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func TestReaches(t *testing.T) {
	for text, want := range map[string]string{
		`define get:soft "soft" DEFINE Input:GRAB-all "yes" ASK {?s ?p ?o}`:                           "get:soft Input:GRAB-all",
		`ASK FROM <http://e/> OPTION (get:soft "soft", get:method "GET") {?s ?p ?o}`:                  "get:soft get:method",
		`SELECT (bif:http_get("http://e/") AS ?x) { FILTER(<BIF:Exec>("x") = 1) }`:                    "bif:http_get <BIF:Exec>",
		`PREFIX b: <bif:> SELECT * { ?s ?p ?o . BIND(b:string_to_file("a", "b", 1) AS ?x) }`:          "<bif:string_to_file>",
		`SELECT (sql:sparql_eval("x") AS ?x) {}`:                                                      "sql:sparql_eval",
		`SELECT (sql:sample(?o) AS ?x) { ?s bif:contains "x" FILTER(bif:lower(?o) = "bif:exec(1)") }`: "",
		`PREFIX get: <http://e/> DEFINE input:same-as "yes" SELECT * { ?s get:x <get:y> # get:soft
			}`: "",
	} {
		a, err := Analyse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(a.SideEffects, " "); got != want {
			t.Errorf("%s\nreaches %q, want %q", text, got, want)
		}
	}
}

// Texts in which one engine reads a string or a comment where another reads the
// query. Each is refused, or the analysis shows everything that any engine
// sees.
func TestNothingIsHidden(t *testing.T) {
	for _, text := range []string{
		// Virtuoso takes the first line as a comment and the rest as an update.
		"#\rASK { ?s ?p '''\nINSERT DATA { <a> <b> <c> }\n#'''}",
		"#\r\rASK { ?s ?p '''\nSERVICE <http://e/> {}\n#'''}",
		// By the grammar this is an IRI that contains an apostrophe or a number sign.
		`BASE <http://b/> ASK { ?s ?p ( ?x <a&&'> ) . SERVICE <http://e/> { ?a ?b ?c } . ?d ?e 'x' } #' ) }`,
		"BASE <http://b/> ASK { ?s ?p ( ?x <a&&#> ) . SERVICE <http://e/> { ?a ?b ?c } . ?d ?e (\n ?f ) }",
	} {
		if a, err := Analyse(text); err == nil && len(a.Services) == 0 {
			t.Errorf("accepted as %s:\n%q", a.Normal, text)
		}
	}
	for _, text := range []string{"# a\r\n# b\r\r\nASK {} # c\r", "ASK {} # c \r \r\n"} {
		if _, err := Analyse(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestSyntaxErrors(t *testing.T) {
	for _, c := range []struct {
		text         string
		line, column int
		message      string
	}{
		{"", 1, 1, "ends here"},
		{"# only\n ", 2, 2, "ends here"},
		{"\n  FROB {}", 2, 3, `"FROB"`},
		{"aſk {}", 1, 1, `"aſk"`},
		{"PREFIX a <b> SELECT * {}", 1, 8, "colon"},
		{"PREFIX a:b <b> SELECT * {}", 1, 8, "colon"},
		{"PREFIX a: b SELECT * {}", 1, 11, "angle brackets"},
		{"PREFIX", 1, 7, "colon"},
		{"BASE x SELECT * {}", 1, 6, "angle brackets"},
		{"VERSION 1.2 SELECT * {}", 1, 9, "string"},
		{"DEFINE a:b SELECT * {}", 1, 19, "a query begins with SELECT"},
		{"DEFINE a:b", 1, 11, "value"},
		{"SELECT * { é:x 'abc\n }", 1, 16, "not closed before the end of the line"},
		{"SELECT * { ?x ?y '''abc\n }", 1, 18, "never closed"},
		{"SELECT * { ?x ?y 'abc\\\n' }", 1, 18, "not closed before the end of the line"},
		{"SELECT * { { ?x ?y ?z }", 1, 10, "never closed"},
		{"SELECT * { ?x ?y ?z } }", 1, 23, "closes nothing"},
		{"SELECT * {\n( ?x }", 2, 6, "line 2, column 1"},
		{"SELECT * { ?x ?y `z` }", 1, 18, "unexpected character '`'"},
		{"SELECT * { ?x \x80 }", 1, 15, "UTF-8"},
		{"SELECT * { ?x ?y \\u007d", 1, 18, "must not be escaped"},
		{"SELECT * { ?x ?y \\uD800 }", 1, 18, "backslash"},
		{`SELECT * { ?x ?y "\u0022" }`, 1, 19, `use \"`},
		{`SELECT * { ?x ?y "\u000A" }`, 1, 19, `use \n`},
		{`SELECT * { ?x ?y '''\u005C''' }`, 1, 21, `use \\`},
		{"ASK {} # \\u000A LIMIT 3", 1, 10, "escaped line end"},
		{"# a\r# b\nASK {}", 1, 4, "carriage return alone"},
		{"ASK {} # a\r\r LIMIT 3", 1, 11, "carriage return alone"},
		{"SELECT * { ?x ?y _: }", 1, 18, "label"},
		{"SELECT * { ?x ?y 'a'@ }", 1, 21, "letters"},
		{"SELECT ?x", 1, 10, "pattern"},
		{"CONSTRUCT { ?s ?p ?o }", 1, 23, "pattern"},
		{"SELECT * {} LIMIT x", 1, 13, "whole number"},
		{"SELECT * {} LIMIT -1", 1, 19, "whole number"},
		{"SELECT * {} OFFSET 1.5", 1, 20, "whole number"},
		{"SELECT * {} LIMIT 1 LIMIT 2", 1, 21, "repeated"},
		{"SELECT * {} ORDER BY", 1, 21, "condition"},
		{"SELECT * {} ;", 1, 13, "semicolon"},
		{"SELECT * {} SELECT * {}", 1, 13, "a second SELECT"},
		{"SELECT * {} { ?x ?y ?z }", 1, 13, "cannot follow"},
		{"SELECT * {} garbage", 1, 13, "garbage"},
		{"SELECT * { SERVICE", 1, 10, "never closed"},
		{"SELECT * { SERVICE SILENT }", 1, 12, "SERVICE needs"},
		{"SELECT * {" + strings.Repeat("(", MaxDepth), 1, 10 + MaxDepth, "deep"},
		{"SELECT * {}" + strings.Repeat(" ", MaxText), 1, 1, "bytes"},
	} {
		_, err := Analyse(c.text)
		var e *SyntaxError
		if !errors.As(err, &e) {
			t.Errorf("%.60s: %v", c.text, err)
			continue
		}
		if e.Line != c.line || e.Column != c.column || !strings.Contains(e.Message, c.message) {
			t.Errorf("%.60q: %v, want %d:%d …%s…", c.text, e, c.line, c.column, c.message)
		}
	}
}

func TestSyntaxErrorText(t *testing.T) {
	_, err := Analyse("SELECT *\n{ ] }")
	if want := `line 2, column 3: "]" does not close the "{" of line 2, column 1`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
