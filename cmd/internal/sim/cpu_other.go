//go:build !linux

package main

// This file measures time where the processor's is not known.

import "time"

var begun = time.Now()

// processor is the time that has passed, where nothing better is known.
func processor() time.Duration { return time.Since(begun) }
