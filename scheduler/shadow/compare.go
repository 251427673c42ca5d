package shadow

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
)

// work bounds what one estimate may cost: a slot played costs up to as much as
// there are queries, so long and large records are played from a later slot on.
const work = 4_000_000 // queries × slots × histories

// A Comparison shows what an endpoint's policy and those in its shadow would have
// done in the slots that are remembered.
type Comparison struct {
	Endpoint string            `json:"endpoint"`
	Budget   registry.Duration `json:"budget"` // per slot, for all of them
	// Slot is the last recorded slot that is included. A later one makes new
	// estimates.
	Slot     uint64     `json:"slot"`
	Policies []Compared `json:"policies"` // the endpoint's own first, then its shadows as chosen
}

// A Compared is one policy of a Comparison.
type Compared struct {
	Policy  string `json:"policy"`
	Current bool   `json:"current"` // the endpoint's own
	// Estimate is null while the record is too short for one.
	Estimate *Report `json:"estimate"`
}

// Endpoints gives the settings of endpoints that are in force, and the policy that
// orders their ranked queries. An error wraps registry.ErrNotFound.
type Endpoints interface {
	InForce(endpoint string) (registry.Endpoint, policy.Policy, error)
}

// A Comparer compares the policies of endpoints, one comparison of an endpoint at
// a time. Its methods may be called concurrently.
type Comparer struct {
	endpoints Endpoints
	ledger    scheduler.Ledger
	mu        sync.Mutex
	last      map[string]*lastComparison // by endpoint
}

// A lastComparison is the last one of an endpoint.
type lastComparison struct {
	turn chan struct{} // held by the goroutine that compares
	made Comparison
	key  string // of what it was made from
}

// NewComparer makes a Comparer of what a ledger has recorded.
func NewComparer(e Endpoints, l scheduler.Ledger) *Comparer {
	return &Comparer{endpoints: e, ledger: l, last: map[string]*lastComparison{}}
}

// Compare estimates what the policies in the endpoint's shadow would have done, and
// what its own would do again, from what is recorded. It asks the endpoint nothing.
// ctx ends it between two histories, or while another comparison is made.
func (c *Comparer) Compare(ctx context.Context, endpoint string) (Comparison, error) {
	s := c.of(endpoint)
	if err := s.lock(ctx); err != nil {
		return Comparison{}, fmt.Errorf("shadows of endpoint %s: %w", endpoint, err)
	}
	defer s.unlock()
	e, own, err := c.endpoints.InForce(endpoint)
	if err != nil {
		c.forget(endpoint)
		return Comparison{}, err
	}
	if err := s.update(ctx, e, own.String(), c.ledger); err != nil {
		return Comparison{}, fmt.Errorf("shadows of endpoint %s: %w", endpoint, err)
	}
	return s.made, nil
}

func (c *Comparer) of(endpoint string) *lastComparison {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.last[endpoint]
	if s == nil {
		s = &lastComparison{turn: make(chan struct{}, 1)}
		c.last[endpoint] = s
	}
	return s
}

// forget drops what is kept of an endpoint that is gone.
func (c *Comparer) forget(endpoint string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.last, endpoint)
}

// lock takes the turn. A cancelled ctx gets it only when it is free.
func (s *lastComparison) lock(ctx context.Context) error {
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

func (s *lastComparison) unlock() { <-s.turn }

// update makes the comparison again, unless nothing new is recorded or chosen.
func (s *lastComparison) update(ctx context.Context, e registry.Endpoint, own string, l scheduler.Ledger) error {
	news, err := l.Since(e.Name, 0)
	if err != nil {
		return err
	}
	key := fmt.Sprint(news.Last.Number, news.Revision, e.Slot, e.Budget, e.Rule, e.Timeout, own, e.Shadows)
	if s.key == key {
		return nil
	}
	made := Comparison{Endpoint: e.Name, Budget: e.Budget, Slot: news.Last.Number}
	for i, spelling := range append([]string{own}, e.Shadows...) {
		x := Compared{Policy: spelling, Current: i == 0}
		if x.Estimate, err = estimateOf(ctx, spelling, e, news); err != nil {
			return err
		}
		made.Policies = append(made.Policies, x)
	}
	s.made, s.key = made, key
	return nil
}

// estimateOf is nil where there is no history yet.
func estimateOf(ctx context.Context, spelling string, e registry.Endpoint, news scheduler.News) (*Report, error) {
	c, err := configOf(spelling, e, news)
	if err != nil {
		return nil, err
	}
	r, err := Play(ctx, c)
	if errors.Is(err, ErrNoHistory) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &r, nil
}

// configOf plays a policy at an endpoint with its settings in force.
func configOf(spelling string, e registry.Endpoint, news scheduler.News) (Config, error) {
	p, err := scheduler.ParsePolicy(spelling)
	if err != nil {
		return Config{}, err
	}
	grid, err := scheduler.ParseSlot(e.Slot)
	if err != nil {
		return Config{}, err
	}
	c := Config{
		Policy: p, Rule: e.Rule, Budget: time.Duration(e.Budget), Timeout: time.Duration(e.Timeout),
		Entries: news.Entries, Last: news.Last, Work: work,
	}
	if next := grid.Next(news.Last.Started); !next.IsZero() {
		c.Lead = next.Sub(news.Last.Started)
	}
	return c, nil
}
