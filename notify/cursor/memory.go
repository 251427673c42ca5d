package cursor

import (
	"github.com/freshet/freshet/notify/loan"
	"github.com/freshet/freshet/registry"
)

// A Memory keeps what filters withhold from readers whose cursors are made again at each step, so that their log is not
// added up again at each change. It is bounded, and forgets what was used longest ago. Readers of the same changes through the
// same filter share what it keeps. Its methods may be called concurrently; a nil Memory keeps nothing.
type Memory struct {
	kept loan.Cache[memoryKey, *pending]
}

// A memoryKey names what waits for a reader: everything after its position that its filter withholds.
type memoryKey struct {
	query  string
	at     registry.Position
	filter string
}

// NewMemory returns a Memory that keeps nothing yet.
func NewMemory() *Memory {
	return &Memory{loan.Cache[memoryKey, *pending]{Capacity: keepMemory}}
}

// keepMemory is the maximum size of a Memory in bytes.
const keepMemory = 32 << 20

// of returns what a filter withholds of the changes after a position, nil if that is not known.
func (m *Memory) of(query string, at registry.Position, f *Filter) *pending {
	if m == nil || f.All() {
		return nil
	}
	p, _ := m.kept.Find(memoryKey{query, at, string(f.JSON())})
	return p
}

// keep notes what a filter withholds of the changes after a position.
func (m *Memory) keep(query string, at registry.Position, f *Filter, p *pending) {
	if m != nil {
		k := memoryKey{query, at, string(f.JSON())}
		m.kept.Put(k, p, p.size(k))
	}
}

// size returns about how many bytes are kept.
func (p *pending) size(k memoryKey) int {
	n := 1024 + len(k.filter)
	if p.net != nil {
		n += int(DeltaSize(p.net)) + 64*changedRows(p.net)
	}
	return n
}
