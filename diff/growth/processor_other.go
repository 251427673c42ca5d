//go:build !linux

package growth

import "time"

// Processor is the wall-clock time, where threads have no clock of their own.
func Processor() time.Duration { return time.Duration(time.Now().UnixNano()) }
