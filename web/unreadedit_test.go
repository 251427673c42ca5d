package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// An unreadWriter is the connection of a client that does not read.
type unreadWriter struct {
	http.ResponseWriter
	once    sync.Once
	written chan struct{} // closed by the first write
	release chan struct{}
}

func (u *unreadWriter) Write(b []byte) (int, error) {
	u.once.Do(func() { close(u.written) })
	<-u.release
	return u.ResponseWriter.Write(b)
}

// A client that does not read the answer to an edit does not delay other edits.
func TestUnreadAnswerHoldsUpNoEdit(t *testing.T) {
	w := newWorld(t)
	a, b := w.register(selectText), w.register(askText)
	profile := w.post("/v1/profiles", `{"items":[{"query":"`+a+`","when":{"every":"5m","slack":"1m"}}]}`).status(201).string("id")
	for _, path := range []string{"/v1/queries/" + a, "/v1/profiles/" + profile} {
		u := &unreadWriter{ResponseWriter: httptest.NewRecorder(), written: make(chan struct{}), release: make(chan struct{})}
		first := make(chan struct{})
		go func() {
			defer close(first)
			r := httptest.NewRequest("PATCH", "http://127.0.0.1:8080"+path, strings.NewReader(`{"weight":2}`))
			r.Header.Set("Content-Type", "application/merge-patch+json")
			w.h.ServeHTTP(u, r)
		}()
		<-u.written
		other := make(chan int)
		go func() {
			r := httptest.NewRequest("PATCH", "http://127.0.0.1:8080/v1/queries/"+b, strings.NewReader(`{"weight":3}`))
			r.Header.Set("Content-Type", "application/merge-patch+json")
			rec := httptest.NewRecorder()
			w.h.ServeHTTP(rec, r)
			other <- rec.Code
		}()
		select {
		case code := <-other:
			if code != http.StatusOK {
				t.Errorf("PATCH of another query: %d", code)
			}
			close(u.release)
		case <-time.After(longest):
			t.Errorf("PATCH %s was not read, and an edit of another query waits for it", path)
			close(u.release)
			<-other
		}
		<-first
	}
}
