package local

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// The engine that the user names is the only one that is tried. The one in the program
// precedes that of a checkout.
func TestFindEngine(t *testing.T) {
	held := Packed
	defer func() { Packed = held }()
	empty := t.TempDir()
	t.Setenv(EngineEnv, "")
	t.Chdir(empty)
	want := func(explicit, path string) {
		t.Helper()
		if got, err := FindEngine(explicit); err != nil || got != path {
			t.Errorf("got %q, %v, want %q", got, err, path)
		}
	}
	Packed = nil
	_, missing := FindEngine("")
	if !errors.Is(missing, ErrNoEngine) {
		t.Fatalf("nowhere: %v", missing)
	}
	for _, part := range []string{"go install", "make build", "--engine", EngineEnv} {
		if !strings.Contains(missing.Error(), part) {
			t.Errorf("the error does not name %s:\n%v", part, missing)
		}
	}

	// From the lowest to the highest priority.
	checkout := filepath.Join(empty, "checkout")
	inTree := filepath.Join(checkout, inCheckout)
	write(t, inTree, []byte("x"))
	deep := filepath.Join(checkout, "a", "b")
	if err := os.MkdirAll(deep, 0o750); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deep)
	want("", inTree)
	Packed = []byte("x")
	want("", "")
	named := filepath.Join(empty, "named.wasm")
	write(t, named, []byte("x"))
	t.Setenv(EngineEnv, named)
	want("", named)
	explicit := filepath.Join(empty, "explicit.wasm")
	write(t, explicit, []byte("x"))
	want(explicit, explicit)

	// If the file that the user names does not exist, that is an error: other
	// places are not tried.
	for _, path := range []string{filepath.Join(empty, "absent.wasm"), empty} {
		if _, err := FindEngine(path); !errors.Is(err, ErrNoEngine) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The engine in the program is the file, compressed.
func TestPackedEngine(t *testing.T) {
	held := Packed
	defer func() { Packed = held }()
	path := enginePath(t)
	want, err := readEngine(path)
	if err != nil {
		t.Fatal(err)
	}
	if Packed == nil || path == "" {
		z, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		Packed = z.EncodeAll(want, nil)
	}
	t.Setenv(EngineEnv, "")
	e, err := Open(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if got, err := readEngine(""); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the engine of the program has %d bytes, the file %d: %v", len(got), len(want), err)
	}
}
