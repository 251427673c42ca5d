package ui

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/docs/docstest"
)

var (
	labelled = regexp.MustCompile(`<label[^>]* for="f-([^"]*)">([^<]*)</label>|<legend class="lab mono">([^<]*)</legend>`)
	settable = regexp.MustCompile(`<(?:input|select|textarea)[^>]* name="([^"]*)"`)
)

// TestLabelsAreSettings checks that each field of a form has its name as label, a sentence of help,
// and the same name as the setting in the API and the configuration file.
func TestLabelsAreSettings(t *testing.T) {
	text, err := os.ReadFile("../docs/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	doc, err := docstest.Open(text)
	if err != nil {
		t.Fatal(err)
	}
	r := signedIn(t, registry.RoleAdmin)
	r.endpoint("city")
	q := r.register("city", "q", "ASK { ?s ?p ?o }")
	schemas := []string{"components", "schemas"}
	request := func(path string) []string {
		return []string{"paths", path, "post", "requestBody", "content", "application/json", "schema"}
	}
	// The sign-in of an endpoint is nested in the API.
	signIn := properties(t, doc.Tree, append(schemas, "Password")...)
	endpoint := properties(t, doc.Tree, append(schemas, "EndpointSettings")...)
	registration := properties(t, doc.Tree, append(schemas, "Registration")...)
	for _, f := range []struct {
		page     string
		settings []string
		besides  []string // settings of the API that the form does not have
	}{
		{"/endpoints/city", append(signIn, endpoint...), []string{"name", "shadows", "password_file"}},
		{"/add-endpoint", append(signIn, endpoint...), nil},
		{"/register", registration, []string{"replace", "ordered", "default_graph_uri", "named_graph_uri", "from", "until", "urgency", "life"}},
		{queryPath(q.ID) + "/settings", registration, nil},
		{"/add-profile", properties(t, doc.Tree, request("/v1/profiles")...), nil},
		{"/tokens", properties(t, doc.Tree, request("/v1/tokens")...), []string{}},
	} {
		a := r.get(f.page).status(200)
		var labels []string
		for _, m := range labelled.FindAllStringSubmatch(a.body, -1) {
			label := m[2] + m[3]
			labels = append(labels, label)
			if m[1] != "" && m[1] != label {
				t.Errorf("%s: the field %s is labelled %q", f.page, m[1], label)
			}
			if !slices.Contains(f.settings, label) {
				t.Errorf("%s: %q is no setting of the API", f.page, label)
			}
			if !regexp.MustCompile(`id="f-` + label + `-h">[^<]`).MatchString(a.body) {
				t.Errorf("%s: %s has no help", f.page, label)
			}
		}
		for _, m := range settable.FindAllStringSubmatch(a.body, -1) {
			if slices.Contains(f.settings, m[1]) && !slices.Contains(labels, m[1]) {
				t.Errorf("%s: the field %s has no label", f.page, m[1])
			}
		}
		for _, s := range f.settings {
			if f.besides != nil && !slices.Contains(labels, s) && !slices.Contains(f.besides, s) && s != "policy" {
				t.Errorf("%s: the form does not have the setting %s", f.page, s)
			}
		}
	}
}

// TestEverySettingHasAField checks that the form of an endpoint shows and saves every setting.
func TestEverySettingHasAField(t *testing.T) {
	full := registry.Endpoint{URL: "http://127.0.0.1:3030/sparql", Slot: "@every 1h", Budget: registry.Duration(5 * time.Second), Policy: "rr", Rule: "debt",
		FallbackPolicy: "dj", ProfileShare: 0.25, Merge: "values", TimeoutParam: "t", AllowService: true, OwnServices: []string{"http://own.example/"}, AllowPublic: true,
		Concurrency: 3, Timeout: registry.Duration(4 * time.Second), MinGap: registry.Duration(70 * time.Millisecond),
		Blackout: []registry.Blackout{{Start: "0 2 * * *", For: registry.Duration(time.Hour)}}, MaxRows: 77, MaxBytes: 1 << 20, MaxColumns: 55,
		DefaultGraphURI: []string{"http://g.example/1", "http://g.example/2"}, NamedGraphURI: []string{"http://n.example/1", "http://n.example/2"},
		Headers: map[string]string{"X-Key": "k3y"}, Auth: registry.Auth{Basic: &registry.Password{Username: "u", Password: "s3cret"}}}
	elsewhere := []string{"Name", "Shadows", "Pause"} // cannot be edited, or have buttons on the page
	for v, i := reflect.ValueOf(full), 0; i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && !slices.Contains(elsewhere, name) {
			t.Errorf("the test sets no %s", name)
		}
	}
	r := signedIn(t, registry.RoleAdmin)
	for _, name := range []string{"full", "plain"} {
		e := full
		if name == "plain" {
			e = registry.Endpoint{URL: full.URL, Slot: "never"}
		}
		e.Name = name
		if _, err := r.reg.CreateEndpoint(admin, e); err != nil {
			t.Fatal(err)
		}
	}
	fields := r.get("/endpoints/full").status(200).fields()
	plain := r.get("/endpoints/plain").status(200).fields()
	tag := slices.Index(plain, "tag")
	fields = with(fields, "tag", plain[tag+1], "allow_service", "1", "allow_public", "1", "headers", "X-Key: k3y", "password", "s3cret", "policy", "rr")
	r.post("/endpoints/plain", fields...).status(303)
	got, err := r.reg.Endpoint("plain")
	if err != nil {
		t.Fatal(err)
	}
	got.Name, got.Shadows = "", nil
	if !reflect.DeepEqual(got, full) {
		t.Errorf("the form saves\n%+v, want\n%+v", got, full)
	}
}

// properties returns the names of a schema's properties.
func properties(t *testing.T, tree map[string]any, path ...string) []string {
	t.Helper()
	at := any(tree)
	for _, p := range append(path[:len(path):len(path)], "properties") {
		m, ok := at.(map[string]any)
		if !ok || m[p] == nil {
			t.Fatalf("the document has no %v", path)
		}
		at = m[p]
	}
	return slices.Collect(maps.Keys(at.(map[string]any)))
}
