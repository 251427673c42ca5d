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

// TestLabelsAreSettings checks that each field of a form has its name or a word for it as label, a sentence of help,
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
	quiet := []string{"digest", "zone", "quiet", "most", "repeat"} // of each receiver
	for _, f := range []struct {
		page     string
		settings []string
		besides  []string // settings of the API that the form does not have
	}{
		{"/endpoints/city?tab=settings", append(signIn, endpoint...), []string{"name", "shadows", "password_file"}},
		{"/add-endpoint", append(signIn, endpoint...), nil},
		{"/register", registration, []string{"replace"}},
		{queryPath(q.ID) + "/settings", registration, []string{"replace", "endpoint"}},
		{"/watch", append(registration, properties(t, doc.Tree, "components", "requestBodies", "Watch", "content", "application/json",
			"schema")...), nil},
		{"/add-profile", properties(t, doc.Tree, request("/v1/profiles")...), nil},
		{"/rules", append(properties(t, doc.Tree, "components", "schemas", "RuleSettings"), quiet...), []string{}},
		{"/tokens", properties(t, doc.Tree, request("/v1/tokens")...), []string{}},
	} {
		a := r.get(f.page).status(200)
		var labels []string
		for _, m := range labelled.FindAllStringSubmatch(a.body, -1) {
			label := m[2] + m[3]
			for _, name := range worded {
				if label == rendered(t, "watch", "word", name) {
					label = name
				}
			}
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
	full := registry.Endpoint{URL: "http://127.0.0.1:3030/sparql", Slot: "@every 1h", Budget: registry.Duration(5 * time.Second),
		Policy: "rr", Rule: "debt",
		FallbackPolicy: "dj", ProfileShare: 0.25, Merge: "values", TimeoutParam: "t", AllowService: true,
		OwnServices: []string{"http://own.example/"}, AllowPublic: true,
		Feed: "wikidata", Position: "dateModified", Lag: registry.Duration(7 * time.Minute),
		Concurrency: 3, Timeout: registry.Duration(4 * time.Second), MinGap: registry.Duration(70 * time.Millisecond),
		Blackout: []registry.Blackout{{Start: "0 2 * * *", For: registry.Duration(time.Hour)}}, MaxRows: 77, MaxBytes: 1 << 20, MaxColumns: 55,
		DefaultGraphURI: []string{"http://g.example/1", "http://g.example/2"}, NamedGraphURI: []string{"http://n.example/1",
			"http://n.example/2"},
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
	fields := r.get("/endpoints/full?tab=settings").status(200).fields()
	plain := r.get("/endpoints/plain?tab=settings").status(200).fields()
	tag := slices.Index(plain, "tag")
	fields = with(fields, "tag", plain[tag+1], "allow_service", "1", "allow_public", "1", "headers", "X-Key: k3y", "password",
		"s3cret", "policy", "rr")
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

// TestEverySettingOfARegistrationHasAField checks that the form of a registration saves every
// setting, and that the form that edits it shows and saves them all.
func TestEverySettingOfARegistrationHasAField(t *testing.T) {
	no, from, until := false, time.Now().UTC().Add(time.Hour).Truncate(time.Second), time.Now().UTC().Add(48*time.Hour).Truncate(time.Second)
	full := registry.Registration{Endpoint: "city", Text: "SELECT ?s { ?s ?p ?o } ORDER BY ?s", Name: "full",
		Tags: []string{"a", "b"}, Weight: 2.5,
		MaxStaleness: registry.Duration(90 * time.Second), MinInterval: registry.Duration(time.Minute), Ordered: &no,
		DefaultGraphURI: []string{"http://g.example/1", "http://g.example/2"}, NamedGraphURI: []string{"http://n.example/1"},
		From: &from, Until: &until,
		Public: true, Alone: true, Urgency: "exp,0.5", Life: "window,3"}
	for v, i := reflect.ValueOf(full), 0; i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && name != "Replace" {
			t.Errorf("the test sets no %s", name)
		}
	}
	r := signedIn(t, registry.RoleAdmin)
	r.endpoint("city")
	typed := with(r.get("/register").status(200).lacks("<details class=\"alt gap-t\" open").fields(), "endpoint", "city", "query",
		full.Text, "name", "full", "tags", "a, b", "weight", "2.5",
		"max_staleness", "90s", "min_interval", "1m", "alone", "1", "public", "1", "ordered", "false", "default_graph_uri",
		"http://g.example/1\nhttp://g.example/2",
		"named_graph_uri", "http://n.example/1", "from", from.Format("2006-01-02 15:04:05"), "until", until.Format(time.RFC3339),
		"urgency", "exp,0.5", "life", "window,3")
	a := r.post("/register", typed...).status(303)
	path := a.Header.Get("Location")
	saved := func() registry.Registration {
		t.Helper()
		q, err := r.reg.Query(path[len("/queries/"):])
		if err != nil {
			t.Fatal(err)
		}
		h := q.Holders[0]
		return registry.Registration{Endpoint: q.Endpoint, Text: q.Text, Name: h.Name, Tags: h.Tags, Weight: h.Weight,
			MaxStaleness: h.MaxStaleness, MinInterval: h.MinInterval,
			Ordered: &q.Ordered, DefaultGraphURI: q.DefaultGraphs, NamedGraphURI: q.NamedGraphs, From: h.From, Until: h.Until,
			Alone: h.Alone, Public: h.Public, Urgency: h.Urgency, Life: h.Life}
	}
	if got := saved(); !reflect.DeepEqual(got, full) {
		t.Errorf("the form saves\n%+v, want\n%+v", got, full)
	}
	edit := r.get(path + "/settings").status(200).has(`<details class="alt gap-t" open`).fields()
	if a = r.post(path+"/settings", with(edit, "alone", "1", "public", "1")...).status(303); a.Header.Get("Location") != path {
		t.Errorf("saving without an edit leads to %s", a.Header.Get("Location"))
	}
	if got := saved(); !reflect.DeepEqual(got, full) {
		t.Errorf("saving without an edit makes it\n%+v, want\n%+v", got, full)
	}
	// Another graph is another query, which keeps the rest.
	a = r.post(path+"/settings", with(edit, "alone", "1", "public", "1", "named_graph_uri", "", "until", "")...).status(303)
	path = a.Header.Get("Location")
	full.NamedGraphURI, full.Until = nil, nil
	if got := saved(); !reflect.DeepEqual(got, full) {
		t.Errorf("after an edit of the graphs\n%+v, want\n%+v", got, full)
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
