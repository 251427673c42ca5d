// Package growth tells tests how the cost of some work grows with the size of
// its input. It fits the exponent of a power law to processor time and to
// allocated memory, so that no test depends on how fast a machine is.
package growth

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// Most is the largest exponent that passes: n log n has less than 1.2 over any
// sizes that a test can afford, and n² has 2.
const Most = 1.2

// An Input is one hostile input.
type Input struct {
	Size int    // bytes, or whatever the cost may grow with
	Work func() // what is measured; it is called several times
}

const (
	repeats = 2  // of each measurement in a round; the least of all rounds counts
	rounds  = 12 // before a fit that is too steep counts: noise passes, growth does not
)

// Check fails the test when time or memory grow faster than Size to the power of
// Most from one input to the next larger ones.
func Check(t testing.TB, inputs ...Input) {
	t.Helper()
	var spent, memory float64
	times, bytes := make([]float64, len(inputs)), make([]float64, len(inputs))
	for round := range rounds {
		for i, in := range inputs {
			t, b := measure(in.Work)
			if bytes[i] = b; round == 0 || t < times[i] {
				times[i] = t
			}
		}
		spent, memory = exponent(inputs, times), exponent(inputs, bytes)
		t.Logf("processor time %.3g s, exponent %.2f; memory %.3g B, exponent %.2f", times, spent, bytes, memory)
		if spent <= Most && memory <= Most {
			return
		}
	}
	t.Errorf("cost grows faster than size^%.1f: processor time with exponent %.2f, memory with %.2f", Most, spent, memory)
}

// measure gives the least processor time in seconds and the bytes allocated.
func measure(work func()) (seconds, bytes float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	seconds = math.Inf(1)
	for range repeats {
		runtime.GC()
		gc := debug.SetGCPercent(-1) // marking would be charged to whoever allocates
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := processor()
		work()
		took := processor() - start
		runtime.ReadMemStats(&after)
		debug.SetGCPercent(gc)
		seconds = min(seconds, max(took, time.Microsecond).Seconds())
		bytes = float64(after.TotalAlloc-before.TotalAlloc) + 64<<10 // what little ones take does not count
	}
	return seconds, bytes
}

// exponent is the slope of a line through the logarithms, by least squares.
func exponent(inputs []Input, costs []float64) float64 {
	var x, y, xx, xy float64
	n := float64(len(inputs))
	for i, in := range inputs {
		a, b := math.Log(float64(in.Size)), math.Log(costs[i])
		x, y, xx, xy = x+a, y+b, xx+a*a, xy+a*b
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

// Sizes makes an input for each of four sizes, each twice the one before.
func Sizes(least int, make func(n int) Input) []Input {
	var list []Input
	for n := least; len(list) < 4; n *= 2 {
		list = append(list, make(n))
	}
	return list
}
