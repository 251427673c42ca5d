package notify

import (
	"context"
	"errors"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// Subprotocol is the WebSocket subprotocol of Server.
const Subprotocol = "freshet.v1"

// A Server pushes changes to WebSocket and SSE clients. As an http.Handler it
// is the WebSocket endpoint /v1/live; Changes and All answer SSE requests.
type Server struct {
	listing // of what connected clients follow

	opts    Options
	results *results
	pages   onceCache[documentKey, []registry.Change]
	tables  onceCache[documentKey, *tableRows]

	documents *Documents
	folds     chan struct{} // see foldPlaces
	reader    cursor.Reader
	limited   cursor.Rules // a net change above Limits.Change gives way to a snapshot
	unlimited cursor.Rules
	strict    cursor.Rules // limited, and so does a single change
	counts    counts
	buffers   sync.Pool // of *[]byte, for what is about to be written
	up        websocket.Upgrader

	drain    chan struct{} // closed when the server goes down
	draining sync.Once

	mu       sync.Mutex // guards closed together with wg.Add, and sessions
	closed   bool
	sessions map[*Conn]struct{}
	recheck  chan struct{} // closed by the next Recheck

	addresses map[string]int // connections of each address
	wg        sync.WaitGroup

	connections, subscriptions atomic.Int64
	sent, folded, slow         atomic.Uint64
}

// NewServer returns a server that is ready to be mounted.
func NewServer(o Options) *Server {
	o.fill()
	s := &Server{
		opts:    o,
		results: newResults(o.Log),
		tables:  onceCache[documentKey, *tableRows]{capacity: keepTables},

		documents: NewDocuments(),
		folds:     foldPlaces(),
		buffers:   sync.Pool{New: func() any { return new([]byte) }},
		drain:     make(chan struct{}),

		sessions:  make(map[*Conn]struct{}),
		addresses: make(map[string]int),
		recheck:   make(chan struct{}),
		up: websocket.Upgrader{
			WriteBufferSize: 4096,
			WriteBufferPool: &sync.Pool{},
			CheckOrigin:     func(*http.Request) bool { return true }, // ServeHTTP answers with a close code
			Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
				problem(w, status, "malformed", reason.Error())
			},
		},
		limited:   cursor.Rules{Fold: o.Limits.Fold, Limit: o.Limits.Change},
		unlimited: cursor.Rules{Fold: o.Limits.Fold},
		strict:    cursor.Rules{Fold: o.Limits.Fold, Limit: o.Limits.Change, Single: true},
	}
	s.reader = cursor.Reader{Log: o.Log, Head: o.Head, Share: s.sharePage, Long: s.longFold}
	return s
}

// Current implements Log. Callers that ask for the same result share one copy while
// any of them uses it, so many slow readers of a large result need the memory of one.
func (s *Server) Current(query string, withResult bool) (registry.Status, *diff.Result, error) {
	if !withResult {
		return s.opts.Log.Current(query, false)
	}
	return s.results.current(query)
}

// After implements Log. Callers that ask for the same page share one copy, which must
// not be modified.
func (s *Server) After(query string, p registry.Position, limit int) ([]registry.Change, error) {
	st, _, err := s.opts.Log.Current(query, false)
	if err != nil || p.Epoch != st.Position.Epoch || p.Seq >= st.Position.Seq {
		return s.opts.Log.After(query, p, limit)
	}
	return s.pages.get(documentKey{changeKey{query, p.Epoch, p.Seq, st.Position.Seq}, strconv.Itoa(limit)}, func() ([]registry.Change, error) {
		return s.opts.Log.After(query, p, limit)
	}, pageWeight)
}

// Documents returns the bodies of what the server sends, for other protocols.
func (s *Server) Documents() *Documents { return s.documents }

// Stats counts what a server does.
type Stats struct {
	Connections   int64  // open now, WebSocket and SSE
	Subscriptions int64  // open now, WebSocket
	Sent          uint64 // changes and snapshots written since the start
	Folded        uint64 // changes that went out as part of another
	Slow          uint64 // connections whose reader was too slow
}

// Stats returns the current counts.
func (s *Server) Stats() Stats {
	return Stats{s.connections.Load(), s.subscriptions.Load(), s.sent.Load(), s.folded.Load(), s.slow.Load()}
}

// Shutdown closes all connections with 4004, so that clients reconnect to the next
// server and resume. It returns when they are gone. If ctx ends before that, it cuts
// the remaining connections and returns the error of ctx. New clients get 503.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Do(s.beginDrain)
	gone := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
		s.cut()
		<-gone
		return ctx.Err()
	}
}

// cut ends all connections at once.
func (s *Server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.cut()
	}
}

// beginDrain refuses new clients and ends all sessions.
func (s *Server) beginDrain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	close(s.drain)
	for e := range s.sessions {
		e.drain()
	}
}

// Recheck checks the tokens of all connections again after tokens have changed.
// Otherwise they are checked at every heartbeat.
func (s *Server) Recheck() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.recheck)
	s.recheck = make(chan struct{})
	for e := range s.sessions {
		e.checkToken()
	}
}

// Rechecked is closed by the next Recheck.
func (s *Server) Rechecked() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recheck
}

// sharePage reads a page once for all cursors that take the same step. The page must
// not be modified.
func (s *Server) sharePage(query string, from, newest registry.Position, read func() ([]registry.Change, error)) ([]registry.Change, error) {
	return s.pages.get(documentKey{changeKey: changeKey{query, newest.Epoch, from.Seq, newest.Seq}}, read, pageWeight)
}

func pageWeight(page []registry.Change) int {
	n := len(page) * 512
	for i := range page {
		n += int(cursor.DeltaSize(page[i].Delta))
	}
	return n
}

// foldPlaces limits how many readers add up more than a page of the log at a time.
// Each keeps a processor busy; one processor stays free.
func foldPlaces() chan struct{} { return make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1)) }

// longFold waits for a place, or for the end of ctx.
func (s *Server) longFold(ctx context.Context) (leave func()) {
	select {
	case s.folds <- struct{}{}:
		return func() { <-s.folds }
	case <-ctx.Done():
		return func() {}
	}
}

// elsewhere returns what to tell a client whose request another node may answer, or this one later, "" for
// other errors.
func elsewhere(err error) string {
	if p := (*registry.Problem)(nil); errors.As(err, &p) && p.Kind == registry.KindUnavailable {
		return p.Detail
	}
	return ""
}

// unavailable logs an internal error and returns a refusal without its details. It ends the connection to
// a node that is cut off from its cluster, because another node can answer.
func (s *Server) unavailable(doing string, err error) error {
	if err == nil {
		return nil
	}
	s.opts.Logger.Error(doing, "error", err)
	if elsewhere(err) != "" {
		return &closing{CloseElsewhere, "not available at this node: connect to another one, or again later"}
	}
	return &refusal{code: CodeUnavailable, message: "not now; try again later", retryAfter: 5 * time.Second}
}

// admit counts a new client. ok is false once the server is shutting down.
func (s *Server) admit(r *http.Request) (p admission, ok bool) {
	p.from = registry.ClientAddress(r.RemoteAddr, r.Header["X-Forwarded-For"])
	if s.opts.Limits.OneAddress <= 0 || local(p.from) {
		p.from = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return p, false
	}
	s.wg.Add(1)
	n := s.connections.Add(1)
	if most := s.opts.Limits.Connections; most > 0 && n > int64(most) {
		p.refused = "too many connections"
	}
	if p.from != "" {
		if s.addresses[p.from]++; s.addresses[p.from] > s.opts.Limits.OneAddress {
			p.refused = "too many connections from this address"
		}
	}
	return p, true
}

func (s *Server) release(p admission) {
	if p.from != "" {
		s.mu.Lock()
		if s.addresses[p.from]--; s.addresses[p.from] == 0 {
			delete(s.addresses, p.from)
		}
		s.mu.Unlock()
	}
	s.connections.Add(-1)
	s.wg.Done()
}

// register adds or removes a connection, which ends with the server and checks changed tokens.
func (s *Server) register(e *Conn, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !on:
		delete(s.sessions, e)
	case s.closed:
		e.drain()
	default:
		s.sessions[e] = struct{}{}
	}
}
