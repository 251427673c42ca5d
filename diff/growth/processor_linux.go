package growth

import (
	"time"

	"golang.org/x/sys/unix"
)

// Processor is the processor time of this thread.
func Processor() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}
