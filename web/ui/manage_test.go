package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/web"
)

// followers holds stored subscriptions without delivering to them.
type followers struct{ store deliver.Store }

func (f followers) Subscriptions(after string, limit int) ([]registry.Subscription, error) {
	return f.store.Subscriptions(after, limit)
}

func (f followers) Subscription(id string) (registry.Subscription, error) {
	return f.store.Subscription(id)
}

func (f followers) Act(id, verb string) (registry.Subscription, error) {
	if s, _ := f.store.Subscription(id); verb == "pause" && s.State != registry.Active {
		return s, &registry.Problem{Kind: registry.KindConflict, Detail: "only an active subscription can be paused"}
	}
	state := map[string]registry.SubscriptionState{"pause": registry.SubscriptionPaused, "resume": registry.Active,
		"drop": registry.Ended}[verb]
	return f.store.EditSubscription(id, func(s *registry.Subscription, _ bool) error {
		s.State, s.Failures = state, 0
		return nil
	})
}

// managed is a rig that is a node of a cluster.
func managed(t *testing.T, tokens ...registry.Token) *rig {
	t.Helper()
	return newRigWith(t, func(_ *rig, c *Config) { c.Cluster = newFixedCluster() }, tokens...)
}

// managing returns what the administration pages of tests show.
func managing() Managing {
	return Managing{
		Settings: func() ([]Setting, error) {
			return []Setting{{"listen", "127.0.0.1:8080", "flag"}, {"contact", "<b>ops</b>", "file"}, {"log.level", "info", "default"}}, nil
		},
		Storage: func() (size, free int64, err error) { return 3 << 30, 1 << 20, nil },
		Probe: func(_ context.Context, e registry.Endpoint) (time.Duration, error) {
			if err := registry.CheckEndpoint(e, nil); err != nil {
				return 0, err
			}
			if strings.Contains(e.URL, "wrong") {
				return 0, errors.New("404 <Not Found>")
			}
			return 12 * time.Millisecond, nil
		},
		Started: time.Now().Add(-time.Hour),
	}
}

// signedIn returns a rig with a token of each role. It is signed in with one of them, or not at
// all.
func signedIn(t *testing.T, role registry.Role) *rig {
	t.Helper()
	ops, a := token("ops", registry.RoleAdmin)
	app, b := token("shop", registry.RoleApp)
	read, c := token("wall", registry.RoleRead)
	r := managed(t, ops, app, read)
	if role == "" {
		return r
	}
	r.post("/signin", "token", map[registry.Role]string{registry.RoleAdmin: a, registry.RoleApp: b, registry.RoleRead: c}[role],
		"next", "/").status(303)
	return r
}

// Every page and form is tested with every role: the roles in the tables are enforced,
// and without a sign-in every page but the documentation is refused.
func TestRolesOfPages(t *testing.T) {
	fill := strings.NewReplacer("{name}", "missing", "{id}", "missing", "{letter}", "missing", "{$}", "")
	for _, role := range []registry.Role{"", registry.RoleRead, registry.RoleApp, registry.RoleAdmin} {
		r := signedIn(t, role)
		for _, p := range r.pages.pages() {
			a := r.get(fill.Replace(p.path))
			refused := a.StatusCode == 401 || a.StatusCode == 403
			if want := !role.Includes(p.need) && p.section != "docs"; refused != want {
				t.Errorf("GET %s as %q answers %d", p.path, role, a.StatusCode)
			}
		}
		for _, x := range r.pages.actions() {
			if x.need == "" {
				continue
			}
			a := r.post(fill.Replace(x.path))
			refused := a.StatusCode == 401 || a.StatusCode == 403
			if want := !role.Includes(x.need); refused != want {
				t.Errorf("POST %s as %q answers %d", x.path, role, a.StatusCode)
			}
		}
	}
}

// A token that the file hides is valid again when the file's is gone, so the page shows it.
func TestHiddenToken(t *testing.T) {
	ops, secret := token("ops", registry.RoleAdmin)
	r := managed(t, ops)
	if _, _, err := r.gate.Make("tiles", registry.RoleRead, nil); err != nil {
		t.Fatal(err)
	}
	tiles, _ := token("tiles", registry.RoleApp)
	r.gate.SetFile([]registry.Token{ops, tiles})
	r.post("/signin", "token", secret, "next", "/").status(303)
	r.get("/tokens").status(200).has("2 tokens are valid.", "One has not been used", "hidden by the file", "/tokens/tiles/revoke")
	r.follow(r.post("/tokens/tiles/revoke")).has("Token tiles is revoked.", "2 tokens are valid.").lacks("hidden by the file")
}

func TestTokensPage(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.get("/tokens").status(200).has("3 tokens are valid.", "this session", "in the file", "remove it there").lacks("SHA-256 at rest", ">in 0")
	r.post("/tokens", "name", "no good", "role", "app").status(422).has(`value="no good"`, `aria-invalid="true"`, "letters, digits")
	r.post("/tokens", "name", "ops", "role", "app").status(422).has("A token of this name exists")
	a := r.post("/tokens", "name", "tiles", "role", "read", "expires_at", "24h").status(201).has("Token tiles was made", "only this once")
	secret := regexp.MustCompile(`class="once"[^>]*value="([^"]{43})"`).FindStringSubmatch(a.body)
	if secret == nil {
		t.Fatalf("no secret in %s", a.main())
	}
	if c, err := r.gate.Authenticate("", secret[1]); err != nil || c.Name != "tiles" || c.Role != registry.RoleRead || c.Expires.IsZero() {
		t.Errorf("the token shown is %+v, %v", c, err)
	}
	r.get("/tokens").has("4 tokens are valid.", "tiles").lacks(secret[1])
	r.get("/tokens/tiles/revoke").status(200).has("Revoke tiles?", "loses access at once", `action="/tokens/tiles/revoke"`)
	r.follow(r.get("/tokens/missing/revoke")).has("There is no token missing any more.", "revoked already", "4 tokens are valid.")
	r.follow(r.post("/tokens/tiles/revoke")).has("Token tiles is revoked.", "3 tokens are valid.")
	if _, err := r.gate.Authenticate("", secret[1]); err == nil {
		t.Error("a revoked token lets in")
	}
	r.follow(r.post("/tokens/tiles/revoke")).has("There is no token tiles any more.", "revoked already", "3 tokens are valid.")
	r.follow(r.post("/tokens/ops/revoke")).has("Not revoked", "configuration file", "3 tokens are valid.")
}

// The first token closes an open server. The browser that created it stays signed in.
func TestFirstTokenKeepsItsMakerIn(t *testing.T) {
	r := managed(t)
	r.get("/tokens").status(200).has("none is required")
	r.post("/tokens", "name", "me", "role", "read").status(409).has("role admin")
	r.post("/tokens", "name", "me", "role", "admin").status(201).has("Token me was made", "<b>me</b>")
	r.get("/tokens").status(200).has("One token is valid.", "this session")
	r.browser = browser(t)
	r.get("/tokens").status(401)
	r.get("/").status(401)
}

func TestEndpointPages(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.get("/endpoints").status(200).has("There are no endpoints yet.", "/add-endpoint")
	r.get("/endpoints/city").status(404)
	r.endpoint("city")
	r.get("/endpoints").lacks("same URL")
	r.endpoint("lib") // with the same URL
	r.get("/endpoints").has(`same URL as <span class="mono">city</span>: each has its own budget`, `same URL as <span class="mono">lib</span>`)
	r.get("/endpoints/city").has(`same URL as <span class="mono">lib</span>: each has its own budget`)
	q := r.register("city", "n", selectText)
	r.get("/endpoints/city").status(200).has("No slot has run yet.", "by hand only", "/endpoints/city/tick")
	r.get("/endpoints/city?tab=settings").has(`value="never"`)
	r.oracle.set(q.ID, table(t, [2]diff.Term{iri("a"), lit("1")}))
	r.follow(r.post("/endpoints/city/tick")).status(200).has("Slot 1 of city ran 1 query and found 0 changes.", "of 10"+thin+
		"s used", "Healthy", "The one slot was answered.", "every query that was due")
	r.get("/endpoints").has("1 of 2 endpoints answers.", "1 had nothing to answer yet.", thin+"%", "by hand", "/endpoints/lib")
	r.tick("lib") // a slot without a query sends no request and proves nothing
	r.get("/endpoints").has("1 of 2 endpoints answers.")
	r.get("/endpoints/lib").has("Nothing has been asked.", "Nothing has been asked yet.").lacks("Healthy", "was answered", "used "+none)
	r.get("/endpoints/lib?tab=settings").has("used none of it").lacks("used " + none)
	r.register("lib", "m", selectText)
	r.tick("lib")
	r.get("/endpoints").has("All 2 endpoints answer.")
	r.get("/endpoints/lib").has("Healthy", "Of 2 slots: 1 answered, 1 with nothing due.")
	r.follow(r.post("/endpoints/city/pause")).has("city is paused.", "It is paused.", "paused by ops", "/endpoints/city/resume")
	r.follow(r.post("/endpoints/city/tick")).has("No slot was run")
	r.follow(r.post("/endpoints/city/resume")).has("city runs again.")
	r.post("/endpoints/city/compare", "policy", "rr").status(422).has("This policy runs now; choose another one",
		`<details class="others" open>`, `id="f-policy" name="policy" class="short" value=""`)
	r.follow(r.post("/endpoints/city/compare", "policy", "dj")).status(200).has("Policies compared", "played again", "dj")
	r.get("/endpoints/city?tab=settings&compare=1").has(`<span class="mono">rr</span><span class="tag">runs now</span>`).lacks(
		`<li><label class="check"><input type="radio" name="policy" value="dj">`)
	r.oracle.fail("503 <b>gone</b>")
	r.follow(r.post("/endpoints/city/tick")).has("503 &lt;b&gt;gone").lacks("<b>gone")
	r.get("/endpoints/city").has("It answers with status 503.").lacks("does not answer")
	r.get("/endpoints").has("city</a> answers with status 503.", "failing").has("0 of 2 endpoints")
	r.get("/endpoints/city/remove").status(200).has("Remove city?", "1 query with the registrations of all holders").lacks(
		"The configuration names it")
	e, err := r.reg.Endpoint("city")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.reg.ApplyFile([]registry.Endpoint{e}, nil); err != nil {
		t.Fatal(err)
	}
	r.get("/endpoints/city/remove").has("The configuration names it: remove it there, too, or it comes back")
	r.follow(r.post("/endpoints/city/remove")).has("Endpoint city is removed.").lacks("/endpoints/city\"")
	if _, err := r.reg.Endpoint("city"); err == nil {
		t.Error("the endpoint is still there")
	}
}

// settingsForm reads the fields of a page's form as a browser would send them.
func (a *response) fields() []string {
	var out []string
	// a form of its own
	a = &response{body: regexp.MustCompile(`(?s)<form method="post" action="[^"]*/policy">.*?</form>`).ReplaceAllString(a.body, "")}
	for _, m := range regexp.MustCompile(`<input[^>]* name="([a-z_]+)"[^>]*?(?: value="([^"]*)"|>)`).FindAllStringSubmatch(a.body, -1) {
		if !strings.Contains(m[0], "checkbox") && !strings.Contains(m[0], "radio") && m[1] != "back" {
			out = append(out, m[1], html.UnescapeString(m[2]))
		}
	}
	for _, m := range regexp.MustCompile(`(?s)<textarea[^>]* name="([a-z_]+)"[^>]*>([^<]*)</textarea>`).FindAllStringSubmatch(a.body, -1) {
		out = append(out, m[1], html.UnescapeString(m[2]))
	}
	for _, m := range regexp.MustCompile(`(?s)<select[^>]* name="([a-z_]+)".*?<option value="([^"]*)" `+
		`selected`).FindAllStringSubmatch(a.body, -1) {
		out = append(out, m[1], m[2])
	}
	return out
}

// with replaces the values of fields.
func with(fields []string, changes ...string) []string {
	out := append([]string(nil), fields...)
next:
	for i := 0; i < len(changes); i += 2 {
		for j := 0; j < len(out); j += 2 {
			if out[j] == changes[i] {
				out[j+1] = changes[i+1]
				continue next
			}
		}
		out = append(out, changes[i], changes[i+1])
	}
	return out
}

// The form can select the rule, and the page shows the debt.
func TestEndpointInDebt(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.endpoint("city")
	r.register("city", "all", "ASK { ?s ?p ?o }")
	fields := r.get("/endpoints/city?tab=settings").status(200).has(`value="debt"`).fields()
	r.post("/endpoints/city", with(fields, "rule", "overrun")...).status(422)
	r.follow(r.post("/endpoints/city", with(fields, "rule", "debt")...)).has("The settings of city are in force.")
	e, err := r.reg.Endpoint("city")
	if err != nil || e.Rule != plan.RuleDebt {
		t.Fatalf("%+v, %v", e, err)
	}
	if err := r.daemon.Update(e, r.oracle); err != nil {
		t.Fatal(err)
	}
	r.oracle.takes = 23200 * time.Millisecond
	r.follow(r.post("/endpoints/city/tick")).status(200).has("Later slots repay 13.2"+thin+"s.", "In debt: 13.2"+thin+"s, repaid 5"+
		thin+"s a slot.")
	r.get("/").has("In debt: 13.2" + thin + "s, repaid 5" + thin + "s a slot.")
	r.follow(r.post("/endpoints/city/tick")).status(200).has("5" + thin + "s repaid, 8.2" + thin + "s owed")
}

func TestEndpointSettings(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.endpoint("city")
	if _, err := r.reg.UpdateEndpoint(admin, "city", func(e *registry.Endpoint) error {
		e.Headers, e.Auth = map[string]string{"X-Key": "s3cret"}, registry.Auth{Basic: &registry.Password{Username: "u", Password: "s3cret"}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	before, _ := r.reg.Endpoint("city")
	page := r.get("/endpoints/city?tab=settings").status(200).has(`value="u"`, "X-Key: (set)").lacks("s3cret")
	fields := page.fields()
	r.follow(r.post("/endpoints/city", fields...)).has("The settings of city are in force.")
	if after, _ := r.reg.Endpoint("city"); tagOf(after) != tagOf(before) || after.Auth.Basic.Password != "s3cret" {
		t.Errorf("saving what was there made %+v of %+v", after, before)
	}
	r.post("/endpoints/city", with(fields, "budget", "soon", "concurrency", "x")...).status(422).has(`value="soon"`,
		"Write a duration", "Write a whole number.")
	r.post("/endpoints/city", with(fields, "concurrency", "99")...).status(422).has("from 1 to 64", `id="f-concurrency-e"`)
	r.post("/endpoints/city", with(fields, "blackout", "whenever")...).status(422).has("cron spec and a length")
	if after, _ := r.reg.Endpoint("city"); tagOf(after) != tagOf(before) {
		t.Errorf("a refused form changed %+v", after)
	}
	r.follow(r.post("/endpoints/city", with(fields, "slot", "@every 10s", "budget", "5s", "blackout",
		"0 2 * * * for 1h\n0 4 * * * for 5m", "allow_service", "1", "allow_public", "1", "max_bytes", "1MiB")...)).
		has("At most 50"+thin+"% of the endpoint’s time.", "0 2 * * * for 1h\n0 4 * * * for 5m")
	e, _ := r.reg.Endpoint("city")
	if e.Slot != "@every 10s" || len(e.Blackout) != 2 || !e.AllowService || !e.AllowPublic || e.MaxBytes != 1<<20 ||
		e.Headers["X-Key"] != "s3cret" {
		t.Errorf("saved %+v", e)
	}
	// The form was opened before that edit and does not contain it.
	r.follow(r.post("/endpoints/city", with(fields, "budget", "7s")...)).has("changed meanwhile", `value="5s"`)
	r.follow(r.post("/endpoints/city/policy", "policy", "dj")).has("follows the policy dj")
	r.post("/endpoints/city/policy", "policy", "dj", "policy", "<best>").status(422).has("Nothing was saved", "&lt;best&gt;").lacks("<best>")
	if e, _ = r.reg.Endpoint("city"); e.Policy != "dj" {
		t.Errorf("the policy is %s", e.Policy)
	}
}

// The page of an endpoint shows the sources of its settings and restores the
// configuration file's value.
func TestEndpointSources(t *testing.T) {
	r := managed(t)
	r.endpoint("city")
	file := registry.Endpoint{Name: "city", URL: "http://127.0.0.1:3030/sparql", Slot: "never", Policy: "rr",
		Budget: registry.Duration(2 * time.Second)}
	if err := r.reg.ApplyFile([]registry.Endpoint{file}, nil); err != nil {
		t.Fatal(err)
	}
	const at = "/endpoints/city"
	fields := r.get(at+"?tab=settings").status(200).has("<p>From the configuration file · In force").lacks("hanged here",
		"Revert to the file").fields()
	edited := r.follow(r.post(at, with(fields, "budget", "1s")...))
	sources, err := r.reg.Sources(registry.Caller{Role: registry.RoleAdmin}, "city")
	if err != nil {
		t.Fatal(err)
	}
	day := sources["budget"].At.UTC().Format("2 Jan 2006") // midnight may pass during the test
	edited.has("are in force", "Budget: the configuration file says 2s",
		"From the configuration file, changed here by anonymous on "+day+" ·", "Changed here by anonymous on "+day+
			"; the file says 2s.", at+"/revert?setting=budget")
	r.follow(r.post(at + "/revert?setting=budget")).has("budget is in force for city").lacks("hanged here")
	if e, err := r.reg.Endpoint("city"); err != nil || e.Budget != file.Budget {
		t.Errorf("budget %v, %v", e.Budget, err)
	}
	r.follow(r.post(at + "/revert?setting=colour")).has("Nothing was reverted")
}

func TestAddEndpoint(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	fields := with(r.get("/add-endpoint?name=coins&url=http://127.0.0.1:1/").status(200).has(`value="coins"`).fields(), "url",
		"http://127.0.0.1:3030/sparql")
	r.post("/endpoints", with(fields, "do", "try")...).status(200).has("It answers SPARQL, in 12"+thin+"ms.",
		"Nothing is saved yet.", `value="coins"`)
	r.post("/endpoints", with(fields, "do", "try", "url", "http://127.0.0.1/wrong")...).status(200).has("did not answer as a "+
		"SPARQL endpoint", "404 &lt;Not Found&gt;")
	r.post("/endpoints", with(fields, "do", "try", "url", "nonsense")...).status(422).has("must be absolute")
	r.post("/endpoints", with(fields, "name", "<b>")...).status(422).has("begins with a letter", `value="&lt;b&gt;"`)
	if all, _ := r.reg.Endpoints(); len(all) != 0 {
		t.Fatalf("trying stored %v", all)
	}
	if at := r.post("/endpoints", fields...).status(303).Header.Get("Location"); at != "/endpoints/coins" {
		t.Errorf("sent to %s", at)
	}
	r.post("/endpoints", fields...).status(409).has("exists")
	e, err := r.reg.Endpoint("coins")
	if err != nil || e.Slot != registry.DefaultSlot || e.Concurrency != 1 {
		t.Errorf("stored %+v, %v", e, err)
	}
}

func TestRegisterPage(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.get("/register").status(200).has("There is nothing to ask yet", "An admin has to add one")
	r.endpoint("city")
	r.get("/register").status(200).has("Write or paste a query.", `value="city"`)
	warned := "SELECT ?s ?o WHERE { ?s ?p ?o\nFILTER(?o < NOW()) } LIMIT 3"
	r.post("/register/check", "endpoint", "city", "query", warned).status(200).has("with 2 things to know",
		"Line 2: another answer each time", "LIMIT without ORDER BY", "SELECT, at most 3 rows").lacks("<html")
	r.post("/register/check", "endpoint", "city", "query", "SELECT <script>").status(200).has("It cannot be registered as it is.",
		"not valid").lacks("<script>")
	r.post("/register", "do", "check", "endpoint", "city", "query", "DELETE WHERE { ?s ?p ?o }").status(422).has("DELETE WHERE")
	r.post("/register", "endpoint", "city", "query", selectText, "weight", "-1", "max_staleness",
		"soon").status(422).has("A weight must be from 0 to 1,000,000.", "Write a duration", `value="soon"`)
	q, err := r.reg.Analyse(registry.Registration{Endpoint: "city", Text: selectText})
	if err != nil {
		t.Fatal(err)
	}
	r.oracle.set(q.ID, table(t, [2]diff.Term{iri("<i>"), lit(`<img src=x onerror="alert(1)">`)}, [2]diff.Term{iri("b"), {}}))
	r.post("/register", "do", "try", "endpoint", "city", "query", selectText).status(200).has("2 rows", "20"+thin+"ms", "not stored",
		"?o", "&lt;img src=x", "About 20"+thin+"ms a run, 0.20"+thin+"% of a slot of city.").lacks("<img")
	if _, err := r.reg.Query(q.ID); err == nil {
		t.Error("a trial was stored")
	}
	r.oracle.fail("timeout after <30s>")
	r.post("/register", "do", "try", "endpoint", "city", "query", selectText).status(200).has("brought no result", "&lt;30s&gt;")
	r.oracle.fail("")
	a := r.post("/register", "endpoint", "city", "query", selectText, "name", "all", "tags", "a, b", "max_staleness", "60s",
		"weight", "2").status(303)
	if q, err = r.reg.Query(q.ID); err != nil || q.Holders[0].Caller != "shop" || q.Holders[0].Name != "all" || len(q.Tags()) != 2 ||
		q.Weight() != 2 || q.MaxStaleness() != time.Minute {
		t.Errorf("registered %+v, %v; sent to %s", q, err, a.Header.Get("Location"))
	}
	r.post("/register/check", "endpoint", "city", "query", selectText).status(200).has("yes, 1 application holds it")
	r.oracle.set(q.ID, table(t))
	r.post("/register", "do", "try", "endpoint", "city", "query", selectText).status(200).has("complete, and empty")
}

func (r *rig) follower(s registry.Subscription) {
	r.t.Helper()
	s.CreatedAt = time.Now()
	_, err := r.store.Subscriptions.EditSubscription(s.ID, func(x *registry.Subscription, _ bool) error {
		*x = s
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// Followers of a profile wait for its captures, and receivers of alerts for messages, not for changes of all queries.
func TestDeliveriesOfProfilesAndAlerts(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.endpoint("city")
	q := r.register("city", "trams", selectText)
	for i := range 3 {
		r.oracle.set(q.ID, table(t, [2]diff.Term{iri("a"), lit(fmt.Sprint(i))}))
		r.tick("city")
	}
	p, _, err := r.reg.CreateProfile(admin, registry.ProfileRequest{Name: "board",
		Items: []registry.Item{{Query: q.ID, When: registry.When{Every: registry.Span{Slots: 6}, Slack: registry.Span{Slots: 2}}}}})
	if err != nil {
		t.Fatal(err)
	}
	r.follower(registry.Subscription{ID: "p", Way: registry.SSE, Caller: "wall", Profile: p.ID, Endpoint: "city", State: registry.Active})
	r.get("/deliveries").has("The one follower is up to date.", `href="`+profilePath(p.ID)+`">board</a>`, "It has everything.").
		lacks("all of city", "3 changes")
	r.get("/deliveries?q=board").has("wall")
	r.follower(registry.Subscription{ID: "al_1", Way: registry.Alerts, Caller: "ops", State: registry.SubscriptionPaused, Stored: 2,
		To: &registry.Receiver{Kind: "ntfy", Address: "https://ntfy.example/x"}})
	r.get("/deliveries").has("alerts of rules", "2 messages", "It is paused: messages wait.").lacks("all changes", "2 changes")
}

func TestDeliveriesPage(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.get("/deliveries").status(200).has("There are no followers yet.", "How to follow")
	r.endpoint("city")
	q := r.register("city", `Trams & "<b>"`, selectText)
	for i := range 3 {
		r.oracle.set(q.ID, table(t, [2]diff.Term{iri("a"), lit(fmt.Sprint(i))}))
		r.tick("city")
	}
	st, _, err := r.store.History.Current(q.ID, false)
	if err != nil {
		t.Fatal(err)
	}
	hour, soon := time.Now().Add(-time.Hour), time.Now().Add(10*time.Minute)
	at := func(seq uint64) registry.Position { return registry.Position{Epoch: st.Position.Epoch, Seq: seq} }
	r.follower(registry.Subscription{ID: "a", Way: registry.WebSub, Caller: "shop", Query: q.ID,
		Callback: "https://good.example/cb?token=s3cret", State: registry.Active, Cursor: at(3), Deliveries: 1284})
	r.follower(registry.Subscription{ID: "b", Way: registry.Webhook, Caller: "ops", Name: "<i>alerts</i>", Tag: "trams",
		Callback: "https://bad.example/", State: registry.Active, Cursor: at(0), Failures: 7,
		FailingSince: &hour, LastError: "503 <b>no</b>", NextTry: &soon, GaveUp: 2})
	r.follower(registry.Subscription{ID: "c", Way: registry.WebSub, Caller: "shop", Query: q.ID, Callback: "https://gone.example/",
		State: registry.Disabled, Reason: "410 Gone", Cursor: at(1)})
	r.follower(registry.Subscription{ID: "d", Way: registry.WebSub, Caller: "shop", Query: "q_gone",
		Callback: "https://new.example/", State: registry.Pending})
	r.get("/deliveries").has("2 messages were given up.").lacks("Nothing is lost")
	a := r.get("/deliveries").status(200).has("1 of 4 followers is up to date.", "2 fail", "1 has not agreed yet", "at bad.example",
		"good.example", "1,284", "2 changes", "given up", "410 Gone", "503 &lt;b&gt;no", "(7 times in a row)", "next try",
		"&lt;i&gt;alerts", "all with the tag trams", "a query that has ended", "Try now", "Try again", "Trams &amp;").lacks("s3cret", "<i>alerts")
	_, rows, _ := strings.Cut(a.body, `id="follower-rows"`)
	if gone, bad, good := strings.Index(rows, "gone.example"), strings.Index(rows, "&lt;i&gt;alerts"),
		strings.Index(rows, "good.example"); gone > bad || bad > good {
		t.Errorf("not trouble first: %d %d %d", gone, bad, good)
	}
	r.get("/deliveries?way=webhook").has("1 to 1 of 1", "&lt;i&gt;alerts").lacks("gone.example")
	r.get("/deliveries?way=sse").status(200).has("There are no followers by Server-sent events")
	r.get("/deliveries?from=99999&way=nonsense").status(200).has("4 to 4 of 4")
	r.follow(r.post("/deliveries/a/pause")).has("good.example is paused")
	r.follow(r.post("/deliveries/b/pause", "back", "/deliveries?way=webhook")).has("1 to 1 of 1")
	r.follow(r.post("/deliveries/b/resume")).has("is tried again now")
	if s, _ := r.store.Subscriptions.Subscription("b"); s.Failures != 0 || s.State != registry.Active {
		t.Errorf("resumed: %+v", s)
	}
	r.follow(r.post("/deliveries/c/pause")).has("Nothing was done")
	r.get("/deliveries/b/drop").status(200).has("Drop &lt;i&gt;alerts", "with its secret").lacks("s3cret")
	r.follow(r.post("/deliveries/b/drop")).has("is dropped")
	if _, err := r.store.Subscriptions.Subscription("b"); err == nil {
		t.Error("still there")
	}
	r.post("/deliveries/missing/drop").status(404)
}

// A follower whose settings hold changes back is not late, and the page says what it waits for.
func TestFollowersThatWait(t *testing.T) {
	r := newRigWith(t, func(_ *rig, c *Config) { c.Now = func() time.Time { return time.Now().Add(10 * time.Minute) } })
	r.endpoint("city")
	q := r.register("city", "n", selectText)
	for i := range 2 {
		r.oracle.set(q.ID, table(t, [2]diff.Term{iri("a"), lit(fmt.Sprint(i))}))
		r.tick("city")
	}
	st, _, err := r.store.History.Current(q.ID, false)
	if err != nil {
		t.Fatal(err)
	}
	hour := func(d time.Duration) string { return time.Now().UTC().Add(d).Format("15:04") }
	quiet := hour(-time.Hour) + "-" + hour(2*time.Hour)
	just := time.Now().Add(5 * time.Minute)
	for id, x := range map[string]struct {
		s     registry.Subscription
		quiet registry.Quiet
		want  []string
	}{
		"digest": {quiet: registry.Quiet{Digest: hour(2 * time.Hour)},
			want: []string{"waiting", "It waits for its digest at " + hour(2*time.Hour) + ".", "next message"}},
		"quiet": {quiet: registry.Quiet{Hours: quiet, Zone: "UTC"},
			want: []string{"waiting", "It waits for the end of its quiet hours " + quiet + " (UTC).", "next message"}},
		"most": {quiet: registry.Quiet{Most: "1"}, s: registry.Subscription{Recent: []time.Time{just}},
			want: []string{"waiting", "It waits for its next message, of at most 1 an hour.", "next message"}},
		"both": {quiet: registry.Quiet{Digest: "24h", Hours: quiet},
			want: []string{"waiting", "It waits for its digest every 24h or the end of its quiet hours"}},
		"filter": {s: registry.Subscription{Way: registry.Webhook, Filter: json.RawMessage(`{"min_rows":5}`)},
			want: []string{"waiting", "Its filter holds back changes"}},
		"rate": {s: registry.Subscription{Way: registry.Webhook, Rate: registry.Duration(time.Hour), LastDelivery: &just},
			want: []string{"waiting", "It wants at most one message every", "next message"}},
		"paused":  {s: registry.Subscription{Way: registry.Webhook, State: registry.SubscriptionPaused}, want: []string{"It is paused"}},
		"slow":    {s: registry.Subscription{Way: registry.Webhook}, want: []string{"lagging", "It reads more slowly"}},
		"overdue": {quiet: registry.Quiet{Digest: hour(5 * time.Minute)}, want: []string{"lagging", "It reads more slowly"}},
	} {
		if x.s.ID, x.s.Query, x.s.Caller = "s", q.ID, "ops"; x.s.Way == "" {
			x.s.Way, x.s.To = registry.People, &registry.Receiver{Kind: "ntfy", Quiet: x.quiet}
		}
		x.s.State = cmp.Or(x.s.State, registry.Active)
		x.s.Cursor = registry.Position{Epoch: st.Position.Epoch, Seq: st.Position.Seq - 1}
		r.follower(x.s)
		a := r.get("/deliveries").status(200)
		_, a.body, _ = strings.Cut(a.body, `id="follower-rows"`)
		if a.has("1 change").has(x.want...); x.want[0] != "lagging" {
			a.lacks("lagging", "more slowly")
		}
		if t.Failed() {
			t.Fatal(id)
		}
	}
}

// Followers with the same name are distinguished by program, caller and address, and
// can be searched by these and by their query.
func TestFollowersAreToldApart(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.endpoint("city")
	q := r.register("city", "Trams", selectText)
	for id, s := range map[string]registry.Subscription{
		"a": {Way: registry.WebSocket, Caller: "wall", Client: "board.js", Remote: "192.0.2.7", Query: q.ID},
		"b": {Way: registry.WebSocket, Caller: "shop", Client: "till", Remote: "192.0.2.8", Tag: "trams"},
		"c": {Way: registry.SSE, Caller: registry.Anonymous, Remote: "2001:db8::/64", Tag: "buses"},
	} {
		s.ID, s.Name, s.State = id, "s1", registry.Active
		r.follower(s)
	}
	r.get("/deliveries").has("board.js", "token wall, from 192.0.2.7, subscription s1", "till", "token shop, from 192.0.2.8",
		"without a token, from 2001:db8::/64", "It has everything.")
	for text, want := range map[string]string{"WALL": "board.js", "board": "board.js", "2.0.2.8": "from 192.0.2.8",
		"2001:": "2001:db8::/64", "tRam": "1 to 2 of 2", "s1": "1 to 3 of 3"} {
		r.get("/deliveries?q=" + url.QueryEscape(text)).has(want)
	}
	r.get("/deliveries?q=nothing").has("No follower matches “nothing”").lacks("board.js")
	r.get("/deliveries?q=2.0.2.7&way=websocket").has("board.js", `name="way" value="websocket"`).lacks("till")
	r.get(queryPath(q.ID)).has("board.js", "token wall, from 192.0.2.7")
}

// The query of an endpoint's URL may have a key, and only admins see its values.
func TestKeysInURLs(t *testing.T) {
	const base = "https://city.example/sparql?db=1&apikey="
	for role, keys := range map[registry.Role]bool{registry.RoleRead: false, registry.RoleApp: false, registry.RoleAdmin: true} {
		r := signedIn(t, role)
		if err := r.reg.ApplyFile([]registry.Endpoint{{Name: "city", URL: base + "old-key"}}, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := r.reg.UpdateEndpoint(registry.Caller{Name: "ops"}, "city", func(e *registry.Endpoint) error {
			e.URL = base + "new-key"
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{"/endpoints", "/endpoints/city", "/endpoints/city?tab=settings"} {
			p := r.get(at).status(200)
			if p.has("city.example/sparql?db="); !keys {
				p.lacks("-key")
			}
		}
		if keys {
			r.get("/endpoints/city?tab=settings").has("old-key", "new-key")
		}
	}
}

// A caller who is not an admin sees and manages only its own resources.
func TestDeliveriesOfOthers(t *testing.T) {
	r := signedIn(t, registry.RoleRead)
	r.follower(registry.Subscription{ID: "a", Way: registry.Webhook, Caller: "wall", Callback: "https://mine.example/",
		State: registry.Active})
	r.follower(registry.Subscription{ID: "b", Way: registry.Webhook, Caller: "shop", Callback: "https://theirs.example/",
		State: registry.Active})
	r.get("/deliveries").status(200).has("mine.example", "Followers of others are not shown.").lacks("theirs.example")
	r.get("/deliveries/b/drop").status(404)
	r.post("/deliveries/b/pause").status(404)
	r.post("/deliveries/b/drop").status(404)
	r.post("/deliveries/a/pause").status(303)
	r.post("/deliveries/a/drop").status(303)
	r.get("/deliveries").has("You follow nothing.").lacks("no followers yet")
}

// A page shows the number of a query's followers to every visitor, and their names
// only to admins and to the followers themselves.
func TestFollowersOfOthersAreCounted(t *testing.T) {
	r := signedIn(t, registry.RoleRead)
	r.endpoint("city")
	q := r.register("city", "n", selectText)
	for _, who := range []string{"shop", "ops"} {
		r.follower(registry.Subscription{ID: who, Way: registry.Webhook, Caller: who, Query: q.ID, Callback: "https://" + who +
			".example/", State: registry.Active})
	}
	r.follower(registry.Subscription{ID: "asked", Way: registry.People, Caller: "(visitors)", Query: q.ID, Callback: "mailto:y…@example.net",
		State: registry.Pending}) // who may never confirm
	at := queryPath(q.ID)
	r.get(at).status(200).has("<dt>Followers</dt><dd>2</dd>", "2 followers of others").lacks("no live followers", "Webhook", "shop")
	r.follower(registry.Subscription{ID: "own", Way: registry.Webhook, Caller: "wall", Query: q.ID,
		Callback: "https://wall.example/", State: registry.Active})
	r.get(at).status(200).has("<dt>Followers</dt><dd>3</dd>", "and 2 followers of others", "Webhook").lacks("shop")
}

// A subscription that waits for its first confirmation is retried, and the page shows
// when.
func TestNextTryOfOneNotAgreed(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	soon := time.Now().Add(10 * time.Minute)
	r.follower(registry.Subscription{ID: "a", Way: registry.Webhook, Caller: "ops", Callback: "https://new.example/",
		State: registry.Pending, Failures: 2, LastError: "refused", NextTry: &soon})
	r.get("/deliveries").has("next try", "in 9"+thin+"min")
}

// Of a person who is asked the page says so, in no words of the protocols for programs.
func TestPersonWhoIsAsked(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	until := time.Now().Add(23*time.Hour + 30*time.Minute)
	r.follower(registry.Subscription{ID: "a", Way: registry.People, Caller: "(visitors)", Callback: "mailto:y…@example.org",
		To: &registry.Receiver{Kind: "email", Address: "you@example.org"}, State: registry.Pending, ExpiresAt: &until})
	r.get("/deliveries").has("The owner of the address has not confirmed yet; the question is valid for 23"+thin+"h.",
		"no lease ends today").lacks("callback has not", "lease ends in")
	later := time.Now().Add(100*24*time.Hour + time.Hour)
	r.follower(registry.Subscription{ID: "b", Way: registry.People, Caller: "(visitors)", Callback: "mailto:…",
		To: &registry.Receiver{Kind: "email"}, State: registry.Pending, ExpiresAt: &later})
	r.get("/deliveries").has("Its owner does not want to be asked again. That ends ")
}

func TestSettingsAndAbout(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.get("/settings").status(200).has("127.0.0.1:8080", "<b>flag</b>", "default", "&lt;b&gt;ops", "3"+thin+"GiB").lacks("<b>ops</b>&lt;")
	r.get("/about").status(200).has("Freshet 0.0-test", "/v1/openapi.yaml", "/v1/asyncapi.yaml", "Up for", "1"+thin+"h", "3"+thin+"GiB")
}

func TestProfilesPage(t *testing.T) {
	r := signedIn(t, registry.RoleApp)
	r.endpoint("city")
	q := r.register("city", "trams", selectText)
	r.get("/profiles").status(200).has("There are no profiles.", "/add-profile")
	r.post("/profiles", "items", "trams whenever").status(422).has("&#34;whenever&#34; is not one of every", "trams whenever")
	r.post("/profiles", "items", "trams every 2 slots\nmissing every 5m slack 1m").status(422).has("missing every 5m slack 1m",
		"Line 2: no query has the id or name &#34;missing&#34;")
	a := r.post("/profiles", "name", "<b>board</b>", "items", q.ID+" every 2 slots slack 1 slot\n", "budget", "2s").status(303)
	id := strings.TrimPrefix(a.Header.Get("Location"), "/profiles/")
	if p, err := r.reg.Profile(id); err != nil || p.Owner != "shop" || p.Items[0].When.Every.Slots != 2 ||
		p.Budget != registry.Duration(2*time.Second) {
		t.Errorf("kept %+v, %v", p, err)
	}
	for range 4 {
		r.tick("city")
	}
	r.get("/profiles").status(200).has("&lt;b&gt;board", "every 2 slots slack 1 slot", "captures", "/profiles/"+id+"/remove").lacks("<b>board")
	r.get("/profiles/" + id + "/remove").status(200).has("Its queries stay.")
	r.follow(r.post("/profiles/"+id+"/remove")).has("The profile is removed.", "There are no profiles.")
	r.get("/profiles/missing/remove").status(404)
}

// The pages also refuse what a session's role does not allow.
func TestWritesFromElsewhere(t *testing.T) {
	r := signedIn(t, registry.RoleAdmin)
	r.endpoint("city")
	for _, path := range []string{"/tokens", "/endpoints/city/remove", "/endpoints/city", "/register", "/deliveries/a/drop"} {
		a := r.do(http.MethodPost, path, nil, "Sec-Fetch-Site: cross-site").status(403)
		if strings.Contains(a.body, "<form") {
			t.Errorf("%s answers with a page", path)
		}
	}
	if _, err := r.reg.Endpoint("city"); err != nil {
		t.Error(err)
	}
}

var _ web.Subscriptions = followers{}
