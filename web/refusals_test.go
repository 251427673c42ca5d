package web

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// refusedWorld returns a world with something of everything, and the ids and names of that in place of what paths of the
// document leave open.
func refusedWorld(t *testing.T) (*world, *strings.Replacer) {
	t.Helper()
	w := newWorld(t, func(c *Config) { c.Limits.Body = 4096 })
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(hook.Close)
	q := w.register(constructText, `"name":"rows"`)
	w.m.publish(q, graph(t))
	watch := w.post("/v1/watches", `{"endpoint":"city","kind":"entity","iri":"http://example.org/a"}`).status(201).string("id")
	profile := w.post("/v1/profiles", `{"name":"board","items":[{"query":"rows","when":{"every":"5m","slack":"1m"}}]}`).status(201).
		string("id")
	webhook := w.post("/v1/webhooks", `{"url":"`+hook.URL+`","query":"rows"}`).status(201).string("id")
	rule := w.post("/v1/rules", `{"name":"r","query":"rows","when":"rows > 100"}`).status(201).string("id")
	return w, strings.NewReplacer("/v1/queries/{id}", "/v1/queries/"+q, "/v1/watches/{id}", "/v1/watches/"+watch,
		"/v1/profiles/{id}", "/v1/profiles/"+profile, "/v1/webhooks/{id}", "/v1/webhooks/"+webhook,
		"/v1/rules/{id}", "/v1/rules/"+rule, "/v1/subscriptions/{id}", "/v1/subscriptions/"+webhook,
		"/v1/endpoints/{name}", "/v1/endpoints/city", "/v1/feeds/{name}", "/v1/feeds/store",
		"/v1/cluster/nodes/{name}", "/v1/cluster/nodes/n1",
		"/v1/tokens/{name}", "/v1/tokens/none", "{letter}", "msg_1")
}

// The document lists how each call refuses a body of another type or a large one, a precondition, and a position of another numbering:
// check compares each answer with it.
func TestDocumentListsRefusals(t *testing.T) {
	w, at := refusedWorld(t)
	met := map[int]int{}
	paths := w.document()["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		calls := paths[path].(map[string]any)
		for _, method := range slices.Sorted(maps.Keys(calls)) {
			if method == "parameters" {
				continue
			}
			verb := strings.ToUpper(method)
			call := func(query, body string, header string) {
				a := w.do(verb, at.Replace(path)+query, body, header)
				if met[a.StatusCode]++; a.StatusCode == 500 {
					t.Errorf("%s %s: %s", verb, path, a.body)
				}
				if a.StatusCode < 300 && method != "get" { // the next call needs what this one may have removed
					w, at = refusedWorld(t)
				}
			}
			if child(calls[method], "requestBody") != nil {
				if path != "/v1/hub" { // there is none in this world
					call("", "{}", "Content-Type: image/png")
				}
				for typ := range bodyTypes(w, calls[method]) {
					call("", strings.Repeat(" ", 5000), "Content-Type: "+typ)
				}
			}
			if method == "get" {
				call("?after=other:1", "", "Accept: */*")
			} else if path != "/v1/hub" {
				call("", "", `If-Match: "none"`)
			}
		}
	}
	for _, status := range []int{410, 412, 413, 415} {
		if met[status] == 0 {
			t.Errorf("no call answered %d", status)
		}
	}
}

// bodyTypes returns the media types of the bodies of a call.
func bodyTypes(w *world, op any) map[string]any {
	body := child(op, "requestBody")
	if ref, ok := child(body, "$ref").(string); ok {
		body = child(w.document(), strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
	m, _ := child(body, "content").(map[string]any)
	return m
}
