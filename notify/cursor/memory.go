package cursor

import (
	"sync"

	"github.com/freshet/freshet/registry"
)

// A Memory keeps what filters withhold from readers whose cursors are made again at each step, so that their log is not
// added up again at each change. It is bounded, and forgets what was used longest ago. Readers of the same changes through the
// same filter share what it keeps. Its methods may be called concurrently; a nil Memory keeps nothing.
type Memory struct {
	mu         sync.Mutex
	young, old map[memoryKey]*pending
	size       int64 // of young, in bytes
}

// A memoryKey names what waits for a reader: everything after its position that its filter withholds.
type memoryKey struct {
	query  string
	at     registry.Position
	filter string
}

// keepMemory is the maximum size of young in bytes. Beyond it, young becomes old, and old is forgotten.
const keepMemory = 16 << 20

// of returns what a filter withholds of the changes after a position, nil if that is not known.
func (m *Memory) of(query string, at registry.Position, f *Filter) *pending {
	if m == nil || f.All() {
		return nil
	}
	k := memoryKey{query, at, string(f.JSON())}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.young[k]
	if p == nil {
		if p = m.old[k]; p != nil {
			m.add(k, p)
		}
	}
	return p
}

// keep notes what a filter withholds of the changes after a position.
func (m *Memory) keep(query string, at registry.Position, f *Filter, p *pending) {
	if m == nil {
		return
	}
	k := memoryKey{query, at, string(f.JSON())}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(k, p)
}

// add makes a pending young. The caller holds mu.
func (m *Memory) add(k memoryKey, p *pending) {
	if m.young == nil {
		m.young = make(map[memoryKey]*pending)
	}
	if was := m.young[k]; was != nil {
		m.size -= was.size(k)
	}
	m.young[k] = p
	if m.size += p.size(k); m.size > keepMemory {
		m.young, m.old, m.size = nil, m.young, 0
	}
}

// size returns about how many bytes are kept.
func (p *pending) size(k memoryKey) int64 {
	n := int64(1024 + len(k.filter))
	if p.net != nil {
		n += DeltaSize(p.net) + 64*int64(changedRows(p.net))
	}
	return n
}
