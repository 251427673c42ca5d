package notify

import (
	"sync"

	"github.com/freshet/freshet/registry"
)

// written keeps changes as they were last put on the wire, so that a thousand
// followers of a query marshal each of its changes once. The bytes are
// immutable; what is kept is bounded, oldest out first.
type written struct {
	mu    sync.Mutex
	byKey map[step]*rendering
	order []step
	bytes int
	made  uint64 // how many were marshalled
}

// A step names what a change says: the net difference between two positions of
// a query. What a filter leaves of it is each subscription's own.
type step struct {
	query, epoch string
	prev, seq    uint64
}

type rendering struct {
	once    sync.Once
	members []byte
	weight  int // of members, guarded by written.mu; 0 while they are made
}

const (
	// keepWritten bounds the bytes kept, keepSteps their number.
	keepWritten = 16 << 20
	keepSteps   = 4096
)

// members are those of a change's JSON object, without the braces. They are
// shared: nobody may write to them.
func (w *written) members(c *registry.Change, f Format) []byte {
	key := step{c.Query, c.Epoch, c.Prev, c.Seq}
	w.mu.Lock()
	r := w.byKey[key]
	if r == nil {
		r = w.add(key)
	}
	w.mu.Unlock()
	r.once.Do(func() {
		r.members = appendChange(nil, c, f, false)
		w.weigh(key, r)
	})
	return r.members
}

func (w *written) add(key step) *rendering {
	if w.byKey == nil {
		w.byKey = make(map[step]*rendering)
	}
	r := new(rendering)
	w.byKey[key] = r
	w.order = append(w.order, key)
	w.made++
	if len(w.order) > keepSteps {
		w.drop()
	}
	return r
}

// weigh counts what has been marshalled, and makes room for it.
func (w *written) weigh(key step, r *rendering) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.byKey[key] != r {
		return // dropped meanwhile
	}
	r.weight = cap(r.members)
	w.bytes += r.weight
	for w.bytes > keepWritten && len(w.order) > 0 {
		w.drop()
	}
}

// drop forgets the oldest. One that is being marshalled weighs nothing yet, and
// is not weighed once it is gone.
func (w *written) drop() {
	key := w.order[0]
	w.order = w.order[1:]
	w.bytes -= w.byKey[key].weight
	delete(w.byKey, key)
}
