package ui

import (
	"context"
	"html/template"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/web"
)

// counting is a document that counts how often it is written.
type counting struct {
	*notify.Documents
	written atomic.Int64
}

func (c *counting) Open(class, key string, write func(io.Writer) (any, error)) (web.Document, any, error) {
	doc, about, err := c.Documents.Open(class, key, func(w io.Writer) (any, error) {
		c.written.Add(1)
		return write(w)
	})
	if err != nil {
		return nil, nil, err
	}
	return doc, about, nil
}

// TestLongValuesAreShared checks that many clients of a large value share one copy.
func TestLongValuesAreShared(t *testing.T) {
	docs := &counting{Documents: notify.NewDocuments()}
	r := newRigWith(t, func(_ *rig, c *Config) { c.Documents = docs })
	long := strings.Repeat("long ", 300_000)
	q := r.history("n", table(t, [2]diff.Term{iri("a"), lit(long)}), r.numbers(1))
	paths := []string{"/result?b=1&row=0&col=1", "/changes/1/value?side=added&row=0&col=1",
		"/difference?a=2&b=1&side=added&row=0&col=1", "/result?b=1&row=0&col=0", "/text"}
	for i, path := range paths {
		for range 3 {
			if got := r.get(queryPath(q.ID) + path).status(200).body; i < 3 && got != long {
				t.Errorf("%s: %d bytes, want %d", path, len(got), len(long))
			}
		}
		if n := docs.written.Load(); n != int64(i+1) {
			t.Errorf("%s: %d texts written, want %d", path, n, i+1)
		}
	}
}

// TestPagePacked checks that a browser without support for compression gets the same page.
func TestPagePacked(t *testing.T) {
	r := newRigWith(t, func(_ *rig, c *Config) { c.Now = func() time.Time { return time.Unix(1e9, 0) } })
	want := r.get("/queries").status(200)
	plain := r.get("/queries", "Accept-Encoding: identity").status(200)
	if !want.Uncompressed || plain.body != want.body || plain.Header.Get("Content-Length") != strconv.Itoa(len(want.body)) {
		t.Errorf("%d bytes without compression of %s, %d with it", len(plain.body), plain.Header.Get("Content-Length"), len(want.body))
	}
}

// TestPageThatFails checks that a page that cannot be completed becomes an error page, however much
// of it was built.
func TestPageThatFails(t *testing.T) {
	r := newRig(t)
	r.pages.templates = maps.Clone(r.pages.templates) // the servers of other tests have the same
	r.pages.templates["about"] = template.Must(template.New("layout").Parse(`{{define "layout"}}` +
		strings.Repeat("first ", 100_000) + `{{.NotThere}}{{end}}`))
	r.get("/about").status(http.StatusInternalServerError).has("The fault is the server").lacks("first")
}

// TestPagesBuiltAtATime checks that a request waits for one of the places in which pages are built,
// and frees its place before it waits for its browser.
func TestPagesBuiltAtATime(t *testing.T) {
	r := newRig(t)
	places := cap(r.pages.builds)
	for range places {
		r.pages.builds <- struct{}{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	w := httptest.NewRecorder()
	r.pages.ServeHTTP(w, httptest.NewRequest("GET", "/about", nil).WithContext(ctx))
	if w.Body.Len() > 0 {
		t.Errorf("a page without a place: %s", w.Body)
	}
	<-r.pages.builds
	held := &heldWriter{ResponseRecorder: httptest.NewRecorder(), builds: func() int { return len(r.pages.builds) }}
	r.pages.ServeHTTP(held, httptest.NewRequest("GET", "/about", nil))
	if held.Code != 200 || held.most != places-1 {
		t.Errorf("status %d, %d places taken while the page was sent, want %d", held.Code, held.most, places-1)
	}
}

// A heldWriter records how many pages are built while one is sent.
type heldWriter struct {
	*httptest.ResponseRecorder
	builds func() int
	most   int
}

func (h *heldWriter) Write(b []byte) (int, error) {
	h.most = max(h.most, h.builds())
	return h.ResponseRecorder.Write(b)
}
