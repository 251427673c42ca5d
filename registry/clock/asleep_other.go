//go:build !linux

package clock

import "time"

// Asleep reports that this system does not say how long it has been suspended.
func Asleep() (asleep time.Duration, known bool) { return 0, false }
