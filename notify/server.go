package notify

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/notify/loan"
	"github.com/freshet/freshet/registry"
)

// A Server pushes changes to connected clients. Changes and All answer SSE requests, and package
// live serves WebSocket connections.
type Server struct {
	listing // of what connected clients follow

	opts   Options
	pages  loan.Cache[documentKey, []registry.Change]
	tables loan.Cache[documentKey, *tableRows]

	documents *Documents
	folds     chan struct{} // see foldPlaces
	reader    cursor.Reader
	limited   cursor.Rules // a net change above Limits.Change gives way to a snapshot
	unlimited cursor.Rules
	strict    cursor.Rules // limited, and so does a single change
	counts    counts

	down   context.Context // ends when the server goes down; read with mu before wg.Add
	goDown context.CancelFunc

	mu       sync.Mutex              // guards sessions
	sessions map[Connection]struct{} // connections
	recheck  chan struct{}           // closed by the next Recheck

	addresses map[string]int // connections of each address
	wg        sync.WaitGroup

	connections atomic.Int64
}

// NewServer returns a server that is ready to be mounted.
func NewServer(o Options) *Server {
	o.fill()
	s := &Server{
		opts:   o,
		pages:  loan.Cache[documentKey, []registry.Change]{Capacity: keepPages, Keep: keepTime},
		tables: loan.Cache[documentKey, *tableRows]{Capacity: keepTables, Keep: keepTime},

		documents: NewDocuments(),
		folds:     foldPlaces(),

		sessions:  make(map[Connection]struct{}),
		addresses: make(map[string]int),
		recheck:   make(chan struct{}),
		limited:   cursor.Rules{Fold: o.Limits.Fold, Limit: o.Limits.Change},
		unlimited: cursor.Rules{Fold: o.Limits.Fold},
		strict:    cursor.Rules{Fold: o.Limits.Fold, Limit: o.Limits.Change, Single: true},
	}
	s.down, s.goDown = context.WithCancel(context.Background())
	s.reader = cursor.Reader{Log: o.Log, Head: o.Head, Share: s.sharePage, Long: s.longFold}
	return s
}

// Proved returns until when a feed proves the result of a query at a position, zero if it does not.
func (s *Server) Proved(query string, at registry.Position) time.Time {
	return s.opts.Proved(query, at)
}

// Current implements Log. Callers that ask for the same result share one copy, so many slow
// readers of a large result need the memory of one.
func (s *Server) Current(query string, withResult bool) (registry.Status, *diff.Result, error) {
	st, _, err := s.opts.Log.Current(query, false)
	if err != nil || !withResult || st.Position.Seq == 0 {
		return st, nil, err
	}
	rows, err := s.table(query, st.Position, nil)
	if err != nil { // there is another result since
		return s.opts.Log.Current(query, true)
	}
	return st, rows.res, nil
}

// After implements Log. Callers that ask for the same page share one copy, which must
// not be modified.
func (s *Server) After(query string, p registry.Position, limit int) ([]registry.Change, error) {
	st, _, err := s.opts.Log.Current(query, false)
	if err != nil || p.Epoch != st.Position.Epoch || p.Seq >= st.Position.Seq {
		return s.opts.Log.After(query, p, limit)
	}
	return s.pages.Get(documentKey{changeKey{query, p.Epoch, p.Seq, st.Position.Seq}, strconv.Itoa(limit)}, func() ([]registry.Change, error) {
		return s.opts.Log.After(query, p, limit)
	}, pageWeight)
}

// Options returns the settings, with their defaults. They must not be changed.
func (s *Server) Options() *Options { return &s.opts }

// Documents returns the bodies of what the server sends, for other protocols.
func (s *Server) Documents() *Documents { return s.documents }

// Shutdown closes all connections with 4004, so that clients reconnect to the next
// server and resume. It returns when they are gone. If ctx ends before that, it cuts
// the remaining connections and returns the error of ctx. New clients get 503.
func (s *Server) Shutdown(ctx context.Context) error {
	s.beginDrain()
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

func (s *Server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.sessions {
		c.Cut()
	}
}

// beginDrain refuses new clients and ends all sessions.
func (s *Server) beginDrain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.goDown()
	for e := range s.sessions {
		e.Drain()
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
		e.Recheck()
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
func (s *Server) sharePage(query string, from, newest registry.Position, read func() ([]registry.Change,
	error)) ([]registry.Change, error) {
	return s.pages.Get(documentKey{changeKey: changeKey{query, newest.Epoch, from.Seq, newest.Seq}}, read, pageWeight)
}

// keepPages bounds the bytes of pages of the log that are kept for followers, and keepTime is how long what nothing asks for is
// kept, at least.
const (
	keepPages = 16 << 20
	keepTime  = 20 * time.Second
)

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

// Elsewhere returns what to tell a client whose request another node may answer, or this one later, "" for
// other errors.
func Elsewhere(err error) string {
	if p := (*registry.Problem)(nil); errors.As(err, &p) && p.Kind == registry.KindUnavailable {
		return p.Detail
	}
	return ""
}
