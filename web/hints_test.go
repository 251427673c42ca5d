package web

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
)

func TestHints(t *testing.T) {
	var got registry.Hint
	var of string
	w, secrets := lockedWorld(t, func(c *Config) {
		c.Hint = func(endpoint string, h registry.Hint) (plan.Hinted, error) {
			if endpoint != "city" {
				return plan.Hinted{}, registry.ErrNotFound
			}
			of, got = endpoint, h
			return plan.Hinted{Affected: len(h.Touched), Queries: 7, All: h.All, Skipped: h.Skipped}, nil
		}
	})
	w.token = secrets[registry.RoleApp]
	const at = "/v1/endpoints/city/hints"
	form := "--b\r\nContent-Disposition: form-data; name=\"added\"; filename=\"x.nt\"\r\n\r\n<http://x/s> <http://x/p> \"v\" .\n\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"removed\"\r\n\r\n<http://x/t> <http://x/p> \"v\" .\nnonsense\n\r\n--b--\r\n"
	for _, c := range []struct {
		name, typ, body string
		touched         string
		all             bool
	}{
		{"nothing", "", "", "", true},
		{"empty object", "application/json", "{}", "", true},
		{"touched", "application/json", `{"touched":["http://x/a","http://x/b","http://x/a"]}`, "http://x/a http://x/b", false},
		{"touched none", "application/json", `{"touched":[]}`, "", false},
		{"changeset", "application/json", `{"added":"<http://x/s> <http://x/p> <http://x/o> .\n","removed":"<http://x/r> ` +
			`<http://x/p> \"v\" ."}`, `<http://x/r> <http://x/p> "v" . <http://x/s> <http://x/p> <http://x/o> .`, false},
		{"triples", "application/n-triples", "<http://x/s> <http://x/p> <http://x/o> .\n", "<http://x/s> <http://x/p> <http://x/o> .", false},
		{"patch", "application/rdf-patch", "TX .\nA <http://x/s> <http://x/p> <http://x/o> .\nTC .\n",
			"<http://x/s> <http://x/p> <http://x/o> .", false},
		{"form", "multipart/form-data; boundary=b", form, `<http://x/s> <http://x/p> "v" . <http://x/t> <http://x/p> "v" .`, false},
	} {
		a := w.do("POST", at, c.body, "Content-Type: "+c.typ).status(202)
		heard := append([]string{}, got.Touched...)
		for _, x := range got.Changed {
			heard = append(heard, strings.Fields(registry.Line(x))...)
		}
		if d := cmp.Diff(strings.Fields(c.touched), heard); d != "" || got.All != c.all || of != "city" {
			t.Errorf("%s: %+v\n%s", c.name, got, d)
		}
		if a.json()["all"] != c.all || a.json()["queries"] != 7.0 {
			t.Errorf("%s: %s", c.name, a.body)
		}
	}
	if got.Skipped != 1 {
		t.Errorf("%d lines skipped, want 1", got.Skipped)
	}
	if w.do("POST", at, `{"new":true}`, "Content-Type: application/json").status(202); !got.New || got.All {
		t.Errorf("new queries: %+v", got)
	}
	w.do("POST", "/v1/endpoints/nowhere/hints", "").problem(404, "not-found")
	w.do("POST", at, "x", "Content-Type: text/html").problem(415, "unsupported-media-type")
	w.do("POST", at, "{", "Content-Type: application/json").problem(400, "malformed")
	w.do("POST", at, `{"touch":[]}`, "Content-Type: application/json").problem(400, "malformed")
	w.do("POST", at, "--b\r\nbroken", "Content-Type: multipart/form-data; boundary=b").problem(400, "malformed")
	w.do("POST", at, "--b--", "Content-Type: multipart/form-data").problem(400, "malformed")
	w.do("POST", at, strings.Replace(form, `"added"`, `"else"`, 1), "Content-Type: multipart/form-data; boundary=b").problem(400, "malformed")
	a := w.do("POST", at, strings.Repeat("x", 2<<20), "Content-Type: application/rdf-patch").problem(413, "body-too-large")
	if !strings.Contains(a.string("detail"), "limits.body") {
		t.Errorf("%s", a.body)
	}
	w.token = "wrong"
	w.do("POST", at, "").problem(401, "unauthorized")
	w.token = secrets[registry.RoleRead]
	w.do("POST", at, "").problem(403, "forbidden")
}
