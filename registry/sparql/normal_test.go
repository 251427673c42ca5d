package sparql

import (
	"strings"
	"testing"
)

// TestNormal shows the normal form itself, one rule after the other.
func TestNormal(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"PREFIX f: <http://f/>\nselect $x where { ?x a f:P ; f:n 'a' }  # c",
			`SELECT ?x WHERE { ?x a <http://f/P> ; <http://f/n> "a" }`},
		{`PREFIX:<http://f/>PREFIXg:<http://g/>select*{?s :p?o;g:q true,FALSE}`,
			`SELECT * { ?s <http://f/p> ?o ; <http://g/q> true , false }`},
		{`PREFIX p: <http://a/> PREFIX p: <http://b/> ASK { p:x p:y.z p:\,%2C. p: p:a:b p:1-\-2 }`,
			`ASK { <http://b/x> <http://b/y.z> <http://b/,%2C> . <http://b/> <http://b/a:b> <http://b/1--2> }`},
		{`BASE <http://b/> PREFIX r: <> PREFIX q: <http://q/> PREFIX u: <s/> ASK { r:x q:y <#z> }`,
			`BASE <http://b/> PREFIX r: <> ASK { r:x <http://q/y> <#z> }`},
		{`PREFIX d: <http://d/a/> ASK { d:x d:\.. d:\.\./y }`,
			`PREFIX d: <http://d/a/> ASK { <http://d/a/x> d:\. . d:\.\. / y }`},
		{`ASK { ?s ?p 'a"b', "a\'b", """x` + "\n" + `"y" """, '\u00e9\t', "é\d", 'A'@EN, "1"^^<d>, "1" ^^ <d> }`,
			`ASK { ?s ?p "a\"b" , "a'b" , "x\n\"y\" " , "é\t" , "é\d" , "A"@EN , "1"^^<d> , "1"^^<d> }`},
		{`ASK { ?s ?p 1,01,1.0,1e0,+1,-1,- 1,5 . ?s ?q _:a.b.}`,
			`ASK { ?s ?p 1 , 01 , 1.0 , 1e0 , +1 , -1 , - 1 , 5 . ?s ?q _:a.b . }`},
		{`ASK { FILTER(regex(?x,"a")&&Bif:x(?y)||isIRI(?a)&&foo(?b)&&!?c!=?d) }`,
			`ASK { FILTER ( REGEX ( ?x , "a" ) && Bif:x ( ?y ) || ISIRI ( ?a ) && foo ( ?b ) && ! ?c != ?d ) }`},
		{`ASK { FILTER(?x<?y) FILTER(?x<=?y) FILTER(?x<?y&&?z>?w) ?x <?y&&?z> ?w FILTER(?x<<http://a>) }`,
			`ASK { FILTER ( ?x < ?y ) FILTER ( ?x <= ?y ) FILTER ( ?x < ?y && ?z > ?w ) ?x <?y&&?z> ?w FILTER ( ?x < <http://a> ) }`},
		{`version '1.2' define input:Inference 'x' , u:y Define sql:n -1 Select ?x,?y From <g> { }`,
			`VERSION "1.2" DEFINE input:Inference "x" , u:y DEFINE sql:n -1 SELECT ?x , ?y FROM <g> { }`},
		{`PREFIX u: <http://u/> DEFINE input:rules u:y ASK { u:z ?p <http://x/a|"b"> }`,
			`PREFIX u: <http://u/> DEFINE input:rules u:y ASK { <http://u/z> ?p <http://x/a|"b"> }`},
		{`PREFIX p: <http://p/> PREFIXfranzOption_engine:<franz:mjqe> PREFIX ORACLE_SEM_HT_NS: <http://o/#leading(t0,t1)> ASK{p:x?p?o}`,
			`PREFIX franzOption_engine: <franz:mjqe> PREFIX ORACLE_SEM_HT_NS: <http://o/#leading(t0,t1)> ASK { <http://p/x> ?p ?o }`},
		{"PREFIX p: <http://p/> # pragma Reasoning on\r\n#x\n#PRAGMA a\nASK { #pragma b\n p:x ?p ?o # pragmatic\n} #pragma c",
			"# pragma Reasoning on\n#PRAGMA a\nASK { #pragma b\n<http://p/x> ?p ?o #pragma c\n}"},
		{`ask { ?\u0061 <\u0061> \u0061:b _:\u0061 . <<(?a ?b ?c)>> ?p <<?a ?b ?c>>{|?d ?e|} }`,
			`ASK { ?a <a> a:b _:a . <<( ?a ?b ?c )>> ?p << ?a ?b ?c >> {| ?d ?e |} }`},
		{`ASK { ?s ?p "a"@\u0065n\u002DGB, 1\u0032, 1\u00455, 1e\u002D\u0035, -1.\u0035E+5, 1\u0061:b }`,
			`ASK { ?s ?p "a"@en-GB , 12 , 1E5 , 1e-5 , -1.5E+5 , 1 a:b }`},
		{`ASK { ?a :p?/:q*|^:r+ ?b, true.?c a-b:c -1, NOW()-5 }`,
			`ASK { ?a :p ? / :q * | ^ :r + ?b , true . ?c a-b:c -1 , NOW ( ) -5 }`},
	} {
		a, err := Analyse(c.text)
		if err != nil {
			t.Errorf("%s\nrefused: %v", c.text, err)
			continue
		}
		if a.Normal != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.text, a.Normal, c.want)
		}
		checkFixpoint(t, a)
	}
}

// TestDifferent lists pairs of texts that look alike and are different queries.
func TestDifferent(t *testing.T) {
	for _, c := range [][2]string{
		{`ASK { ?s ?p "a" }`, `ASK { ?s ?p "a " }`},
		{`ASK { ?s ?p "a" }`, `ASK { ?s ?p "A" }`},
		{`ASK { ?s ?p "a # b" }`, `ASK { ?s ?p "a" }`},
		{`ASK { ?s ?p "\\n" }`, `ASK { ?s ?p "\n" }`},
		{`ASK { ?s ?p "\\u0041" }`, `ASK { ?s ?p "A" }`},
		{`ASK { ?s ?p "a\d" }`, `ASK { ?s ?p "a\\d" }`},
		{`ASK { ?s ?p "a\d" }`, `ASK { ?s ?p "ad" }`},
		{`ASK { ?s ?p "1" }`, `ASK { ?s ?p 1 }`},
		{`ASK { ?s ?p 1 }`, `ASK { ?s ?p 01 }`},
		{`ASK { ?s ?p 1.0 }`, `ASK { ?s ?p 1.00 }`},
		{`ASK { ?s ?p -1 }`, `ASK { ?s ?p - 1 }`},
		{`ASK { ?s ?p "a"@en }`, `ASK { ?s ?p "a"@en-GB }`},
		{`ASK { ?s ?p "true" }`, `ASK { ?s ?p true }`},
		{`ASK { ?s a ?o }`, `ASK { ?s A ?o }`},
		{`ASK { ?x ?p ?o }`, `ASK { ?X ?p ?o }`},
		{`ASK { _:a ?p ?o }`, `ASK { _:A ?p ?o }`},
		{`ASK { ?x p:a ?o }`, `ASK { ?x p:A ?o }`},
		{`ASK { ?x p:a ?o }`, `ASK { ?x P:a ?o }`},
		{`ASK { ?x p:a ?o }`, `PREFIX p: <http://p/> ASK { ?x p:a ?o }`},
		{`PREFIX p: <> ASK { ?x p:a ?o }`, `ASK { ?x <a> ?o }`},
		{`PREFIX p: <q> ASK { ?x p:a ?o }`, `PREFIX p: <q/> ASK { ?x p:a ?o }`},
		{`PREFIX p: <http://p/> ASK { ?x p:\.\./a ?o }`, `ASK { ?x <http://p/../a> ?o }`},
		{`PREFIX p: <http://p/> ASK { ?x p:%2C ?o }`, `PREFIX p: <http://p/> ASK { ?x p:\, ?o }`},
		{`BASE <http://a/> ASK { ?x <p> ?o }`, `BASE <http://b/> ASK { ?x <p> ?o }`},
		{`BASE <http://a/> PREFIX p: <q> BASE <http://b/> ASK { ?x p:x ?o }`,
			`BASE <http://a/> BASE <http://b/> PREFIX p: <q> ASK { ?x p:x ?o }`},
		{`ASK { ?x <http://p> ?o }`, `ASK { ?x <HTTP://p> ?o }`},
		{`ASK { FILTER(?x!=?y) }`, `ASK { FILTER(?x! =?y) }`},
		{`ASK { FILTER(?x<?y) }`, `ASK { FILTER(?x<=?y) }`},
		{`ASK { ?x :p ?y }`, `ASK { ?x :p? ?y }`},
		{`ASK { ?x :p.q ?y }`, `ASK { ?x :p . q ?y }`},
		{`SELECT * {} LIMIT 1`, `SELECT * {} LIMIT 10`},
		{`SELECT * {} LIMIT 1`, `SELECT * {} OFFSET 1`},
		{`SELECT ?x {}`, `SELECT DISTINCT ?x {}`},
		{`SELECT ?x {}`, `SELECT ?x FROM <http://g> {}`},
		{`SELECT ?x {}`, `DEFINE input:inference "x" SELECT ?x {}`},
		{`SELECT ?x {} ORDER BY ?x`, `SELECT ?x {} ORDER BY DESC(?x)`},
		{`SELECT ?x { OPTION (T_in) }`, `SELECT ?x { OPTION (t_in) }`},
		{"SELECT ?x {}", "#pragma reasoning on\nSELECT ?x {}"},
		{`SELECT ?x {}`, `PREFIX ORACLE_SEM_FS_NS: <http://oracle.com/semtech#INF_ONLY> SELECT ?x {}`},
		{`SELECT ?x { VALUES ?x { "x"@en\u0061:p } }`, `SELECT ?x { VALUES ?x { "x"@en a:p } }`},
		{`SELECT ?x { VALUES ?x { "x"@en\u002Da:p } }`, `SELECT ?x { VALUES ?x { "x"@en a:p } }`},
		{`SELECT ?x { VALUES ?x { 1\u0065\u0035:p } }`, `SELECT ?x { VALUES ?x { 1 e5:p } }`},
		{`SELECT ?x { VALUES ?x { 1e\u002D5:p } }`, `SELECT ?x { VALUES ?x { 1 e-5:p } }`},
	} {
		a, err := Analyse(c[0])
		b, err2 := Analyse(c[1])
		if err != nil || err2 != nil {
			t.Errorf("refused: %v, %v", err, err2)
		} else if a.Normal == b.Normal {
			t.Errorf("one normal form for two queries\n%s\n%s\n%s", c[0], c[1], a.Normal)
		}
	}
}

// TestLongHostileTexts has long texts on which unbounded lookahead or lookbehind
// would take minutes.
func TestLongHostileTexts(t *testing.T) {
	for _, unit := range []string{
		"<", "<a", "<<", "?a<<", "(?a<<a", "a.", "a.b", "a:b.", ":", "?", "$x", "_:a.", "'", "''", "'\\", `"""`, `"" `, "\\", "\\u0041",
		"{", "(", "()", "{}", "[", "|", "^^", "{|", "@a", "+1", "1.", "1e", ".", "#", "#\n", "%a", "%", "p:a ", "p:x:", "\r", "é", "a-", "now(",
		"SERVICE<a>", "DEFINE a:b 1", "1,", "PREFIX a:<b>", "BASE<b>", "LIMIT 1 ", "?a,", "SELECT{", "{SELECT*",
	} {
		for _, frame := range [][2]string{
			{"", ""}, {"SELECT * {", "}"}, {"SELECT ", "{}"}, {"SELECT * {} ORDER BY ", ""}, {"DEFINE a:b ", "1 ASK {}"},
			{"PREFIX p:<http://" + strings.Repeat("n", 1000) + "> SELECT * {", "}"},
		} {
			text := frame[0] + strings.Repeat(unit, MaxText/8/len(unit)) + frame[1]
			if a, err := Analyse(text); err == nil && len(a.Normal) > MaxText {
				t.Errorf("%q repeated: normal form of %d bytes", unit, len(a.Normal))
			}
		}
	}
}
