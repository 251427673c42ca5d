package registry_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/registry"
)

// The sources of an endpoint's settings: set by the file, edited, edited back,
// changed in the file, reverted, and after a restart.
func TestSources(t *testing.T) {
	r := newRig(t, registry.Limits{})
	seconds := func(n int) registry.Duration { return registry.Duration(time.Duration(n) * time.Second) }
	file := registry.Endpoint{Name: "city", URL: "http://127.0.0.1:3030/sparql", Budget: seconds(2), Policy: registry.DefaultPolicy,
		Auth: registry.Auth{Bearer: &registry.Bearer{Token: "hush"}}}
	filed := map[string]string{"url": "flag", "budget": "file", "policy": "file", "auth": "secret file"}
	apply := func() {
		t.Helper()
		if err := r.ApplyFile([]registry.Endpoint{file}, func(_, setting string) string { return filed[setting] }); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(f func(*registry.Endpoint)) (notes []string) {
		t.Helper()
		var was registry.Endpoint
		now, err := r.UpdateEndpoint(admin, "city", func(e *registry.Endpoint) error { was = *e; f(e); return nil })
		if err != nil {
			t.Fatal(err)
		}
		sources, err := r.Sources(admin, "city")
		if err != nil {
			t.Fatal(err)
		}
		return registry.Overridden(was, now, sources)
	}
	want := func(when string, wanted map[string]string) {
		t.Helper()
		sources, err := r.Sources(admin, "city")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for name, s := range sources {
			if s.From != registry.FromDefault {
				got[name] = s.String()
			}
		}
		if d := cmp.Diff(wanted, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", when, d)
		}
	}
	apply()
	given := map[string]string{"url": "flag", "budget": "file", "policy": "file", "auth": "secret file"}
	want("from the file", given)
	if notes := edit(func(e *registry.Endpoint) { e.MaxRows = 7 }); notes != nil {
		t.Errorf("notes on what the file does not set: %q", notes)
	}
	notes := edit(func(e *registry.Endpoint) { e.Budget, e.Auth.Bearer = seconds(1), &registry.Bearer{Token: "other"} })
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "budget: the configuration file says 2s") {
		t.Errorf("notes %q", notes)
	}
	const here = "changed here by ops on 20 Nov 2026"
	changed := map[string]string{"url": "flag", "budget": here + "; the file says 2s", "policy": "file", "auth": here, "max_rows": here}
	want("edited", changed)
	r.reopen(t)
	apply()
	want("after a restart", changed)
	edit(func(e *registry.Endpoint) { e.Auth = file.Auth })
	file.Budget = seconds(4)
	apply()
	want("another value in the file", map[string]string{"url": "flag", "budget": "file", "policy": "file", "auth": "secret file",
		"max_rows": here})
	edit(func(e *registry.Endpoint) { e.Budget = seconds(1) })
	if e, err := r.RevertEndpoint("city", "budget"); err != nil || e.Budget != seconds(4) || e.MaxRows != 7 {
		t.Errorf("taken back: budget %v, max_rows %d, %v", e.Budget, e.MaxRows, err)
	}
	if e, err := r.RevertEndpoint("city"); err != nil || e.MaxRows != 0 {
		t.Errorf("all taken back: max_rows %d, %v", e.MaxRows, err)
	}
	want("taken back", given)
}

// Edits that an older version did not record are recognised by their values.
func TestSourcesWithoutNotes(t *testing.T) {
	r := newRig(t, registry.Limits{})
	if _, err := r.store.Endpoints.EditEndpoint("city", func(c *registry.Configured, _ bool) error {
		c.Endpoint.MaxRows = 7
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if s, err := r.Sources(admin, "city"); err != nil || s["max_rows"].String() != "changed here" || s["url"].From != registry.FromFile {
		t.Errorf("%v, %v", s, err)
	}
}

// An endpoint that the file does not name cannot be reverted, and the file's
// credentials are sent to the file's address only.
func TestRevertRefuses(t *testing.T) {
	r := newRig(t, registry.Limits{})
	if _, err := r.CreateEndpoint(admin, registry.Endpoint{Name: "other", URL: "http://127.0.0.1:3031/sparql"}); err != nil {
		t.Fatal(err)
	}
	if s, err := r.Sources(admin, "other"); err != nil || s["url"].String() != "changed here by ops on 20 Nov 2026" ||
		s["budget"].From != registry.FromDefault {
		t.Errorf("%v, %v", s, err)
	}
	file := registry.Endpoint{Name: "city", URL: "http://127.0.0.1:3030/sparql",
		Auth:    registry.Auth{Bearer: &registry.Bearer{TokenFile: "/run/secret"}},
		Headers: map[string]string{"X-Key": "the file's"}}
	if err := r.ApplyFile([]registry.Endpoint{file}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := r.UpdateEndpoint(admin, "city", func(e *registry.Endpoint) error {
		e.URL, e.Auth, e.Headers = "http://127.0.0.1:6666/", registry.Auth{}, nil
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		endpoint, setting string
		kind              registry.Kind
	}{{"other", "budget", registry.KindNotInFile}, {"moon", "budget", registry.KindNotFound},
		{"city", "colour", registry.KindBadEndpoint}, {"city", "name", registry.KindBadEndpoint},
		{"city", "auth", registry.KindBadEndpoint}, {"city", "headers", registry.KindBadEndpoint}} {
		_, err := r.RevertEndpoint(x.endpoint, x.setting)
		if p := (*registry.Problem)(nil); !errors.As(err, &p) || p.Kind != x.kind {
			t.Errorf("%s of %s: %v, want %s", x.setting, x.endpoint, err, x.kind)
		}
	}
	if e, err := r.RevertEndpoint("city", "auth", "url"); err != nil || e.URL != file.URL || e.Auth.Bearer == nil {
		t.Errorf("both taken back: %+v, %v", e, err)
	}
	if e, err := r.RevertEndpoint("city", "headers"); err != nil || e.Headers["X-Key"] != "the file's" {
		t.Errorf("headers at the file's address: %+v, %v", e, err)
	}
	if _, err := r.UpdateEndpoint(admin, "city", func(e *registry.Endpoint) error {
		e.URL, e.Auth = "http://127.0.0.1:6666/", registry.Auth{}
		e.Headers = map[string]string{"X-Key": "another"}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.RevertEndpoint("city", "url"); problemOf(t, err).Errors[0].Pointer != "/headers" {
		t.Errorf("what was set for another host goes to the file's: %v", err)
	}
	if e, err := r.RevertEndpoint("city"); err != nil || e.Headers["X-Key"] != "the file's" {
		t.Errorf("all taken back: %+v, %v", e, err)
	}
}
