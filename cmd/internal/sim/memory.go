package main

// This file lends memory to machines. Without it, a machine's memory is copied each time that it grows.

import (
	"sync"

	"github.com/tetratelabs/wazero/experimental"
)

// room is what a memory can grow to in its place. The system gives it only as it is used.
const room = 1 << 30

// A lender keeps memories that are not in use.
type lender struct {
	mu   sync.Mutex
	free [][]byte // of zeros
}

// Allocate implements experimental.MemoryAllocator.
func (l *lender) Allocate(uint64, uint64) experimental.LinearMemory {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &lent{lender: l}
	if n := len(l.free); n > 0 {
		m.data, l.free = l.free[n-1][:0], l.free[:n-1]
	} else {
		m.data = make([]byte, 0, room)
	}
	return m
}

// A lent memory is one of a machine.
type lent struct {
	lender *lender
	data   []byte
}

// Reallocate implements experimental.LinearMemory.
func (m *lent) Reallocate(size uint64) []byte {
	if size > uint64(cap(m.data)) {
		m.data = append(make([]byte, 0, size), m.data...)
	}
	m.data = m.data[:size]
	return m.data
}

// Free implements experimental.LinearMemory.
func (m *lent) Free() {
	clear(m.data)
	m.lender.mu.Lock()
	defer m.lender.mu.Unlock()
	m.lender.free = append(m.lender.free, m.data)
	m.data = nil
}
