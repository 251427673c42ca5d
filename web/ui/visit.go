package ui

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// A visit is one request to a page with the data that all handlers share.
type visit struct {
	*Server
	clock
	w      http.ResponseWriter
	r      *http.Request
	caller registry.Caller
	token  string // of the session, "" if the server requires none

	streaming bool // the request is for the page's live stream
	building  bool // the visit occupies one of the places of startBuild
}

// startBuild waits until fewer than the maximum number of pages are being built, which
// bounds the memory of concurrent requests. endBuild releases the place before the
// page is sent.
func (v *visit) startBuild() error {
	select {
	case v.builds <- struct{}{}:
		v.building = true
		return nil
	case <-v.r.Context().Done():
		return v.r.Context().Err()
	}
}

func (v *visit) endBuild() {
	if v.building {
		v.building = false
		<-v.builds
	}
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP serves all requests outside the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", policy)
	s.mux.ServeHTTP(w, r)
}

func (s *Server) visit(w http.ResponseWriter, r *http.Request) *visit {
	return &visit{Server: s, w: w, r: r, clock: clock{s.Now().UTC()}}
}

// Has reports whether a page exists on this server, so that links to missing pages are
// left out.
func (v *visit) Has(look string) bool { return v.templates[look] != nil }

// May reports whether the caller has a role.
func (v *visit) May(role registry.Role) bool { return v.caller.Role.Includes(role) }

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

// render writes a page.
func (v *visit) render(status int, look string, f *frame) {
	b, err := pack(func(w io.Writer) error { return v.templates[look].page(w, f) })
	if err != nil {
		if look != "error" {
			v.fail(err)
			return
		}
		web.Answer(v.w, v.r, err)
		return
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	v.endBuild()
	b.send(v.w, v.r, status)
}

// to redirects a form to a page of this server.
func (v *visit) to(path string) error {
	v.w.Header().Set("Cache-Control", "no-store")
	http.Redirect(v.w, v.r, local(path), http.StatusSeeOther)
	return nil
}

// back redirects a form to the address in its field "back", else to path.
func (v *visit) back(path string) error {
	if b := v.r.PostForm.Get("back"); b != "" {
		path = b
	}
	return v.to(path)
}

// local returns path if it is an address on this server, else "/".
func local(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawQuery: u.RawQuery, Fragment: u.Fragment}).String()
}

// A handler serves a page or a group of pages: it is a visit with the methods that
// they need.
type handler interface{ ~struct{ *visit } }

// by adapts a handler's method to build a page, do to perform an action.
func by[H handler](build func(H) (content, error)) func(*visit) (content, error) {
	return func(v *visit) (content, error) { return build(H(struct{ *visit }{v})) }
}

func do[H handler](run func(H) error) func(*visit) error {
	return func(v *visit) error { return run(H(struct{ *visit }{v})) }
}

// The handlers.
type (
	overviewHandler    struct{ *visit }
	queriesHandler     struct{ *visit }
	queryHandler       struct{ *visit } // one query
	resultHandler      struct{ *visit } // versions and changes of a query
	holderHandler      struct{ *visit } // the settings of one of its holders
	registerHandler    struct{ *visit }
	endpointHandler    struct{ *visit }
	newEndpointHandler struct{ *visit }
	policyHandler      struct{ *visit }
	profileHandler     struct{ *visit }
	deliveryHandler    struct{ *visit }
	tokenHandler       struct{ *visit }
	serverHandler      struct{ *visit } // settings and about
	sessionHandler     struct{ *visit } // sign-in and theme
	menu               struct{ *visit } // the surroundings of every page
)

// fragment sends one part of a page to the script.
func (v *visit) fragment(look, name string, data any) error {
	b, err := pack(func(w io.Writer) error { return v.templates[look].part(w, name, data) })
	if err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	b.send(v.w, v.r, http.StatusOK)
	return nil
}
