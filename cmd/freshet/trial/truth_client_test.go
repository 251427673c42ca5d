package trial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/notify/client"
)

// A tracked is a query that the reference client follows.
type tracked struct {
	fact *fact

	mu           sync.Mutex
	conn         net.Conn // the current connection
	seq          uint64
	fingerprints map[uint64]string // fingerprint of the client's result, by position
}

var errComplete = errors.New("received everything")

// reference runs the reference client, whose connection is cut at random times.
func (a *audience) reference(ctx context.Context, m member, life time.Duration, c *tracked) {
	c.fingerprints = map[uint64]string{}
	a.members.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var cutting sync.WaitGroup
		defer cutting.Wait()
		defer cancel()
		cutting.Go(func() { m.cutAtRandom(ctx, life, c) })
		err := client.Follow(ctx, client.Options{
			Server: "http://" + a.addr(), Query: c.fact.id, Dialer: c.dialer(), Ack: true,
			MinBackoff: 10 * time.Millisecond, MaxBackoff: time.Second,
		}, func(e client.Event) error { return c.receive(m, e) })
		if !errors.Is(err, errComplete) {
			m.object("the reference client ended with %v", err)
		}
	})
}

func (m member) cutAtRandom(ctx context.Context, life time.Duration, c *tracked) {
	for !m.isOver() {
		if !m.sleep(ctx, time.Duration(m.rng.ExpFloat64()*float64(life))) {
			return
		}
		m.cuts.Add(1)
		c.mu.Lock()
		if c.conn != nil {
			c.conn.Close()
		}
		c.mu.Unlock()
	}
}

func (c *tracked) dialer() *websocket.Dialer {
	return &websocket.Dialer{NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.conn = conn
		return conn, err
	}}
}

func (c *tracked) receive(m member, e client.Event) error {
	switch e.Kind {
	case client.Delta:
		if e.Prev != c.seq || e.State.Seq <= c.seq {
			m.object("the client went (%d, %d] after %d", e.Prev, e.State.Seq, c.seq)
		}
	case client.Snapshot:
		if c.seq > 0 {
			m.object("the client began again at %d", e.State.Seq)
		}
	}
	if c.seq = e.State.Seq; e.Result != nil {
		c.fingerprints[c.seq] = fingerprint(e.State.Document)
	}
	if m.isOver() && c.seq >= c.fact.final {
		return errComplete
	}
	return nil
}

// verify compares the client's results with the final results of other followers.
func (c *tracked) verify(truth map[uint64]string) error {
	for seq, hash := range c.fingerprints {
		if truth[seq] != hash {
			return fmt.Errorf("has another result at %d", seq)
		}
	}
	if n := uint64(len(c.fact.versions)); c.seq != n {
		return fmt.Errorf("ended at %d of %d", c.seq, n)
	}
	return nil
}
