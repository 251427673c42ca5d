package local

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/scheduler/schedulertest/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// skipPart skips a test that needs a missing part, or fails it if the part is
// required.
func skipPart(t testing.TB, part, how string) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv("FRESHET_REQUIRE"), ","), part) {
		t.Fatalf("part %s is required but absent: %s", part, how)
	}
	t.Skipf("SKIP-PART %s: %s", part, how)
}

// testData is a folder of the test data, which is not part of the checkout.
func testData(t testing.TB, name string) string {
	t.Helper()
	root := os.Getenv("FRESHET_TEST_DATA")
	if root == "" {
		t.Skip("FRESHET_TEST_DATA is not set")
	}
	return filepath.Join(root, name)
}

func enginePath(t testing.TB) string {
	t.Helper()
	path, err := FindEngine("")
	if err != nil {
		skipPart(t, "engine", `run "make deps"`)
	}
	return path
}

func openEngine(t testing.TB) *Engine {
	t.Helper()
	e, err := Open(context.Background(), Options{Path: enginePath(t)})
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

func loaded(t testing.TB, document string) *Engine {
	t.Helper()
	e := openEngine(t)
	if err := e.Load(context.Background(), strings.NewReader(document), "nt"); err != nil {
		t.Fatal(err)
	}
	return e
}

// sortedQuads is the dataset in a form that is comparable without blank nodes.
func sortedQuads(t testing.TB, e *Engine) []string {
	t.Helper()
	var lines []string
	err := e.do(t.Context(), func(i *instance) error {
		return i.dump(t.Context(), func(quads []byte) error {
			lines = strings.Split(strings.TrimSpace(string(quads)), "\n")
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(lines)
	return lines
}
