package web

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/api"
)

// The document and the program have the same members in requests and answers, also
// optional ones.
func TestDocumentKnowsEveryField(t *testing.T) {
	d, err := openDocument()
	if err != nil {
		t.Fatal(err)
	}
	schemas := child(d.Tree, "components", "schemas").(map[string]any)
	for name, v := range map[string]any{
		"Query": api.Query{}, "Analysis": api.Analysis{}, "Explanation": api.Explanation{}, "Endpoint": api.Endpoint{},
		"EndpointSettings": registry.Endpoint{}, "Subscription": api.Subscription{}, "Webhook": api.Webhook{}, "Profile": api.Profile{},
		"Round": api.Round{}, "Token": api.Token{}, "ChangePage": changePage{}, "Registration": registry.Registration{},
		"QueryPatch": registry.Patch{},
	} {
		f := &fields{t: t, schemas: schemas}
		if name == "EndpointSettings" {
			f.missing = []string{"pause"} // by calls of its own
		}
		f.compare(name, schemas[name], reflect.TypeOf(v))
	}
}

type fields struct {
	t       *testing.T
	schemas map[string]any
	missing []string // that the document leaves out on purpose
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

func (f *fields) compare(at string, schema any, typ reflect.Type) {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice {
		if typ == reflect.TypeFor[json.RawMessage]() {
			return
		}
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.Implements(jsonMarshaler) || typ.Implements(textMarshaler) {
		return
	}
	documented, written := map[string]any{}, map[string]reflect.Type{}
	f.properties(schema, documented)
	members(typ, written)
	for _, name := range f.missing {
		delete(written, name)
	}
	if d := cmp.Diff(slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(written))); d != "" {
		f.t.Errorf("%s (-document +program):\n%s", at, d)
		return
	}
	inner := &fields{t: f.t, schemas: f.schemas}
	for name, typ := range written {
		inner.compare(at+"."+name, documented[name], typ)
	}
}

// properties collects the properties of a schema and of its parts.
func (f *fields) properties(schema any, into map[string]any) {
	if schema == nil {
		return
	}
	s, _ := schema.(map[string]any)
	if ref, ok := s["$ref"].(string); ok {
		f.properties(f.schemas[strings.TrimPrefix(ref, "#/components/schemas/")], into)
	}
	for _, how := range []string{"allOf", "anyOf", "oneOf"} {
		of, _ := s[how].([]any)
		for _, x := range of {
			f.properties(x, into)
		}
	}
	f.properties(child(s, "items"), into)
	props, _ := s["properties"].(map[string]any)
	maps.Copy(into, props)
}

// members collects the JSON members of a struct.
func members(typ reflect.Type, into map[string]reflect.Type) {
	for i := range typ.NumField() {
		x := typ.Field(i)
		name, _, _ := strings.Cut(x.Tag.Get("json"), ",")
		switch {
		case x.Anonymous && name == "":
			members(x.Type, into)
		case x.IsExported() && name != "-":
			into[name] = x.Type
		}
	}
}
