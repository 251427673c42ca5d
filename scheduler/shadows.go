package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
)

// MaxShadows is how many policies an endpoint may have in its shadow: more than
// anybody reads, so that a comparison comes to an end.
const MaxShadows = 64

// What one estimate may cost: a slot played costs up to as much as there are
// queries, so long histories are played in fewer pasts, and large ones from a
// later slot on.
const (
	shadowWork  = 4_000_000 // queries × slots × pasts
	mostPasts   = 16
	fewestPasts = 4
)

// Shadows compare an endpoint's policy with those in its shadow: what each of
// them would have done in the slots that are remembered.
type Shadows struct {
	Endpoint string            `json:"endpoint"`
	Budget   registry.Duration `json:"budget"` // per slot, for all of them
	// Slot is the last recorded slot that was looked at. Estimates are made anew
	// when there is a later one.
	Slot     uint64   `json:"slot"`
	Policies []Shaded `json:"policies"` // the endpoint's own first, then its shadows as chosen
}

// A Shaded is one policy of Shadows.
type Shaded struct {
	Policy  string `json:"policy"`
	Current bool   `json:"current"` // the endpoint's own
	// Estimate is null while nothing is remembered that could tell.
	Estimate *ShadowReport `json:"estimate"`
}

// shade remembers the last comparison, so that asking again costs nothing, and
// lets one be made at a time.
type shade struct {
	turn chan struct{} // one at a time
	made Shadows
	key  string
}

// wait takes the turn, whoever is gone only when nobody has it.
func (s *shade) wait(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Shadows estimates what the policies in the endpoint's shadow would have done,
// and what its own would do over again, from what is recorded. It asks the
// endpoint nothing. ctx ends it between two pasts, or while another is made.
func (m *Manager) Shadows(ctx context.Context, endpoint string) (Shadows, error) {
	l, err := m.loop(endpoint)
	if err != nil {
		return Shadows{}, err
	}
	if err := l.shade.wait(ctx); err != nil {
		return Shadows{}, fmt.Errorf("shadows of endpoint %s: %w", endpoint, err)
	}
	defer func() { <-l.shade.turn }()
	l.mu.Lock()
	e, own := l.set.endpoint.WithDefaults(), l.set.policy.String()
	l.mu.Unlock()
	news, err := l.ledger.Since(endpoint, 0)
	if err != nil {
		return Shadows{}, fmt.Errorf("shadows of endpoint %s: %w", endpoint, err)
	}
	s := Shadows{Endpoint: endpoint, Budget: e.Budget, Slot: news.Last.Number}
	key := fmt.Sprint(news.Last.Number, news.Revision, e.Budget, e.Rule, e.Timeout, own, e.Shadows)
	if l.shade.key == key {
		return l.shade.made, nil
	}
	for i, spelling := range append([]string{own}, e.Shadows...) {
		x := Shaded{Policy: spelling, Current: i == 0}
		if x.Estimate, err = estimateOf(ctx, spelling, e, news.Entries); err != nil {
			return Shadows{}, fmt.Errorf("shadows of endpoint %s: %w", endpoint, err)
		}
		s.Policies = append(s.Policies, x)
	}
	l.shade.made, l.shade.key = s, key
	return s, nil
}

// estimateOf is nil where there is no history yet.
func estimateOf(ctx context.Context, spelling string, e registry.Endpoint, entries []Entry) (*ShadowReport, error) {
	p, err := live(spelling)
	if err != nil {
		return nil, err
	}
	r, err := Shadow(ctx, ShadowConfig{
		Policy: p, Rule: e.Rule, Budget: time.Duration(e.Budget), Timeout: time.Duration(e.Timeout), Entries: entries, Work: shadowWork,
	})
	if errors.Is(err, ErrNoHistory) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// shadows reads the policies in an endpoint's shadow, in their canonical
// spelling.
func shadows(spellings []string) error {
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

// Shade adds a policy to those in an endpoint's shadow, in its canonical
// spelling, unless it is there. The error wraps ErrPolicy.
func Shade(e *registry.Endpoint, spelling string) error {
	p, err := second(spelling)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(e.Shadows, func(s string) bool { return same(s, p) }) {
		e.Shadows = append(slices.Clone(e.Shadows), p.String())
	}
	return nil
}

// Unshade takes a policy out of them. It wraps registry.ErrNotFound when it is
// not there, and ErrPolicy when it is none.
func Unshade(e *registry.Endpoint, spelling string) error {
	p, err := ParsePolicy(spelling)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(slices.Clone(e.Shadows), func(s string) bool { return same(s, p) })
	if len(rest) == len(e.Shadows) {
		return fmt.Errorf("policy %s in the shadow of endpoint %s: %w", p, e.Name, registry.ErrNotFound)
	}
	e.Shadows = rest
	return nil
}

func same(spelling string, p Policy) bool {
	q, err := ParsePolicy(spelling)
	return err == nil && q.String() == p.String()
}
