package local

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindEngine(t *testing.T) {
	empty := t.TempDir()
	t.Setenv(EngineEnv, "")
	t.Setenv("XDG_CACHE_HOME", empty)
	t.Setenv("HOME", empty)
	t.Chdir(empty)
	want := func(got, path string, err error) {
		t.Helper()
		real, _ := filepath.EvalSymlinks(path)
		if err != nil || got != path && got != real {
			t.Errorf("got %s, %v, want %s", got, err, path)
		}
	}

	_, missing := FindEngine("")
	if !errors.Is(missing, ErrNoEngine) {
		t.Fatalf("nowhere: %v", missing)
	}
	// Where packages put it: the program of this test is in a directory as /usr/bin is.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	packaged := filepath.Join(filepath.Dir(filepath.Dir(self)), "share", "freshet", "oxigraph.wasm")
	for _, part := range []string{packaged, "make deps", filepath.Join(empty, inCheckout), "oxigraph.wasm", "freshet", EngineEnv} {
		if !strings.Contains(missing.Error(), part) {
			t.Errorf("the error does not name %s:\n%v", part, missing)
		}
	}
	if _, err := os.UserCacheDir(); err != nil {
		t.Fatal(err)
	}

	// From the lowest to the highest priority.
	cached := filepath.Join(mustCacheDir(t), "freshet", "oxigraph.wasm")
	write(t, cached, []byte("x"))
	got, err := FindEngine("")
	want(got, cached, err)

	checkout := filepath.Join(empty, "checkout")
	inTree := filepath.Join(checkout, inCheckout)
	write(t, inTree, []byte("x"))
	deep := filepath.Join(checkout, "a", "b")
	if err := os.MkdirAll(deep, 0o750); err != nil {
		t.Fatal(err)
	}
	t.Chdir(deep)
	got, err = FindEngine("")
	want(got, inTree, err)

	named := filepath.Join(empty, "named.wasm")
	write(t, named, []byte("x"))
	t.Setenv(EngineEnv, named)
	got, err = FindEngine("")
	want(got, named, err)

	explicit := filepath.Join(empty, "explicit.wasm")
	write(t, explicit, []byte("x"))
	got, err = FindEngine(explicit)
	want(got, explicit, err)

	// If the file that the user names does not exist, that is an error: other
	// places are not tried.
	for _, path := range []string{filepath.Join(empty, "absent.wasm"), empty} {
		if _, err := FindEngine(path); !errors.Is(err, ErrNoEngine) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func mustCacheDir(t *testing.T) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
