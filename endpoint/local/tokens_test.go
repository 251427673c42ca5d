package local

import "testing"

func TestQueryForm(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT * {}": "SELECT",
		"# ASK\nprefix select: <http://ask/construct> select:x \n base <http://x/ask> dEsCrIbe <http://x/select>": "DESCRIBE",
		"PREFIX ask: <http://x/#ASK> CONSTRUCT WHERE { ?ask ask:ask \"SELECT\" }":                                 "CONSTRUCT",
		"ask{?s ?p '''it's SELECT'''}":           "ASK",
		"INSERT DATA {}":                         "",
		"PREFIX é: <http://x/> ASK {}":           "ASK",
		"DEFINE input:inference 'x' SELECT * {}": "SELECT",
		"":                                       "",
		"'":                                      "",
		"<":                                      "",
		"\xff ASK {}":                            "",
	} {
		if got := queryForm(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func TestRepeatable(t *testing.T) {
	for text, want := range map[string]bool{
		// the IRI might be a comparison
		`INSERT DATA { <http://x/NOW()> <http://x/select> "NOW() SELECT \" UUID()", '''it's "now"''', "x"@now-select }`:      false,
		`INSERT DATA { <http://x/now_(film)> <http://x/select> "NOW() SELECT \" UUID()", '''it's "now"''', "x"@now-select }`: true,
		`DELETE { ?s ?p ?now } WHERE { ?s ?p ?now FILTER (?now < 3) } # RAND()`:                                              true,
		`INSERT { ?s ex:now ?n } WHERE { ?s rand:uuid ?n }`:                                                                  true,
		`INSERT { ?s ex:p ?n } WHERE { BIND (now() AS ?n) }`:                                                                 false,
		`INSERT { ?s ex:p ?n } WHERE { FILTER (?a<?b&&RAND()>?c) }`:                                                          false,
		`INSERT { ?s ex:p ?n } WHERE { BIND (StrUUID ( ) AS ?n) }`:                                                           false,
		`INSERT { ?s ex:p ?n } WHERE { { SELECT ?n { ?n ?p ?o } LIMIT 1 } }`:                                                 false,
		`INSERT { ?s ex:p ?n } WHERE { SERVICE <http://x/> {} }`:                                                             false,
		`INSERT { ?s ex:p ?n } WHERE { BIND (\u004EOW() AS ?n) }`:                                                            false,
		"INSERT { ?s ex:p ?n } WHERE { ?s ex:p 'lone BIND (NOW() AS ?n) }":                                                   false,
		"INSERT DATA { <http://x/a> <http://x/b> \"\"\"a\n\"NOW()\"\" \\\"\"\"\" }":                                          true,
		`INSERT { ?s ex:p ?n } WHERE { BIND (?x-now() AS ?n) }`:                                                              false,
		"LOAD <http://x/>": false,
		"CLEAR ALL":        true,
	} {
		if got := repeatable(text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
