package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"sync"
)

// TakesGzip reports whether a client accepts gzip.
func TakesGzip(r *http.Request) bool {
	for e := range strings.SplitSeq(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(e), ";")
		if q = strings.ReplaceAll(q, " ", ""); name == "gzip" && q != "q=0" && q != "q=0.0" {
			return true
		}
	}
	return false
}

// leastPacked is the number of bytes from which an answer is worth compressing.
const leastPacked = 1400

var packers = sync.Pool{New: func() any { w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed); return w }} // fails for unknown levels only

// packed compresses a whole answer if the client takes that. An answer with an ETag stays as it is,
// because a strong one names these very bytes.
func packed(h http.Header, r *http.Request, b []byte) []byte {
	if h.Get("ETag") != "" || len(b) < leastPacked {
		return b
	}
	h.Add("Vary", "Accept-Encoding")
	if !TakesGzip(r) {
		return b
	}
	h.Set("Content-Encoding", "gzip")
	var z bytes.Buffer
	w := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	w.Reset(&z)
	_, _ = w.Write(b) // writing to a buffer cannot fail
	_ = w.Close()
	return z.Bytes()
}
