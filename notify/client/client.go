// Package client follows a query of a Freshet server over its WebSocket. It is the
// reference for clients: how to update a result with deltas, when to drop it, and how
// to reconnect without missing or repeating a change.
//
//	err := client.Follow(ctx, client.Options{Server: "http://127.0.0.1:8080", Query: "departures"},
//		func(e client.Event) error {
//			if e.Result != nil { // nil until the first result is there
//				fmt.Printf("%s: %d rows\n", e.State.Position(), e.Result.Len())
//			}
//			return nil
//		})
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/diff"
)

// Options says what to follow and where. Server and either Query or SPARQL are
// required.
type Options struct {
	Server string // http(s):// or ws(s):// address, with or without /v1/live
	Token  string
	Query  string // id or name of a registered query
	// Endpoint and SPARQL register a query and follow it, which needs the role app. An
	// empty Endpoint is the server's default.
	Endpoint, SPARQL string
	// From is where an earlier Follow stopped; nil begins with the current result.
	From *State
	// Ack acknowledges every message, so that at most a window of messages is
	// unacknowledged.
	Ack  bool
	Rate time.Duration // at most one message in this time; 0: as they come
	// MinBackoff and MaxBackoff bound the pause between attempts to connect;
	// defaults 200 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	Dialer                 *websocket.Dialer // nil: websocket.DefaultDialer's settings
	// Trouble, if set, is called with the reason whenever a connection ends and is retried.
	Trouble func(error)
}

// A Kind is the kind of an Event.
type Kind string

// The kinds of events. Snapshot, Delta and Alive bring a new State.
const (
	Subscribed Kind = "subscribed" // also after every reconnect
	Snapshot   Kind = "snapshot"   // Result replaces whatever there was
	Delta      Kind = "delta"      // Result is the one before with Delta applied
	Alive      Kind = "alive"      // nothing changed up to CheckedAt
	Status     Kind = "status"     // State "live" or "stale"
)

// An Event is one thing that happened to the followed query.
type Event struct {
	Kind   Kind
	State  State
	Result *diff.Result // nil before the first result
	Delta  *diff.Delta  // Kind Delta only
	Prev   uint64       // Kind Delta only: the step is (Prev, State.Seq]

	Resumed   bool   // Kind Subscribed: the stream continues from where it was
	Empty     bool   // Kind Subscribed: the query has no result yet
	Reason    string // Kind Subscribed: why it could not continue; Kind Status: stale, failing or idle
	Health    string // Kind Status: live or stale
	Error     string // Kind Status: what the last execution met, or why the endpoint keeps no result up to date
	Time      time.Time
	CheckedAt time.Time
	Raw       json.RawMessage // the message itself; the last part of a snapshot
}

// A State is everything that must be kept to resume later, even in another process.
type State struct {
	Query    string    `json:"query"` // id
	Epoch    string    `json:"epoch"`
	Seq      uint64    `json:"seq"`
	Form     diff.Form `json:"form"`
	Ordered  bool      `json:"ordered,omitempty"`
	Document []byte    `json:"document,omitempty"` // canonical bytes of the result
}

// Position returns the position in the form that URLs use.
func (s State) Position() string { return fmt.Sprintf("%s:%d", s.Epoch, s.Seq) }

// A RefusedError is a refusal of the server that is not worth retrying.
type RefusedError struct{ Code, Message string }

func (e *RefusedError) Error() string { return e.Code + ": " + e.Message }

// ErrCompleted reports that the subscription ended: the query has no holder any more,
// or an operator ended the subscription.
var ErrCompleted = errors.New("the subscription ended")

// Follow calls fn for every event until ctx ends, fn returns an error, the query ends
// (ErrCompleted), or the server refuses permanently: a *RefusedError, or a
// *websocket.CloseError with a code of 44xx. It reconnects and resumes after lost
// connections. fn is called by one goroutine at a time. While it runs, nothing is
// read, so the server treats a slow fn as a slow reader.
func Follow(ctx context.Context, o Options, fn func(Event) error) error {
	f, err := newFollower(o, fn)
	if err != nil {
		return err
	}
	pause := f.opts.MinBackoff
	for {
		started := time.Now()
		err := f.connect(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if final(err) {
			return err
		}
		if f.opts.Trouble != nil {
			f.opts.Trouble(err)
		}
		if f.progressed || time.Since(started) > f.opts.MaxBackoff {
			pause = f.opts.MinBackoff
		}
		// The server asks all clients to come back at the same moment: spread out.
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(2*pause, f.opts.MaxBackoff)
	}
}

// A handlerError is an error that fn returned.
type handlerError struct{ err error }

func (e *handlerError) Error() string { return e.err.Error() }
func (e *handlerError) Unwrap() error { return e.err }

// final reports whether a retry cannot succeed.
func final(err error) bool {
	var mine *handlerError
	var refused *RefusedError
	var closed *websocket.CloseError
	switch {
	case errors.As(err, &mine), errors.As(err, &refused), errors.Is(err, ErrCompleted):
		return true
	case errors.As(err, &closed):
		return closed.Code >= 4400 && closed.Code < 4500
	}
	return false
}

func newFollower(o Options, fn func(Event) error) (*follower, error) {
	address, err := liveURL(o.Server)
	if err != nil {
		return nil, err
	}
	if (o.Query == "") == (o.SPARQL == "") {
		return nil, errors.New("follow needs either a query or SPARQL text")
	}
	if o.MinBackoff <= 0 {
		o.MinBackoff = 200 * time.Millisecond
	}
	if o.MaxBackoff <= 0 {
		o.MaxBackoff = 30 * time.Second
	}
	f := &follower{opts: o, address: address, fn: fn}
	if o.From != nil {
		err = f.load(*o.From)
	}
	return f, err
}

func liveURL(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return "", fmt.Errorf("server address: %w", err)
	}
	switch u.Scheme {
	case "http":
		u.Scheme = "ws"
	case "https":
		u.Scheme = "wss"
	case "ws", "wss":
	default:
		return "", fmt.Errorf("server address %q does not begin with http:// or https://", server)
	}
	if !strings.HasSuffix(u.Path, "/v1/live") {
		u.Path = strings.TrimSuffix(u.Path, "/") + "/v1/live"
	}
	return u.String(), nil
}

func (f *follower) dialer() *websocket.Dialer {
	d := websocket.Dialer{Proxy: http.ProxyFromEnvironment, HandshakeTimeout: 20 * time.Second}
	if f.opts.Dialer != nil {
		d = *f.opts.Dialer
	}
	d.Subprotocols = []string{"freshet.v1"}
	return &d
}
