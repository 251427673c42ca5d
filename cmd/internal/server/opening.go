// This file answers requests while the node of a cluster waits for its journal.

package server

import (
	"net/http"
	"strings"
	"time"
)

// openingWait is how long a request waits for a node that opens. A restart takes less, so clients do
// not notice it.
const openingWait = 10 * time.Second

// An opening handler is the handler of a node from the moment it listens. Requests about health have
// an answer at once. Others wait until the node is open.
type opening struct {
	node    string
	opened  chan struct{} // closed when the node is open
	next    *nodeHandler  // from then on
	waiting http.Handler  // until then
	served  chan error    // gets the result of accept
}

func newOpening(node string, waiting http.Handler) *opening {
	return &opening{node: node, opened: make(chan struct{}), served: make(chan error, 1), waiting: waiting}
}

func (o *opening) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(nodeHeader, o.node)
	wait := openingWait
	if r.URL.Path == "/healthz" || r.URL.Path == "/readyz" {
		wait = 0
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-o.opened:
	case <-r.Context().Done():
		return
	case <-t.C:
		select {
		case <-o.opened:
		default:
			if r.Header.Get("Upgrade") != "" || strings.Contains(r.Header.Get("Accept"), "text/event-stream") {
				panic(http.ErrAbortHandler) // a browser connects again after this, but not after an error
			}
			o.waiting.ServeHTTP(w, r)
			return
		}
	}
	o.next.ServeHTTP(w, r)
}
