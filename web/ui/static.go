package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed static
var staticFiles embed.FS

//go:embed templates
var templateFiles embed.FS

// An asset is a static file. Its address holds the hash of its content, so that
// browsers may keep it forever.
type asset struct {
	url, typ, hash string
	plain, packed  []byte
}

type assets map[string]asset

var types = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func loadAssets() (assets, error) {
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
}

// ServeHTTP serves a file under the hash of its content only: another one would
// be kept under the wrong address.
func (a assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := a[r.PathValue("name")]
	if !ok || f.hash != r.PathValue("hash") {
		http.Error(w, "no such file", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.typ)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	if !packs(r) {
		write(w, r, http.StatusOK, f.plain)
		return
	}
	h.Set("Vary", "Accept-Encoding")
	h.Set("Content-Encoding", "gzip")
	write(w, r, http.StatusOK, f.packed)
}

func packs(r *http.Request) bool {
	for _, e := range strings.Split(r.Header.Get("Accept-Encoding"), ",") {
		if name, q, _ := strings.Cut(strings.TrimSpace(e), ";"); name == "gzip" && strings.ReplaceAll(q, " ", "") != "q=0" {
			return true
		}
	}
	return false
}

var packers = sync.Pool{New: func() any { w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed); return w }}

// send writes a document, packed where the browser takes it.
func send(w http.ResponseWriter, r *http.Request, status int, b []byte) {
	w.Header().Add("Vary", "Accept-Encoding")
	if len(b) < 1400 || !packs(r) {
		write(w, r, status, b)
		return
	}
	var z bytes.Buffer
	p := packers.Get().(*gzip.Writer)
	p.Reset(&z)
	p.Write(b) // a buffer takes everything
	p.Close()
	packers.Put(p)
	w.Header().Set("Content-Encoding", "gzip")
	write(w, r, status, z.Bytes())
}

func write(w http.ResponseWriter, r *http.Request, status int, b []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		w.Write(b) // an error means that nobody listens any more
	}
}
