package loan

import (
	"sync"
	"time"
)

// A Cache makes each value once for all callers that ask for it. Values are immutable. What is asked for is young. When a
// generation ends, the young become old, and those that were old are forgotten. The fields are set before the first call.
type Cache[K comparable, V any] struct {
	Capacity int           // a generation ends when the young weigh more than half of it
	Keep     time.Duration // a generation lasts no longer; 0: any time

	mu         sync.Mutex
	young, old map[K]*entry[V]
	weight     int  // of young
	ending     bool // a timer ends the generation
}

type entry[V any] struct {
	once   sync.Once
	value  V
	err    error
	weight int // guarded by Cache.mu; 0 while it is made
}

// entryWeight is counted beside what a made value weighs, so that many small ones are too much, too.
const entryWeight = 4 << 10

// Get returns the value of a key. All concurrent callers get the same error; errors are not kept.
func (c *Cache[K, V]) Get(key K, make func() (V, error), weigh func(V) int) (V, error) {
	c.mu.Lock()
	m := c.find(key)
	if m == nil {
		m = new(entry[V])
		c.add(key, m)
	}
	c.mu.Unlock()
	m.once.Do(func() {
		m.value, m.err = make()
		c.mu.Lock()
		defer c.mu.Unlock()
		if m.err != nil {
			for _, kept := range []map[K]*entry[V]{c.young, c.old} {
				if kept[key] == m {
					delete(kept, key)
				}
			}
			return
		}
		if m.weight = weigh(m.value) + entryWeight; c.young[key] == m { // else it counts once it is young again
			c.grow(m.weight)
		}
	})
	return m.value, m.err
}

// Find returns the value that was put under a key, if it is kept.
func (c *Cache[K, V]) Find(key K) (v V, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m := c.find(key); m != nil {
		return m.value, true
	}
	return v, false
}

// Put keeps a value, in place of another one of the key.
func (c *Cache[K, V]) Put(key K, v V, weight int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if was := c.young[key]; was != nil {
		c.weight -= was.weight
	}
	c.add(key, &entry[V]{value: v, weight: weight})
}

// find returns the entry of a key, which is young from then on.
func (c *Cache[K, V]) find(key K) *entry[V] {
	if m := c.young[key]; m != nil {
		return m
	}
	m := c.old[key]
	if m != nil {
		c.add(key, m)
	}
	return m
}

func (c *Cache[K, V]) add(key K, m *entry[V]) {
	if c.young == nil {
		c.young = make(map[K]*entry[V])
	}
	c.young[key] = m
	if c.Keep > 0 && !c.ending {
		c.ending = true
		time.AfterFunc(c.Keep, c.end)
	}
	c.grow(m.weight)
}

// grow counts what is young now, and ends the generation if that is too much.
func (c *Cache[K, V]) grow(weight int) {
	if c.weight += weight; c.weight > c.Capacity/2 {
		c.turn()
	}
}

func (c *Cache[K, V]) turn() { c.young, c.old, c.weight = nil, c.young, 0 }

// end ends a generation whose time is over.
func (c *Cache[K, V]) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn()
	if c.ending = len(c.old) > 0; c.ending {
		time.AfterFunc(c.Keep, c.end)
	}
}
