//go:build !linux

package clock

import "time"

// asleep returns 0: this system does not report how long it has been suspended.
func asleep() time.Duration { return 0 }
