//go:build amd64 || arm64

package local

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"unsafe"

	"github.com/freshet/freshet/endpoint/local/city"
)

// TestMemoryGrowsInPlace checks that an engine's memory does not move, and that it
// belongs to the system again once the engine is closed or rebuilt.
func TestMemoryGrowsInPlace(t *testing.T) {
	e := loaded(t, people)
	if e.current.memory.reserved == nil {
		t.Skip("the system refuses the address space")
	}
	at, size := uintptr(unsafe.Pointer(&memoryOf(e)[0])), len(memoryOf(e))
	if err := e.Load(context.Background(), strings.NewReader(numbers(30_000)), "nt"); err != nil {
		t.Fatal(err)
	}
	grown := memoryOf(e)
	if len(grown) <= size {
		t.Fatalf("the memory has not grown: %d bytes", len(grown))
	}
	if got := uintptr(unsafe.Pointer(&grown[0])); got != at {
		t.Errorf("the memory moved from %#x to %#x", at, got)
	}
	if n, err := e.Size(context.Background()); err != nil || n != 30_004 {
		t.Errorf("%d triples, %v", n, err)
	}
	if !mapped(t, at) {
		t.Fatalf("no mapping begins at %#x", at)
	}
	first := e.current
	if err := e.rebuild(); err != nil {
		t.Fatal(err)
	}
	if n, err := e.Size(context.Background()); err != nil || n != 30_004 {
		t.Errorf("%d triples after a rebuild, %v", n, err)
	}
	if first.memory.reserved != nil {
		t.Error("the memory of the replaced instance is kept")
	}
	at = uintptr(unsafe.Pointer(&memoryOf(e)[0]))
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if mapped(t, at) {
		t.Errorf("the memory at %#x is kept after Close", at)
	}
}

// TestMemoryLimit checks that a request beyond the reserved space is refused.
func TestMemoryLimit(t *testing.T) {
	var m linearMemory
	m.reserveMemory(context.Background())
	defer m.release()
	if m.reserved == nil {
		t.Skip("the system refuses the address space")
	}
	copy(m.Reallocate(1<<16), "kept")
	if b := m.Reallocate(1 << 20); len(b) != 1<<20 || string(b[:4]) != "kept" {
		t.Errorf("%d bytes, beginning with %q", len(b), b[:4])
	}
	if b := m.Reallocate(uint64(len(m.reserved)) + 1); b != nil {
		t.Errorf("%d bytes, more than reserved", len(b))
	}
}

// TestMemoryUnderALimit checks that an engine reserves nothing where the address space of
// the process is limited, and that it works.
func TestMemoryUnderALimit(t *testing.T) {
	const child = "FRESHET_TEST_LIMITED"
	if os.Getenv(child) == "" {
		self := exec.Command("sh", "-c", "ulimit -v 12000000; exec \"$0\" -test.run='^TestMemoryUnderALimit$' -test.v", os.Args[0])
		self.Env = append(os.Environ(), child+"=1")
		out, err := self.CombinedOutput()
		if !bytes.Contains(out, []byte("=== RUN")) {
			t.Skipf("the test does not start under a limit: %v", err)
		}
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	e := loaded(t, people)
	if e.current.memory.reserved != nil {
		t.Errorf("%d bytes of address space are reserved", len(e.current.memory.reserved))
	}
	if n, err := e.Size(context.Background()); err != nil || n == 0 {
		t.Errorf("%d triples, %v", n, err)
	}
}

func memoryOf(e *Engine) []byte { return e.current.memory.reserved[:e.current.memory.size] }

func mapped(t *testing.T, at uintptr) bool {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains("\n"+string(b), fmt.Sprintf("\n%x-", at))
}

// BenchmarkLoadMemory measures how much of an engine's memory is resident once the data
// of the demo is loaded.
func BenchmarkLoadMemory(b *testing.B) {
	base := city.New(1).Base()
	for b.Loop() {
		e := openEngine(b)
		if err := e.Load(context.Background(), bytes.NewReader(base), "nt"); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(len(memoryOf(e)))/1e6, "requested-MB")
		b.ReportMetric(float64(residentBytes(b, &memoryOf(e)[0]))/1e6, "resident-MB")
		e.Close()
	}
}

// residentBytes is the memory that the mappings around an address take.
func residentBytes(b *testing.B, p *byte) (n int) {
	b.Helper()
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		b.Fatal(err)
	}
	_, rest, _ := strings.Cut("\n"+string(maps), fmt.Sprintf("\n%x-", uintptr(unsafe.Pointer(p))))
	_, rest, _ = strings.Cut(rest, "\nRss:")
	fmt.Sscan(rest, &n)
	return n << 10
}
