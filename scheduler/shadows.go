package scheduler

import (
	"fmt"
	"slices"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// MaxShadows is the largest number of policies in the setting shadows. It bounds the
// cost of a comparison.
const MaxShadows = 64

// checkShadows checks the policies of the setting shadows.
func checkShadows(spellings []string) error {
	if len(spellings) > MaxShadows {
		return fmt.Errorf("%d policies are too many, at most %d", len(spellings), MaxShadows)
	}
	var seen []string
	for _, spelling := range spellings {
		p, err := second(spelling)
		if err != nil {
			return err
		}
		if slices.Contains(seen, p.String()) {
			return fmt.Errorf("%s is given twice", p)
		}
		seen = append(seen, p.String())
	}
	return nil
}

// AddShadow adds a policy to the setting shadows of an endpoint, in its canonical
// spelling, unless it is there. The error wraps policy.ErrPolicy.
func AddShadow(e *registry.Endpoint, spelling string) error {
	p, err := second(spelling)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(e.Shadows, func(s string) bool { return samePolicy(s, p) }) {
		e.Shadows = append(slices.Clone(e.Shadows), p.String())
	}
	return nil
}

// RemoveShadow removes a policy from the setting shadows of an endpoint. The error
// wraps registry.ErrNotFound if it is not there, and policy.ErrPolicy if the spelling is
// wrong.
func RemoveShadow(e *registry.Endpoint, spelling string) error {
	p, err := ParsePolicy(spelling)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(e.Shadows), func(s string) bool { return samePolicy(s, p) })
	if len(rest) == len(e.Shadows) {
		return fmt.Errorf("policy %s in the shadow of endpoint %s: %w", p, e.Name, registry.ErrNotFound)
	}
	e.Shadows = rest
	return nil
}

func samePolicy(spelling string, p policy.Policy) bool {
	q, err := ParsePolicy(spelling)
	return err == nil && q.String() == p.String()
}
