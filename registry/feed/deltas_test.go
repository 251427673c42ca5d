package feed

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry/sparql"
)

// The message is one that delta-notifier of mu-semtech sends.
func TestReadDeltas(t *testing.T) {
	at := time.Unix(1000, 0)
	events, err := ReadDeltas([]byte(`[{"inserts":[{"graph":{"type":"uri","value":"http://g"},"subject":{"type":"uri",`+
		`"value":"http://s"},"predicate":{"type":"uri","value":"http://p"},
		"object":{"type":"literal","value":"x","datatype":"http://www.w3.org/2001/XMLSchema#string","xml:lang":"en"}}],
		"deletes":[{"subject":{"type":"bnode","value":"b"},"predicate":{"type":"uri","value":"http://p"},`+
		`"object":{"type":"typed-literal","value":"1"}}]},{"inserts":[],"deletes":[]}]`), at)
	if err != nil || len(events) != 2 || events[0].Time != at || len(events[0].Loose) > 0 {
		t.Fatalf("%+v, %v", events, err)
	}
	for p, want := range map[sparql.Pattern]Reach{
		{Subject: "<http://s>", Object: `"x`, Graph: "<http://g>"}: Matched, {Predicate: "<http://p>", Object: `"1`}: Matched,
		{Subject: "<http://s>", Graph: "<http://other>"}: None, {Object: `"y`}: None,
	} {
		if got := events[0].Reach([]sparql.Pattern{p}); got != want {
			t.Errorf("%+v: %d, want %d", p, got, want)
		}
	}
	triple := `{"subject":{"type":"uri","value":"s"},"predicate":{"type":"uri","value":"p"},"object":{"type":"uri","value":"%d"}}`
	var many []string
	for i := range mostDeltas + 1 {
		many = append(many, fmt.Sprintf(triple, i))
	}
	if events, err = ReadDeltas([]byte(`[{"inserts":[`+strings.Join(many, ",")+`]}]`), at); err != nil || !events[0].All ||
		events[0].Added != nil {
		t.Errorf("too many triples: %v", err)
	}
	if events, err = ReadDeltas([]byte("["+strings.Repeat(`{"inserts":[]},`, mostObjects)+`{"inserts":[]}]`), at); err == nil ||
		!strings.Contains(err.Error(), "send several messages") {
		t.Errorf("too many objects: %d events, %v", len(events), err)
	}
	for _, bad := range []string{"", "{}", "null", "[1]", "[{}", "[{}]", `[{"insert":[]}]`, `[{"changeSets":[]}]`, `[{"inserts":[` +
		strings.Replace(triple, `,"value":"p"`, "", 1) + `]}]`, `[{"inserts":[{}]}]`, `[{"inserts":[` + strings.Replace(triple,
		"uri", "x", 1) + `]}]`, `[{"deletes":[` + strings.Replace(triple, "uri", "literal", 1) + `]}]`,
		`[{"inserts":[` + strings.Replace(triple, `"type":"uri","value":"p"`, `"type":"bnode","value":"p"`, 1) + `]}]`} {
		if events, err := ReadDeltas([]byte(bad), at); err == nil {
			t.Errorf("%s gives %+v", bad, events)
		}
	}
}
