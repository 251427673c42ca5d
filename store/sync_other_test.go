//go:build !linux

package store

import (
	"os"
	"testing"
	"time"
)

func fdatasync(f *os.File) error { return f.Sync() }

var processStart = time.Now()

func processorTime(testing.TB) time.Duration { return time.Since(processStart) }
