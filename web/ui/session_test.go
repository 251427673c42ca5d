package ui

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// Repeated sign-ins with one token end only that token's sessions.
func TestSessionsOfOneToken(t *testing.T) {
	now := time.Unix(1e9, 0)
	s := newSessions(func() time.Time { return now }, "http://127.0.0.1:8080")
	other := s.begin("other")
	var mine []string
	for range 2 * mostSessions {
		now = now.Add(time.Millisecond)
		mine = append(mine, s.begin("mine"))
	}
	if s.token(other) != "other" {
		t.Error("the session of another token has ended")
	}
	if n := len(s.all); n != mostOfOne+1 {
		t.Errorf("%d sessions", n)
	}
	if last := len(mine) - 1; s.token(mine[last]) != "mine" || s.token(mine[last-mostOfOne+1]) != "mine" ||
		s.token(mine[last-mostOfOne]) != "" {
		t.Error("not the oldest have ended")
	}
}

// Over TLS only this server can set the cookie.
func TestCookie(t *testing.T) {
	for public, want := range map[string]bool{"https://freshet.example.org/x": true, "http://127.0.0.1:8080": false} {
		s := newSessions(time.Now, public)
		w := httptest.NewRecorder()
		s.set(w, s.cookie, s.begin("token"), time.Hour)
		c := w.Result().Cookies()[0]
		if host := strings.HasPrefix(c.Name, "__Host-"); host != want || c.Secure != want || c.Path != "/" || c.Domain != "" ||
			!c.HttpOnly || c.SameSite != http.SameSiteStrictMode {
			t.Errorf("%s: %s", public, c)
		}
		r := httptest.NewRequest("GET", public, nil)
		r.AddCookie(c)
		if s.token(s.id(r)) != "token" {
			t.Errorf("%s: the cookie is not known again", public)
		}
	}
}

// Strangers do not make the server hold large forms.
func TestFormsOfStrangers(t *testing.T) {
	ops, _ := token("ops", registry.RoleAdmin)
	r := newRig(t, ops)
	for _, path := range []string{"/signin", "/signout", "/theme"} {
		r.post(path, "token", strings.Repeat("x", 17<<10)).status(http.StatusRequestEntityTooLarge).has("at most 16 KiB")
	}
}

// A caller with many live pages leaves room for others.
func TestStreamsOfOneToken(t *testing.T) {
	wall, a := token("wall", registry.RoleRead)
	ops, b := token("ops", registry.RoleAdmin)
	r := newRig(t, wall, ops)
	r.pages.streams = registry.NewPlaces(4)
	r.post("/signin", "token", a, "next", "/").status(303)
	for range 2 {
		r.stream("/ui/events").until("swap", func(event) bool { return true })
	}
	r.get("/ui/events").status(429)
	r.browser = browser(t)
	r.post("/signin", "token", b, "next", "/").status(303)
	r.stream("/ui/events").until("swap", func(event) bool { return true })
}

// A visitor whose token is not checked, because too many wrong ones came from the address, is not
// told that it is wrong.
func TestSignInAfterGuesses(t *testing.T) {
	now := time.Now()
	ops, secret := token("ops", registry.RoleAdmin)
	r := newRig(t, ops)
	gate, err := web.NewTokenGate([]registry.Token{ops}, r.store.Tokens, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	r.pages.Gate = gate
	for range 100 {
		r.post("/signin", "token", "a secret that is wrong").status(403)
	}
	for _, token := range []string{"a secret that is wrong", secret} {
		if a := r.post("/signin", "token", token).status(429).has("was not checked").lacks("not known"); a.Header.Get("Retry-After") != "2" {
			t.Errorf("Retry-After %q", a.Header.Get("Retry-After"))
		}
	}
	now = now.Add(2 * time.Second)
	r.post("/signin", "token", secret).status(303)
}
