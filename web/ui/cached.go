package ui

import (
	"sync"
	"time"
)

// A cached value is expensive to read and used by many pages. At most one caller reads
// it at a time; meanwhile the others get the previous value without waiting. The zero
// value is empty.
type cached[T any] struct {
	mu      sync.Mutex // guards the fields below; not held while the value is read
	value   T
	at      time.Time // when the read began; zero if the value is invalid
	took    time.Duration
	drops   int
	reading chan struct{} // closed when the current read ends; nil if none is running
}

// drop invalidates the value. Later callers of get wait for a new read, so that the
// effect of a user's action shows at once.
func (c *cached[T]) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
	c.drops++
}

// get returns the value. It reads the value first if there is none, or if it is older
// than oldest allows for a value that took so long to read.
func (c *cached[T]) get(now time.Time, oldest func(took time.Duration) time.Duration, read func() (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.at.IsZero() && c.reading != nil {
		reading := c.reading
		c.mu.Unlock()
		<-reading
		c.mu.Lock()
	}
	age := now.Sub(c.at)
	if !c.at.IsZero() && (c.reading != nil || age >= 0 && age <= oldest(c.took)) {
		return c.value, nil
	}
	return c.renew(now, read)
}

// renew reads the value. The caller holds the lock; renew releases it during the read.
func (c *cached[T]) renew(now time.Time, read func() (T, error)) (value T, err error) {
	over, drops, began := make(chan struct{}), c.drops, time.Now()
	c.reading = over
	c.mu.Unlock()
	whole := false
	defer func() { // also on panic
		c.mu.Lock()
		c.reading = nil
		close(over)
		if !whole {
			return
		}
		c.value, c.took = value, time.Since(began)
		if c.drops == drops {
			c.at = now
		}
	}()
	value, err = read()
	whole = err == nil
	return value, err
}
