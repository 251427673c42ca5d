// The requests to the servers of a journal, which may stay without an answer.

package nats

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Bounds on the wait for an answer. The answer to a request is lost if its connection breaks or if the
// leader of the stream is gone, and the next leader does not know the request. So it is sent again soon.
// A slow server gets more time, since it would otherwise get all requests twice.
const (
	leastWait   = time.Second
	mostWait    = 3 * time.Second
	electedWait = 250 * time.Millisecond // at first, after an election: a request may still go to the leader before it
)

// settleTime is how long after an election the end of the journal is not trusted. A new leader has all
// entries that the one before it has acknowledged, but until it has committed one itself, it does not
// know which of them count, and answers with an older end.
const settleTime = time.Second

// The calls of a journal are its requests that wait for an answer.
type calls struct {
	mu   sync.Mutex
	wait time.Duration      // of the next request
	term context.Context    // ends when the stream gets a leader
	end  context.CancelFunc // of term
	last time.Time          // of the elections
}

func newCalls() *calls {
	c := &calls{wait: leastWait}
	c.term, c.end = context.WithCancel(context.Background())
	return c
}

// begin returns a context for a request. It ends when the answer is not to be expected any more: after
// the wait and some time in addition, or when the stream gets a leader. The caller reports the error of
// the request to done.
func (c *calls) begin(parent context.Context, more time.Duration) (ctx context.Context, done func(error)) {
	c.mu.Lock()
	wait, term := c.wait, c.term
	c.mu.Unlock()
	began := time.Now()
	ctx, cancel := context.WithTimeout(parent, wait+more)
	stop := context.AfterFunc(term, cancel)
	return ctx, func(err error) {
		stop()
		cancel()
		c.mu.Lock()
		defer c.mu.Unlock()
		switch {
		case c.term != term || parent.Err() != nil:
		case err == nil:
			c.wait = min(max(4*time.Since(began), leastWait), mostWait)
		case errors.Is(err, context.DeadlineExceeded):
			c.wait = min(2*wait, mostWait)
		}
	}
}

// elected ends the requests that wait: those that the leader before has not answered are lost.
func (c *calls) elected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end()
	c.term, c.end = context.WithCancel(context.Background())
	c.wait = electedWait
	c.last = time.Now()
}

// led notes how long the stream has had its leader.
func (c *calls) led(since time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := time.Now().Add(-since); at.After(c.last) {
		c.last = at
	}
}

// repeat makes a request that changes nothing if it is made twice. It makes the request again if an
// election has ended it or has left it little time.
func (c *calls) repeat(ctx context.Context, request func(context.Context) error) error {
	for {
		began := time.Now()
		once, done := c.begin(ctx, 0)
		err := request(once)
		done(err)
		switch {
		case ctx.Err() != nil:
			return err
		case errors.Is(err, context.Canceled):
		case errors.Is(err, context.DeadlineExceeded) && time.Since(began) < leastWait:
		default:
			return err
		}
	}
}

// settled waits until the last election is settleTime ago. The context that it returns ends with the next.
func (c *calls) settled(ctx context.Context) (term context.Context, err error) {
	for {
		c.mu.Lock()
		left := settleTime - time.Since(c.last)
		term := c.term
		c.mu.Unlock()
		if left <= 0 {
			return term, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(left):
		}
	}
}

// looks is how often this node looks at least for what seems to be missing, before it takes it to be so.
const looks = 20

// An absence is how long something has been missing, as far as this node has looked for it. The time
// between two looks counts only in part if it is long: a process that was stopped, or a machine that was
// suspended, asks servers that have not noticed yet that they are out of date.
type absence struct {
	last   time.Time // of the looks; zero before the first
	lasted time.Duration
}

// outlasts notes a look in vain, and reports whether the absence has lasted for the patience.
func (a *absence) outlasts(patience time.Duration) bool {
	now := time.Now()
	if !a.last.IsZero() {
		a.lasted += min(now.Sub(a.last), max(patience/looks, time.Millisecond))
	}
	a.last = now
	return a.lasted >= patience
}
