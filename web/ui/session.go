package ui

// This file signs browsers in and out, and keeps what the next page says.

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web"
)

const (
	mostSessions = 1000           // signed-in browsers
	mostOfOne    = 50             // sessions with the same token
	idleSession  = 12 * time.Hour // a session ends after this time without a request
	longSession  = 7 * 24 * time.Hour
)

// Sessions map browsers to the tokens with which they signed in. They are kept in
// memory only: a restart ends all of them, and a stolen cookie is useless after it.
// The browser gets a random id, never the token.
type sessions struct {
	now    func() time.Time
	cookie string
	secure bool
	key    []byte // signs messages; another one in each process

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
	s := &sessions{now: now, cookie: "freshet-" + hex.EncodeToString(sum[:4]), secure: strings.HasPrefix(public, "https:"),
		key: make([]byte, 32), all: map[[32]byte]*session{}}
	rand.Read(s.key) // never fails
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
	c := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteStrictMode,
		MaxAge: int(life.Seconds())}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

const themeCookie = "freshet-theme"

// Token implements web.Pages.
func (s *Server) Token(r *http.Request) string { return s.sessions.token(s.sessions.id(r)) }

// open begins a session with a verified token.
func (v sessionHandler) open(token string) {
	v.sessions.end(v.sessions.id(v.r))
	v.sessions.set(v.w, v.sessions.cookie, v.sessions.begin(token), longSession)
}

// A signInForm is the page that asks for a token.
type signInForm struct {
	Next      string
	Wrong     bool
	Unchecked bool // too many wrong tokens came from the address
	Host      string
	Expired   bool
}

// ask shows the sign-in form at the requested address. It does not redirect, so the
// request is not repeated in an address.
func (v sessionHandler) ask() {
	f := signInForm{Next: "/", Expired: v.sessions.id(v.r) != ""}
	if v.r.Method == http.MethodGet || v.r.Method == http.MethodHead {
		f.Next = localPath(v.r.URL.RequestURI())
	}
	v.w.Header().Set("WWW-Authenticate", `Bearer realm="freshet"`)
	v.form(http.StatusUnauthorized, f)
}

func (v sessionHandler) form(status int, f signInForm) {
	if u, err := url.Parse(v.PublicURL); err == nil {
		f.Host = u.Host
	}
	v.render(status, "signin", v.frame("", content{Data: f}))
}

// signIn accepts a token once; later requests carry the session's id.
func (v sessionHandler) signIn() error {
	token, next := strings.TrimSpace(v.r.PostForm.Get("token")), localPath(v.r.PostForm.Get("next"))
	_, err := v.Gate.Authenticate(registry.ClientAddress(v.r.RemoteAddr, v.r.Header["X-Forwarded-For"]), token)
	if errors.Is(err, registry.ErrGuessing) {
		v.w.Header().Set("Retry-After", "2")
		v.form(http.StatusTooManyRequests, signInForm{Next: next, Unchecked: true})
		return nil
	}
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

// A flash reports the outcome of a form on the next page. The template "said" holds the
// sentences of each code.
type flash struct {
	Kind string          `json:"k"` // good, warn, fail, or "" for a neutral message
	Code string          `json:"c"`
	Name string          `json:"n,omitempty"` // what the message is about
	Text string          `json:"t,omitempty"` // an error, or another value
	Done int             `json:"d,omitempty"`
	Not  int             `json:"r,omitempty"`
	Slot *scheduler.Slot `json:"s,omitempty"`
}

const (
	flashCookie = "freshet-said"
	longestWord = 600 // bytes of each text: a cookie holds 4 KB
)

// say shows a message on the next page.
func (v *visit) say(kind, code, name, text string) {
	v.report(flash{Kind: kind, Code: code, Name: name, Text: text})
}

// report sends the message in a cookie. Other hosts of the domain can set cookies, so it
// is signed: only this server puts words on its pages.
func (v *visit) report(f flash) {
	f.Name, f.Text = clip(f.Name, longestWord), clip(f.Text, longestWord)
	b, _ := json.Marshal(f) // marshalling strings and numbers cannot fail
	v.sessions.set(v.w, flashCookie, base64.RawURLEncoding.EncodeToString(append(v.sessions.sign(b), b...)), time.Minute)
}

func (s *sessions) sign(b []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	h.Write(b)
	return h.Sum(nil)
}

// said returns and clears the message of the previous request.
func (s *sessions) said(w http.ResponseWriter, r *http.Request) *flash {
	c, err := r.Cookie(flashCookie)
	if err != nil {
		return nil
	}
	s.set(w, flashCookie, "", 0)
	b, err := base64.RawURLEncoding.DecodeString(c.Value)
	if err != nil || len(b) < sha256.Size || !hmac.Equal(b[:sha256.Size], s.sign(b[sha256.Size:])) {
		return nil
	}
	var f flash
	if json.Unmarshal(b[sha256.Size:], &f) != nil {
		return nil
	}
	return &f
}
