// Package registrytest runs every edit twice, as a store with a journal may.
package registrytest

import (
	"errors"

	"github.com/freshet/freshet/registry"
)

// Twice returns a configuration whose stores call every edit twice. What the first call did is
// undone. An edit that has an effect besides what it returns shows in the test.
func Twice(c registry.Config) registry.Config {
	c.Queries, c.Endpoints = twiceQueries{c.Queries}, twiceEndpoints{c.Endpoints}
	if c.Profiles != nil {
		c.Profiles = twiceProfiles{c.Profiles}
	}
	return c
}

// errAgain undoes the first run of an edit.
var errAgain = errors.New("the edit runs again")

type twiceQueries struct{ registry.QueryStore }

func (s twiceQueries) EditQueries(n registry.Names, edit func(q *registry.Query, others []*registry.Query,
	found bool) error) (registry.Query, error) {
	_, err := s.QueryStore.EditQueries(n, func(q *registry.Query, others []*registry.Query, found bool) error {
		_ = edit(q, others, found)
		return errAgain
	})
	if err != errAgain {
		return registry.Query{}, err
	}
	return s.QueryStore.EditQueries(n, edit)
}

type twiceEndpoints struct{ registry.EndpointStore }

func (s twiceEndpoints) EditEndpoint(name string, edit func(c *registry.Configured, found bool) error) (registry.Endpoint, error) {
	_, err := s.EndpointStore.EditEndpoint(name, func(c *registry.Configured, found bool) error {
		_ = edit(c, found)
		return errAgain
	})
	if err != errAgain {
		return registry.Endpoint{}, err
	}
	return s.EndpointStore.EditEndpoint(name, edit)
}

type twiceProfiles struct{ registry.ProfileStore }

func (s twiceProfiles) EditProfile(id string, b registry.Bounds, edit func(p *registry.Profile,
	found bool) error) (registry.Profile, error) {
	_, err := s.ProfileStore.EditProfile(id, b, func(p *registry.Profile, found bool) error {
		_ = edit(p, found)
		return errAgain
	})
	if err != errAgain {
		return registry.Profile{}, err
	}
	return s.ProfileStore.EditProfile(id, b, edit)
}
