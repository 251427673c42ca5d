package ui

// This file serves style sheets, scripts and pictures, and compresses pages.

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"sync"

	"github.com/freshet/freshet/web"
)

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

var (
	packers   = sync.Pool{New: func() any { w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed); return w }}
	unpackers = sync.Pool{New: func() any { return new(gzip.Reader) }}
)

// A packed document is complete and compressed, so that it uses little memory while a
// slow browser reads it.
type packed struct {
	z    bytes.Buffer
	size int // uncompressed
}

// pack stores the output of render.
func pack(render func(io.Writer) error) (*packed, error) {
	var p packed
	w := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	w.Reset(&p.z)
	if err := render(io.MultiWriter(w, &p)); err != nil {
		return nil, err
	}
	return &p, w.Close()
}

// Write counts the bytes.
func (p *packed) Write(b []byte) (int, error) {
	p.size += len(b)
	return len(b), nil
}

// send writes a document, uncompressed if the browser does not accept compression.
func (p *packed) send(w http.ResponseWriter, r *http.Request, status int) {
	w.Header().Add("Vary", "Accept-Encoding")
	if web.TakesGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		writeAll(w, r, status, p.z.Bytes())
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(p.size))
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	z := unpackers.Get().(*gzip.Reader)
	defer unpackers.Put(z)
	err := z.Reset(&p.z)
	if err == nil {
		_, err = io.CopyBuffer(struct{ io.Writer }{w}, z, make([]byte, 4<<10))
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the browser has disconnected
	}
}

func writeAll(w http.ResponseWriter, r *http.Request, status int, b []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		w.Write(b) // an error means that the browser has disconnected
	}
}
