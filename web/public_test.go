package web

import (
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
)

// tokens creates a token for each name and returns the secrets. The first token has the
// role admin, the others app.
func (w *world) tokens(admin string, apps ...string) map[string]string {
	w.t.Helper()
	secrets := map[string]string{}
	for i, name := range append([]string{admin}, apps...) {
		role := registry.RoleApp
		if i == 0 {
			role = registry.RoleAdmin
		}
		_, secret, err := w.gate.Make(name, role, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		secrets[name] = secret
	}
	return secrets
}

// Only callers with a token see the endpoint's answer to a failed execution.
func TestEndpointErrorNeedsToken(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText, `"public":true`)
	w.m.status[id] = registry.Status{State: registry.Stale, Error: "no table hr.salaries on db7.internal"}
	secrets := w.tokens("ops", "app")
	for token, told := range map[string]bool{"": false, secrets["app"]: true} {
		w.token = token
		for _, path := range []string{"/results", "/results.csv", "/changes/latest"} {
			a := w.get("/v1/queries/"+id+path).problem(404, "no-result")
			if strings.Contains(string(a.body), "salaries") != told {
				t.Errorf("%s, token %t: %s", path, token != "", a.body)
			}
		}
	}
}
