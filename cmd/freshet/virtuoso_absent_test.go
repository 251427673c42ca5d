//go:build !virtuoso

package main

import (
	"testing"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// Without the build tag there are no tests on Virtuoso to skip. This test reports them as skipped,
// or fails where they are required.
func TestVirtuoso(t *testing.T) {
	clitest.SkipPart(t, "virtuoso", "install virtuoso-opensource and test with -tags virtuoso")
}
