package retrieval

import "math"

// A Daily is a posting rate that repeats each day. Its bins have equal length and
// hold postings per day. The day is the interval [0, 1).
type Daily struct {
	rate  []float64
	count []float64 // ∫λ up to the start of each bin, and up to the end of the day
	late  []float64 // ∫t·λ likewise
}

// NewDaily returns a Daily with these rates of the bins, in any unit.
func NewDaily(rates []float64) *Daily {
	n := len(rates)
	d := &Daily{rate: rates, count: make([]float64, n+1), late: make([]float64, n+1)}
	for i, r := range rates {
		from, to := float64(i)/float64(n), float64(i+1)/float64(n)
		d.count[i+1] = d.count[i] + r*(to-from)
		d.late[i+1] = d.late[i] + r*(to*to-from*from)/2
	}
	return d
}

// integrals returns ∫λ and ∫tλ from 0 to t, which may lie in any day.
func (d *Daily) integrals(t float64) (count, late float64) {
	day := math.Floor(t)
	at := t - day
	n := len(d.rate)
	b := min(int(at*float64(n)), n-1)
	from := float64(b) / float64(n)
	count = d.count[b] + d.rate[b]*(at-from)
	late = d.late[b] + d.rate[b]*(at*at-from*from)/2
	whole, mass := d.count[n], d.late[n]
	// Day k contributes ∫(t+k)λ = mass + k·whole. The last, partial day is shifted.
	return day*whole + count, day*mass + whole*day*(day-1)/2 + late + day*count
}

// Rate returns λ(t). At the start of a bin it is the rate of that bin.
func (d *Daily) Rate(t float64) float64 {
	n := len(d.rate)
	return d.rate[min(int((t-math.Floor(t))*float64(n)), n-1)]
}

// Count returns ∫λ from a to b.
func (d *Daily) Count(a, b float64) float64 {
	x, _ := d.integrals(a)
	y, _ := d.integrals(b)
	return y - x
}

// wait returns ∫λ(t)(b − t)dt from a to b: the expected delay of the postings between
// two retrievals.
func (d *Daily) wait(a, b float64) float64 {
	n1, t1 := d.integrals(a)
	n2, t2 := d.integrals(b)
	return max(0, b*(n2-n1)-(t2-t1))
}

// Delay returns the expected delay in days, summed over a day's postings, for
// retrievals at the times tau, ascending in [0, 1):
//
//	D = Σ_j ∫_{τ_j}^{τ_{j+1}} λ(t)(τ_{j+1} − t)dt,  τ_{m+1} = 1 + τ_1
func (d *Daily) Delay(tau []float64) (sum float64) {
	for j, a := range tau {
		b := 1 + tau[0]
		if j+1 < len(tau) {
			b = tau[j+1]
		}
		sum += d.wait(a, b)
	}
	return sum
}
