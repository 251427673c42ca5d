package growth

import (
	"math"
	"testing"
)

func TestExponent(t *testing.T) {
	inputs := []Input{{Size: 10}, {Size: 20}, {Size: 40}}
	for want, costs := range map[float64][]float64{1: {5, 10, 20}, 2: {1, 4, 16}, 0: {3, 3, 3}} {
		if got := exponent(inputs, costs); math.Abs(got-want) > 1e-9 {
			t.Errorf("costs %v grow with exponent %g, want %g", costs, got, want)
		}
	}
}

// A recorder remembers whether a check failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Logf(string, ...any)   {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

var sink int

func TestLongCheckFindsQuadraticWork(t *testing.T) {
	for name, c := range map[string]struct {
		work func(n int)
		fail bool
	}{
		"linear":    {func(n int) { spin(n * 2000) }, false},
		"quadratic": {func(n int) { spin(n * n) }, true},
		"memory": {func(n int) {
			for i := range n {
				sink += len(make([]byte, i*8))
			}
		}, true},
	} {
		r := &recorder{TB: t}
		Check(r, Sizes(500, func(n int) Input { return Input{n, func() { c.work(n) }} })...)
		if r.failed != c.fail {
			t.Errorf("%s work: failed %t, want %t", name, r.failed, c.fail)
		}
	}
}

func spin(n int) {
	for i := range n {
		sink ^= i
	}
}
