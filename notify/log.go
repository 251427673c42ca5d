// Package notify tells subscribers what changed. A subscriber is a cursor over
// the durable change log: the hub carries wake-ups and never data, so following
// live and resuming after a gap are one loop.
//
// # What a connection and a message cost
//
// An idle WebSocket connection with one subscription is one goroutine on the
// smallest stack. A change is read from the log, unpacked and written as JSON once
// for all followers of a query; after that a message is a copy into a shared
// buffer and one write(2) that does not wait. Senders, as many as processors, do
// that; who has to wait for a client leaves them and is replaced.
//
//	go test ./notify -run '^$' -bench 'Idle|Delivery|Coalescing' -benchtime 30x
//
// on a virtual machine with two Xeon processors, linux/amd64, go1.26, clients in a
// process of their own (idle connections measured while it was busy, messages
// while it was not):
//
//	10,000 idle connections        6.2 KB of heap and stack each (2.1 of them
//	                               stack), 8.2 KB of resident memory
//	a message, processor time of the server per message as a ratio to a bare
//	write(2) of the same bytes to the same sockets, by as many goroutines as
//	there are processors:
//	  1 change to      1 follower      613 B 1.82     11 KB 2.13
//	  1 change to    100 followers     613 B 1.44     11 KB 1.65
//	  1 change to  1,000 followers     613 B 1.36     11 KB 1.49
//	  1 change to 10,000 followers     613 B 1.53     11 KB 1.41
//	  100 changes to 1 follower each   615 B 2.60     11 KB 4.51
//	  100 queries on one connection    615 B 1.76     11 KB 4.30
//	one net change instead of 17     1/7 of the bytes; of 64, 1/26; of 500, 1/200
//	                               (ten of a hundred rows change in turn)
//
// The ratios vary by a fifth from run to run. Finding, filling and writing a
// message takes 2 to 3.5 µs besides the kernel's part of the write, which is 4 to
// 6 µs: so the ratio stays above 1.3 where a write is that cheap. Where no client
// shares a change, reading and writing it down, 8 µs for one row and 25 µs for a
// hundred, falls to one message. With TLS every write may wait, so each takes a
// goroutine for its time; the figures are without.
package notify

import (
	"context"
	"errors"

	"github.com/freshet/freshet/notify/cursor"
	"github.com/freshet/freshet/registry"
)

// A Log is the committed history of all queries.
type Log = cursor.Log

// A Registrar resolves and registers what subscribers name.
type Registrar interface {
	// Resolve finds a query by id, by the caller's own name for it, or by any
	// holder's, and says registry.ErrNotFound otherwise.
	Resolve(caller registry.Caller, ref string) (registry.Query, error)
	// Follow registers a query for a live subscription and returns a function
	// that ends the hold: the registration is released 24 h after the last one.
	// An error that wraps ErrRefused says what the caller has to change, one
	// that wraps ErrLimit that there are too many; their texts are shown to the
	// caller. Any other error is logged, and the caller told to try later.
	Follow(ctx context.Context, caller registry.Caller, endpoint, sparql string) (registry.Query, func(), error)
}

// Errors that Registrar and Gate return, wrapped.
var (
	ErrUnauthorized = registry.ErrUnauthorized
	ErrRefused      = errors.New("refused")
	ErrLimit        = errors.New("too many")
)

// A Gate lets callers in.
type Gate interface {
	// Authenticate returns the caller that a token stands for; an empty token is
	// Anonymous where the server asks for none. It wraps ErrUnauthorized, or
	// registry.ErrGuessing where too many wrong tokens came from the address
	// (registry.ClientAddress; "" for tokens that are checked once more).
	Authenticate(from, token string) (registry.Caller, error)
}
