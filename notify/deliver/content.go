package deliver

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"weak"

	"github.com/freshet/freshet/registry"
)

// ErrNoContent reports that a topic has no content.
var ErrNoContent = errors.New("the topic has no content")

// ErrBusy reports that deliveries use all of the memory allowed.
var ErrBusy = errors.New("too much is under way")

// A Content is what a topic's URL serves at one moment.
type Content struct {
	At      registry.Position // the query's position, or a later one
	Version string            // its entity tag
	Type    string            // media type
	Body    []byte            // shared by all readers; must not be modified
}

// Contents lets all deliveries of one version of a topic share its bytes. It holds no
// content that is not in use. Read must be set.
type Contents struct {
	// Read renders the topic at a path. It may return ErrNoContent.
	Read func(ctx context.Context, topic string) (Content, error)
	// Budget is the approximate number of bytes in use; 0 means 256 MiB.
	Budget int64

	mu     sync.Mutex
	shared map[string]*rendering
	bytes  int64 // in use, each shared body counted once
}

type rendering struct {
	at      registry.Position
	ready   chan struct{} // closed when done
	err     error
	content weak.Pointer[Content]
	strong  *Content // while in use
	users   int
	size    int64 // of the body
}

// small is the size of a body that may exceed the budget.
const small = 64 << 10

// Get returns a topic's content at a position of its query or later, and a function
// to call after sending it. On ErrBusy the caller retries a little later.
func (c *Contents) Get(ctx context.Context, topic string, at registry.Position) (*Content, func(), error) {
	for {
		r, mine, err := c.join(topic, at)
		if err != nil {
			return nil, nil, err
		}
		if mine {
			c.render(ctx, topic, r)
		}
		select {
		case <-r.ready:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		if r.err != nil && !mine && errors.Is(r.err, context.Canceled) {
			continue // another caller gave up, not ours
		}
		if r.err != nil {
			return nil, nil, r.err
		}
		if got := c.use(r); got != nil {
			return got, sync.OnceFunc(func() { c.release(r) }), nil
		}
	}
}

// join finds the rendering of a version or adds one, which the caller renders (mine).
func (c *Contents) join(topic string, at registry.Position) (r *rendering, mine bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.shared == nil {
		c.shared = make(map[string]*rendering)
	}
	r = c.shared[topic]
	if r != nil && r.at.Epoch == at.Epoch && r.at.Seq >= at.Seq && !r.collected() {
		return r, false, nil
	}
	if c.bytes >= cmp.Or(c.Budget, 256<<20) && (r == nil || r.size > small) {
		return nil, false, ErrBusy
	}
	c.sweep()
	r = &rendering{at: at, ready: make(chan struct{})}
	c.shared[topic] = r
	return r, true, nil
}

func (r *rendering) collected() bool {
	select {
	case <-r.ready:
		return r.err != nil || r.strong == nil && r.content.Value() == nil
	default:
		return false
	}
}

// sweepAbove is the number of topics above which collected ones are removed.
const sweepAbove = 1024

func (c *Contents) sweep() {
	if len(c.shared) < sweepAbove {
		return
	}
	for topic, r := range c.shared {
		if r.collected() {
			delete(c.shared, topic)
		}
	}
}

func (c *Contents) render(ctx context.Context, topic string, r *rendering) {
	defer close(r.ready)
	content, err := c.Read(ctx, topic)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.err = err; err == nil {
		r.size, r.strong = int64(len(content.Body)), &content
		r.content = weak.Make(r.strong)
	}
}

func (c *Contents) use(r *rendering) *Content {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.strong == nil {
		if r.strong = r.content.Value(); r.strong == nil {
			return nil
		}
	}
	if r.users++; r.users == 1 {
		c.bytes += r.size
	}
	return r.strong
}

func (c *Contents) release(r *rendering) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.users--; r.users == 0 {
		c.bytes -= r.size
		r.strong = nil
	}
}
