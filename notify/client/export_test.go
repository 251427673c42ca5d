package client

import "time"

// SetSilence changes how long a line may bring nothing, and returns how to change it back.
func SetSilence(d time.Duration) (back func()) {
	was := silence
	silence = d
	return func() { silence = was }
}
