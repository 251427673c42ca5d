package ui

import (
	"errors"
	"net/http"
	"strings"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// An errorPage says what failed, why, and what to do next.
type errorPage struct {
	Status  int
	Type    string
	Title   string
	Detail  string
	Fields  []registry.FieldError
	Section string
}

// fail answers with a page that explains the error.
func (v *visit) fail(err error) {
	p, told := web.ProblemOf(err)
	web.NoteError(v.w, err)
	e := errorPage{Status: web.Status(p.Kind), Type: string(p.Kind), Title: p.Heading(), Detail: p.Detail, Fields: p.Errors, Section: section(v.r.URL.Path)}
	if !told {
		e.Detail = "The fault is the server's, not yours. Its log has one line for this request that says why."
	}
	v.render(web.Status(p.Kind), "error", v.frame(section(v.r.URL.Path), content{Title: e.Title, Data: e}))
}

// section returns the navigation section that a path belongs to.
func section(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return first
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

// isMissing reports whether err means that an object does not exist.
func isMissing(err error) bool { return errors.Is(err, registry.ErrNotFound) }

// isGap reports whether err means that the log no longer reaches that far back.
func isGap(err error) bool {
	var gap *registry.GapError
	var p *registry.Problem
	return errors.As(err, &gap) || errors.As(err, &p) && p.Kind == registry.KindGap
}
