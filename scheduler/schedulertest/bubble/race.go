//go:build race

package bubble

// This file says that the race detector is on.

const race = true
