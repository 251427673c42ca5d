package store

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func fdatasync(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// processorTime returns the processor time that the process has used so far.
func processorTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
