package ui

import (
	"sync"
	"time"
)

// A cached value is expensive to read and needed by many pages. One of them reads
// it at a time; the others get the value before meanwhile, so that they do not wait
// for what they have. The zero value holds nothing.
type cached[T any] struct {
	mu      sync.Mutex // guards what follows; not held while the value is read
	value   T
	at      time.Time // when reading it began, zero when the value must not be used
	took    time.Duration
	drops   int
	reading chan struct{} // closed when the reading under way is over; nil when there is none
}

// drop makes all who ask from now on wait for a value read after this: what
// somebody did here shows at once.
func (c *cached[T]) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
	c.drops++
}

// get returns the value. It reads it when there is none, or when it is older than
// oldest allows one that took so long to read.
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

// renew reads the value. It is called with the lock held, and lets it go meanwhile.
func (c *cached[T]) renew(now time.Time, read func() (T, error)) (value T, err error) {
	over, drops, began := make(chan struct{}), c.drops, time.Now()
	c.reading = over
	c.mu.Unlock()
	whole := false
	defer func() { // also when reading panics
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
