package rounds

import (
	"iter"
	"math"
	"time"

	"github.com/freshet/freshet/scheduler/update"
)

// A predictor learns when a query changes, by hour of the day and day of the
// week, and caches what follows until the next execution.
type predictor struct {
	update.Week
	dirty    bool
	times    map[time.Time]time.Time
	forecast *forecast
}

const (
	maxTimes = 4096     // cached times
	evenOdds = math.Ln2 // expected changes of a Poisson process for even odds of at least one
)

// knowsHours reports whether enough changes were seen to go by hours.
func (p *predictor) knowsHours() bool { return p.All.Updates >= minChanges }

// next is when the next change is as likely as not, counted from a time on.
func (p *predictor) next(from time.Time) time.Time {
	at, ok := p.times[from]
	if !ok {
		if p.times == nil || len(p.times) >= maxTimes {
			p.times = map[time.Time]time.Time{}
		}
		at = p.When(from, evenOdds)
		p.times[from] = at
	}
	return at
}

// slot is the slot by which the next change is as likely as not, counted from a
// slot on; ok is false while too little is known.
func (p *predictor) slot(history iter.Seq2[uint64, bool], from uint64) (slot uint64, ok bool) {
	if p.forecast == nil {
		f := forecastOf(history)
		p.forecast = &f
	}
	return p.forecast.due(from), p.forecast.known
}

// observe adds a complete execution.
func (p *predictor) observe(x *Observation) {
	p.times, p.forecast = nil, nil
	if !x.Before.IsZero() {
		p.Learn(x.Before, x.Checked, x.changed())
		p.dirty = true
	}
}
