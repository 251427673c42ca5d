package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// asleep returns how long the machine has been suspended since it was started.
func asleep() time.Duration {
	var since, awake unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &since) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake) != nil {
		return 0
	}
	return time.Duration(since.Nano() - awake.Nano())
}
