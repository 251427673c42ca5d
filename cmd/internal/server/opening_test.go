package server

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
	"github.com/freshet/freshet/web"
)

// TestOpening checks what a node answers before it is open: /healthz and /readyz at once, others when
// it opens or after openingWait. A stream is then cut, because browsers give up after an error.
func TestOpening(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		o := newOpening("n1", web.NotReady(web.Site{PublicURL: "http://example.com"}, slog.New(slog.DiscardHandler), "it waits"))
		o.next = &nodeHandler{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusTeapot) }),
			peers: &peers{member: new(member)}}
		ask := func(path, accept string) (status int, waited time.Duration) {
			r, w, began := httptest.NewRequest("GET", path, nil), httptest.NewRecorder(), time.Now()
			r.Header.Set("Accept", accept)
			defer func() {
				if recover() == http.ErrAbortHandler {
					status, waited = 0, time.Since(began)
				}
			}()
			o.ServeHTTP(w, r)
			return w.Code, time.Since(began)
		}
		check := func(path, accept string, status int, waits time.Duration) {
			t.Helper()
			if got, waited := ask(path, accept); got != status || waited != waits {
				t.Errorf("%s: %d after %v, expected %d after %v", path, got, waited, status, waits)
			}
		}
		check("/healthz", "*/*", http.StatusOK, 0)
		check("/readyz", "*/*", http.StatusServiceUnavailable, 0)
		check("/v1/queries", "*/*", http.StatusServiceUnavailable, openingWait)
		check("/v1/queries/q/events", "text/event-stream", 0, openingWait)
		time.AfterFunc(openingWait/2, func() { close(o.opened) })
		check("/v1/queries", "*/*", http.StatusTeapot, openingWait/2)
		check("/readyz", "*/*", http.StatusTeapot, 0)
	})
}
