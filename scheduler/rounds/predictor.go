package rounds

import (
	"math"
	"time"

	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/update"
)

// A predictor learns at which hours of the day and days of the week a query
// changes. It caches its predictions until the next execution.
type predictor struct {
	update.Week
	dirty    bool
	times    map[time.Time]time.Time
	forecast *forecast
}

const (
	maxTimes = 4096     // cached times
	evenOdds = math.Ln2 // expected number of Poisson changes at which at least one has probability 1/2
)

// knowsHours reports whether enough changes were seen to predict by the hour.
func (p *predictor) knowsHours() bool { return p.All.Updates >= minChanges }

// next returns the time by which the probability of a change since from reaches 1/2.
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

// slot returns the slot by which the probability of a change since slot from reaches
// 1/2. ok is false if too little is known.
func (p *predictor) slot(history []policy.Sample, from uint64) (slot uint64, ok bool) {
	if p.forecast == nil {
		f := forecastOf(history)
		p.forecast = &f
	}
	return p.forecast.due(from), p.forecast.known
}

// observe learns from a complete execution.
func (p *predictor) observe(x *Observation) {
	p.times, p.forecast = nil, nil
	if !x.Before.IsZero() {
		p.Learn(x.Before, x.Checked, x.changed())
		p.dirty = true
	}
}
