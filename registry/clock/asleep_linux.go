package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// Asleep returns how long the machine has been suspended since it was started, and whether the system reports that.
func Asleep() (asleep time.Duration, known bool) {
	var since, awake unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &since) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &awake) != nil {
		return 0, false
	}
	return time.Duration(since.Nano() - awake.Nano()), true
}
