//go:build !linux

package growth

import "time"

// processor is the wall-clock time, where threads have no clock of their own.
func processor() time.Duration { return time.Duration(time.Now().UnixNano()) }
