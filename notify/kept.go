package notify

import "sync"

// Kept keeps what many ask for and all get the same, so that it is made once.
// What is kept is immutable and bounded in number and weight, oldest out first.
// The zero value keeps nothing yet.
type kept[V any] struct {
	mu     sync.Mutex
	byStep map[step]*making[V]
	order  []step
	weight int
	made   uint64 // how many were made
}

// A step names what a change says: the net difference between two positions of
// a query. What a filter leaves of it is each subscription's own.
type step struct {
	query, epoch string
	prev, seq    uint64
}

type making[V any] struct {
	once   sync.Once
	value  V
	err    error
	weight int // guarded by kept.mu; 0 while it is made
}

const (
	// keepWeight bounds the bytes of one kept, keepSteps their number.
	keepWeight = 16 << 20
	keepSteps  = 4096
)

// get returns what belongs to a step. Errors are everybody's own who asked
// meanwhile, and are not kept.
func (k *kept[V]) get(s step, make func() (V, error), weigh func(V) int) (V, error) {
	k.mu.Lock()
	m := k.byStep[s]
	if m == nil {
		m = k.add(s)
	}
	k.mu.Unlock()
	m.once.Do(func() {
		m.value, m.err = make()
		k.weigh(s, m, weigh)
	})
	return m.value, m.err
}

func (k *kept[V]) add(s step) *making[V] {
	if k.byStep == nil {
		k.byStep = make(map[step]*making[V])
	}
	m := new(making[V])
	k.byStep[s] = m
	k.order = append(k.order, s)
	k.made++
	if len(k.order) > keepSteps {
		k.drop()
	}
	return m
}

// weigh counts what has been made, and makes room for it.
func (k *kept[V]) weigh(s step, m *making[V], weigh func(V) int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byStep[s] != m {
		return // dropped meanwhile
	}
	if m.err != nil {
		delete(k.byStep, s) // its place in order is dropped in its turn
		return
	}
	m.weight = weigh(m.value)
	k.weight += m.weight
	for k.weight > keepWeight && len(k.order) > 0 {
		k.drop()
	}
}

// drop forgets the oldest. One that is being made weighs nothing yet, and is not
// weighed once it is gone.
func (k *kept[V]) drop() {
	s := k.order[0]
	k.order = k.order[1:]
	if m := k.byStep[s]; m != nil {
		k.weight -= m.weight
		delete(k.byStep, s)
	}
}
