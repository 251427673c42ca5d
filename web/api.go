package web

import (
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/rs/cors"

	"github.com/freshet/freshet/registry"
)

// New returns the handler of all HTTP requests.
func New(c Config) (http.Handler, error) {
	s, err := newServer(c)
	if err != nil {
		return nil, err
	}
	return s.handler()
}

func newServer(c Config) (*server, error) {
	c.Complete()
	base, err := url.Parse(c.PublicURL)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") || base.RawQuery != "" || base.Fragment != "" {
		return nil, fmt.Errorf("web: public_url %q is not an absolute http or https URL", c.PublicURL)
	}
	s := &server{Config: c, base: strings.TrimRight(base.String(), "/"), hosts: newHosts(c.Site),
		backups: registry.NewPlaces(1), tries: registry.NewPlaces(c.Limits.Tries), scrapes: registry.NewPlaces(4)}
	s.routes = s.table()
	return s, nil
}

func (s *server) handler() (http.Handler, error) {
	origin := http.NewCrossOriginProtection()
	for _, o := range s.Origins {
		if err := origin.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("web: origin %q: %w", o, err)
		}
	}
	origin.SetDenyHandler(refuse(newProblem("cross-origin",
		"requests that change something are taken from this server's own pages and from the configured origins only")))

	origin.AddInsecureBypassPattern("POST /notify-me")      // pages of others have the form; it uses no cookie
	origin.AddInsecureBypassPattern("POST /notify-me/{id}") // the key in the link is the proof
	s.inner = s.mux()
	h := origin.Handler(s.inner)
	if len(s.Origins) > 0 { // an empty list would mean all origins
		h = crossOriginReads(s.Origins).Handler(h)
	}
	h = s.checkHost(s.checkForwarded(h))
	return s.outermost(h), nil
}

func crossOriginReads(origins []string) *cors.Cors {
	return cors.New(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{"GET", "HEAD", "POST", "PATCH", "DELETE"},
		AllowedHeaders: []string{"Accept", "Authorization", "Content-Type", "If-Match", "If-None-Match", "If-Modified-Since",
			"Last-Event-ID", "Accept-Datetime",
			"Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name"},
		ExposedHeaders: []string{"ETag", "Last-Modified", "Link", "Location", "Content-Location", "Retry-After", "Freshet-Checked-At",
			"Freshet-Proved-Until", "Memento-Datetime"},
		MaxAge: 600,
	})
}

// mux dispatches by path with the standard router, and by method on its own,
// because the router's 404 and 405 are not problem documents.
func (s *server) mux() http.Handler {
	byPath := map[string]map[string]route{}
	m := http.NewServeMux()
	for _, r := range s.routes {
		if byPath[r.path] == nil {
			byPath[r.path] = map[string]route{}
			m.Handle(r.path, s.methods(byPath[r.path]))
		}
		byPath[r.path][r.method] = r
	}
	nothing := refuse(notFound("nothing is served under this path"))
	m.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v1/queries/") && strings.HasPrefix(path.Base(r.URL.Path), "results.") {
			refuse(notFound("a result has no such format: there are srj, srx, csv, tsv for rows, and nt, ttl, jsonld for graphs")).ServeHTTP(w, r)
			return
		}
		if s.Pages == nil || strings.HasPrefix(r.URL.Path, "/v1/") {
			nothing.ServeHTTP(w, r)
			return
		}
		s.Pages.ServeHTTP(w, r)
	})
	return m
}

// methods chooses the route of a path by method.
func (s *server) methods(routes map[string]route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		if rt, ok := routes[method]; ok {
			s.serve(rt, w, r)
			return
		}
		w.Header().Set("Allow", allow(routes))
		if r.Method == http.MethodOptions {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		Answer(w, r, newProblem("method-not-allowed", "this resource takes "+allow(routes)))
	})
}

func allow(routes map[string]route) string {
	var out []string
	for _, m := range []string{"GET", "POST", "PATCH", "DELETE"} {
		if _, ok := routes[m]; ok {
			out = append(out, m)
			if m == "GET" {
				out = append(out, "HEAD")
			}
		}
	}
	return strings.Join(append(out, "OPTIONS"), ", ")
}

// Serving returns the HTTP server for a handler of New. Every request reaches the
// handler, which limits the time of its body: net/http would answer OPTIONS * by
// itself, without such a limit.
func Serving(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		DisableGeneralOptionsHandler: true}
}
