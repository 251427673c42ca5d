package proof

import (
	"slices"
	"time"
)

// How an armed query is asked again at an endpoint that tells no position: first when half of the
// earlier events had shown, then at growing gaps, and last when the answer is known to include the
// event. These are parts of the earlier events, in percent.
var shares = [...]int{50, 75, 90, 100}

// Soon is a lag after which it is worth waiting: one answer is asked for when it has passed, and none before.
const Soon = 2 * time.Second

// Wait returns when an armed query is asked after the time now. event is when the event that
// matched it was published. A query that is asked at the end of the wait is no longer armed.
func (e *Endpoint) Wait(event, now time.Time, lag time.Duration) time.Time {
	end := event.Add(lag)
	if lag <= Soon && end.After(now) {
		return end
	}
	if len(e.Lags) > 0 {
		lags := slices.Sorted(slices.Values(e.Lags))
		for _, share := range shares {
			at := event.Add(lags[(len(lags)-1)*share/100])
			if at.After(now) && at.Before(end) {
				return at
			}
		}
	}
	for _, part := range [...]time.Duration{64, 16, 4} { // it takes longer than ever
		if at := event.Add(lag / part); at.After(now) {
			return at
		}
	}
	if end.After(now) {
		return end
	}
	return now.Add(lag / 4) // the answers come from a cache, or the position is not known
}

// MedianLag is the delay after which half of the events had shown, 0 if none was seen.
func (e *Endpoint) MedianLag() time.Duration {
	if len(e.Lags) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(e.Lags))[(len(e.Lags)-1)/2]
}
