package trace_test

import (
	"errors"
	"math"
	"testing"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/bench/trace/tracetest"
)

// Half-way, some queries stop changing and others start. The changes and the total
// time of each revision stay the same.
func TestDrift(t *testing.T) {
	l := tracetest.Small(200, 120)
	plain, err := trace.Generate(t.Context(), l, 5)
	if err != nil {
		t.Fatal(err)
	}
	drifted, err := trace.Generate(t.Context(), l, 5)
	if err = errors.Join(err, drifted.Drift(5)); err != nil {
		t.Fatal(err)
	}
	sum := func(row []int32) (ms int64) {
		for _, x := range row {
			ms += int64(x)
		}
		return ms
	}
	for i := range plain.Times {
		if a, b := sum(plain.Times[i]), sum(drifted.Times[i]); a != b {
			t.Fatalf("revision %d takes %d ms, without drift %d", i, b, a)
		}
	}
	perRevision := func(tr *trace.Trace) (n [121]int) {
		for _, s := range tr.Series {
			for _, v := range s.Versions[1:] {
				n[v.Rev]++
			}
		}
		return n
	}
	if a, b := perRevision(plain), perRevision(drifted); a != b {
		t.Errorf("changes per revision %v, without drift %v", b, a)
	}
	const half = 60
	was := map[int]bool{}
	for _, s := range plain.Series {
		was[s.Query] = true
	}
	stopped, started := 0, 0
	for _, s := range drifted.Series {
		switch first, last := s.Versions[min(1, len(s.Versions)-1)].Rev, s.Versions[len(s.Versions)-1].Rev; {
		case !was[s.Query]:
			started++
			if first <= half {
				t.Errorf("query %d, which never changed, changes in revision %d", s.Query, first)
			}
		case last <= half:
			stopped++
		}
	}
	if started < len(plain.Series)/4 || stopped < started {
		t.Errorf("%d of %d queries stop, %d start", stopped, len(plain.Series), started)
	}
}

// In random revisions, queries change as often as before, and without periods: a query that changes half of the
// time hardly ever waits for long.
func TestRandomize(t *testing.T) {
	l := tracetest.Small(200, 120)
	plain, err := trace.Generate(t.Context(), l, 5)
	if err != nil {
		t.Fatal(err)
	}
	random, err := trace.Generate(t.Context(), l, 5)
	if err = errors.Join(err, random.Randomize(5)); err != nil {
		t.Fatal(err)
	}
	again, err := trace.Generate(t.Context(), l, 5)
	if err = errors.Join(err, again.Randomize(5)); err != nil {
		t.Fatal(err)
	}
	moved, seen := 0, map[int]bool{}
	for i, s := range random.Series {
		was := plain.Series[i]
		if s.Query != was.Query || len(s.Versions) != len(was.Versions) {
			t.Fatalf("query %d has %d versions, query %d had %d", s.Query, len(s.Versions), was.Query, len(was.Versions))
		}
		for k, v := range s.Versions[1:] {
			if v.Rev <= s.Versions[k].Rev || v.Rev > random.Revisions || v.Rev != again.Series[i].Versions[k+1].Rev {
				t.Fatalf("query %d changes in revision %d after %d", s.Query, v.Rev, s.Versions[k].Rev)
			}
			seen[v.Rev] = true
			if v.Rev != was.Versions[k+1].Rev {
				moved++
			}
		}
	}
	if moved < 10 || len(seen) < 60 {
		t.Errorf("%d changes moved, in %d revisions", moved, len(seen))
	}
}

// A copy with other times has the same changes. The logarithms of the factors have the deviation that is asked for, the same
// seed draws the same ones, and the trace itself stays as it is.
func TestVary(t *testing.T) {
	plain, err := trace.Generate(t.Context(), tracetest.Small(200, 120), 5)
	if err != nil {
		t.Fatal(err)
	}
	before := plain.Sum()
	const deviation = 0.5
	varied := plain.Vary(3, deviation)
	if plain.Sum() != before {
		t.Error("the trace itself has changed")
	}
	if err := varied.Seal(); err != nil || varied.Changes() != plain.Changes() {
		t.Fatalf("%d changes instead of %d, %v", varied.Changes(), plain.Changes(), err)
	}
	if a, b := plain.Vary(3, deviation).Sum(), plain.Vary(4, deviation).Sum(); a != varied.Sum() || b == a {
		t.Error("equal seeds give different times, or different seeds equal ones")
	}
	n, sum, squares := 0.0, 0.0, 0.0
	for rev, row := range plain.Times {
		for q, ms := range row {
			if ms < 40 { // rounding moves it
				continue
			}
			x := math.Log(float64(varied.Times[rev][q]) / float64(ms))
			n, sum, squares = n+1, sum+x, squares+x*x
		}
	}
	mean := sum / n
	if got := math.Sqrt(squares/n - mean*mean); n < 1000 || math.Abs(mean) > 0.05 || math.Abs(got-deviation) > 0.05 {
		t.Errorf("of %g times the logarithm of the factor is %.3f ± %.3f, want 0 ± %g", n, mean, got, deviation)
	}
}
