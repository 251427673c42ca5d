// Package leak checks that the tests of a package leave no goroutine behind.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// patience is how long a goroutine may take to end after the tests. goleak alone waits for
// less than half a second, in which a busy machine may not run it.
const patience = time.Minute

// Main runs the tests of a package for its TestMain, and fails them if goroutines are left.
func Main(m *testing.M) {
	code := m.Run()
	if code == 0 {
		if err := wait(); err != nil {
			fmt.Fprintln(os.Stderr, "the tests passed and left goroutines behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Check fails a test if there are more goroutines than that of the test.
func Check(t testing.TB) {
	t.Helper()
	if err := wait(); err != nil {
		t.Error(err)
	}
}

// wait returns what goleak finds once that is nothing, or after the patience.
func wait() error {
	for end := time.Now().Add(patience); ; {
		err := goleak.Find()
		if err == nil || time.Now().After(end) {
			return err
		}
	}
}
