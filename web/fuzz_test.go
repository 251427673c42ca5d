package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/freshet/freshet/registry"
)

// Decoding any body returns a value or a problem for the client. The standard library
// reads every accepted body as the same value.
func FuzzReadJSON(f *testing.F) {
	for _, s := range []string{`{"name":"a","tags":["x"],"for":"5s"}`, `{"name":null}`, `{"name":"a","name":"b"}`, `{} {}`,
		"{\"name\":\"\xff\"}", `[[[[`, `{"for":-1}`,
		`{"name":"\ud800"}`, `{"nested":{"a":{"b":{}}}}`, "\ufeff{}", `{"weight":1e999}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var v struct {
			Name   *string           `json:"name"`
			Tags   []string          `json:"tags"`
			For    registry.Duration `json:"for"`
			Weight float64           `json:"weight"`
			Size   registry.Size     `json:"size"`
			Nested map[string]any    `json:"nested"`
		}
		err := readPatch(b, &v)
		if err != nil {
			var p *registry.Problem
			if !errors.As(err, &p) || Status(p.Kind) != 400 {
				t.Fatalf("%q: %v is not a problem of the client's", b, err)
			}
			w := httptest.NewRecorder()
			if send(w, httptest.NewRequest("POST", "/", nil), p); !json.Valid(w.Body.Bytes()) {
				t.Fatalf("%q is answered with %q", b, w.Body)
			}
			for _, e := range p.Errors {
				if len(e.Pointer) > 300 {
					t.Fatalf("a pointer of %d bytes", len(e.Pointer))
				}
			}
			return
		}
		if !json.Valid(b) || !utf8.Valid(b) {
			t.Fatalf("%q is accepted", b)
		}
		var m map[string]json.RawMessage
		if json.Unmarshal(b, &m) == nil {
			if _, there := m["name"]; there != (v.Name != nil) {
				t.Fatalf("%q: name is there: %v", b, v.Name != nil)
			}
		}
	})
}

// Merging never panics, and a patch with the present values changes nothing.
func FuzzMerge(f *testing.F) {
	f.Add(`{"a":{"b":1}}`, `{"a":{"b":null,"c":[1]}}`)
	f.Add(`[1]`, `{"a":null}`)
	f.Add(`{"a":[1,2]}`, `{"a":{"x":1}}`)
	f.Fuzz(func(t *testing.T, target, patch string) {
		var a, b, again any
		if json.Unmarshal([]byte(target), &a) != nil || json.Unmarshal([]byte(patch), &b) != nil {
			return
		}
		once, _ := json.Marshal(merge(a, b))
		json.Unmarshal(once, &again)
		twice, _ := json.Marshal(merge(again, b))
		if !bytes.Equal(once, twice) {
			t.Fatalf("merging %s twice into %s gives %s, then %s", patch, target, once, twice)
		}
	})
}

func FuzzAnyTag(f *testing.F) {
	f.Add(`"a", W/"b"`, `"b"`)
	f.Add(`*`, `"x"`)
	f.Add(`"`, `"`)
	f.Fuzz(func(t *testing.T, list, tag string) {
		anyTag([]string{list}, tag, true)
		if strings.Count(tag, `"`) == 0 && !strings.ContainsAny(tag, "\r\n") && !anyTag([]string{`W/"x", "` + tag + `"`}, `"`+tag+`"`, false) {
			t.Fatalf("%q is not found", tag)
		}
	})
}
