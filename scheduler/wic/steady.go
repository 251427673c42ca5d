package wic

import "math"

// Steady returns the gain of a page that was last monitored tau instants ago and has
// changed in each instant with the same probability pi. It uses the closed form, in
// constant time, or O(Z) for change windows.
//
// With a = r(1−π), b = rπ and f_q(t) = r^t·C(t,q)·π^q·(1−π)^(t−q), the value at age
// t of a change that q others followed, f_q(t+1) = a·f_q(t) + b·f_{q−1}(t). Summed
// over the ages below n this telescopes:
//
//	S_q·(1 − a) = f_q(0) − f_q(n) + b·S_{q−1}
//
// The gain is π·Σ_{q<Z} S_q. Overwrite is Z = 1; append is π·Σ r^t.
func Steady(u Urgency, l Life, pi float64, tau uint64) float64 {
	n := float64(tau)
	if w := reach(u, l); w >= 0 {
		n = min(n, float64(w)+1)
	}
	if pi <= 0 || n <= 0 {
		return 0
	}
	r := u.decay()
	if !l.dies() {
		return pi * powers(r, n)
	}
	if pi >= 1 { // every instant has a change, so a change's age is the number of later ones
		return powers(r, min(n, float64(l.states())))
	}
	a, b := r*(1-pi), r*pi
	sum, before := 0.0, 0.0
	f := math.Pow(a, n) // f_q(n), first for q = 0
	for q := range l.states() {
		zero := 0.0
		if q == 0 {
			zero = 1
		}
		before = (zero - f + b*before) / (1 - a)
		sum += max(0, before)
		f *= (n - float64(q)) / float64(q+1) * pi / (1 - pi)
	}
	return pi * sum
}

// powers returns Σ_{t<n} r^t.
func powers(r, n float64) float64 {
	if r == 1 {
		return n
	}
	return (1 - math.Pow(r, n)) / (1 - r)
}
