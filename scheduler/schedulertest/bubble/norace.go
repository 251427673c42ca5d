//go:build !race

package bubble

// This file says that the race detector is off.

const race = false
