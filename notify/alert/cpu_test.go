//go:build unix

// The processor time of the process, for benchmarks.

package alert_test

import (
	"syscall"
	"testing"
	"time"
)

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
