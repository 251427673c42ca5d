package browsertest

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A user who signs in stays signed in until signing out.
func TestSignIn(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	x.expect("Failed to load resource") // 401 and 403 are expected
	x.visit("/endpoints")
	x.waitText("Sign in")
	x.fill("input[name=token]", "not-a-token")
	x.click("main form button")
	x.waitText("not known")
	x.fill("input[name=token]", tokens["read"])
	x.do(chromedp.KeyEvent(kb.Enter))
	x.wait(`location.pathname == "/endpoints" && document.querySelector(".rail")`)
	if must[bool](x, `document.body.innerText.includes("Add an endpoint") || document.body.innerText.includes("Tokens")`) {
		t.Error("a reader is offered what he may not do")
	}
	if c := must[string](x, "document.cookie"); c != "" {
		t.Errorf("scripts see the cookie %q", c)
	}
	x.wait(`document.querySelector(".who button")`)
	x.click(".who button")
	x.waitText("Sign in")
	x.visit("/endpoints")
	x.waitText("Sign in")
}

// Forms work over plain HTTP under the name of a host in the network, where browsers do not say which site a request
// comes from, as they do over TLS and on this machine.
func TestFormsOverPlainHTTP(t *testing.T) {
	needBrowser(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "freshet.yaml")
	listen := addresses(t)[0]
	write(t, file, "public_url: "+strings.Replace("http://"+listen, "127.0.0.1", "freshet.test", 1)+
		"\ntokens: [{name: ops, role: admin, sha256: "+sum(tokens["admin"])+"}]\n")
	x := open(t, start(t, "serve", "--config", file, "--listen", listen, "--data", filepath.Join(dir, "data")).url)
	x.expect("Cross-Origin-Opener-Policy header has been ignored")
	x.expect("Failed to load resource") // 401 is expected
	x.visit("/endpoints")
	x.waitText("Sign in")
	x.fill("input[name=token]", tokens["admin"])
	x.click("main form button")
	x.waitText("There are no endpoints yet.")
	x.click(".theme button")
	x.wait(`document.documentElement.dataset.theme == "light"`)
	x.click(".who button")
	x.waitText("Sign in")
}

// An open page shows changes at the endpoint by itself, without shifting its
// layout.
func TestLiveChange(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	x.as("admin")
	x.visit("/")
	x.wait(`document.getElementById("conn").innerText == "Live"`)
	w.update(`PREFIX c: <https://data.city.example/> INSERT DATA { <https://data.city.example/garage/9> c:name "The <b>new</b> ` +
		`one" ; c:free 77 }`)
	x.wait(`[...document.querySelectorAll("#stream li")].some(li => li.innerText.includes("Free-spaces-by-garage") && ` +
		`li.innerText.includes("+1") && !li.innerText.includes("−1"))`)
	x.picture("overview-live")

	// An update waits while an element of the list has the focus.
	x.do(chromedp.Focus(chromedp.CSS("#stream li a")))
	before := must[string](x, `document.querySelector("#stream li").outerHTML`)
	w.update(`PREFIX c: <https://data.city.example/> DELETE DATA { <https://data.city.example/garage/9> c:free 77 }`)
	x.wait(`!document.getElementById("more").hidden`)
	if now := must[string](x, `document.querySelector("#stream li").outerHTML`); stripTimes(now) != stripTimes(before) {
		t.Errorf("the list moved under the hand: %s became %s", before, now)
	}
	x.click("#more")
	x.wait(`document.querySelector("#stream li").innerText.includes("−1")`)

	// A paused page does not change.
	x.click(".rail [data-do=pause-live]")
	x.wait(`document.getElementById("conn").innerText == "Paused"`)
	n := must[string](x, `document.querySelector("#stream").innerText.length + ""`)
	w.update(`PREFIX c: <https://data.city.example/> INSERT DATA { <https://data.city.example/garage/9> c:free 78 }`)
	w.tick("city")
	if now := must[string](x, `document.querySelector("#stream").innerText.length + ""`); now != n {
		t.Error("a paused page goes on")
	}

	// The page of the query shows the rows.
	x.visit("/queries/" + w.queries["free"])
	x.waitText("The <b>new</b> one")
	x.picture("query-changed")
}

// stripTimes removes times, which change by themselves.
func stripTimes(html string) string {
	for {
		i := strings.Index(html, "<time")
		j := strings.Index(html, "</time>")
		if i < 0 || j < i {
			return html
		}
		html = html[:i] + html[j+len("</time>"):]
	}
}

func (w *world) tick(endpoint string) {
	w.t.Helper()
	w.call("POST", "/v1/endpoints/"+endpoint+"/tick", nil, nil)
}

// A query is checked while it is typed, then tried and registered.
func TestRegister(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	x.as("app")
	x.visit("/register")
	x.do(chromedp.SetValue(chromedp.CSS("#f-endpoint"), "still"))
	x.do(chromedp.Focus(chromedp.CSS("#f-query")))
	x.do(chromedp.SendKeys(chromedp.CSS("#f-query"), "SELECT ?g WHERE { ?g <https://data.city.example/name> ?n } LIMIT 2"))
	x.wait(`document.getElementById("found").innerText.includes("LIMIT without ORDER BY") && ` +
		`document.getElementById("lede").innerText.includes("one thing to know")`)
	x.do(chromedp.SendKeys(chromedp.CSS("#f-query"), " nonsense"))
	x.wait(`document.getElementById("found").innerText.includes("not valid")`)
	x.fill("#f-query", "SELECT ?g ?n WHERE { ?g <https://data.city.example/name> ?n } ORDER BY ?g")
	x.do(chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierCtrl)))
	x.waitText("Market Square")
	x.picture("register-tried")
	x.fill("#f-name", "names-in-order")
	x.click("#register details.alt > summary")
	x.do(chromedp.SetValue(chromedp.CSS("#f-ordered"), "false"))
	for _, f := range [][2]string{{"default_graph_uri", "https://g.example/1"}, {"named_graph_uri", "https://g.example/2"},
		{"from", "2026-01-01"},
		{"until", "2126-01-01T00:00:00Z"}, {"urgency", "sliding,4"}, {"life", "changes,2"}} {
		x.fill("#f-"+f[0], f[1])
	}
	x.checkWidth(laptop, "the form with more settings")
	x.picture("register-more-settings")
	x.press("Register")
	x.wait(`location.pathname.startsWith("/queries/q_") && document.body.innerText.includes("The query is registered.")`)
	var q struct {
		Ordered       bool
		DefaultGraphs []string `json:"default_graph_uri"`
		NamedGraphs   []string `json:"named_graph_uri"`
		Registrations []struct{ From, Until, Urgency, Life string }
	}
	w.call("GET", must[string](x, `"/v1" + location.pathname`), nil, &q)
	if h := q.Registrations[0]; q.Ordered || len(q.DefaultGraphs) != 1 || len(q.NamedGraphs) != 1 ||
		h.From != "2026-01-01T00:00:00Z" || h.Until != "2126-01-01T00:00:00Z" || h.Urgency != "sliding,4" || h.Life != "changes,2" {
		t.Errorf("the form saved %+v", q)
	}
	x.quiet()
	w.call("DELETE", must[string](x, `"/v1" + location.pathname`)+"?force=1", nil, nil)
}

// All actions on an endpoint work.
func TestEndpointActions(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	x.as("admin")
	x.visit("/add-endpoint")
	x.fill("#f-name", "spare")
	x.fill("#f-url", w.endpoint)
	x.press("Try it first")
	x.waitText("It answers SPARQL")
	x.fill("#f-slot", "never")
	x.press("Add it")
	x.wait(`location.pathname == "/endpoints/spare"`)
	x.press("Run a slot now")
	x.waitText("Slot 1 of spare ran 0 queries")
	x.press("Pause")
	x.waitText("It is paused.")
	x.press("Resume")
	x.waitText("spare runs again.")
	x.press("Settings")
	x.wait(`document.querySelector("#f-budget")`)
	x.fill("#f-budget", "lots")
	x.press("Save")
	x.expect("Failed to load resource") // 422
	x.waitText("Write a duration")
	x.picture("endpoint-wrong")
	x.fill("#f-budget", "3s")
	x.press("Save")
	x.waitText("The settings of spare are in force.")
	x.click("details.others > summary")
	x.click(`input[name=policy][value=rr]`)
	x.press("Use this policy")
	x.waitText("spare follows the policy rr")
	x.press("Remove the endpoint")
	x.waitText("Remove spare?")
	x.press("Remove spare")
	x.waitText("Endpoint spare is removed.")
	var all struct{ Endpoints []struct{ Name string } }
	w.call("GET", "/v1/endpoints", nil, &all)
	for _, e := range all.Endpoints {
		if e.Name == "spare" {
			t.Error("it is still there")
		}
	}
}

// All actions on tokens work, and a secret is shown once.
func TestTokenActions(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	x.as("admin")
	x.visit("/tokens")
	x.fill("#f-name", "tiles")
	x.click("input[name=role][value=read]")
	x.press("Make token")
	x.waitText("Token tiles was made")
	secret := must[string](x, `document.querySelector(".once").value`)
	x.picture("tokens-made")
	x.visit("/tokens")
	if len(secret) != 43 || must[bool](x, `document.documentElement.outerHTML.includes(`+quote(secret)+`)`) {
		t.Errorf("the secret %q is shown again", secret)
	}
	x.click(`a[href="/tokens/tiles/revoke"]`)
	x.waitText("Revoke tiles?")
	x.press("Revoke tiles")
	x.waitText("Token tiles is revoked.")
}

// Deliveries can be retried, paused, resumed and dropped.
func TestDeliveryActions(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	x.as("admin")
	x.visit("/deliveries")
	x.still()
	eventually(t, "the webhook that fails is shown so", func() bool {
		x.visit("/deliveries?way=webhook")
		return must[bool](x, `document.body.innerText.includes("failing") && document.body.innerText.includes("503")`)
	})
	x.picture("deliveries-failing")
	x.press("Try now")
	x.waitText("is tried again now")
	x.visit("/deliveries?way=webhook")
	x.press("Pause")
	x.waitText("is paused")
	x.press("Resume")
	x.waitText("is tried again now")
	x.click(`main a[href$="/drop"]`)
	x.waitText("receives no more messages")
	x.press("Keep it")
	x.wait(`location.pathname == "/deliveries"`)
}

// Several queries can be selected and paused at once.
func TestBulkActions(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	x.as("admin")
	x.visit("/queries?endpoint=still")
	x.still()
	x.click("tbody input[type=checkbox]")
	x.wait(`document.querySelector(".bulk .n").innerText.startsWith("1 ")`)
	x.press("Pause")
	x.waitText("is paused")
	x.visit("/queries?endpoint=still")
	x.click("tbody input[type=checkbox]")
	x.press("Resume")
	x.waitText("is resumed")
}

// Without scripts every page is complete and every form works.
func TestWithoutScript(t *testing.T) {
	w := shared(t)
	x := open(t, w.url)
	call(x, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	x.visit("/signin")
	x.do(chromedp.SendKeys(chromedp.CSS("input[name=token]"), tokens["admin"]), chromedp.Submit(chromedp.CSS("main form")))
	x.waitText("As of")
	for _, p := range pages(w) {
		if p.role != "admin" {
			continue
		}
		x.visit(p.path)
		x.waitText(p.shows)
		if must[bool](x, `[...document.querySelectorAll(".js-only")].some(e => e.checkVisibility())`) {
			t.Errorf("%s shows what needs a script", p.name)
		}
	}
	x.visit("/register?endpoint=still")
	x.do(chromedp.SendKeys(chromedp.CSS("#f-query"), "SELECT ?g WHERE { ?g <https://data.city.example/name> ?n } LIMIT 2"))
	x.click("button[value=check]")
	x.waitText("LIMIT without ORDER BY")
	x.click("button[value=try]")
	x.waitText("not stored")
	x.picture("register-without-script")
	x.click(".theme button")
	x.wait(`document.documentElement.dataset.theme == "light"`)
}

// A server without endpoints tells a new user what to do first.
func TestFirstRun(t *testing.T) {
	p := start(t, "serve", "--listen", "127.0.0.1:0", "--data", t.TempDir())
	x := open(t, p.url)
	checker := axe(t)
	for _, look := range []look{{name: "first-run", path: "/", shows: "Nothing to keep fresh yet."},
		{name: "first-endpoints", path: "/endpoints", shows: "There are no endpoints yet."},
		{name: "first-tokens", path: "/tokens", shows: "none is required"}, {name: "first-deliveries", path: "/deliveries",
			shows: "There are no followers"}, {name: "first-queries", path: "/queries"}} {
		x.look(look, phone, checker)
		x.look(look, laptop, checker)
	}
}
