package web

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
)

// lockedWorld returns a world that requires tokens, and a token of each role.
func lockedWorld(t *testing.T, edit ...func(*Config)) (*world, map[registry.Role]string) {
	t.Helper()
	w := newWorld(t, edit...)
	secrets := map[registry.Role]string{}
	for _, r := range []registry.Role{registry.RoleAdmin, registry.RoleApp, registry.RoleRead} {
		secret, sha := NewSecret()
		secrets[r] = secret
		if err := w.m.PutToken(registry.Token{Name: string(r), Role: r, SHA256: sha, CreatedAt: morning}); err != nil {
			t.Fatal(err)
		}
	}
	return w, secrets
}

// Every route enforces the role of the table.
func TestRoles(t *testing.T) {
	w, secrets := lockedWorld(t)
	w.token = secrets[registry.RoleApp]
	id := w.register(selectText, `"name":"all"`)
	s := &server{Config: w.config}
	for _, rt := range s.table() {
		target := strings.NewReplacer("{id}", id, "{name}", "missing", "{slug}", "gap").Replace(rt.path)
		for _, role := range []registry.Role{"", registry.RoleRead, registry.RoleApp, registry.RoleAdmin} {
			w.token = secrets[role]
			if rt.method == "DELETE" && role == registry.RoleApp {
				continue // would succeed and take the query away from the rest
			}
			a := w.do(rt.method, target, "")
			switch {
			case rt.need == "":
				if a.StatusCode == 401 || a.StatusCode == 403 {
					t.Errorf("%s %s is open but answers %d to %q", rt.method, rt.path, a.StatusCode, role)
				}
			case role == "":
				a.problem(401, "unauthorized")
				if !strings.HasPrefix(a.Header.Get("WWW-Authenticate"), "Bearer") {
					t.Errorf("%s %s: 401 without WWW-Authenticate", rt.method, rt.path)
				}
			case !role.Includes(rt.need):
				a.problem(403, "forbidden")
			case a.StatusCode == 401, a.StatusCode == 403 && rt.path != "/v1/queries/{id}" && !strings.HasPrefix(rt.path, "/v1/queries/{id}/"):
				t.Errorf("%s %s refuses %s with %d", rt.method, rt.path, role, a.StatusCode)
			}
		}
	}
}

func TestBadTokens(t *testing.T) {
	w, secrets := lockedWorld(t)
	for _, h := range []string{"Bearer", "Bearer ", "Bearer wrong", "Basic dTpw", "Bearer " + strings.Repeat("x", 600),
		secrets[registry.RoleAdmin],
		"Bearer " + secrets[registry.RoleAdmin] + "x", "Bearer " + registry.HashSecret(secrets[registry.RoleAdmin])} {
		w.get("/v1/queries", "Authorization: "+h).problem(401, "unauthorized")
	}
	good := "Authorization: bearer  " + secrets[registry.RoleRead]
	w.get("/v1/queries", good).status(200)
	w.get("/v1/queries", good, good).problem(401, "unauthorized")
	w.get("/v1/queries?access_token="+secrets[registry.RoleRead]).problem(401, "unauthorized")
}

func TestTokenExpires(t *testing.T) {
	w, secrets := lockedWorld(t)
	secret, sha := NewSecret()
	until := morning.Add(time.Hour)
	w.m.PutToken(registry.Token{Name: "guest", Role: registry.RoleRead, SHA256: sha, ExpiresAt: &until})
	w.token = secret
	w.get("/v1/queries").status(200)
	w.m.now = until
	w.get("/v1/queries").problem(401, "unauthorized")
	w.token = secrets[registry.RoleAdmin]
	a := w.get("/v1/tokens").status(200)
	if !strings.Contains(string(a.body), `"expired":true`) {
		t.Errorf("%s", a.body)
	}
}

// A stream ends with the token that let it in.
func TestTokenEndsStream(t *testing.T) {
	var deadline time.Time
	w := newWorld(t, func(c *Config) {
		c.Followers = streams{query: func(w http.ResponseWriter, r *http.Request, _ registry.Query) {
			deadline, _ = r.Context().Deadline()
			sse(w, "")
		}}
	})
	id := w.register(selectText)
	secret, sha := NewSecret()
	until := time.Now().Add(time.Hour)
	w.m.PutToken(registry.Token{Name: "guest", Role: registry.RoleRead, SHA256: sha, ExpiresAt: &until})
	w.token = secret
	w.get("/v1/queries/"+id+"/changes", "Accept: text/event-stream").status(200)
	if !deadline.Equal(until) {
		t.Errorf("the stream ends at %v, the token at %v", deadline, until)
	}
}

// Callers without a token can read public queries, and cannot find out whether other
// queries exist.
func TestPublic(t *testing.T) {
	w, secrets := lockedWorld(t)
	w.token = secrets[registry.RoleApp]
	open, closed := w.register(selectText, `"public":true`, `"name":"open"`), w.register(askText)
	w.m.publish(open, table(t))
	w.m.publish(closed, truthValue(t, true))
	w.token = ""
	for _, ref := range []string{open, "open"} {
		for _, path := range []string{"/results", "/results.csv", "/changes", "/changes/latest"} {
			a := w.get("/v1/queries/" + ref + path).status(200)
			if cc := a.Header.Get("Cache-Control"); path != "/changes" && cc != "no-cache" {
				t.Errorf("%s: Cache-Control %q", path, cc)
			}
		}
		w.get("/v1/queries/"+ref).problem(401, "unauthorized")
		w.get("/v1/queries/"+ref+"/explain").problem(401, "unauthorized")
	}
	unknown := w.get("/v1/queries/q_00000000000000000000000000/results").problem(401, "unauthorized")
	hidden := w.get("/v1/queries/"+closed+"/results").problem(401, "unauthorized")
	if string(unknown.body) != string(hidden.body) {
		t.Error("the answers tell which queries exist")
	}
	w.get("/v1/queries/"+open+"/results", "Authorization: Bearer wrong").problem(401, "unauthorized")
	w.token = secrets[registry.RoleRead]
	a := w.get("/v1/queries/" + closed + "/results").status(200)
	if cc := a.Header.Get("Cache-Control"); cc != "private, no-cache" {
		t.Errorf("a result that is not public may be kept: %q", cc)
	}
}

// The life of tokens through the API.
func TestTokens(t *testing.T) {
	w := newWorld(t)
	w.post("/v1/tokens", `{"name":"a","role":"read"}`).problem(409, "conflict") // would lock everybody out
	w.post("/v1/tokens", `{"name":"a","role":"admin","expires_at":"2027-01-01T00:00:00Z"}`).problem(409, "conflict")
	a := w.post("/v1/tokens", `{"name":"ops","role":"admin"}`).status(201)
	secret := a.string("token")
	if len(secret) != 43 || a.Header.Get("Cache-Control") != "no-store" || !strings.HasSuffix(a.Header.Get("Location"), "/v1/tokens/ops") {
		t.Errorf("%s %v", a.body, a.Header)
	}
	w.get("/v1/tokens").problem(401, "unauthorized") // closed from now on
	w.token = secret
	for body, want := range map[string]int{`{"name":"ops","role":"read"}`: 409, `{"name":"","role":"read"}`: 422,
		`{"name":"anonymous","role":"read"}`: 422,
		`{"name":"a b","role":"read"}`:       422, `{"name":"x","role":"root"}`: 422,
		`{"name":"x","role":"read","expires_at":"2020-01-01T00:00:00Z"}`: 422,
		`{"name":"x","role":"read","sha256":"00"}`:                       400, `[]`: 400, `{"name":"` + strings.Repeat("x", 2<<20) + `"}`: 413} {
		w.post("/v1/tokens", body).status(want)
	}
	w.do("POST", "/v1/tokens", "name=x", "Content-Type: application/x-www-form-urlencoded").problem(415, "unsupported-media-type")
	w.post("/v1/tokens", `{"name":"tv","role":"read","expires_at":"2027-01-01T00:00:00Z"}`).status(201)
	list := w.get("/v1/tokens").status(200)
	if s := string(list.body); strings.Contains(s, secret) || strings.Contains(s, registry.HashSecret(secret)) ||
		!strings.Contains(s, `"tv"`) {
		t.Errorf("the list: %s", s)
	}
	if strings.Contains(w.log.String(), secret) {
		t.Error("the log contains a secret")
	}
	w.gate.SetFile([]registry.Token{{Name: "tv", Role: registry.RoleRead, SHA256: registry.HashSecret("secret from the file")}})
	if s := string(w.get("/v1/tokens").status(200).body); strings.Count(s, `"tv"`) != 2 || strings.Count(s, `"hidden":true`) != 1 {
		t.Errorf("the list with a token that the file hides: %s", s)
	}
	w.gate.SetFile(nil)
	w.do("DELETE", "/v1/tokens/tv", "").status(204)
	w.do("DELETE", "/v1/tokens/tv", "").problem(404, "not-found")
	w.do("DELETE", "/v1/tokens/ops", "").problem(409, "conflict")
	w.gate.SetFile([]registry.Token{{Name: "file", Role: registry.RoleAdmin, SHA256: registry.HashSecret("secret from the file")}})
	w.do("DELETE", "/v1/tokens/file", "").problem(409, "conflict")
	w.post("/v1/tokens", `{"name":"file","role":"read"}`).problem(409, "exists")
	w.do("DELETE", "/v1/tokens/ops", "").status(204)
	w.get("/v1/tokens").problem(401, "unauthorized")
	w.token = "secret from the file"
	w.get("/v1/tokens").status(200)
}

// A closed gate stays closed when its last token is removed.
func TestGateStaysClosed(t *testing.T) {
	m := newMemory(morning)
	g, err := NewTokenGate([]registry.Token{{Name: "f", Role: registry.RoleRead,
		SHA256: registry.HashSecret("a secret of the file")}}, m, func() time.Time { return morning })
	if err != nil {
		t.Fatal(err)
	}
	if c, err := g.Authenticate("", "a secret of the file"); err != nil || c.Name != "f" || c.Role != registry.RoleRead {
		t.Errorf("%v %v", c, err)
	}
	g.SetFile(nil)
	for _, token := range []string{"", "a secret of the file"} {
		if _, err := g.Authenticate("", token); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("%q is let in: %v", token, err)
		}
	}
	if !g.On() {
		t.Error("the gate says that it is open")
	}
	open, _ := NewTokenGate(nil, m, func() time.Time { return morning })
	if c, err := open.Authenticate("", ""); err != nil || c.Name != registry.Anonymous || c.Role != registry.RoleAdmin || open.On() {
		t.Errorf("a server without tokens: %v %v", c, err)
	}
	if _, err := open.Authenticate("", "x"); !errors.Is(err, ErrUnauthorized) {
		t.Error("a wrong token is let in where none is needed")
	}
}

// A token of the file hides the stored one of its name, which can be revoked.
func TestTokenInFileAndStore(t *testing.T) {
	m := newMemory(morning)
	g, err := NewTokenGate(nil, m, func() time.Time { return morning })
	if err != nil {
		t.Fatal(err)
	}
	_, boss, err := g.Make("boss", registry.RoleAdmin, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, stored, err := g.Make("ops", registry.RoleAdmin, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := []registry.Token{{Name: "ops", Role: registry.RoleRead, SHA256: registry.HashSecret("a secret of the file")}}
	g.SetFile(file)
	valid := func(secret string) bool {
		_, err := g.Authenticate("", secret)
		return err == nil
	}
	if !valid("a secret of the file") || !valid(boss) || valid(stored) {
		t.Error("the stored token is valid beside that of the file")
	}
	if c, err := g.Named("ops"); err != nil || c.Role != registry.RoleRead {
		t.Errorf("%v %v", c, err)
	}
	all, err := g.Tokens()
	if err != nil || len(all) != 3 || all[0].Hidden || all[1].Hidden || !all[2].Hidden || all[2].Name != "ops" || all[2].FromFile {
		t.Errorf("%v %v", all, err)
	}
	if p, _ := ProblemOf(g.Revoke("boss")); p.Kind != "conflict" || !valid(boss) {
		t.Errorf("the last admin token but a hidden one: %v", p)
	}
	if err := g.Revoke("ops"); err != nil {
		t.Error(err)
	}
	if p, _ := ProblemOf(g.Revoke("ops")); p.Kind != "conflict" {
		t.Errorf("%v", p)
	}
	if g.SetFile(nil); valid(stored) || !valid(boss) {
		t.Error("the stored token was not revoked")
	}
}

// A name identifies a caller as long as its token is valid. On a server without tokens
// every caller is an admin.
func TestGateKnowsNames(t *testing.T) {
	m, now, end := newMemory(morning), morning, morning.Add(time.Hour)
	g, err := NewTokenGate([]registry.Token{{Name: "f", Role: registry.RoleRead, SHA256: registry.HashSecret("a secret of the file"),
		ExpiresAt: &end}}, m, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	role := func(g *TokenGate, name string) registry.Role {
		c, err := g.Named(name)
		if err != nil || c.Name != name {
			t.Errorf("%s: %v %v", name, c, err)
		}
		return c.Role
	}
	if role(g, "f") != registry.RoleRead || role(g, "other") != "" || role(g, registry.Anonymous) != "" {
		t.Error("names do not stand for their tokens")
	}
	if now = end; role(g, "f") != "" {
		t.Error("an expired token still gives its name a role")
	}
	g.SetFile(nil)
	if now = morning; role(g, "f") != "" {
		t.Error("a removed token still gives its name a role")
	}
	open, err := NewTokenGate(nil, m, func() time.Time { return morning })
	if err != nil || role(open, registry.Anonymous) != registry.RoleAdmin {
		t.Errorf("a server without tokens: %v", err)
	}
}

// The list of tokens shows when each was last used.
func TestGateNotesUse(t *testing.T) {
	w, secrets := lockedWorld(t)
	g := w.config.Gate
	if at := g.Used("app"); !at.IsZero() {
		t.Fatalf("used at %v before it was", at)
	}
	for _, later := range []time.Duration{0, time.Millisecond, time.Hour} {
		w.m.now = morning.Add(later)
		if _, err := g.Authenticate("", secrets[registry.RoleApp]); err != nil {
			t.Fatal(err)
		}
	}
	g.Authenticate("", "not a token")
	if at := g.Used("app"); !at.Equal(morning.Add(time.Hour)) || !g.Used("read").IsZero() {
		t.Errorf("app was used at %v, read at %v", at, g.Used("read"))
	}
}
