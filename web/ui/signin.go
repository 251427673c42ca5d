package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

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
