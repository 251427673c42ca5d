package figure

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot"
	"pgregory.net/rapid"
)

// marks returns the labels that an axis shows.
func marks(k plot.Ticker, low, high float64) (out []string) {
	for _, x := range k.Ticks(low, high) {
		if x.Label != "" {
			out = append(out, x.Label)
		}
	}
	return out
}

// Axes are marked at round numbers, three at least.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		axis      plot.Ticker
		low, high float64
		want      []string
	}{
		{evenTicks{}, 1, 2208, []string{"500", "1,000", "1,500", "2,000"}},
		{evenTicks{}, 0, 32, []string{"0", "5", "10", "15", "20", "25", "30"}},
		{evenTicks{}, 0, 0.7, []string{"0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"}},
		{evenTicks{}, 0, 0.9, []string{"0", "0.2", "0.4", "0.6", "0.8"}},
		{evenTicks{}, 0, 850, []string{"0", "200", "400", "600", "800"}},
		{decades{}, 15_000, 900_000, []string{"20,000", "50,000", "100,000", "200,000", "500,000"}},
		{decades{}, 1, 2208, []string{"1", "10", "100", "1,000"}},
	} {
		if d := cmp.Diff(c.want, marks(c.axis, c.low, c.high)); d != "" {
			t.Errorf("%g to %g: -want +got\n%s", c.low, c.high, d)
		}
	}
}

// An axis has three to nine labels, whatever its range.
func TestTickCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(-1e6, 1e6).Draw(t, "low")
		width := math.Pow(10, rapid.Float64Range(-3, 7).Draw(t, "log10 of the width"))
		if n := len(marks(evenTicks{}, low, low+width)); n < 3 || n > 9 {
			t.Fatalf("%d labels between %g and %g", n, low, low+width)
		}
	})
}
