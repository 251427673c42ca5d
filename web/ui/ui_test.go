package ui

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

func token(name string, role registry.Role) (registry.Token, string) {
	secret, sha := web.NewSecret()
	return registry.Token{Name: name, Role: role, SHA256: sha}, secret
}

func TestOverview(t *testing.T) {
	r := newRig(t)
	r.get("/").status(200).has("Nothing to keep fresh yet.")
	r.endpoint("city")
	q := r.register("city", `<script>alert("x")</script>`, selectText)
	r.get("/").has("no slot yet")
	r.oracle.set(q.ID, table(t, [2]diff.Term{iri("a"), lit("1")}, [2]diff.Term{iri("b"), lit("2")}))
	r.tick("city")
	r.get("/").status(200).has("&lt;script&gt;alert(", "first result, 2 rows", `id="ep-city"`, ">live<", "#1",
		"1 query").lacks("<script>alert")
	r.oracle.set(q.ID, table(t, [2]diff.Term{iri("a"), lit("1")}, [2]diff.Term{iri("c"), lit("3")}))
	r.tick("city")
	r.get("/").has("&#43;1", "−1", "of 2 rows", "1 change found")
	r.oracle.fail("503 <b>Service Unavailable</b>")
	r.tick("city")
	r.get("/").has("has answered with status 503 since", "failing", "503 &lt;b&gt;Service", "Run a slot now")
}

// A server without tokens needs no sign-in. A server with a token requires one.
func TestSignIn(t *testing.T) {
	open := newRig(t)
	open.get("/").status(200).has("No sign-in is required")

	ops, secret := token("ops", registry.RoleAdmin)
	r := newRig(t, ops)
	r.get("/?x=1").status(401).has(`name="token"`, `value="/?x=1"`).lacks("Next slots", ">ops<")
	r.get("/nowhere").status(401)
	r.post("/signin", "token", "wrong", "next", "/").status(403).has("not known", `aria-invalid="true"`)
	r.get("/ui/events").status(403)

	a := r.post("/signin", "token", secret, "next", "//evil.example/").status(303)
	if at := a.Header.Get("Location"); at != "/" {
		t.Errorf("sent to %s", at)
	}
	cookie := a.Header.Get("Set-Cookie")
	if !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") || strings.Contains(cookie, secret) {
		t.Errorf("cookie %s", cookie)
	}
	r.get("/").status(200).has("<b>ops</b>", "Sign out").lacks(secret)
	r.get("/signin").status(303)
	// The session may read the API, but not write.
	r.get("/v1/queries").status(200)
	r.do("POST", "/v1/endpoints/city/pause", nil).status(401)

	r.follow(r.post("/signout")).status(200).has("Sign in")
	r.get("/").status(401)
}

// A revoked token loses access at once, also in existing sessions.
func TestRevokedTokenEndsTheSession(t *testing.T) {
	ops, secret := token("ops", registry.RoleAdmin)
	r := newRig(t, ops)
	r.post("/signin", "token", secret, "next", "/").status(303)
	r.get("/").status(200)
	r.gate.SetFile(nil)
	r.get("/").status(401).has("Your session has ended.")
	r.get("/v1/queries").status(401)
}

func TestForeignWritesAreRefused(t *testing.T) {
	r := newRig(t)
	r.do("POST", "/theme", nil, "Sec-Fetch-Site: cross-site").status(403)
	r.do("POST", "/theme", nil, "Sec-Fetch-Site: ", "Origin: http://evil.example").status(403)
	r.do("GET", "/", nil, "Host: evil.example")
}

func TestTheme(t *testing.T) {
	r := newRig(t)
	r.get("/").lacks("data-theme=")
	r.follow(r.post("/theme", "theme", "dark", "back", "/")).has(`data-theme="dark"`, "Theme: dark", `value="auto"`)
	r.post("/theme", "theme", "light", "quiet", "1").status(204)
	r.get("/").has(`data-theme="light"`)
	r.post("/theme", "theme", `"><script>`, "back", "/").status(303)
	r.get("/").lacks("data-theme=", "<script>")
}

func TestErrors(t *testing.T) {
	r := newRig(t)
	r.get("/problems/gap").status(200).has("<title>", registry.KindGap.Title(), "What to do",
		"Read the results and go on from the position in their ETag.")
	r.get("/problems/none").status(404).has("There is no problem of this type")
	if a := r.get("/problems/gap", "Accept: */*"); !strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("a program gets %s", a.Header.Get("Content-Type"))
	}
	r.get("/nowhere").status(404).has("There is no such page", "/problems/not-found")
	a := r.get("/nowhere", "Accept: application/json").status(404)
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "application/problem+json") {
		t.Errorf("a program gets %s", a.Header.Get("Content-Type"))
	}
	r.get("/v1/nowhere").status(404).has(`"type":"/problems/not-found"`)
}

// A request with a wrong method to an existing page is not answered with 404.
func TestMethods(t *testing.T) {
	r := newRig(t)
	for _, c := range [][3]string{{"PUT", "/", "GET, HEAD, OPTIONS"}, {"DELETE", "/signin", "GET, HEAD, POST, OPTIONS"},
		{"GET", "/signout", "POST, OPTIONS"}} {
		a := r.do(c[0], c[1], nil, "Accept: application/json").status(405).has("/problems/method-not-allowed")
		if got := a.Header.Get("Allow"); got != c[2] {
			t.Errorf("%s %s: Allow %q", c[0], c[1], got)
		}
		if a = r.do("OPTIONS", c[1], nil).status(204); a.Header.Get("Allow") != c[2] {
			t.Errorf("OPTIONS %s: %v", c[1], a.Header)
		}
	}
	r.do("PUT", "/", nil).status(405).has("Method not allowed")
	r.do("OPTIONS", "/nowhere", nil).status(404)
}

// Static files may be cached forever: their address contains the hash of their
// content.
func TestStatic(t *testing.T) {
	r := newRig(t)
	page := r.get("/").body
	for _, name := range []string{"freshet.css", "live.js", "icon.svg"} {
		at := r.pages.assets[name].url
		if !strings.Contains(page, at) {
			t.Errorf("the page does not link %s", at)
		}
		a := r.get(at).status(200)
		if !strings.Contains(a.Header.Get("Cache-Control"), "immutable") || a.Header.Get("Content-Type") == "" ||
			a.body != string(r.pages.assets[name].plain) {
			t.Errorf("%s: %v", name, a.Header)
		}
	}
	r.get("/ui/static/0000000000000000/freshet.css").status(404)
	req, _ := http.NewRequest("GET", r.server.URL+r.pages.assets["freshet.css"].url, nil)
	req.Header.Set("Accept-Encoding", "br, gzip;q=0")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.Header.Get("Content-Encoding") != "" {
		t.Error("packed for a browser that does not take it")
	}
}

func TestLocal(t *testing.T) {
	for in, want := range map[string]string{
		"/queries?q=a#b": "/queries?q=a#b", "": "/", "queries": "/", "//evil.example/": "/", "https://evil.example/": "/", `/\evil.example`: "/",
		"/%2f/evil": "/", "javascript:alert(1)": "/", "/a b": "/a%20b", "/\t/evil": "/",
	} {
		if got := localPath(in); got != want {
			t.Errorf("localPath(%q) is %q, want %q", in, got, want)
		}
	}
}

// A page stays small with many endpoints, and shows those with problems first.
func TestManyEndpoints(t *testing.T) {
	r := newRig(t)
	for i := range 19 {
		r.endpoint(fmt.Sprintf("e%02d", i))
	}
	r.oracle = &oracle{results: map[string]*diff.Result{}}
	r.endpoint("e19")
	if _, err := r.reg.PauseEndpoint(admin, "e00"); err != nil {
		t.Fatal(err)
	}
	r.get("/").status(200).has("8 more endpoints", `id="ep-e01"`, "No query is registered yet.").lacks(`id="ep-e00"`, `id="ep-e13"`)
	r.oracle.fail("no route")
	r.tick("e19")
	r.get("/").has("has not answered", `id="ep-e19"`).lacks(`id="ep-e12"`)
}

// Times of the clock name their zone, wherever the reader is.
func TestTimesNameTheirZone(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	v := &visit{clock: clock{now}}
	before := now.AddDate(0, 0, -2)
	for got, want := range map[string]string{string(v.Fixed(now)): ">05:06:07 UTC<", string(v.Fixed(before)): ">2 Mar, 05:06 UTC<",
		string(v.Past(before)): ">2 Mar, 05:06 UTC<", v.hour(now): "05:06 UTC", v.hour(before): "2 Mar, 05:06 UTC"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s has no %s", got, want)
		}
	}
	r := newRig(t)
	if a := r.get("/"); !regexp.MustCompile(`As of \d\d:\d\d:\d\d UTC<`).MatchString(a.body) {
		t.Error(a.body)
	}
}

// The script allows for a slow clock, but never shows a past event as a future one: the page marks
// past times.
func TestPastStaysPast(t *testing.T) {
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	v := &visit{clock: clock{now}}
	for _, c := range []struct {
		at   time.Duration
		past bool
	}{{-time.Hour, true}, {0, true}, {time.Second, false}} {
		if got := strings.Contains(string(v.When(now.Add(c.at))), "<time data-past "); got != c.past {
			t.Errorf("%s from now: past %t in %s", c.at, got, v.When(now.Add(c.at)))
		}
		if got := string(v.Past(now.Add(c.at))); !strings.Contains(got, "<time data-past ") || !strings.Contains(got, " ago<") {
			t.Errorf("%s from now, and it has happened: %s", c.at, got)
		}
	}
}
