// Package live serves WebSocket connections: those that speak freshet.v1, and those of other protocols.
//
// A connection has one goroutine that reads, and one for each subscription, which follows a
// stream. What they add is gathered, so that the changes of a commit are written together.
package live

import (
	"net/http"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// Subprotocol is the WebSocket subprotocol of Server.
const Subprotocol = "freshet.v1"

// mostStranger bounds messages until init has brought a valid token, in bytes: strangers do not make the server hold more.
const mostStranger = 16 << 10

// A Server is the handler of /v1/live.
type Server struct {
	hub     *notify.Server
	opts    *notify.Options
	up      websocket.Upgrader
	buffers sync.Pool // of *[]byte, for what is about to be written
}

// New returns a server of connections that end with a hub.
func New(hub *notify.Server) *Server {
	return &Server{hub: hub, opts: hub.Options(), buffers: sync.Pool{New: func() any { return new([]byte) }}, up: websocket.Upgrader{
		WriteBufferSize: 4096,
		WriteBufferPool: &sync.Pool{},
		CheckOrigin:     func(*http.Request) bool { return true }, // Accept answers with a close code
		Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
			notify.Problem(w, status, registry.KindMalformed, reason.Error())
		},
	}}
}

// Confirm returns an error if this node of a cluster may lack something that is committed.
func (s *Server) Confirm() error { return s.opts.Confirm() }

// ServeHTTP upgrades a request to a connection that speaks freshet.v1.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Accept(w, r, registry.WebSocket, Subprotocol, func(c *Conn) Protocol {
		c.Bound(mostStranger)
		return &liveConn{Conn: c, subs: make(map[string]*subscription), due: time.Now().Add(s.opts.Timing.Init),
			login: login{from: registry.ClientAddress(r.RemoteAddr, r.Header["X-Forwarded-For"]), token: notify.Bearer(r),
				sent: len(r.Header["Authorization"]) > 0}}
	})
}

// unavailable logs an internal error and returns a refusal without its details. It ends the connection to
// a node that is cut off from its cluster, because another node can answer.
func (s *Server) unavailable(doing string, err error) error {
	if err == nil {
		return nil
	}
	s.opts.Logger.Error(doing, "error", err)
	if notify.Elsewhere(err) != "" {
		return errElsewhere
	}
	return &refusal{code: CodeUnavailable, message: "not now; try again later", retryAfter: 5 * time.Second}
}

var errElsewhere = &closing{CloseElsewhere, "not available at this node: connect to another one, or again later"}

// The forms of messages.
var (
	member    = notify.Member
	frame     = notify.Message
	orNil     = notify.OrNil
	timeOrNil = notify.TimeOrNil
)

type field = notify.Field
