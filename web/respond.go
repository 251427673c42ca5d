package web

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
)

// lent answers with a document. describe, unless nil, sets headers once the document exists.
func (c *call) lent(typ, class, key string, describe func(), write func(io.Writer) error) error {
	return Lend(c.w, c.r, c.Documents, typ, class, key, describe, write)
}

// Lend answers with a document that concurrent requests share. describe, unless nil, sets headers once the document
// exists.
func Lend(w http.ResponseWriter, r *http.Request, from Documents, typ, class, key string, describe func(),
	write func(io.Writer) error) error {
	doc, _, err := from.Open(class, key, func(w io.Writer) (any, error) { return nil, write(w) })
	if err != nil {
		return err
	}
	defer doc.Close()
	if describe != nil {
		describe()
	}
	return sendDocument(w, r, typ, doc)
}

// begin sends the header of an answer, and reports whether its body follows.
func begin(w http.ResponseWriter, r *http.Request, status int, typ string, size int) bool {
	h := w.Header()
	h.Set("Content-Type", typ)
	h.Set("Content-Length", strconv.Itoa(size))
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(status)
	return r.Method != http.MethodHead
}

func sendDocument(w http.ResponseWriter, r *http.Request, typ string, doc Document) error {
	if !begin(w, r, http.StatusOK, typ, doc.Size()) {
		return nil
	}
	if _, err := doc.WriteTo(patient(w)); err != nil {
		panic(http.ErrAbortHandler) // the client has disconnected, or the document cannot be completed
	}
	return nil
}

// json answers with v as JSON.
func (c *call) json(status int, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // people read query texts here; the type keeps browsers from taking it for a page
	if err := e.Encode(v); err != nil {
		return err
	}
	return c.bytes(status, "application/json", b.Bytes())
}

func (c *call) text(status int, s string) error {
	return c.bytes(status, "text/plain; charset=utf-8", []byte(s))
}

func (c *call) bytes(status int, typ string, b []byte) error {
	b = Packed(c.w.Header(), c.r, b)
	if !begin(c.w, c.r, status, typ, len(b)) {
		return nil
	}
	w := io.Writer(c.w)
	if c.route.stream { // has no deadline yet
		w = patient(c.w)
	}
	_, _ = w.Write(b) // an error means that the client is gone
	return nil
}

// noContent answers without a body unless the action failed.
func (c *call) noContent(err error) error {
	if err != nil {
		return err
	}
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// url returns the absolute URL of a path on this server. The caller escapes its parts.
func (s *server) url(path string) string { return s.base + path }

// topic sets the header of a WebSub topic: a hub link, and one self link to this very
// representation.
func (c *call) topic(q registry.Query, path, tag string, changed time.Time) {
	c.linkHub()
	c.linkSelf("/v1/queries/"+url.PathEscape(q.ID)+path, tag, changed, q.Public())
}

// pastAge is how long caches may keep a past state. It never changes, but it may be
// removed, and a token may be revoked.
const pastAge = 24 * time.Hour

// pastCaching is the Cache-Control of a past state of a query. fixed means that its
// address names it for ever, and that it is not the newest.
func pastCaching(q registry.Query, fixed bool) string {
	switch {
	case !fixed && q.Public():
		return "no-cache"
	case !fixed:
		return "private, no-cache"
	case q.Public():
		return fmt.Sprintf("public, max-age=%d, immutable", int(pastAge.Seconds()))
	}
	return fmt.Sprintf("private, max-age=%d, immutable", int(pastAge.Seconds()))
}

func (c *call) linkHub() { c.w.Header().Add("Link", "<"+c.url("/v1/hub")+`>; rel="hub"`) }

func (c *call) linkSelf(self, tag string, changed time.Time, public bool) {
	h := c.w.Header()
	h.Set("ETag", tag)
	h.Set("Last-Modified", changed.UTC().Format(http.TimeFormat))
	h.Add("Link", "<"+c.url(self)+`>; rel="self"`)
	h.Set("Cache-Control", "private, no-cache")
	if public {
		h.Set("Cache-Control", "no-cache")
	}
}

// A patientWriter gives the client slowestPiece for each piece and no limit in total, so
// that a slow reader gets everything and a blocked one is disconnected.
type patientWriter struct {
	w  io.Writer
	rc *http.ResponseController
}

const (
	pieceSize    = 64 << 10
	slowestPiece = 30 * time.Second
)

func patient(w http.ResponseWriter) io.Writer {
	return &patientWriter{w, http.NewResponseController(w)}
}

func (p *patientWriter) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		_ = p.rc.SetWriteDeadline(time.Now().Add(slowestPiece))
		n, err := p.w.Write(b[done:min(done+pieceSize, len(b))])
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// errSuperseded reports that the version being sent is no longer the current one.
var errSuperseded = errors.New("another version came meanwhile")

// current answers with the current version of a resource. If a newer version appears
// before the response has started, it starts again with that one.
func (c *call) current(answer func() error) error {
	const most = 5
	for try := 1; ; try++ {
		if err := answer(); !errors.Is(err, errSuperseded) || try == most {
			return err
		}
	}
}

// reply answers with v as JSON unless reading it failed.
func (c *call) reply(status int, v any, err error) error {
	if err != nil {
		return err
	}
	return c.json(status, v)
}

// page answers with one page of a list. It links the next page, which has the same
// parameters with a new cursor.
func (c *call) page(member string, views any, next string, keep ...string) error {
	body := map[string]any{member: views}
	if next != "" {
		body["next"] = next
		c.linkNext(next, keep...)
	}
	return c.json(http.StatusOK, body)
}

func (c *call) linkNext(cursor string, keep ...string) {
	p := url.Values{"cursor": {cursor}}
	for _, k := range keep {
		if s := c.params.Get(k); s != "" {
			p.Set(k, s)
		}
	}
	c.w.Header().Set("Link", "<"+c.url(c.r.URL.EscapedPath()+"?"+p.Encode())+`>; rel="next"`)
}

// viewed returns the views of the elements of a list.
func viewed[T, V any](list []T, view func(T) (V, error)) ([]V, error) {
	views := make([]V, len(list))
	for i, x := range list {
		var err error
		if views[i], err = view(x); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// version answers with a document that is constant for its tag: the document, or the status
// that the request's conditions ask for. describe sets its header fields.
func (c *call) version(media, kind, key, tag string, changed time.Time, describe func(), write func(io.Writer) error) error {
	if err := c.expected(tag, changed); err != nil {
		return err
	}
	if c.unchanged(tag, changed) {
		describe()
		c.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return c.lent(media, kind, key, describe, write)
}

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

// Packed compresses a whole answer if the client takes that. An answer with an ETag stays as it is,
// because a strong one names these very bytes.
func Packed(h http.Header, r *http.Request, b []byte) []byte {
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
