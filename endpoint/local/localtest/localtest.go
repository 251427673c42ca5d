// Package localtest opens the embedded engine for tests.
package localtest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/endpoint/local"
)

// Open opens an engine that is closed at the end of the test. Without one it skips the test, or
// fails it if FRESHET_REQUIRE names the part "engine".
func Open(t testing.TB) *local.Engine {
	t.Helper()
	path, err := local.FindEngine("")
	if err != nil {
		const message = `SKIP-PART engine: run "make deps"`
		if slices.Contains(strings.Split(os.Getenv("FRESHET_REQUIRE"), ","), "engine") {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	e, err := local.Open(t.Context(), local.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}
