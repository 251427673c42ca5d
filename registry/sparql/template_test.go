package sparql

import "testing"

func TestOneTriple(t *testing.T) {
	for text, want := range map[string]bool{
		"CONSTRUCT { ?s <p> ?o } WHERE { ?s ?p ?o . ?o ?q ?r }":  true,
		"CONSTRUCT { ?s a <c> . } WHERE { ?s ?p ?o } LIMIT 5":    true,
		"construct where { ?s ?p ?o } limit 5":                   true,
		"CONSTRUCT { [] <p> ?o } WHERE { ?s ?p ?o }":             true,
		"CONSTRUCT { ?s <p> ?o . ?o <q> ?s } WHERE { ?s ?p ?o }": false,
		"CONSTRUCT { ?s <p> ?o , ?p } WHERE { ?s ?p ?o }":        false,
		"CONSTRUCT { ?s <p> ?o ; <q> ?p } WHERE { ?s ?p ?o }":    false,
		"CONSTRUCT { ?s <p> [ <q> ?o ] } WHERE { ?s ?p ?o }":     false,
		"CONSTRUCT { [ <q> ?o ] <p> ?s } WHERE { ?s ?p ?o }":     false,
		"CONSTRUCT { ?s <p> (?o) } WHERE { ?s ?p ?o }":           false,
		"CONSTRUCT { } WHERE { ?s ?p ?o }":                       false,
		"CONSTRUCT WHERE { ?s ?p ?o . ?o ?q ?r }":                false,
		"DESCRIBE ?s { ?s ?p ?o }":                               false,
		"SELECT * { ?s ?p ?o }":                                  false,
		"CONSTRUCT {":                                            false,
	} {
		if got := OneTriple(text); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
