package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// Sessions map browsers to the tokens with which they signed in. They are kept in
// memory only: a restart ends all of them, and a stolen cookie is useless after it.
// The browser gets a random id, never the token.
type sessions struct {
	now    func() time.Time
	cookie string
	secure bool

	mu  sync.Mutex
	all map[[32]byte]*session // keyed by the hash of the id; the id itself is not stored
}

type session struct {
	token       string
	begun, seen time.Time
}

// newSessions derives the cookie's name from the address, because browsers do not
// separate cookies by port. Over TLS the name has the prefix that keeps other hosts,
// such as sibling domains, from setting the cookie.
func newSessions(now func() time.Time, public string) *sessions {
	sum := sha256.Sum256([]byte(public))
	s := &sessions{now: now, cookie: "freshet-" + hex.EncodeToString(sum[:4]), secure: strings.HasPrefix(public, "https:"), all: map[[32]byte]*session{}}
	if s.secure {
		s.cookie = "__Host-" + s.cookie
	}
	return s
}

// begin creates a session. If there are too many, the least recently used one ends; a
// token that has too many loses its own, so no token signs others out.
func (s *sessions) begin(token string) (id string) {
	id = rand.Text()
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(mostOfOne, func(x *session) bool { return x.token == token })
	s.leave(mostSessions, func(*session) bool { return true })
	s.all[sha256.Sum256([]byte(id))] = &session{token, now, now}
	return id
}

// leave ends the least recently used of some sessions until there is room for one
// more.
func (s *sessions) leave(most int, some func(*session) bool) {
	for {
		var oldest [32]byte
		n := 0
		for k, x := range s.all {
			if !some(x) {
				continue
			}
			if n++; n == 1 || x.seen.Before(s.all[oldest].seen) {
				oldest = k
			}
		}
		if n < most {
			return
		}
		delete(s.all, oldest)
	}
}

// token returns the token of a valid session, else "".
func (s *sessions) token(id string) string {
	if id == "" {
		return ""
	}
	k, now := sha256.Sum256([]byte(id)), s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.all[k]
	if x == nil {
		return ""
	}
	if now.Sub(x.seen) > idleSession || now.Sub(x.begun) > longSession {
		delete(s.all, k)
		return ""
	}
	x.seen = now
	return x.token
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, sha256.Sum256([]byte(id)))
}

func (s *sessions) id(r *http.Request) string {
	c, err := r.Cookie(s.cookie)
	if err != nil {
		return ""
	}
	return c.Value
}

// set sends a cookie that the browser returns only to this server; an empty value
// deletes it.
func (s *sessions) set(w http.ResponseWriter, name, value string, life time.Duration) {
	c := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteStrictMode, MaxAge: int(life.Seconds())}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// Token implements web.Pages.
func (s *Server) Token(r *http.Request) string { return s.sessions.token(s.sessions.id(r)) }

// open begins a session with a verified token.
func (v sessionHandler) open(token string) {
	v.sessions.end(v.sessions.id(v.r))
	v.sessions.set(v.w, v.sessions.cookie, v.sessions.begin(token), longSession)
}

// A signInForm is the page that asks for a token.
type signInForm struct {
	Next    string
	Wrong   bool
	Host    string
	Expired bool
}

// ask shows the sign-in form at the requested address. It does not redirect, so the
// request is not repeated in an address.
func (v sessionHandler) ask() {
	f := signInForm{Next: "/", Expired: v.sessions.id(v.r) != ""}
	if v.r.Method == http.MethodGet || v.r.Method == http.MethodHead {
		f.Next = local(v.r.URL.RequestURI())
	}
	v.w.Header().Set("WWW-Authenticate", `Bearer realm="freshet"`)
	v.form(http.StatusUnauthorized, f)
}

func (s *Server) signInPage(w http.ResponseWriter, r *http.Request) {
	v := sessionHandler{s.visit(w, r)}
	if v.enter("/signin", ""); v.caller.Name != "" {
		_ = v.to("/")
		return
	}
	v.form(http.StatusOK, signInForm{Next: "/"})
}

func (v sessionHandler) form(status int, f signInForm) {
	if u, err := url.Parse(v.PublicURL); err == nil {
		f.Host = u.Host
	}
	v.render(status, "signin", v.frame("", content{Title: "Sign in", Data: f}))
}

// signIn accepts a token once; later requests carry the session's id.
func (v sessionHandler) signIn() error {
	token, next := strings.TrimSpace(v.r.PostForm.Get("token")), local(v.r.PostForm.Get("next"))
	_, err := v.Gate.Authenticate(registry.ClientAddress(v.r.RemoteAddr, v.r.Header["X-Forwarded-For"]), token)
	if err != nil && !errors.Is(err, web.ErrUnauthorized) {
		return err
	}
	if token == "" || err != nil {
		v.form(http.StatusForbidden, signInForm{Next: next, Wrong: true})
		return nil
	}
	v.open(token)
	return v.to(next)
}

func (v sessionHandler) signOut() error {
	v.sessions.end(v.sessions.id(v.r))
	v.sessions.set(v.w, v.sessions.cookie, "", 0)
	return v.to("/signin")
}

// themes are listed in the order in which the button cycles through them.
var themes = []string{"auto", "light", "dark"}

const themeCookie = "freshet-theme"

func theme(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "light" || c.Value == "dark") {
		return c.Value
	}
	return "auto"
}

// setTheme also serves the script, which expects no page in response.
func (v sessionHandler) setTheme() error {
	t := v.r.PostForm.Get("theme")
	if t != "light" && t != "dark" {
		t = ""
	}
	v.sessions.set(v.w, themeCookie, t, 365*24*time.Hour)
	if v.r.PostForm.Get("quiet") != "" {
		v.w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return v.back("/")
}
