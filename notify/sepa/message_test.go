package sepa

import (
	"strings"
	"testing"
)

// Errors in messages are described in terms of JSON.
func TestWordsForBadMessages(t *testing.T) {
	for frame, want := range map[string]string{
		`{"subscribe":"SELECT *"}`:                                        "a string is not allowed at subscribe",
		`{"subscribe":{"sparql":1.5}}`:                                    "a number is not allowed at subscribe.sparql",
		`{"unsubscribe":["x"]}`:                                           "an array is not allowed at unsubscribe",
		`{"subscribe":{"sparql":"ASK {}","alias":true}}`:                  "a boolean is not allowed at subscribe.alias",
		`{"subscribe":{"sparql":"ASK {}","default-graph-uri":{"a":1}}}`:   "an IRI or an array of IRIs",
		`{"subscribe":{"sparql":"ASK {}","named-graph-uri":["x",false]}}`: "an IRI or an array of IRIs",
		`[]`:            "an array is not allowed at the top",
		`"subscribe"`:   "a string is not allowed at the top",
		`{"subscribe":`: "not valid JSON",
		``:              "not valid JSON",
	} {
		_, err := parse([]byte(frame))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "Go ") || strings.Contains(err.Error(), "sepa.") {
			t.Errorf("%s: %v, want %q", frame, err, want)
		}
	}
}
