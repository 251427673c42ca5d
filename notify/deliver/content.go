package deliver

import (
	"cmp"
	"context"
	"errors"
	"sync"

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

// Contents lets deliveries of one version of a topic share its bytes while any of them uses them. Read must be set.
type Contents struct {
	// Read renders the topic at a path. It may return ErrNoContent.
	Read func(ctx context.Context, topic string) (Content, error)
	// Budget is the approximate number of bytes in use; 0 means 256 MiB.
	Budget int64

	mu     sync.Mutex
	shared map[string]*rendering // by topic, those in use
	bytes  int64                 // of their bodies
}

// A rendering is a version of a topic.
type rendering struct {
	at      registry.Position
	content func() (*Content, error)
	users   int
	size    int64 // of the body, once it is there
}

// Get returns a topic's content at a position of its query or later, and a function
// to call after sending it. On ErrBusy the caller retries a little later.
func (c *Contents) Get(ctx context.Context, topic string, at registry.Position) (*Content, func(), error) {
	r, err := c.join(ctx, topic, at)
	if err != nil {
		return nil, nil, err
	}
	release := sync.OnceFunc(func() { c.release(topic, r) })
	got, err := r.content()
	if err != nil {
		release()
		return nil, nil, err
	}
	return got, release, nil
}

// join finds a version that is in use, or adds one.
func (c *Contents) join(ctx context.Context, topic string, at registry.Position) (*rendering, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.shared[topic]
	if r == nil || r.at.Epoch != at.Epoch || r.at.Seq < at.Seq {
		if c.bytes >= cmp.Or(c.Budget, 256<<20) {
			return nil, ErrBusy
		}
		r = &rendering{at: at}
		r.content = sync.OnceValues(func() (*Content, error) {
			content, err := c.Read(context.WithoutCancel(ctx), topic) // others may wait for it
			c.mu.Lock()
			defer c.mu.Unlock()
			r.size = int64(len(content.Body))
			c.bytes += r.size
			return &content, err
		})
		if c.shared == nil {
			c.shared = make(map[string]*rendering)
		}
		c.shared[topic] = r
	}
	r.users++
	return r, nil
}

func (c *Contents) release(topic string, r *rendering) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.users--; r.users > 0 {
		return
	}
	if c.bytes -= r.size; c.shared[topic] == r {
		delete(c.shared, topic)
	}
}
