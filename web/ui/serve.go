package ui

// This file answers requests of browsers: pages, style sheets, scripts and pictures, compressed.

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// ServeHTTP serves all requests outside the API.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Security-Policy", contentPolicy)
	s.mux.ServeHTTP(w, r)
}

const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

func (s *Server) show(p page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.visit(w, r)
		if !v.checkRole(p.path, p.need, p.open) {
			return
		}
		if v.startBuild() != nil {
			return // the browser has disconnected
		}
		defer v.endBuild()
		var c content
		err := s.Certain(p.need, w, func() (err error) {
			c, err = p.build(v)
			return err
		})
		if err != nil {
			v.fail(err)
			return
		}
		if c.Instead != "" {
			_ = v.to(c.Instead)
			return
		}
		f := v.frame(p.section, c)
		if p.live && !v.stranger() {
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
		most := int64(s.Limits.Body)
		if a.need == "" {
			most = min(most, mostStranger)
		}
		r.Body = http.MaxBytesReader(w, r.Body, most)
		if !v.checkRole(a.path, a.need, a.open) {
			return
		}
		if err := readForm(r); err != nil {
			v.fail(formError(err))
			return
		}
		if err := s.Certain(a.need, w, func() error { return a.run(v) }); err != nil {
			v.fail(err)
		}
	})
}

// mostStranger bounds the forms that strangers may send, in bytes.
const mostStranger = 16 << 10

// readForm reads a form, which may have files. They stay in memory, as far as the body may be large.
func readForm(r *http.Request) error {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/form-data") {
		return r.ParseMultipartForm(math.MaxInt32)
	}
	return r.ParseForm()
}

func formError(err error) error {
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big) && big.Limit == mostStranger:
		return &registry.Problem{Kind: registry.KindBodyTooLarge, Detail: "This form has at most 16 KiB."}
	case big != nil:
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &registry.Problem{Kind: registry.KindBodyTooSlow, Title: "The form did not arrive",
			Detail: "It has to arrive within half a minute."}
	}
	return &registry.Problem{Kind: registry.KindMalformed, Title: "The form cannot be read"}
}

// checkRole checks the caller's role. If the role is missing, it answers with the sign-in
// form or status 403, unless strangers may come in.
func (v *visit) checkRole(route string, need registry.Role, open bool) bool {
	web.Note(v.w, route, "")
	err := v.authenticate()
	switch {
	case need == "":
		return true
	case errors.Is(err, web.ErrUnauthorized) && open:
		v.token = "" // of a session that is not valid
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
	if v.checkRole("", registry.RoleRead, false) {
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
	next := localPath(r.URL.Query().Get("next"))
	if v.checkRole("/signin", "", false); !v.stranger() {
		_ = v.to(next)
		return
	}
	v.form(http.StatusOK, signInForm{Next: next})
}

//go:embed static
var staticFiles embed.FS

//go:embed templates
var templateFiles embed.FS

// An asset is a static file. Its address contains the hash of its content, so that
// browsers may cache it forever.
type asset struct {
	url, typ, hash string
	plain, packed  []byte
}

type assets map[string]asset

var types = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

// loadAssets reads the files once for all servers of a process.
var loadAssets = sync.OnceValues(func() (assets, error) {
	entries, err := staticFiles.ReadDir("static")
	if err != nil {
		return nil, fmt.Errorf("ui: %w", err)
	}
	all := assets{}
	for _, e := range entries {
		b, err := staticFiles.ReadFile("static/" + e.Name())
		if err != nil {
			return nil, fmt.Errorf("ui: %w", err)
		}
		sum := sha256.Sum256(b)
		a := asset{hash: hex.EncodeToString(sum[:8]), typ: types[path.Ext(e.Name())], plain: b}
		a.url = "/ui/static/" + a.hash + "/" + e.Name()
		var z bytes.Buffer
		w, _ := gzip.NewWriterLevel(&z, gzip.BestCompression)
		w.Write(b)
		w.Close()
		a.packed = z.Bytes()
		all[e.Name()] = a
	}
	return all, nil
})

// ServeHTTP serves a file only under the hash of its content. Otherwise browsers would
// cache it under the wrong address.
func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := a[r.PathValue("name")]
	if !ok || f.hash != r.PathValue("hash") {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.typ)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	if !web.TakesGzip(r) {
		writeAll(w, r, http.StatusOK, f.plain)
		return
	}
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Encoding", "gzip")
	writeAll(w, r, http.StatusOK, f.packed)
}

func writeAll(w http.ResponseWriter, r *http.Request, status int, b []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		w.Write(b) // an error means that the browser has disconnected
	}
}
