//go:build (linux || darwin) && (amd64 || arm64)

package local

import (
	"context"
	"syscall"

	"github.com/tetratelabs/wazero/experimental"
)

// A linearMemory is the memory of an instance. It reserves address space for the most
// that the instance may request and grows in place, so growing copies nothing and leaves
// no garbage. A page takes memory once the engine writes to it.
type linearMemory struct {
	reserved []byte
	size     uint64 // accessible bytes at the front of reserved
}

const most = 4 << 30 // addresses of the engine have 32 bits

// scarce reports whether a limit on the address space of the process (ulimit -v) leaves
// too little for other parts: the Go heap and the store's file need it, too.
func scarce() bool {
	var limit syscall.Rlimit
	return syscall.Getrlimit(syscall.RLIMIT_AS, &limit) != nil || limit.Cur < 16*most
}

// reserveMemory returns a context in which a module gets this memory. The memory is
// unchanged, and the module gets one from the Go heap, if the address space is scarce or
// the system refuses so much.
func (m *linearMemory) reserveMemory(ctx context.Context) context.Context {
	if scarce() {
		return ctx
	}
	var err error
	if m.reserved, err = syscall.Mmap(-1, 0, most, syscall.PROT_NONE, syscall.MAP_ANON|syscall.MAP_PRIVATE); err != nil {
		return ctx
	}
	return experimental.WithMemoryAllocator(ctx, experimental.MemoryAllocatorFunc(func(_, _ uint64) experimental.LinearMemory { return m }))
}

// Reallocate implements experimental.LinearMemory.
func (m *linearMemory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.reserved)) {
		return nil
	}
	if size > m.size {
		if syscall.Mprotect(m.reserved[m.size:size], syscall.PROT_READ|syscall.PROT_WRITE) != nil {
			return nil
		}
		m.size = size
	}
	return m.reserved[:size:size]
}

// Free implements experimental.LinearMemory. It does nothing, because wazero calls it
// while calls of a cut module unwind.
func (m *linearMemory) Free() {}

// release returns the memory to the system. No call of the module may run.
func (m *linearMemory) release() {
	if m.reserved != nil {
		_ = syscall.Munmap(m.reserved) // fails only for other arguments
		m.reserved, m.size = nil, 0
	}
}
