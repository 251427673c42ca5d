package notify

import (
	"cmp"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// Options holds the dependencies and settings of a Server. All but Origins, Limits and Timing are required.
type Options struct {
	Log       Log
	Waker     *Waker
	Registrar Registrar
	Gate      Gate
	// Head is the offset of the newest change of all.
	Head func() (registry.Offset, error)
	// Confirm is called before a result begins a subscription. Its error means that this node of
	// a cluster may not have the newest one.
	Confirm func() error
	// Due predicts when a query of an endpoint runs next, zero if that cannot be
	// predicted.
	Due func(endpoint, query string) (time.Time, error)
	// Halted returns why the results of an endpoint may no longer be true, "" if it keeps them up to date. It must not
	// block. When that begins or ends, the followers of the endpoint's queries are woken, or their heartbeat finds it.
	Halted func(endpoint string) string
	// Proved says until when a feed proves the result of a query at a position, zero if it does not, or if that is not
	// its newest result.
	Proved   func(query string, at registry.Position) time.Time
	Captures Captures
	// ResolveProfile finds a profile by id or name and wraps registry.ErrNotFound.
	ResolveProfile func(caller registry.Caller, ref string) (registry.Profile, error)
	PublicURL      string
	Origins        []string // browsers from elsewhere that may connect, e.g. https://app.example.org
	Limits         Limits
	Timing         Timing
	Logger         *slog.Logger
}

// Limits bounds what one client can use. Zero fields get the default.
type Limits struct {
	Connections   int     // of all clients together, SSE included; 0 = no limit
	OneAddress    int     // connections of one address except loopback; 0 = no limit
	Message       int64   // bytes of a client's message, default 1 MiB
	Subscriptions int     // of one connection, default 1000
	Window        int     // unacknowledged messages of a subscription, default 16
	Change        int64   // bytes of a change sent as such, default 8 MiB; less than 0: no limit
	Part          int     // bytes of one part of a snapshot, about; default 32 KiB
	Fold          int     // waiting changes sent one by one, default 16; more are folded
	Rate          float64 // messages per second that a client may send, control frames included, default 100; ack is free
	Burst         int     // default 2000
}

// Timing holds intervals and time limits. Zero fields get the default.
type Timing struct {
	Init  time.Duration // until init, default 10 s
	Idle  time.Duration // without a subscription, of a client without a token and of SEPA; default 30 s
	Ping  time.Duration // between pings and between heartbeats, default 25 s
	Read  time.Duration // silence of a client after which it is gone, default 60 s
	Write time.Duration // a blocked write, default 10 s
	Close time.Duration // waiting for the client's answer to a close, default 2 s
	Retry time.Duration // after which an EventSource comes back, default 2 s
}

func (o *Options) fill() {
	l, t := &o.Limits, &o.Timing
	l.Message = cmp.Or(l.Message, 1<<20)
	l.Subscriptions = cmp.Or(l.Subscriptions, 1000)
	l.Window = cmp.Or(l.Window, 16)
	l.Change = cmp.Or(l.Change, 8<<20)
	l.Part = cmp.Or(l.Part, 32<<10)
	l.Fold = cmp.Or(l.Fold, 16)
	l.Rate = cmp.Or(l.Rate, 100)
	l.Burst = cmp.Or(l.Burst, 2000)
	t.Init = cmp.Or(t.Init, 10*time.Second)
	t.Idle = cmp.Or(t.Idle, 30*time.Second)
	t.Ping = cmp.Or(t.Ping, 25*time.Second)
	t.Read = cmp.Or(t.Read, 60*time.Second)
	t.Write = cmp.Or(t.Write, 10*time.Second)
	t.Close = cmp.Or(t.Close, 2*time.Second)
	t.Retry = cmp.Or(t.Retry, 2*time.Second)
}

// Bearer returns the token of a request's Authorization header, "" if there is none.
func Bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
