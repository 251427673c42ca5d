package city

// random is the SplitMix64 generator (Steele, Lea and Flood, 2014). It is
// written here so that the same seed gives the same city with any version of
// the library.
type random struct{ state uint64 }

func newRandom(seed uint64) *random { return &random{seed} }

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below is a number in [0, n). The bias of the remainder does not matter here.
func (r *random) below(n int) int { return int(r.next() % uint64(n)) }

// between is a number in [low, high].
func (r *random) between(low, high int) int { return low + r.below(high-low+1) }

// oneIn is true once in n times.
func (r *random) oneIn(n int) bool { return r.below(n) == 0 }

func pick[T any](r *random, list []T) T { return list[r.below(len(list))] }
