package scheduler

import (
	"slices"
	"time"
)

// Ring is how many complete executions Stats.Samples remembers.
const Ring = 63

// Median is the median of the execution times in Samples, the baseline's
// included; of an even number it is the mean of the middle two. 0 when there
// are none.
func (s *Stats) Median() time.Duration {
	var buf [Ring]time.Duration
	times := buf[:0]
	for _, x := range s.Samples {
		times = append(times, x.Elapsed)
	}
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	m := len(times) / 2
	if len(times)%2 == 1 {
		return times[m]
	}
	return times[m-1] + (times[m]-times[m-1])/2
}

// sample appends x to the ring. The backing array is shared by one chain of
// Stats and written only behind the end of what was handed out, so older
// copies keep their values.
func (s *Stats) Remember(x Sample) {
	if len(s.Samples) >= Ring && len(s.Samples) == cap(s.Samples) {
		room := make([]Sample, 0, 2*Ring+2)
		s.Samples = append(room, s.Samples[len(s.Samples)-Ring+1:]...)
	} else if len(s.Samples) >= Ring {
		s.Samples = s.Samples[len(s.Samples)-Ring+1:]
	}
	s.Samples = append(s.Samples, x)
}

// frozen is a copy that stays as it is, whatever becomes of the original.
func (s Stats) Frozen() Stats {
	s.Samples = s.Samples[:len(s.Samples):len(s.Samples)]
	s.State = slices.Clone(s.State)
	return s
}

// owned is a copy that shares nothing with the original.
func (s Stats) Clone() Stats {
	s.Samples = slices.Clone(s.Samples)
	s.State = slices.Clone(s.State)
	return s
}

// refold computes the state that policy p has after the remembered samples.
// The first of them is the baseline unless the ring has dropped it.
func (s *Stats) Refold(p Policy) {
	s.Policy, s.State = p.String(), nil
	if len(s.Samples) == 0 {
		return
	}
	last, from := s.Samples[0].Slot, 1
	if s.Executions > uint64(len(s.Samples)) {
		from = 0
	}
	for _, x := range s.Samples[from:] {
		s.State = p.Fold(s.State, last, x)
		last = x.Slot
	}
}
