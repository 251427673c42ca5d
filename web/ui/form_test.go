package ui

import (
	"errors"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry"
)

// A refusedForm is a form with an invalid value.
type refusedForm struct {
	action string   // the pattern of the URL that it is posted to
	page   string   // the page with the form
	typed  []string // submitted fields and values
	field  string   // the name of the invalid field
}

func refusedForms(query string) []refusedForm {
	return []refusedForm{
		{"/endpoints/{name}", "/endpoints/city?tab=settings", []string{"budget", "9s"}, "budget"},
		{"/endpoints/{name}", "/endpoints/city?tab=settings", []string{"slot", "sometimes"}, "slot"},
		{"/endpoints/{name}", "/endpoints/city?tab=settings", []string{"timeout", "soon"}, "timeout"},
		{"/endpoints/{name}", "/endpoints/city?tab=settings", []string{"rule", "overrun"}, "rule"},
		{"/endpoints/{name}", "/endpoints/city?tab=settings", []string{"blackout", "at night"}, "blackout"},
		{"/endpoints/{name}", "/endpoints/city?tab=settings", []string{"headers", "Host: other"}, "headers"},
		{"/endpoints/{name}", "/endpoints/city?tab=settings", []string{"auth", "basic", "username", "u"}, "password"},
		{"/endpoints/{name}/policy", "/endpoints/city?tab=settings", []string{"policy", "best"}, "policy"},
		{"/endpoints/{name}/compare", "/endpoints/city?tab=settings", []string{"policy", "none"}, "policy"},
		{"/endpoints", "/add-endpoint", []string{"name", "pub", "url", "http://192.0.2.1/sparql"}, "url"},
		{"/endpoints", "/add-endpoint", []string{"name", "no good", "url", "http://127.0.0.1/sparql"}, "name"},
		{"/endpoints", "/add-endpoint", []string{"name", "x", "url", "http://127.0.0.1/sparql", "min_gap", "short"}, "min_gap"},
		{"/endpoints", "/add-endpoint", []string{"name", "x", "url", "http://127.0.0.1/sparql", "headers", "no value"}, "headers"},
		{"/register", "/register", []string{"endpoint", "city", "query", "SELECT WHERE", "name", "kept"}, "query"},
		{"/register", "/register", []string{"endpoint", "city", "query", "ASK {}", "weight", "-1"}, "weight"},
		{"/register", "/register", []string{"endpoint", "city", "query", "ASK {}", "min_interval", "often"}, "min_interval"},
		{"/watch", "/watch", []string{"link", "Douglas Adams"}, "link"},
		{"/watch", "/watch", []string{"link", "Q42", "labels", "en, e n", "do", "look"}, "labels"},
		{"/queries/{id}/settings", "/queries/" + query + "/settings", []string{"max_staleness", "old"}, "max_staleness"},
		{"/queries/{id}/settings", "/queries/" + query + "/settings", []string{"name", "q_1", "weight", "1"}, "name"},
		{"/queries/{id}/notify", "/queries/" + query, []string{"notify", "ftp://example.org"}, "notify"},
		{"/queries/{id}/notify", "/queries/" + query, []string{"notify", "ftp://example.org", "do", "test"}, "notify"},
		{"/queries/{id}/tell", "/queries/" + query + "/tell", []string{"what", "any", "for", "10m"}, "for"},
		{"/queries/{id}/tell", "/queries/" + query + "/tell", []string{"what", "any", "to", "pager 1"}, "to"},
		{"/rules", "/rules", []string{"name", "late", "query", "q", "when", "late"}, "when"},
		{"/rules", "/rules", []string{"name", "late", "query", "nothing", "when", "rows > 0", "do", "try"}, "query"},
		{"/rules", "/rules", []string{"name", "late", "query", "q", "when", "?boolean = true", "for", "long"}, "for"},
		{"/rules", "/rules", []string{"name", "late", "query", "q", "when", "?boolean = true", "to", "pager 1"}, "to"},
		{"/rules", "/rules", []string{"name", "late", "query", "q", "when", "?boolean = true", "labels", "x"}, "labels"},
		{"/profiles", "/add-profile", []string{"name", "board", "items", "nothing every 5m slack 1m"}, "items"},
		{"/profiles", "/add-profile", []string{"name", "board", "items", "q predicted within 5m", "budget", "some"}, "budget"},
		{"/tokens", "/tokens", []string{"name", "no good", "role", "app"}, "name"},
		{"/tokens", "/tokens", []string{"name", "x", "role", "king"}, "role"},
		{"/tokens", "/tokens", []string{"name", "x", "role", "app", "expires_at", "long"}, "expires_at"},
	}
}

// Buttons have no field to correct; the next page says why the action failed.
var buttons = map[string]bool{"/signout": true, "/theme": true, "/queries": true, "/queries/{id}": true,
	"/queries/{id}/release": true, "/register/check": true,
	"/endpoints/{name}/tick": true, "/endpoints/{name}/pause": true, "/endpoints/{name}/resume": true,
	"/endpoints/{name}/remove": true, "/endpoints/{name}/revert": true,
	"/deliveries/{id}/pause": true, "/deliveries/{id}/resume": true, "/deliveries/{id}/drop": true,
	"/dead-letters/resend": true, "/dead-letters/drop": true, "/dead-letters/{id}/{letter}/resend": true,
	"/dead-letters/{id}/{letter}/drop": true,
	"/profiles/{id}/remove":            true, "/rules/{id}/remove": true, "/rules/{id}/test": true, "/rules/{id}/pause": true,
	"/rules/{id}/resume": true, "/tokens/{name}/revoke": true, "/signin": true,
	"/cluster/nodes/{name}/drain": true}

// A rejected form comes back with the submitted values. A message at the top links to
// the field; the field is marked, described by its error, and has the focus.
func TestRefusedForms(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.contact = true
	r.endpoint("city")
	if _, err := r.reg.UpdateEndpoint(admin, "city", func(e *registry.Endpoint) error {
		e.Slot, e.Budget = "@every 3s", registry.Duration(1e9)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	q := r.register("city", "q", "ASK { ?s ?p ?o }")
	r.tick("city")
	tried := map[string]bool{}
	for _, f := range refusedForms(q.ID) {
		tried[f.action] = true
		t.Run(f.field+" of "+f.action, func(t *testing.T) { r.refuses(t, f, strings.NewReplacer("{name}", "city", "{id}", q.ID)) })
	}
	for _, a := range r.pages.actions() {
		if !tried[a.path] && !buttons[a.path] {
			t.Errorf("the form %s is neither tried nor known to be a button", a.path)
		}
	}
}

func (r *rig) refuses(t *testing.T, f refusedForm, fill *strings.Replacer) {
	r.t = t
	typed := with(r.get(f.page).status(200).lacks("autofocus", `id="refused"`).fields(), f.typed...)
	a := r.post(fill.Replace(f.action), typed...)
	if a.StatusCode < 400 || a.StatusCode >= 500 {
		t.Fatalf("status %d", a.StatusCode)
	}
	before, rest, ok := strings.Cut(a.body, `role="alert" id="refused">`)
	if !ok || strings.Contains(before, "<h1") {
		t.Fatalf("no message at the top of %s", a.main())
	}
	summary, _, _ := strings.Cut(rest, "</div></div>")
	if want := ` href="#f-` + f.field + `">` + rendered(t, "watch", "word", f.field) + `</a>`; !strings.Contains(summary, want) {
		t.Errorf("the message does not lead to %s: %s", f.field, summary)
	}
	marked := regexp.MustCompile(`<(?:input|select|textarea|fieldset)[^>]* id="f-` + f.field + `"[^>]*>`).FindString(a.body)
	if !strings.Contains(marked, `aria-invalid="true"`) || !strings.Contains(marked, " autofocus") {
		t.Errorf("the field is %s", marked)
	}
	if n := strings.Count(a.body, " autofocus"); n != 1 {
		t.Errorf("%d fields want the focus", n)
	}
	wrong := regexp.MustCompile(`<p class="err" id="f-` + f.field + `-e">([^<]+)</p>`).FindStringSubmatch(a.body)
	if wrong == nil || !strings.Contains(marked, "f-"+f.field+"-e") || !strings.Contains(summary, wrong[1]) {
		t.Errorf("the field shows %q, the message %s", wrong, summary)
	} else if text := html.UnescapeString(wrong[1]); strings.HasPrefix(text, "Endpoint ") || strings.HasPrefix(text, "Auth:") {
		t.Errorf("the text begins with what the page says already: %s", text)
	}
	for i := 0; i < len(f.typed); i += 2 {
		value := html.EscapeString(f.typed[i+1])
		kept := strings.Contains(a.body, `value="`+value+`"`) || strings.Contains(a.body, ">"+value+"</textarea>")
		if isChoice := f.typed[i] == "rule" || f.typed[i] == "role" || f.typed[i] == "expires_at"; !kept && !isChoice {
			t.Errorf("%s %q is lost", f.typed[i], f.typed[i+1])
		}
	}
	r.get(f.page).lacks(`id="refused"`)
}

// without removes fields from a form.
func without(pairs []string, names ...string) []string {
	var rest []string
	for i := 0; i < len(pairs); i += 2 {
		if !slices.Contains(names, pairs[i]) {
			rest = append(rest, pairs[i], pairs[i+1])
		}
	}
	return rest
}

// Secrets are kept without being shown, and are not sent to another host.
func TestSecretsOfEndpoints(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	fields := with(r.get("/add-endpoint").fields(), "name", "shop", "url", "http://127.0.0.1:3030/sparql", "min_gap", "200ms",
		"headers", "X-Key: k3y\nX-Other: o", "auth", "basic", "username", "u", "password", "s3cret")
	r.post("/endpoints", fields...).status(303)
	stored := func() registry.Endpoint {
		e, err := r.reg.Endpoint("shop")
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	if e := stored(); e.Headers["X-Key"] != "k3y" || len(e.Headers) != 2 || e.Auth.Basic == nil ||
		*e.Auth.Basic != (registry.Password{Username: "u", Password: "s3cret"}) || e.MinGap.String() != "200ms" {
		t.Fatalf("stored %+v", e)
	}
	page := r.get("/endpoints/shop?tab=settings").has("X-Key: (set)\nX-Other: (set)", `value="u"`).lacks("s3cret", "k3y", "From a .")
	again := page.fields()
	moved := with(again, "url", "http://localhost:9/sparql")
	r.post("/endpoints/shop", moved...).status(422).has("Type the value of X-Key", "type the secret for it")
	r.post("/endpoints/shop", without(moved, "headers", "auth")...).status(422).has("type the header fields for it",
		"together with the sign-in")
	r.post("/endpoints/shop", with(again, "headers", "X-New: (set)")...).status(422).has("Type the value of X-New")
	r.follow(r.post("/endpoints/shop", with(again, "headers", "X-Key: (set)", "username", "v")...))
	if e := stored(); e.Headers["X-Key"] != "k3y" || len(e.Headers) != 1 || e.Auth.Basic.Username != "v" || e.Auth.Basic.Password != "s3cret" {
		t.Errorf("after the edit %+v", e)
	}
	again = r.get("/endpoints/shop?tab=settings").fields()
	r.post("/endpoints/shop", with(again, "auth", "bearer")...).status(422).has("Type the password or token")
	r.follow(r.post("/endpoints/shop", with(again, "auth", "bearer", "password", "t0ken")...))
	if e := stored(); e.Auth.Basic != nil || e.Auth.Bearer == nil || e.Auth.Bearer.Token != "t0ken" {
		t.Errorf("after another sign-in %+v", e.Auth)
	}
	again = r.get("/endpoints/shop?tab=settings").fields()
	r.follow(r.post("/endpoints/shop", with(again, "auth", "", "username", "")...))
	if e := stored(); e.Auth != (registry.Auth{}) {
		t.Errorf("after none %+v", e.Auth)
	}
	// A secret in a file is edited where the file is named.
	if _, err := r.reg.UpdateEndpoint(admin, "shop", func(e *registry.Endpoint) error {
		e.Auth = registry.Auth{Bearer: &registry.Bearer{TokenFile: "/run/secret"}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	again = r.get("/endpoints/shop?tab=settings").has("in a file on the server").lacks(`name="auth"`, "/run/secret").fields()
	r.post("/endpoints/shop", with(again, "url", "http://localhost:9/sparql")...).status(422).has("together with the sign-in")
	r.follow(r.post("/endpoints/shop", with(again, "budget", "2s")...))
	if e := stored(); e.Auth.Bearer == nil || e.Auth.Bearer.TokenFile != "/run/secret" {
		t.Errorf("a secret in a file became %+v", e.Auth)
	}
	// A user who may not edit the endpoint does not see how it authenticates.
	r.reads().get("/endpoints/shop?tab=settings").lacks("X-Key", ">auth<")
}

// reads returns the rig as a visitor with read access sees it.
func (r *rig) reads() *rig {
	r.t.Helper()
	_, secret, err := r.gate.Make("reader", registry.RoleRead, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	other := *r
	other.browser = browser(r.t)
	other.post("/signin", "token", secret, "next", "/").status(303)
	return &other
}

var errContact = &registry.SettingError{Setting: "url", Err: errors.New("a contact is required")}

// publicHost reports whether a test's endpoint needs a contact.
func publicHost(e registry.Endpoint) bool {
	u, err := url.Parse(e.URL)
	return err == nil && strings.HasPrefix(u.Host, "192.0.2.")
}
