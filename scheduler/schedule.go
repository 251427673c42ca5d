package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds/interval"
)

// A Schedule is the grid of times at which slots start.
type Schedule interface {
	// Next is the first grid time after t, in UTC; the zero time when there is
	// none.
	Next(t time.Time) time.Time
}

// ErrSlot is wrapped by the errors about slot specs.
var ErrSlot = errors.New("bad slot")

// Never is the spec of endpoints that run only by tick.
const Never = "never"

// ParseSlot reads a slot spec: a cron spec of five fields (or six, seconds
// first), in UTC unless it begins with CRON_TZ=zone; a name such as @hourly;
// "@every d", whose grid is the multiples of d since the Unix epoch; or
// "never". Less than a second is refused.
func ParseSlot(spec string) (Schedule, error) {
	spec = strings.TrimSpace(spec)
	if spec == Never {
		return never{}, nil
	}
	rest := spec
	if strings.HasPrefix(spec, "CRON_TZ=") || strings.HasPrefix(spec, "TZ=") {
		_, after, ok := strings.Cut(spec, " ")
		if !ok {
			return nil, fmt.Errorf("%w %q: a cron spec must follow the time zone", ErrSlot, spec)
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
	c := crontab{s}
	if c.Next(reference).IsZero() {
		return nil, fmt.Errorf("%w %q: that time never comes", ErrSlot, spec)
	}
	return c, nil
}

func parseEvery(spec, d string) (Schedule, error) {
	every, err := time.ParseDuration(d)
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

// A grid is the multiples of a duration since the Unix epoch.
type grid time.Duration

func (g grid) Next(t time.Time) time.Time {
	n := t.UnixNano() / int64(g)
	if t.UnixNano() < 0 && t.UnixNano()%int64(g) != 0 {
		n--
	}
	return time.Unix(0, (n+1)*int64(g)).UTC()
}

// A crontab is a cron spec; without a zone of its own it is read in UTC.
type crontab struct{ s cron.Schedule }

func (c crontab) Next(t time.Time) time.Time {
	next := c.s.Next(t.UTC())
	if next.IsZero() {
		return next
	}
	return next.UTC()
}

// reference is where the shortest gap of a schedule is looked for, so that the
// answer does not depend on today.
var reference = time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)

// period is the shortest time between two grid times among the next few
// hundred, 0 when there are not two.
func period(s Schedule) time.Duration {
	least, _ := periods(s)
	return least
}

// periods are the shortest and the longest time between two of these grid times.
func periods(s Schedule) (least, most time.Duration) {
	if g, ok := s.(grid); ok {
		return time.Duration(g), time.Duration(g)
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

// blackouts are the times in which no slot starts.
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
		// The longest gap counts: where summer time ends, a local hour comes twice.
		if _, p := periods(s); p > 0 && p <= time.Duration(b.For) {
			return nil, fmt.Errorf("blackout %d: %s from %q on never ends", i+1, b.For, b.Start)
		}
		out = append(out, blackout{s, time.Duration(b.For)})
	}
	return out, nil
}

// end tells when the blackout that holds t is over; the zero time when none
// does. The first moment is inside, the last one outside.
func (l blackouts) end(t time.Time) time.Time {
	var end time.Time
	for _, b := range l {
		// More than one may hold it, of which the last to start ends last.
		for s := b.start.Next(t.Add(-b.length)); !s.IsZero() && !s.After(t); s = b.start.Next(s) {
			if e := s.Add(b.length); e.After(end) {
				end = e
			}
		}
	}
	return end
}

// next is the first grid time after t that lies in no blackout. It gives up,
// with the zero time, when a thousand in a row do.
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

// settings are what an endpoint's settings mean to the scheduler.
type settings struct {
	endpoint  registry.Endpoint
	policy    policy.Policy     // that orders everything: the second one where there is a ranking
	ranking   *interval.Ranking // of the intervals of profiles, nil for policies that do not look at them
	schedule  Schedule
	blackouts blackouts
}

// Validate says what is wrong with the settings of an endpoint that concern
// its slots: slot, budget, policies, rule, concurrency and blackout times.
// What is left out counts with its default.
func Validate(e registry.Endpoint) error {
	_, err := read(e)
	return err
}

func read(e registry.Endpoint) (settings, error) {
	e = e.WithDefaults()
	s := settings{endpoint: e}
	fail := func(setting string, err error) (settings, error) {
		return settings{}, fmt.Errorf("endpoint %s: %w", e.Name, &registry.SettingError{Setting: setting, Err: err})
	}
	var err error
	if s.schedule, err = ParseSlot(e.Slot); err != nil {
		return fail("slot", err)
	}
	if s.policy, err = live(e.Policy); err != nil {
		return fail("policy", err)
	}
	after, err := second(e.FallbackPolicy)
	if err != nil {
		return fail("fallback_policy", err)
	}
	if p, claims := s.policy.(claiming); claims {
		s.policy, s.ranking = after, &p.ranking
	}
	if !(e.ProfileShare > 0 && e.ProfileShare <= 1) {
		return fail("profile_share", errShare)
	}
	if s.blackouts, err = parseBlackouts(e.Blackout); err != nil {
		return fail("blackout", err)
	}
	if err := checkShadows(e.Shadows); err != nil {
		return fail("shadows", err)
	}
	if setting, err := limits(e, s.schedule); err != nil {
		return fail(setting, err)
	}
	return s, nil
}

// live reads a policy of a live endpoint.
func live(spelling string) (policy.Policy, error) {
	table := Policies()
	p, err := policy.Parse(table, spelling)
	name, _, _ := strings.Cut(spelling, ":")
	if err == nil && slices.ContainsFunc(table, func(d policy.Definition) bool { return d.Name == name && d.Simulated }) {
		return nil, fmt.Errorf("%w %q: it has to know which results have changed before asking, so it runs in the simulator alone", policy.ErrPolicy, spelling)
	}
	return p, err
}

// limits names the setting that is wrong, and why it is.
func limits(e registry.Endpoint, s Schedule) (setting string, err error) {
	switch {
	case e.Rule == plan.RuleOverrun:
		return "rule", errors.New("overrun exceeds the budget and never repays, so it is for the simulator alone; use strict or debt")
	case e.Rule != plan.RuleStrict && e.Rule != plan.RuleDebt:
		return "rule", fmt.Errorf("%q is not known, use strict or debt", e.Rule)
	case e.Budget <= 0:
		return "budget", errors.New("it must be greater than 0")
	case e.Timeout <= 0:
		return "timeout", errors.New("it must be greater than 0")
	case e.MinGap < 0:
		return "min_gap", errors.New("it cannot be negative")
	case e.Concurrency < 1:
		return "concurrency", fmt.Errorf("%d executions at a time leave nothing to do, use 1 or more", e.Concurrency)
	}
	// Budget > period × concurrency, in a form that cannot overflow.
	p, width := period(s), time.Duration(e.Concurrency)
	if p > 0 && (time.Duration(e.Budget)-1)/width >= p {
		return "budget", fmt.Errorf("%s of executions do not fit a slot of %s with %d at a time; at most %s do",
			e.Budget, p, e.Concurrency, p*width)
	}
	return "", nil
}
