package notify

import (
	"cmp"
	"container/list"
	"sync"
	"time"
)

// A onceCache makes each value once for all callers that ask for it. Values are
// immutable. The cache is bounded in number and weight: it drops the least recently
// used value first, and unused values after a while. The newest value always stays.
// The zero value is empty.
type onceCache[K comparable, V any] struct {
	capacity int // weight; 0: keepWeight

	mu     sync.Mutex
	byKey  map[K]*cacheEntry[K, V]
	order  list.List // of *cacheEntry, what was used last at the back
	weight int
	misses uint64 // how many were made
	sweeps bool   // a sweep is due
}

// A changeKey names a net change: the difference between two positions of a query.
type changeKey struct {
	query, epoch string
	prev, seq    uint64
}

type cacheEntry[K comparable, V any] struct {
	key    K
	once   sync.Once
	value  V
	err    error
	weight int           // guarded by onceCache.mu; 0 while it is made
	place  *list.Element // nil once it is dropped
	used   bool          // since the last sweep
}

const (
	// keepWeight bounds the bytes of one cache, keepEntries their number.
	keepWeight  = 16 << 20
	keepEntries = 4096
	// keepTime is how long an entry without requests is kept, at least.
	keepTime = 20 * time.Second
)

// get returns the value of a key. All concurrent callers get the same error; errors
// are not kept.
func (k *onceCache[K, V]) get(key K, make func() (V, error), weigh func(V) int) (V, error) {
	k.mu.Lock()
	m := k.byKey[key]
	if m == nil {
		m = k.add(key)
	} else {
		k.order.MoveToBack(m.place)
	}
	m.used = true
	k.mu.Unlock()
	m.once.Do(func() {
		m.value, m.err = make()
		k.admit(m, weigh)
	})
	return m.value, m.err
}

func (k *onceCache[K, V]) add(key K) *cacheEntry[K, V] {
	if k.byKey == nil {
		k.byKey = make(map[K]*cacheEntry[K, V])
	}
	m := &cacheEntry[K, V]{key: key}
	m.place = k.order.PushBack(m)
	k.byKey[key] = m
	k.misses++
	if len(k.byKey) > keepEntries {
		k.drop(k.oldest())
	}
	if !k.sweeps {
		k.sweeps = true
		time.AfterFunc(keepTime, k.sweep)
	}
	return m
}

func (k *onceCache[K, V]) oldest() *cacheEntry[K, V] {
	return k.order.Front().Value.(*cacheEntry[K, V])
}

// admit counts what has been made, and makes room for it.
func (k *onceCache[K, V]) admit(m *cacheEntry[K, V], weigh func(V) int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if m.place == nil {
		return // dropped meanwhile
	}
	if m.err != nil {
		k.drop(m)
		return
	}
	m.weight = weigh(m.value)
	k.weight += m.weight
	for k.weight > cmp.Or(k.capacity, keepWeight) && len(k.byKey) > 1 {
		k.drop(k.oldest())
	}
}

// drop forgets one. One that is being made weighs nothing yet, and is not weighed
// once it is gone.
func (k *onceCache[K, V]) drop(m *cacheEntry[K, V]) {
	k.order.Remove(m.place)
	m.place = nil
	k.weight -= m.weight
	delete(k.byKey, m.key)
}

// sweep drops the entries that were not used since the last sweep.
func (k *onceCache[K, V]) sweep() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range k.byKey {
		if !m.used && m.weight > 0 {
			k.drop(m)
		}
		m.used = false
	}
	if k.sweeps = len(k.byKey) > 0; k.sweeps {
		time.AfterFunc(keepTime, k.sweep)
	}
}
