package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each value is shown with where it comes from, the strongest source winning,
// and no secret is.
func TestOrigins(t *testing.T) {
	c, err := loadConfig(t, `
listen: 127.0.0.1:9999
contact: mailto:file@example.org
limits: {queries: 7}
origins: ["https://a.example", "https://b.example"]
tokens: [{name: ops, role: admin, sha256: "`+strings.Repeat("ab", 32)+`"}]
endpoints:
  - {name: city, url: "http://127.0.0.1:3030/sparql", budget: 5s, auth: {basic: {username: u, password: hush}}, headers: {X-Key: hush}}
  - {name: still, url: "http://127.0.0.1:3031/sparql", auth: {bearer: {token_file: /run/secret}}}
`, map[string]string{"FRESHET_CONTACT": "mailto:env@example.org", "FRESHET_ADMIN_TOKEN": "hush, this is a secret",
		"FRESHET_LOG_LEVEL": "warn"},
		"--listen", "127.0.0.1:7777", "--endpoint", "more=http://127.0.0.1:3032/sparql")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range c.Shown() {
		if got[s.Key] != "" {
			t.Errorf("%s is there twice", s.Key)
		}
		if strings.Contains(s.Value, "hush") || strings.Contains(s.Value, "abab") {
			t.Errorf("%s shows a secret: %s", s.Key, s.Value)
		}
		got[s.Key] = s.Value + " | " + s.From
	}
	want := map[string]string{
		"listen": "127.0.0.1:7777 | flag", "contact": "mailto:env@example.org | environment", "log.level": "warn | environment",
		"log.format":     "auto | default",
		"limits.queries": "7 | file", "limits.body": "1MiB | default", "origins": "https://a.example; https://b.example | file",
		"public_url": "http://127.0.0.1:7777 | default", "tokens.ops": "admin, its hash is not shown | file",
		"tokens.admin":          "admin, its hash is not shown | environment",
		"endpoints.city.budget": "5s | file", "endpoints.city.auth.basic.username": "u | file",
		"endpoints.still.auth.bearer.token_file": "/run/secret | secret file",
		"endpoints.more.url":                     "http://127.0.0.1:3032/sparql | flag",
	}
	for key, w := range want {
		if got[key] != w {
			t.Errorf("%s is %q, want %q", key, got[key], w)
		}
	}
	if got["endpoints.city.slot"] != "" {
		t.Error("what an endpoint was not told is on its own page")
	}
}

func TestOriginsAfterReload(t *testing.T) {
	old := Sources{"listen": "file", "endpoints.a.url": "file", "tokens.x": "environment", "feeds.x.url": "file"}
	got := old.Reloaded(Sources{"listen": "flag", "endpoints.b.url": "flag"})
	if d := cmp.Diff(Sources{"listen": "file", "endpoints.b.url": "flag"}, got); d != "" {
		t.Error(d)
	}
}
