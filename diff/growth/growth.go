// Package growth tests how the cost of a function grows with the size of its
// input. It fits the exponent of a power law to processor time and to allocated
// memory, so that tests do not depend on the speed of a machine.
package growth

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

// Most is the largest exponent of O(n log n) work over the sizes that a test
// can afford; O(n²) has 2. Allocated memory must not exceed it. Processor time
// may exceed it on a busy machine, where larger inputs lose more of the caches
// than smaller ones; the test fails only beyond MostTime.
const (
	Most     = 1.2
	MostTime = 1.5
)

// An Input is one hostile input.
type Input struct {
	Size int    // in bytes, or in another unit that the cost grows with
	Work func() // the measured function; it is called several times
}

const (
	repeats = 2  // measurements in a round; the least of all rounds counts
	rounds  = 12 // before a fit that is too steep counts: noise passes, growth does not
)

// Check fails the test if from one input to the next larger one memory grows
// faster than Size to the power of Most, or processor time faster than Size to
// the power of MostTime. It measures again while the time is above Most. Name
// tests that use it TestLong…, so that they run without the race detector.
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
	if spent > MostTime || memory > Most {
		t.Errorf("cost grows too fast: processor time with exponent %.2f, at most %.1f; memory with %.2f, at most %.1f", spent,
			MostTime, memory, Most)
	}
}

// measure returns the minimum processor time in seconds and the bytes
// allocated.
func measure(work func()) (seconds, bytes float64) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	seconds = math.Inf(1)
	for range repeats {
		runtime.GC()
		gc := debug.SetGCPercent(-1) // marking would be charged to the allocating thread
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := Processor()
		work()
		took := Processor() - start
		runtime.ReadMemStats(&after)
		debug.SetGCPercent(gc)
		seconds = min(seconds, max(took, time.Microsecond).Seconds())
		bytes = float64(after.TotalAlloc-before.TotalAlloc) + 64<<10 // the offset hides small allocations
	}
	return seconds, bytes
}

// exponent is the slope of a least-squares line through the logarithms.
func exponent(inputs []Input, costs []float64) float64 {
	var x, y, xx, xy float64
	n := float64(len(inputs))
	for i, in := range inputs {
		a, b := math.Log(float64(in.Size)), math.Log(costs[i])
		x, y, xx, xy = x+a, y+b, xx+a*a, xy+a*b
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

// Sizes returns an input for each of four sizes, each twice the previous one.
func Sizes(least int, make func(n int) Input) []Input {
	var list []Input
	for n := least; len(list) < 4; n *= 2 {
		list = append(list, make(n))
	}
	return list
}
