package web

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Whole answers without an ETag are compressed for clients that take gzip.
func TestAnswersAreCompressed(t *testing.T) {
	w := newWorld(t)
	for i := range 20 {
		w.register(fmt.Sprintf("SELECT ?s { ?s <http://example.org/p> %d }", i))
	}
	plain := w.get("/v1/queries").status(200)
	if plain.Header.Get("Vary") != "Accept-Encoding" || plain.Header.Get("Content-Encoding") != "" {
		t.Errorf("without Accept-Encoding: %v", plain.Header)
	}
	for _, refused := range []string{"br", "gzip;q=0", "identity"} {
		if a := w.get("/v1/queries", "Accept-Encoding: "+refused); !bytes.Equal(a.body, plain.body) {
			t.Errorf("%s: %v", refused, a.Header)
		}
	}
	r := httptest.NewRequest("GET", "/v1/queries", nil)
	r.Host, r.Header = "freshet.example.org", http.Header{"Accept-Encoding": {"br, gzip;q=0.5"}}
	rec := httptest.NewRecorder()
	w.h.ServeHTTP(rec, r)
	z, err := gzip.NewReader(rec.Body)
	if err != nil {
		t.Fatalf("%v: %v", rec.Header(), err)
	}
	size := rec.Body.Len()
	if b, err := io.ReadAll(z); err != nil || !bytes.Equal(b, plain.body) || size*2 > len(b) {
		t.Errorf("%v: %d bytes become %d", err, size, len(b))
	}
	if a := w.get("/healthz", "Accept-Encoding: gzip"); a.Header.Get("Content-Encoding") != "" {
		t.Error("a short answer is compressed")
	}
}
