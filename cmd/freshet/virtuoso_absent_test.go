//go:build !virtuoso

package main

import "testing"

// Without the tag the tests on Virtuoso are not there to be skipped: this one
// stands for them, or fails where they are required.
func TestVirtuoso(t *testing.T) {
	part(t, "virtuoso", "install virtuoso-opensource and test with -tags virtuoso")
}
