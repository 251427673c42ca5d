//go:build !virtuoso

package endpoint

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// Without the build tag there are no tests on Virtuoso to skip. This test reports them as
// skipped, or fails where they are required.
func TestVirtuoso(t *testing.T) {
	const message = "SKIP-PART virtuoso: install virtuoso-opensource and test with -tags virtuoso"
	if slices.Contains(strings.Split(os.Getenv("FRESHET_REQUIRE"), ","), "virtuoso") {
		t.Fatal(message)
	}
	t.Skip(message)
}
