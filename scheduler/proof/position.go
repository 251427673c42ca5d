package proof

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/freshet/freshet/registry/feed"
)

// ParsePosition reads the answer to a position query: one term in N-Triples.
func ParsePosition(value, datatype string) (feed.Place, error) {
	const xsd = "http://www.w3.org/2001/XMLSchema#"
	switch datatype {
	case xsd + "integer", xsd + "long", xsd + "int", xsd + "nonNegativeInteger", xsd + "unsignedLong":
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 0 || n == math.MaxInt64 {
			return feed.Place{}, fmt.Errorf("%.40q is no position", value)
		}
		return feed.Place{Offset: n}, nil
	case xsd + "dateTime", xsd + "dateTimeStamp":
		for _, form := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
			if t, err := time.Parse(form, value); err == nil {
				return feed.Place{Time: t.UTC()}, nil
			}
		}
		return feed.Place{}, fmt.Errorf("%.40q is no time", value)
	}
	return feed.Place{}, errors.New("a position is an xsd:integer or an xsd:dateTime")
}

// Positions are those that an endpoint has told since the process began.
type Positions struct {
	seen  []told
	high  feed.Place // the highest of those that are older than the lag, which all servers include
	since time.Time
}

type told struct {
	at    time.Time
	place feed.Place
}

// Burst is how many positions an endpoint is asked for in a row until it is believed: servers that are as far behind each
// other as the time between two requests would tell positions that never go back.
const Burst = 5

const (
	// trusted is how many positions an endpoint must have told, ever, before one is believed: several servers
	// that answer for one address show themselves when their positions go back. Answers until then keep
	// their positions, which count once it is.
	trusted = 4 * Burst
	// fewest is how many positions of the last lag several servers must have told.
	fewest = 10
	// backFor is how long an address is believed to have several servers.
	backFor = 24 * time.Hour
)

// Take adds a position that was told, and returns the one that holds for answers from now on, zero
// if none does yet. If several servers answer, that is the smallest that was told within lag; what was placed
// before that was known does not count any more. A position that is smaller than one told before that is of
// other data.
func (s *Positions) Take(e *Endpoint, p feed.Place, now time.Time, lag time.Duration) feed.Place {
	if s.since.IsZero() {
		s.since = now
	}
	if e.Back.After(now.Add(clockSet)) { // the clock was set back
		e.Back = now
	}
	single := !e.several(now)
	least, kept := p, s.seen[:0]
	for _, x := range s.seen {
		if now.Sub(x.at) > max(lag, time.Minute) {
			if before(s.high, x.place) {
				s.high = x.place
			}
			continue
		}
		kept = append(kept, x)
		if before(p, x.place) {
			e.Back = now
		}
		if before(x.place, least) {
			least = x.place
		}
	}
	if before(p, s.high) { // of other data: nothing that was told before holds
		e.Back, e.Rebuilt = now, e.Rebuilt+1
		least, kept, s.high = p, kept[:0], feed.Place{}
	}
	s.seen = append(kept, told{now, p})
	several := e.several(now)
	if several && single {
		e.Rebuilt++
	}
	switch {
	case several && (now.Sub(s.since) < lag || len(s.seen) < fewest): // a slow server may have told nothing lately
		return feed.Place{}
	case several:
		return least
	}
	return p
}

// several reports whether several servers may answer for the endpoint.
func (e *Endpoint) several(now time.Time) bool { return now.Sub(e.Back) < backFor }

// Several reports whether several servers may answer for the endpoint. Its position is then the smallest that was
// told, so its data may include later events, and a query that one of them reached cannot wait for the position.
func (v *View) Several() bool { return v.Endpoint.several(v.Now) }

// before compares two positions of the same kind.
func before(a, b feed.Place) bool { return a.Offset < b.Offset || a.Time.Before(b.Time) }

// maxLags is how many delays are remembered.
const maxLags = 64

// Learn adds the delay after which an event showed.
func (e *Endpoint) Learn(delay time.Duration) {
	e.Lags = append(e.Lags, max(0, delay))
	e.Lags = e.Lags[max(0, len(e.Lags)-maxLags):]
}
