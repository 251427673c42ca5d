package docs_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/web/docs"
	"github.com/freshet/freshet/web/docs/docstest"
)

func open(t *testing.T, text []byte) *docstest.Document {
	t.Helper()
	d, err := docstest.Open(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Every reference leads somewhere, and every schema is used by something.
func TestReferences(t *testing.T) {
	for name, text := range map[string][]byte{"openapi": docs.OpenAPI, "asyncapi": docs.AsyncAPI} {
		t.Run(name, func(t *testing.T) {
			d := open(t, text)
			used := map[string]bool{}
			walk(d.Tree, func(ref string) {
				used[ref] = true
				if resolve(d.Tree, ref) == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			})
			components := d.Tree["components"].(map[string]any)
			for kind, all := range components {
				if kind == "securitySchemes" {
					continue
				}
				for _, c := range slices.Sorted(maps.Keys(all.(map[string]any))) {
					if ref := "#/components/" + kind + "/" + c; !used[ref] {
						t.Errorf("nothing uses %s", ref)
					}
				}
			}
			for s := range components["schemas"].(map[string]any) {
				if err := d.At("/components/schemas/"+s, []byte("null")); err != nil && !strings.Contains(err.Error(), "against ") {
					t.Errorf("%s is no schema: %v", s, err)
				}
			}
		})
	}
}

func walk(v any, visit func(ref string)) {
	switch v := v.(type) {
	case map[string]any:
		if ref, ok := v["$ref"].(string); ok {
			visit(ref)
		}
		for _, x := range v {
			walk(x, visit)
		}
	case []any:
		for _, x := range v {
			walk(x, visit)
		}
	}
}

func resolve(tree any, ref string) any {
	path, ok := strings.CutPrefix(ref, "#/")
	if !ok {
		return nil
	}
	for part := range strings.SplitSeq(path, "/") {
		m, _ := tree.(map[string]any)
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		if tree = m[part]; tree == nil {
			return nil
		}
	}
	return tree
}

// The schemas refuse what the contract forbids: they are not empty shells.
func TestSchemasRefuse(t *testing.T) {
	d := open(t, docs.AsyncAPI)
	good := `{"type":"delta","id":"a","query":"q_1","epoch":"e","prev":1,"seq":2,"offset":7,"time":"2026-11-20T09:00:00Z",
		"checked_at":"2026-11-20T09:00:00Z","slot":3,"form":"ASK","jaccard":1,"hash":"sha256:` + strings.Repeat("0", 64) + `",
		"previous_hash":null,"boolean":true,"previous":false}`
	if err := d.Message([]byte(good)); err != nil {
		t.Error(err)
	}
	for _, change := range [][2]string{
		{`"prev":1`, `"prev":-1`}, {`"epoch":"e",`, ``}, {`"form":"ASK"`, `"form":"UPDATE"`}, {`"jaccard":1`, `"jaccard":1.5`},
		{`09:00:00Z","slot"`, `09:00:00+01:00","slot"`}, {`"boolean":true,`, ``}, {`"id":"a"`, `"id":"a b"`}, {`"slot":3`, `"slot":3,"more":1`},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if bad == good {
			t.Fatalf("%s is not there", change[0])
		}
		if d.Message([]byte(bad)) == nil {
			t.Errorf("%s in the place of %s is let through", change[1], change[0])
		}
	}
}

// The documents are YAML 1.2, which has no merge keys: parsers that follow it
// read a property named "<<".
func TestNoMergeKeys(t *testing.T) {
	for name, text := range map[string][]byte{"openapi": docs.OpenAPI, "asyncapi": docs.AsyncAPI} {
		for i, line := range strings.Split(string(text), "\n") {
			if strings.Contains(line, "<<") {
				t.Errorf("%s, line %d: %s", name, i+1, line)
			}
		}
	}
}
