package scheduler

import (
	"errors"
	"fmt"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/rounds/interval"
)

// settings are the parsed settings of an endpoint.
type settings struct {
	endpoint  registry.Endpoint
	policy    policy.Policy     // orders the ranked queries: the fallback policy if there is a ranking
	ranking   *interval.Ranking // orders the intervals of profiles; nil if the policy ignores them
	schedule  Schedule
	blackouts blackouts
}

var errShare = errors.New("it is a part of the budget, more than 0 and at most 1")

// Validate checks the settings of an endpoint that concern its slots: slot, budget,
// policies, rule, concurrency and blackout times. Omitted settings have their defaults.
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

// limits checks numbers. It returns the name of the wrong setting and what is wrong.
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
