package web

import (
	"strings"
	"testing"
)

// Secrets are not sent to another host, nor without TLS: an edit of the URL repeats
// them or drops them.
func TestSecretsStayWithTheirHost(t *testing.T) {
	for _, to := range []string{"http://evil.example/sparql", "http://city.example:8080/sparql", "http://city.example/sparql"} {
		w := newWorld(t)
		at, url := "/v1/endpoints/city", `"url":"`+to+`"`
		w.do("PATCH", at, `{"url":"https://city.example/sparql","auth":{"basic":{"password":"hush"}},"headers":{"X-Key":"hush"}}`,
			merge7396).status(200)
		for body, pointer := range map[string]string{
			url: "", url + `,"headers":null`: "/auth/basic/password", url + `,"auth":null`: "/headers",
			url + `,"auth":{"basic":{"password":"hush"}}`:                             "/headers",
			url + `,"headers":{"X-Key":"hush"},"auth":{"basic":{"password":"(set)"}}`: "/auth/basic/password",
			url + `,"headers":{"X-Key":"(set)"},"auth":null`:                          "/headers",
		} {
			a := w.do("PATCH", at, "{"+body+"}", merge7396).problem(422, "bad-endpoint")
			if !strings.Contains(string(a.body), "again in the same request") || pointer != "" && !strings.Contains(string(a.body),
				`"pointer":"`+pointer+`"`) {
				t.Errorf("%s: %s", body, a.body)
			}
		}
		if e := w.m.endpoints["city"]; e.URL != "https://city.example/sparql" || e.Auth.Basic.Password != "hush" || e.Headers["X-Key"] != "hush" {
			t.Fatalf("a refused patch changed something: %+v", e)
		}
		w.do("PATCH", at, "{"+url+`,"headers":{"X-Key":"new"},"auth":{"basic":{"password":"new"}}}`, merge7396).status(200)
		if e := w.m.endpoints["city"]; e.URL != to || e.Auth.Basic.Password != "new" || e.Auth.Basic.Username != "u" ||
			e.Headers["X-Key"] != "new" {
			t.Errorf("%+v", e)
		}
	}
	w := newWorld(t)
	w.do("PATCH", "/v1/endpoints/city", `{"url":"https://127.0.0.1:3030/other"}`, merge7396).status(200)
	if e := w.m.endpoints["city"]; e.Auth.Basic.Password != "hush" || e.Headers["X-Key"] != "hush" {
		t.Errorf("the same host lost its secrets: %+v", e)
	}
}
