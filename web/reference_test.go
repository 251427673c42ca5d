package web

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/docs"
)

var update = flag.Bool("update", false, "write the pages of the reference")

// The pages on the API are made from openapi.yaml and from the kinds of problems.
func TestReference(t *testing.T) {
	var root yaml.MapSlice
	if err := yaml.UnmarshalWithOptions(docs.OpenAPI, &root, yaml.UseOrderedMap()); err != nil {
		t.Fatal(err)
	}
	r := apiReference{root: root}
	for page, want := range map[string]string{"reference-api.md": r.calls(), "reference-objects.md": r.objects()} {
		page = "docs/" + page
		if *update {
			if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(want, string(got)); diff != "" {
			t.Errorf("%s differs from openapi.yaml (-openapi +page); run: go test ./web -run Reference -update\n%s", page, diff)
		}
	}
}

// An apiReference writes an OpenAPI document as Markdown.
type apiReference struct{ root yaml.MapSlice }

// at returns a member, nil for none.
func at(v any, keys ...string) any {
	for _, key := range keys {
		m, _ := v.(yaml.MapSlice)
		v = nil
		for _, x := range m {
			if fmt.Sprint(x.Key) == key {
				v = x.Value
			}
		}
	}
	return v
}

func textAt(v any, keys ...string) string {
	if x := at(v, keys...); x != nil {
		return strings.TrimSpace(fmt.Sprint(x))
	}
	return ""
}

func entries(v any) yaml.MapSlice { m, _ := v.(yaml.MapSlice); return m }

func items(v any) []any { list, _ := v.([]any); return list }

// resolve follows a reference of the document.
func (r apiReference) resolve(v any) (x any, name string) {
	ref := textAt(v, "$ref")
	if ref == "" {
		return v, ""
	}
	keys := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
	return at(r.root, keys...), keys[len(keys)-1]
}

var escapes = strings.NewReplacer("|", `\|`, "<", `\<`)

// inCell returns a text in Markdown as a cell of a table.
func inCell(text string) string {
	return strings.NewReplacer("\n- ", " · ", "\n", " ").Replace(escapes.Replace(strings.TrimSpace(text)))
}

func anchor(name string) string { return strings.ToLower(strings.ReplaceAll(name, ".", "")) }

func (r apiReference) calls() string {
	var b strings.Builder
	b.WriteString("# HTTP API\n\nA running server serves the document from which this page is made at " +
		"[/v1/openapi.yaml](openapi.yaml), and describes the\n" +
		"messages of its WebSocket and its event streams at [/v1/asyncapi.yaml](asyncapi.yaml). [Objects of the API](reference-objects.md)\n" +
		"describes the bodies. Each call has an example, which a test makes; `…` leaves lines out. The server of the examples is open. One\n" +
		"with tokens wants `-H \"Authorization: Bearer $FRESHET_TOKEN\"`, too.\n\n" +
		escapes.Replace(textAt(r.root, "info", "description")) + "\n")
	for _, tag := range items(at(r.root, "tags")) {
		fmt.Fprintf(&b, "\n## %s\n", strings.ToUpper(textAt(tag, "name")[:1])+textAt(tag, "name")[1:])
		for _, p := range entries(at(r.root, "paths")) {
			for _, op := range entries(p.Value) {
				if tags := items(at(op.Value, "tags")); len(tags) > 0 && tags[0] == textAt(tag, "name") {
					r.call(&b, strings.ToUpper(fmt.Sprint(op.Key)), fmt.Sprint(p.Key), p.Value, op.Value)
				}
			}
		}
	}
	b.WriteString("\n## Errors\n\nThe `type` of an error is `/problems/` and one of these words. Every server explains each of " +
		"them at that address.\n\n| type | status | title |\n|---|---|---|\n")
	kinds := registry.Kinds()
	slices.SortStableFunc(kinds, func(a, b registry.Kind) int { return cmp.Compare(Status(a), Status(b)) })
	for _, k := range kinds {
		fmt.Fprintf(&b, "| `%s` | %d | %s |\n", k, Status(k), inCell((&registry.Problem{Kind: k}).Heading()))
	}
	return b.String()
}

// call writes one operation.
func (r apiReference) call(b *strings.Builder, method, path string, item, op any) {
	fmt.Fprintf(b, "\n### %s %s\n\n%s.\n", method, path, escapes.Replace(strings.TrimSuffix(textAt(op, "summary"), ".")))
	if about := textAt(op, "description"); about != "" {
		fmt.Fprintf(b, "\n%s\n", escapes.Replace(about))
	}
	params := append(slices.Clone(items(at(item, "parameters"))), items(at(op, "parameters"))...)
	if len(params) > 0 {
		b.WriteString("\n| parameter | in | type | meaning |\n|---|---|---|---|\n")
		for _, p := range params {
			p, _ = r.resolve(p)
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", textAt(p, "name"), textAt(p, "in"), r.kind(at(p, "schema")),
				inCell(textAt(p, "description")))
		}
	}
	if body, _ := r.resolve(at(op, "requestBody")); body != nil {
		fmt.Fprintf(b, "\nBody: %s.\n", r.content(at(body, "content")))
	}
	b.WriteString("\n| status | body | meaning |\n|---|---|---|\n")
	var refused []string
	for _, a := range entries(at(op, "responses")) {
		v, name := r.resolve(a.Value)
		if name == "Problem" {
			refused = append(refused, fmt.Sprint(a.Key))
			continue
		}
		fmt.Fprintf(b, "| %v | %s | %s |\n", a.Key, r.content(at(v, "content")), inCell(textAt(v, "description")))
	}
	if len(refused) > 0 {
		fmt.Fprintf(b, "| %s | [Problem](reference-objects.md#problem) | See [errors](#errors). |\n", strings.Join(refused, ", "))
	}
	if request, answer := textAt(op, "x-example", "request"), textAt(op, "x-example", "answer"); request != "" {
		kind := "text"
		if strings.HasPrefix(answer, "{") {
			kind = "json"
		}
		fmt.Fprintf(b, "\n```sh\n%s\n```\n\n```%s\n%s\n```\n", request, kind, answer)
	}
}

// content writes the media types of a body, with their objects.
func (r apiReference) content(v any) string {
	var list []string
	for _, m := range entries(v) {
		text := fmt.Sprintf("`%v`", m.Key)
		if _, name := r.resolve(at(m.Value, "schema")); name != "" {
			text = fmt.Sprintf("[%s](reference-objects.md#%s) (%s)", name, anchor(name), text)
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

// kind writes what a schema allows.
func (r apiReference) kind(v any) string {
	if _, name := r.resolve(v); name != "" {
		return fmt.Sprintf("[%s](reference-objects.md#%s)", name, anchor(name))
	}
	if list := items(at(v, "enum")); list != nil {
		var words []string
		for _, x := range list {
			words = append(words, fmt.Sprintf("`%v`", x))
		}
		return strings.Join(words, ", ")
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		if list := items(at(v, key)); list != nil {
			var words []string
			for _, x := range list {
				words = append(words, r.kind(x))
			}
			return strings.Join(words, map[bool]string{true: " and ", false: " or "}[key == "allOf"])
		}
	}
	if x := at(v, "const"); x != nil {
		return fmt.Sprintf("`%v`", x)
	}
	text := textAt(v, "type")
	if list := items(at(v, "type")); list != nil {
		text = strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", " or ")
	}
	switch {
	case text == "array":
		return "list of " + r.kind(at(v, "items"))
	case text == "string" && textAt(v, "format") != "":
		text += " (" + textAt(v, "format") + ")"
	case text == "":
		text = "any"
	}
	var bounds []string
	for _, x := range [][2]string{{"minimum", "from "}, {"exclusiveMinimum", "above "}, {"maximum", "to "},
		{"maxLength", "length to "}, {"default", "default "}} {
		if s := textAt(v, x[0]); s != "" {
			bounds = append(bounds, x[1]+s)
		}
	}
	return strings.Join(append([]string{text}, bounds...), ", ")
}

func (r apiReference) objects() string {
	var b strings.Builder
	b.WriteString("# Objects of the API\n\nThe bodies of the calls of the [HTTP API](reference-api.md), in the order of the " +
		"alphabet. Members without “always” may be missing.\n" +
		"Members of members are written with a dot, and members of the items of a list with `[]`.\n")
	all := slices.Clone(entries(at(r.root, "components", "schemas")))
	slices.SortFunc(all, func(a, b yaml.MapItem) int {
		return strings.Compare(strings.ToLower(fmt.Sprint(a.Key)), strings.ToLower(fmt.Sprint(b.Key)))
	})
	for _, s := range all {
		fmt.Fprintf(&b, "\n## %v\n", s.Key)
		about := textAt(s.Value, "description")
		if about != "" {
			fmt.Fprintf(&b, "\n%s\n", escapes.Replace(about))
		}
		rows := r.rows("", s.Value)
		if len(rows) == 0 {
			fmt.Fprintf(&b, "\nType: %s.\n", r.kind(s.Value))
			continue
		}
		if list := items(at(s.Value, "allOf")); list != nil {
			fmt.Fprintf(&b, "\nIt has the members of %s.\n", r.kind(yaml.MapSlice{{Key: "allOf", Value: list}}))
		}
		b.WriteString("\n| member | type | present | meaning |\n|---|---|---|---|\n" + strings.Join(rows, ""))
	}
	return b.String()
}

// rows writes the members of an object, those of nested objects included.
func (r apiReference) rows(prefix string, v any) (rows []string) {
	required := items(at(v, "required"))
	for _, m := range entries(at(v, "properties")) {
		name, always := prefix+fmt.Sprint(m.Key), ""
		if slices.Contains(required, m.Key) {
			always = "always"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, r.kind(m.Value), always, inCell(textAt(m.Value, "description"))))
		rows = append(rows, r.rows(name+".", m.Value)...)
		rows = append(rows, r.rows(name+"[].", at(m.Value, "items"))...)
		for _, key := range []string{"anyOf", "oneOf"} {
			for _, x := range items(at(m.Value, key)) {
				rows = append(rows, r.rows(name+".", x)...)
			}
		}
	}
	return rows
}
