package ui

import (
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// ServeHTTP serves all requests outside the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", contentPolicy)
	s.mux.ServeHTTP(w, r)
}

const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// show serves a page.
func (s *Server) show(p page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.visit(w, r)
		if !v.enter(p.path, p.need) {
			return
		}
		if v.startBuild() != nil {
			return // the browser has disconnected
		}
		defer v.endBuild()
		c, err := p.build(v)
		if err != nil {
			v.fail(err)
			return
		}
		f := v.frame(p.section, c)
		if p.live {
			f.Events = "/ui/events" + strings.TrimPrefix(r.URL.RequestURI(), "/")
			if r.URL.Path != "/" {
				f.Events = "/ui/events" + r.URL.RequestURI()
			}
		}
		v.render(http.StatusOK, p.look, f)
	})
}

// act handles a form.
func (s *Server) act(a action) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.visit(w, r)
		r.Body = http.MaxBytesReader(w, r.Body, int64(s.Limits.Body))
		if !v.enter(a.path, a.need) {
			return
		}
		if err := r.ParseForm(); err != nil {
			v.fail(formError(err))
			return
		}
		if err := a.run(v); err != nil {
			v.fail(err)
		}
	})
}

func formError(err error) error {
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &registry.Problem{Kind: registry.KindBodyTooSlow, Title: "The form did not arrive", Detail: "It has to arrive within half a minute."}
	}
	return &registry.Problem{Kind: registry.KindMalformed, Title: "The form cannot be read"}
}

// enter checks the caller's role. If the role is missing, it answers with the sign-in
// form or status 403.
func (v *visit) enter(route string, need registry.Role) bool {
	web.Note(v.w, route, "")
	err := v.authenticate()
	switch {
	case need == "":
		return true
	case errors.Is(err, web.ErrUnauthorized):
		if strings.HasPrefix(v.r.URL.Path, "/ui/events") {
			web.Answer(v.w, v.r, forbidden("sign in"))
			return false
		}
		sessionHandler{v}.ask()
		return false
	case err != nil:
		v.fail(err)
		return false
	}
	web.Note(v.w, route, v.caller.Name)
	if !v.May(need) {
		v.fail(forbidden("This needs the role " + string(need) + "; the token " + v.caller.Name + " has " + string(v.caller.Role) + "."))
		return false
	}
	return true
}

// authenticate identifies the caller. It runs for every request, so that revoking a
// token takes effect at once.
func (v *visit) authenticate() error {
	v.token = v.Token(v.r)
	caller, err := v.Gate.Authenticate("", v.token)
	if err != nil && v.token != "" && !errors.Is(err, web.ErrUnauthorized) {
		return err
	}
	v.caller = caller
	return err
}

func forbidden(detail string) error {
	return &registry.Problem{Kind: registry.KindForbidden, Detail: detail}
}

// nothing answers requests for unknown paths and methods: with a page if the client
// accepts HTML, else with a problem document.
func (s *Server) nothing(w http.ResponseWriter, r *http.Request) {
	missing := &registry.Problem{Kind: registry.KindNotFound, Title: "There is no such page", Detail: "Nothing is served under this path."}
	if methods := s.methods(r); methods != "" {
		w.Header().Set("Allow", methods)
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		missing = &registry.Problem{Kind: registry.KindMethodNotAllowed, Detail: "This page takes " + methods + "."}
	}
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		web.Answer(w, r, missing)
		return
	}
	v := s.visit(w, r)
	if v.enter("", registry.RoleRead) {
		v.fail(missing)
	}
}

// methods lists the methods of a path for the Allow header, "" for an unknown path.
func (s *Server) methods(r *http.Request) string {
	var out []string
	for _, m := range []string{http.MethodGet, http.MethodPost} {
		if _, pattern := s.mux.Handler(&http.Request{Method: m, Host: r.Host, URL: r.URL}); pattern == "/" {
			continue
		}
		if out = append(out, m); m == http.MethodGet {
			out = append(out, http.MethodHead)
		}
	}
	if out == nil {
		return ""
	}
	return strings.Join(append(out, http.MethodOptions), ", ")
}

func (s *Server) signInPage(w http.ResponseWriter, r *http.Request) {
	v := sessionHandler{s.visit(w, r)}
	if v.enter("/signin", ""); v.caller.Name != "" {
		_ = v.to("/")
		return
	}
	v.form(http.StatusOK, signInForm{Next: "/"})
}
