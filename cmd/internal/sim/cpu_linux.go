package main

import (
	"syscall"
	"time"
)

// processor is the time that this thread has used a processor.
func processor() time.Duration {
	const thread = 1
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
