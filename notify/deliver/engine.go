package deliver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// ErrStopped reports that the engine has ended.
var ErrStopped = errors.New("deliveries have stopped")

// A Target decides what the subscriptions of one way are sent.
type Target interface {
	// Next decides the next step of a subscription. Calls for one subscription
	// do not overlap, calls for several may. Next may wait only for the log and ctx.
	// An error that wraps ErrUnsupported is shown as a failure of the subscription.
	Next(ctx context.Context, s *registry.Subscription, now time.Time) (Step, error)
}

// A Step is an edit of the subscription, after which Next is asked again; or a
// call; or, when both are nil, nothing to do.
type Step struct {
	Edit func(s *registry.Subscription)
	Call *Call
	// With nothing to do, wake-ups before Hold are ignored, and Next is asked again
	// at At even without a wake-up.
	Hold, At time.Time
}

// A Call sends one message to a receiver.
type Call struct {
	// Send sends the message. HTTP makes the function for receivers that speak HTTP.
	Send func(ctx context.Context, c *Client) Reply
	// Since is when the message was made. The engine judges the reply and records the
	// verdict in the subscription, unless Since is zero.
	Since   time.Time
	Insist  bool   // the receiver needs this very message, so an answer such as 400 does not set it aside
	Asks    bool   // a question, such as a verification, which is not counted as a delivery
	Last    bool   // after success there is nothing to do before the next wake-up
	Release func() // called once the call is over; may be nil

	// Done records the reply in a transaction, after the engine. The subscription may have
	// been edited since Next. Done is not called when it has been deleted. It may be nil.
	Done func(s *registry.Subscription, r Reply)
}

// Options of an Engine. All but Limits, Timing and Schedule are required.
type Options struct {
	Store   Store
	Waker   *notify.Waker
	Guard   *Guard
	Targets map[registry.Way]Target
	// UserAgent of all requests.
	UserAgent string
	Limits    Limits
	Timing    Timing
	Schedule  Schedule
	Logger    *slog.Logger
	Now       func() time.Time
	// Writable returns an error that wraps registry.ErrReadOnly while the store
	// accepts no writes. No callback is called then, because its reply could not be
	// recorded.
	Writable func() error
	// Owns reports whether this process may call the callbacks of a host now.
	Owns func(host string) bool
	// Holds reports whether Owns is true, or may become true again soon. Recheck must be called
	// after it has become true for a host.
	Holds func(host string) bool
}

// Limits bound concurrent requests and their rate. Zero fields get the default.
type Limits struct {
	Wide    int     // requests at once to callbacks that answered well, default 256, three quarters of them for one caller
	Narrow  int     // requests at once to all others, default 64, half of them for one caller
	Hung    int     // requests at once to callbacks that were slow last time, default 32, half of them for one caller
	PerHost int     // requests at once to one host, default 16
	Rate    float64 // requests per second to one host, default 50
	Burst   int     // default 100
}

// Timing bounds the duration of a request. Zero fields get the default.
type Timing struct {
	Connect time.Duration // and the TLS handshake, default 5 s
	Header  time.Duration // until the answer begins, default 15 s
	Total   time.Duration // default 30 s
	Slow    time.Duration // a slower callback uses the places of those that hang, default 2 s
}

func (o *Options) fill() {
	l, t := &o.Limits, &o.Timing
	l.Wide = cmp.Or(l.Wide, 256)
	l.Narrow = cmp.Or(l.Narrow, 64)
	l.Hung = cmp.Or(l.Hung, 32)
	l.PerHost = cmp.Or(l.PerHost, 16)
	l.Rate = cmp.Or(l.Rate, 50)
	l.Burst = cmp.Or(l.Burst, 100)
	t.Connect = cmp.Or(t.Connect, 5*time.Second)
	t.Header = cmp.Or(t.Header, 15*time.Second)
	t.Total = cmp.Or(t.Total, 30*time.Second)
	t.Slow = cmp.Or(t.Slow, 2*time.Second)
	o.Schedule.fill()
}

// An Engine calls callbacks. Its methods may be called concurrently.
type Engine struct {
	turns
	client  *Client
	failed  chan error
	ended   atomic.Bool
	stats   struct{ sent, ok, failed atomic.Uint64 }
	tallies map[tallied]*WayStats // guarded by mu
	tries   *registry.Rates       // of callers
}

// The turns of the subscriptions: which of them may run when.
type turns struct {
	opts   *Options
	follow *notify.Follower
	serve  func(ctx context.Context, x *subscriber, probe bool) outcome // one turn

	mu          sync.Mutex
	subscribers map[string]*subscriber
	queries     map[string]map[*subscriber]struct{} // "": followers of all queries
	timers      timers
	seen        time.Time // when start last looked, by the wall clock
	limiters    [3]limiter
	holders     map[holder]int // number of subscriptions
	hosts       map[string]*host
	claims      map[string]claim // by id

	work    chan struct{} // there is something for the loop
	running sync.WaitGroup
}

// A holder is a caller with a way of delivery.
type holder struct {
	way    registry.Way
	caller string
}

// New returns an engine with all stored subscriptions. Run starts it.
func New(o Options) (*Engine, error) {
	o.fill()
	e := &Engine{tallies: make(map[tallied]*WayStats), tries: registry.NewRates(rate.Every(tryEvery), tryBurst), failed: make(chan error, 1)}
	e.turns = turns{opts: &o, serve: e.turn, follow: o.Waker.Follow(), subscribers: make(map[string]*subscriber),
		queries: make(map[string]map[*subscriber]struct{}),
		hosts:   make(map[string]*host), holders: make(map[holder]int), claims: make(map[string]claim), work: make(chan struct{}, 1)}
	e.limiters = [...]limiter{wide: newLimiter(o.Limits.Wide, o.Limits.Wide-o.Limits.Wide/4), narrow: newLimiter(o.Limits.Narrow,
		(o.Limits.Narrow+1)/2), hung: newLimiter(o.Limits.Hung, (o.Limits.Hung+1)/2)}
	for w := range o.Targets {
		e.tally(tallied{way: w})
	}
	e.client = newClient(&o, e.dialled)
	for s, err := range registry.EachSubscription(o.Store.Subscriptions, "") {
		if err != nil {
			return nil, fmt.Errorf("read the subscriptions: %w", err)
		}
		e.update(&s)
	}
	return e, nil
}

// Run delivers until ctx ends. It returns after the last request has ended, with an
// error if the store failed.
func (e *Engine) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	all := e.opts.Waker.FollowAll()
	defer all.Close()
	defer e.follow.Close()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var err error
	for ctx.Err() == nil && err == nil {
		timer.Reset(e.start(ctx))
		select {
		case <-ctx.Done():
		case err = <-e.failed:
		case <-e.work:
		case <-timer.C:
		case <-e.follow.C():
			e.woken(e.follow.Take())
		case <-all.C():
			e.woken([]string{""})
		}
	}
	cancel()
	e.running.Wait()
	e.ended.Store(true) // after all replies are recorded
	e.client.http.CloseIdleConnections()
	if err == nil { // ctx may have ended at the same time
		select {
		case err = <-e.failed:
		default:
		}
	}
	return err
}

// fail ends Run: without the store, messages cannot be kept in order.
func (e *Engine) fail(err error) {
	select {
	case e.failed <- err:
	default:
	}
}

// Edit changes or creates a stored subscription and schedules it at once.
func (e *Engine) Edit(id string, do func(s *registry.Subscription, found bool) error) (registry.Subscription, error) {
	s, err := e.edit(id, do)
	if errors.Is(err, ErrStopped) {
		return s, fmt.Errorf("%w: %w", err, &registry.Problem{Kind: registry.KindUnavailable, Detail: "the server is stopping"})
	}
	if err != nil {
		return s, err
	}
	e.update(&s)
	return s, nil
}

// Subscription returns a stored subscription; it wraps registry.ErrNotFound.
func (e *Engine) Subscription(id string) (registry.Subscription, error) {
	return e.opts.Store.Subscription(id)
}

// Subscriptions lists up to limit stored subscriptions after an id, in the order of the ids.
func (e *Engine) Subscriptions(after string, limit int) ([]registry.Subscription, error) {
	return e.opts.Store.Subscriptions(after, limit)
}

// Stats returns the current counts.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Stats{Subscriptions: len(e.subscribers), Sent: e.stats.sent.Load(), Taken: e.stats.ok.Load(), Failed: e.stats.failed.Load()}
	for i := range e.limiters {
		s.Running += e.limiters[i].running
		s.Queued += e.limiters[i].queued
	}
	return s
}

// tally returns the counts of a way and a kind. The caller holds mu, or is New.
func (e *Engine) tally(of tallied) *WayStats {
	t := e.tallies[of]
	if t == nil {
		t = &WayStats{Way: of.way, Kind: of.kind}
		e.tallies[of] = t
	}
	return t
}

// CountKind makes WayStats count a kind of receivers of a way by itself, from the first message on.
func (e *Engine) CountKind(way registry.Way, kind string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tally(tallied{way, kind})
}

// WayStats returns the current counts.
func (e *Engine) WayStats() []WayStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]WayStats, 0, len(e.tallies))
	for _, t := range e.tallies {
		list = append(list, *t)
	}
	return list
}

// Counts are numbers of subscriptions: of all, of those with callbacks on a host, and of one way and caller.
type Counts struct{ All, Host, Held int }

// mostSubscriptions is the largest number of subscriptions in all.
const mostSubscriptions = 1_000_000

// Admit returns a *registry.Problem if there is no place for a further one of a caller who may have a number of what.
func (n Counts) Admit(most int, what string) error {
	if n.All >= mostSubscriptions {
		return &registry.Problem{Kind: registry.KindLimit, Detail: "there are too many subscriptions in all"}
	}
	if n.Held >= most {
		return &registry.Problem{Kind: registry.KindQuota,
			Detail: fmt.Sprintf("you have %d %s, as many as limits.token_webhooks allows: drop some first", most, what)}
	}
	return nil
}

// A claim is the place of a subscription that is about to be stored.
type claim struct {
	holder
	host string
}

// Claim returns how many subscriptions there are besides one that is about to be stored, and counts that one for others
// until it is stored and done is called. So requests at the same time do not pass a limit together.
func (e *turns) Claim(id string, way registry.Way, caller, name string) (n Counts, done func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	mine := claim{holder{way, caller}, name}
	n = Counts{All: len(e.subscribers), Held: e.holders[mine.holder]}
	if h := e.hosts[name]; h != nil {
		n.Host = h.entries
	}
	for other, c := range e.claims {
		if other == id || e.subscribers[other] != nil {
			continue
		}
		n.All++
		if c.holder == mine.holder {
			n.Held++
		}
		if c.host == name {
			n.Host++
		}
	}
	e.claims[id] = mine
	return n, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.claims, id)
	}
}

// Held returns how many subscriptions of a way a caller has.
func (e *turns) Held(way registry.Way, caller string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.holders[holder{way, caller}]
}

// Has reports whether a subscription is stored.
func (e *turns) Has(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.subscribers[id] != nil
}

// Trusted reports whether a host is in one of the networks that the operator listed.
// A name counts by the address that it last resolved to.
func (e *turns) Trusted(name string) bool {
	if a, err := netip.ParseAddr(name); err == nil {
		return e.opts.Guard.Allowed(a)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	h := e.hosts[name]
	return h != nil && h.trusted
}

// dialled records whether a name resolved to a trusted address.
func (e *turns) dialled(name string, trusted bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if h := e.hosts[hostKey(name)]; h != nil {
		h.trusted = trusted
	}
}

// A host holds what all callbacks with one host name share.
type host struct {
	entries int
	running int
	trusted bool
	rate    *rate.Limiter
	waiting []*subscriber // entries that found all its places taken
	tried   time.Time     // the last call
	took    time.Time     // the last call that was accepted
}

// Recheck looks at all subscriptions again, because Holds may have become true.
func (e *turns) Recheck() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.subscribers {
		e.enqueue(x)
	}
	e.signal()
}

// Calling reports whether a callback of a host that this process does not own is being called.
func (e *turns) Calling() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for name, h := range e.hosts {
		if h.running > 0 && !e.opts.Owns(name) {
			return true
		}
	}
	return false
}

// Refresh takes note of subscriptions that another process has changed in the store.
func (e *Engine) Refresh(ids []string) error {
	var failed error
	for _, id := range ids {
		s, err := applied(e.opts.Store, id)
		if err == nil {
			e.update(&s)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// applied returns a subscription as this process knows it, without a state if there is none. It does
// not ask the other nodes of a cluster, as Store.Subscription does about what is not there.
func applied(store Store, id string) (registry.Subscription, error) {
	last := len(id) - 1
	list, err := store.Subscriptions(id[:last]+string([]byte{id[last] - 1, 0xff}), 1)
	if len(list) == 0 || list[0].ID != id {
		return registry.Subscription{ID: id}, err
	}
	return list[0], err
}
