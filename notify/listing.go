package notify

import (
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/registry"
)

// ErrDropped reports that an operator ended a subscription.
var ErrDropped = errors.New("dropped")

// LiveID is how the ids of subscriptions of connections begin.
const LiveID = "live_"

// A listing holds the entries of connected clients, for operators. The zero
// value is empty.
type listing struct {
	mu    sync.Mutex
	byID  map[string]*Entry
	order []*Entry // by id, which is the order in which they came
	gone  int      // how many of order have gone
	added uint64
}

// An Entry is a subscription in the list of those of connected clients. It is updated by its protocol and read by any goroutine.
type Entry struct {
	about  registry.Subscription
	count  *count
	paused atomic.Bool // its cursor stays where it is until an operator resumes it
	gone   bool        // guarded by listing.mu

	mu    sync.Mutex // guards what follows
	at    registry.Position
	sends uint64
	last  time.Time // when it was sent something last; zero: never

	end      func() // closes the subscription; it does not wait
	follower *Follower
	leave    func()
}

// Leave removes the entry.
func (x *Entry) Leave() { x.leave() }

// Wake makes the protocol look again.
func (x *Entry) Wake() {
	x.mu.Lock()
	f := x.follower
	x.mu.Unlock()
	if f != nil {
		f.signal()
	}
}

func (x *Entry) follow(p registry.Position, f *Follower) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at, x.follower = p, f
}

// add adds x with an id greater than all earlier ones.
func (l *listing) add(x *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = make(map[string]*Entry)
	}
	l.added++
	x.about.ID = fmt.Sprintf("%s%011x%s", LiveID, l.added, strings.ToLower(rand.Text()[:10]))
	l.byID[x.about.ID] = x
	l.order = append(l.order, x)
}

func (l *listing) remove(x *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.gone || l.byID[x.about.ID] != x {
		return
	}
	delete(l.byID, x.about.ID)
	x.gone = true
	if l.gone++; l.gone > 64 && l.gone > len(l.order)/2 {
		l.order, l.gone = slices.DeleteFunc(l.order, func(x *Entry) bool { return x.gone }), 0
	}
}

// after returns at most limit subscriptions that follow an id.
func (l *listing) after(id string, limit int) (list []*Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := sort.Search(len(l.order), func(i int) bool { return l.order[i].about.ID > id })
	for ; i < len(l.order) && len(list) < limit; i++ {
		if !l.order[i].gone {
			list = append(list, l.order[i])
		}
	}
	return list
}

// find returns a subscription by its id. The error wraps registry.ErrNotFound.
func (l *listing) find(id string) (*Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := l.byID[id]; x != nil {
		return x, nil
	}
	return nil, fmt.Errorf("subscription %s: %w", id, registry.ErrNotFound)
}

// Subscriptions lists what connected clients follow by WebSocket, SSE and SEPA: at
// most limit subscriptions after an id, in id order.
func (l *listing) Subscriptions(after string, limit int) []registry.Subscription {
	var list []registry.Subscription
	for _, x := range l.after(after, limit) {
		list = append(list, x.show())
	}
	return list
}

// AllSubscriptions iterates over the subscriptions of connections that exist when it
// begins. Clients that connect or disconnect meanwhile do not wait for it.
func (l *listing) AllSubscriptions(yield func(registry.Subscription) bool) {
	for _, x := range l.after("", math.MaxInt) {
		if !yield(x.show()) {
			return
		}
	}
}

// Subscription returns a subscription of a connection. The error wraps
// registry.ErrNotFound.
func (l *listing) Subscription(id string) (registry.Subscription, error) {
	x, err := l.find(id)
	if err != nil {
		return registry.Subscription{}, err
	}
	return x.show(), nil
}

// Drop ends a subscription of a connection. Its client receives complete with the
// reason dropped or, over SEPA, an error and unsubscribed. It may subscribe again.
func (l *listing) Drop(id string) error {
	x, err := l.find(id)
	if err != nil {
		return err
	}
	x.end()
	return nil
}

// SetPaused pauses or resumes a subscription. The connection stays open, and changes
// wait in the log. If the log is trimmed past the position meanwhile, the client gets
// a gap.
func (l *listing) SetPaused(id string, on bool) (registry.Subscription, error) {
	x, err := l.find(id)
	if err != nil {
		return registry.Subscription{}, err
	}
	x.paused.Store(on)
	if !on {
		x.Wake()
	}
	return x.show(), nil
}

func (x *Entry) delivered(at time.Time) {
	x.mu.Lock()
	x.sends++
	x.last = at
	x.mu.Unlock()
	x.count.delivered.Add(1)
}

func (x *Entry) moved(p registry.Position) {
	x.mu.Lock()
	x.at = p
	x.mu.Unlock()
}

func (x *Entry) show() registry.Subscription {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.about
	s.Cursor, s.Deliveries, s.State = x.at, x.sends, registry.Active
	if x.paused.Load() {
		s.State = registry.SubscriptionPaused
	}
	if !x.last.IsZero() {
		s.LastDelivery = new(x.last.UTC())
	}
	return s
}
