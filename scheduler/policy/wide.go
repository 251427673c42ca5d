package policy

import (
	"math"
	"sync"
	"time"
)

// A wide is a number of about 32 decimal digits: the sum of two floats, the second
// at most half a unit in the last place of the first. Policies whose formula decays
// with age store its logarithm, to which the slot is added. In a single float that
// sum would lose digits that decide the order.
//
// Source: T. J. Dekker, "A floating-point technique for extending the available
// precision", 1971.
type wide struct{ hi, lo float64 }

func sumOf(a, b float64) wide {
	s := a + b
	v := s - a
	return wide{s, (a - (s - v)) + (b - v)}
}

func productOf(a, b float64) wide {
	p := float64(a * b)
	return wide{p, math.FMA(a, b, -p)}
}

func (w wide) plus(v wide) wide {
	s, t := sumOf(w.hi, v.hi), sumOf(w.lo, v.lo)
	s = sumOf(s.hi, s.lo+t.hi)
	return sumOf(s.hi, s.lo+t.lo)
}

func (w wide) minus(v wide) wide { return w.plus(wide{-v.hi, -v.lo}) }

func (w wide) times(v wide) wide {
	p := productOf(w.hi, v.hi)
	cross := float64(w.hi*v.lo) + float64(w.lo*v.hi)
	return sumOf(p.hi, p.lo+cross)
}

// over returns w divided by a small whole number.
func (w wide) over(n float64) wide {
	q := w.hi / n
	rest := math.FMA(-q, n, w.hi) + w.lo
	return sumOf(q, rest/n)
}

func (w wide) less(v wide) bool { return w.hi < v.hi || w.hi == v.hi && w.lo < v.lo }

// ln2 is the natural logarithm of two.
func ln2() wide { return wide{math.Ln2, 2.3190468138462996e-17} }

// exp is e^w for w of at most a few hundred. It is 0 for very negative w.
func (w wide) exp() wide {
	if w.hi < -700 {
		return wide{}
	}
	const halvings, terms = 9, 9
	k := math.Round(w.hi / math.Ln2)
	r := w.minus(ln2().times(wide{hi: k}))
	r = wide{math.Ldexp(r.hi, -halvings), math.Ldexp(r.lo, -halvings)}
	// The series is that of e^r − 1 rather than e^r, so that the squarings lose no
	// digits.
	sum := r.over(terms)
	for n := terms - 1; n >= 1; n-- {
		sum = sum.plus(wide{hi: 1}).times(r.over(float64(n)))
	}
	for range halvings { // (1 + s)² − 1 = 2s + s²
		sum = wide{2 * sum.hi, 2 * sum.lo}.plus(sum.times(sum))
	}
	e := sum.plus(wide{hi: 1})
	return wide{math.Ldexp(e.hi, int(k)), math.Ldexp(e.lo, int(k))}
}

// by returns w divided by v.
func (w wide) by(v wide) wide {
	q := w.hi / v.hi
	rest := math.FMA(-q, v.hi, w.hi) - float64(q*v.lo) + w.lo
	return sumOf(q, rest/v.hi)
}

// log is the natural logarithm; −Inf of 0. The number is 2^k·f with f in [½, 1).
// [½, 1) is divided into logParts parts; c is the middle of the part that contains
// f, and its logarithm is known: ln f = ln c + 2·artanh s with s = (f − c)/(f + c),
// |s| < 2^−9.
func (w wide) log() wide {
	switch {
	case w.hi == 0:
		return wide{hi: math.Inf(-1)}
	case math.IsInf(w.hi, 0) || w.hi == 1 && w.lo == 0:
		return wide{hi: math.Log(w.hi)}
	}
	f, k := math.Frexp(w.hi)
	low := math.Ldexp(w.lo, -k)
	part := int(f*(2*logParts)) - logParts
	c := middle(part)
	s := sumOf(f-c, low).by(sumOf(f, c).plus(wide{hi: low}))
	z := s.times(s)
	// Terms from the third on are below 2^−57 of the sum.
	rest := float64(z.hi * (1./7 + float64(z.hi*(1./9+float64(z.hi*(1./11+float64(z.hi*(1./13))))))))
	sum := z.times(fifth().plus(wide{hi: rest}))
	sum = z.times(third().plus(sum))
	sum = s.plus(s.times(sum))
	known := logs()[part]
	return ln2().times(wide{hi: float64(k)}).plus(known).plus(wide{2 * sum.hi, 2 * sum.lo})
}

func third() wide { return wide{1. / 3, 1.850371707708594e-17} }
func fifth() wide { return wide{0.2, -1.1102230246251566e-17} }

const logParts = 128

// middle is the middle of a part of [½, 1).
func middle(part int) float64 { return float64(2*(part+logParts)+1) / (4 * logParts) }

// logs holds the logarithms of the middles, each improved by a step of Newton's
// method, which doubles the digits.
var logs = sync.OnceValue(func() *[logParts]wide {
	var table [logParts]wide
	for i := range table {
		m := middle(i)
		y := math.Log(m)
		table[i] = wide{hi: y}.plus(wide{hi: m}.times(wide{hi: -y}.exp()).minus(wide{hi: 1}))
	}
	return &table
})

// logOf is the logarithm of a duration in nanoseconds. Durations of histories are in whole
// milliseconds, so that their medians are in halves: a table has those of up to half a
// second.
func logOf(d time.Duration) wide {
	if n := d / halfStep; n > 0 && n < halves && d%halfStep == 0 {
		return logsOfHalves()[n]
	}
	return wide{hi: float64(d)}.log()
}

const (
	halfStep = time.Millisecond / 2
	halves   = 1024
)

var logsOfHalves = sync.OnceValue(func() *[halves]wide {
	var table [halves]wide
	for n := range table {
		table[n] = wide{hi: float64(time.Duration(n) * halfStep)}.log()
	}
	return &table
})

// logAdd is ln(e^a + e^b).
func logAdd(a, b wide) wide {
	if a.less(b) {
		a, b = b, a
	}
	if math.IsInf(b.hi, -1) {
		return a
	}
	return a.plus(wide{hi: 1}.plus(b.minus(a).exp()).log())
}

// aged is ln x + lambda·last: the logarithm of x·e^(−lambda·(i−last)) in every slot
// i, without −lambda·i, which is the same for all queries.
func aged(x float64, lambda float64, last uint64) wide { return wide{hi: x}.log().aged(lambda, last) }

// aged is the function aged of e^l.
func (l wide) aged(lambda float64, last uint64) wide {
	if math.IsInf(l.hi, 0) {
		return wide{hi: l.hi}
	}
	return l.plus(productOf(lambda, float64(last)))
}

// ascending and descending make keys from wide values.
func ascending(class int, w wide) Key { return Key{Class: class, Value: w.hi, Low: w.lo} }

func descending(class int, w wide) Key { return Key{Class: class, Value: -w.hi, Low: -w.lo} }
