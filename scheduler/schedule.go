package scheduler

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/freshet/freshet/registry"
)

// A Schedule is the grid of times at which slots start.
type Schedule interface {
	// Next returns the first grid time after t, in UTC; zero if there is none.
	Next(t time.Time) time.Time
}

// ErrSlot is wrapped by errors about slot specs.
var ErrSlot = errors.New("bad slot")

// Never is the spec of endpoints whose slots run only on request.
const Never = "never"

// ParseSlot parses a slot spec: a cron spec of five fields (or six, seconds first), in
// UTC unless it begins with CRON_TZ=zone; a name such as @hourly; "@every d", whose
// grid is the multiples of d since the Unix epoch; or "never". It refuses slots less
// than a second apart.
func ParseSlot(spec string) (Schedule, error) {
	spec = strings.TrimSpace(spec)
	if spec == Never {
		return never{}, nil
	}
	rest := spec
	if strings.HasPrefix(spec, "CRON_TZ=") || strings.HasPrefix(spec, "TZ=") {
		zone, after, ok := strings.Cut(spec, " ")
		if !ok {
			return nil, fmt.Errorf("%w %q: a cron spec must follow the time zone", ErrSlot, spec)
		}
		if strings.HasSuffix(zone, "=Local") {
			return nil, fmt.Errorf("%w %q: Local is another zone on another machine; name the zone, such as CRON_TZ=Europe/Berlin, "+
				"or leave it out for UTC", ErrSlot, spec)
		}
		rest = strings.TrimSpace(after)
	}
	if d, ok := strings.CutPrefix(rest, "@every"); ok {
		return parseEvery(spec, strings.TrimSpace(d))
	}
	p := cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	s, err := p.Parse(spec)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %w; write a cron spec such as \"*/5 * * * *\", \"@every 10s\" or \"never\"", ErrSlot, spec, err)
	}
	c := newCrontab(s)
	if c.Next(reference).IsZero() {
		return nil, fmt.Errorf("%w %q: that time never comes", ErrSlot, spec)
	}
	return c, nil
}

func parseEvery(spec, d string) (Schedule, error) {
	every, err := registry.ParseDuration(d)
	if err != nil {
		return nil, fmt.Errorf("%w %q: %q is not a duration such as 10s or 5m", ErrSlot, spec, d)
	}
	if every < time.Second {
		return nil, fmt.Errorf("%w %q: slots less than 1s apart are refused", ErrSlot, spec)
	}
	return grid(every), nil
}

// never has no grid.
type never struct{}

func (never) Next(time.Time) time.Time { return time.Time{} }

// A grid consists of the multiples of a duration since the Unix epoch.
type grid time.Duration

func (g grid) Next(t time.Time) time.Time {
	n := t.UnixNano() / int64(g)
	if t.UnixNano() < 0 && t.UnixNano()%int64(g) != 0 {
		n--
	}
	return time.Unix(0, (n+1)*int64(g)).UTC()
}

// A crontab is a cron spec. Without a time zone it is in UTC.
type crontab struct {
	s    cron.Schedule
	zone *time.Location // nil if it is not named
	wall cron.Schedule  // of the times that clocks in the zone show, written as UTC
}

func newCrontab(s cron.Schedule) crontab {
	spec, ok := s.(*cron.SpecSchedule)
	if !ok || spec.Location == time.Local { // it means the zone of the time that is passed
		return crontab{s: s}
	}
	wall := *spec
	wall.Location = time.UTC
	return crontab{s, spec.Location, &wall}
}

// Next returns the first time after t. A time that clocks skip as summer time begins comes at the first
// moment after the gap, unless another one, as of an hourly spec, follows within the length of the gap.
func (c crontab) Next(t time.Time) time.Time {
	next := c.s.Next(t.UTC())
	if next.IsZero() {
		return next
	}
	if c.zone != nil {
		for _, gap := t.In(c.zone).ZoneBounds(); !gap.IsZero() && gap.Before(next); _, gap = gap.ZoneBounds() {
			if c.skips(gap) {
				return gap.UTC()
			}
		}
	}
	return next.UTC()
}

// skips reports whether clocks that are set at a time skip one of the spec's, and none follows soon.
func (c crontab) skips(set time.Time) bool {
	_, before := set.Add(-1).Zone()
	_, after := set.Zone()
	from, to := set.UTC().Add(time.Duration(before)*time.Second), set.UTC().Add(time.Duration(after)*time.Second)
	first, next := c.wall.Next(from.Add(-time.Second)), c.wall.Next(to.Add(-time.Second))
	return !first.IsZero() && first.Before(to) && !next.Before(to.Add(to.Sub(from)))
}

// reference is where periods starts, so that its result does not depend on the date.
var reference = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// period returns the shortest time between two grid times, as periods does.
func period(s Schedule) time.Duration {
	least, _ := periods(s)
	return least
}

// periods returns the shortest and the longest time between consecutive grid times,
// among the 400 after reference; 0 if there are fewer than two.
func periods(s Schedule) (least, most time.Duration) {
	if g, ok := s.(grid); ok {
		return time.Duration(g), time.Duration(g)
	}
	if c, ok := s.(crontab); ok { // without what comes after a gap
		s = crontab{s: c.s}
	}
	t := s.Next(reference)
	for range 400 {
		next := s.Next(t)
		if t.IsZero() || next.IsZero() {
			break
		}
		d := next.Sub(t)
		if least == 0 || d < least {
			least = d
		}
		most = max(most, d)
		t = next
	}
	return least, most
}

// blackouts are the times during which no slot starts.
type blackouts []blackout

type blackout struct {
	start  Schedule
	length time.Duration
}

func parseBlackouts(list []registry.Blackout) (blackouts, error) {
	var out blackouts
	for i, b := range list {
		s, err := ParseSlot(b.Start)
		if err != nil {
			return nil, fmt.Errorf("blackout %d: %w", i+1, err)
		}
		if _, ok := s.(never); ok || b.For <= 0 {
			return nil, fmt.Errorf("blackout %d: it needs a start such as \"0 2 * * *\" and a length such as 1h", i+1)
		}
		// The longest gap counts, because at the end of summer time a local hour repeats.
		if _, p := periods(s); p > 0 && p <= time.Duration(b.For) {
			return nil, fmt.Errorf("blackout %d: %s from %q on never ends", i+1, b.For, b.Start)
		}
		out = append(out, blackout{s, time.Duration(b.For)})
	}
	return out, nil
}

// end returns the end of the blackout that contains t; zero if none does. A blackout
// includes its start but not its end.
func (l blackouts) end(t time.Time) time.Time {
	var end time.Time
	for _, b := range l {
		// Several may contain t. The last one to start ends last.
		for s := b.start.Next(t.Add(-b.length)); !s.IsZero() && !s.After(t); s = b.start.Next(s) {
			if e := s.Add(b.length); e.After(end) {
				end = e
			}
		}
	}
	return end
}

// start returns when the first blackout after t begins; zero if there is none.
func (l blackouts) start(t time.Time) (first time.Time) {
	for _, b := range l {
		if s := b.start.Next(t); first.IsZero() || !s.IsZero() && s.Before(first) {
			first = s
		}
	}
	return first
}

// next returns the first grid time after t outside all blackouts. It gives up after a
// thousand grid times and returns zero.
func (l blackouts) next(s Schedule, t time.Time) time.Time {
	for range 1000 {
		next := s.Next(t)
		if next.IsZero() {
			return next
		}
		end := l.end(next)
		if end.IsZero() {
			return next
		}
		t = end.Add(-1)
	}
	return time.Time{}
}

// Gap returns the shortest time between two slots of an endpoint; 0 if it has no grid
// or its spec is invalid.
func Gap(e registry.Endpoint) time.Duration {
	s, err := ParseSlot(e.WithDefaults().Slot)
	if err != nil {
		return 0
	}
	return period(s)
}
