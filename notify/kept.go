package notify

import (
	"container/list"
	"sync"
	"time"
)

// Kept keeps what many ask for and all get the same, so that it is made once.
// What is kept is immutable. It is bounded in number and weight: what was used
// longest ago goes first, and what is not asked for goes after a while. The newest
// one stays, whatever it weighs. The zero value keeps nothing yet.
type kept[K comparable, V any] struct {
	most int // weight; 0: keepWeight

	mu     sync.Mutex
	byKey  map[K]*making[K, V]
	order  list.List // of *making, what was used last at the back
	weight int
	made   uint64 // how many were made
	sweeps bool   // a sweep is due
}

// A step names what a change says: the net difference between two positions of
// a query.
type step struct {
	query, epoch string
	prev, seq    uint64
}

type making[K comparable, V any] struct {
	key    K
	once   sync.Once
	value  V
	err    error
	weight int           // guarded by kept.mu; 0 while it is made
	place  *list.Element // nil once it is dropped
	used   bool          // since the last sweep
}

const (
	// keepWeight bounds the bytes of one kept, keepSteps their number.
	keepWeight = 16 << 20
	keepSteps  = 4096
	// keepTime is how long an entry without requests is kept, at least.
	keepTime = 20 * time.Second
)

// get returns what belongs to a key. Errors go to all who asked meanwhile, and are
// not kept.
func (k *kept[K, V]) get(key K, make func() (V, error), weigh func(V) int) (V, error) {
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
		k.weigh(m, weigh)
	})
	return m.value, m.err
}

func (k *kept[K, V]) add(key K) *making[K, V] {
	if k.byKey == nil {
		k.byKey = make(map[K]*making[K, V])
	}
	m := &making[K, V]{key: key}
	m.place = k.order.PushBack(m)
	k.byKey[key] = m
	k.made++
	if len(k.byKey) > keepSteps {
		k.drop(k.oldest())
	}
	if !k.sweeps {
		k.sweeps = true
		time.AfterFunc(keepTime, k.sweep)
	}
	return m
}

func (k *kept[K, V]) oldest() *making[K, V] { return k.order.Front().Value.(*making[K, V]) }

// weigh counts what has been made, and makes room for it.
func (k *kept[K, V]) weigh(m *making[K, V], weigh func(V) int) {
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
	most := k.most
	if most == 0 {
		most = keepWeight
	}
	for k.weight > most && len(k.byKey) > 1 {
		k.drop(k.oldest())
	}
}

// drop forgets one. One that is being made weighs nothing yet, and is not weighed
// once it is gone.
func (k *kept[K, V]) drop(m *making[K, V]) {
	k.order.Remove(m.place)
	m.place = nil
	k.weight -= m.weight
	delete(k.byKey, m.key)
}

// sweep drops what was not asked for since the last one.
func (k *kept[K, V]) sweep() {
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
