package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/endpoint"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web/ui"
)

// managing returns what the pages about the server itself need.
func (s *Server) managing() ui.Managing {
	return ui.Managing{
		Settings: s.settings, Storage: s.Store.Size, Probe: s.fleet.probe,
		Started: s.started, NoContact: s.conf.Contact == "",
	}
}

// settings returns the settings in force. Those of endpoints come from the store, which
// the configuration file and edits change.
func (s *Server) settings() ([]ui.Setting, error) {
	out := slices.DeleteFunc(s.inForce.Load().Shown(), func(x ui.Setting) bool { return strings.HasPrefix(x.Key, "endpoints.") })
	all, err := s.Registry.Endpoints()
	if err != nil {
		return nil, err
	}
	endpoints, err := config.ShownEndpoints(all, func(name string) (map[string]registry.Source, error) {
		return s.Registry.Sources(registry.Caller{Role: registry.RoleAdmin}, name) // only they have the page
	})
	return append(out, endpoints...), err
}

// try tries an endpoint that is not stored.
func (f *fleet) try(ctx context.Context, e registry.Endpoint) (registry.Report, error) {
	if err := registry.CheckEndpoint(e.WithDefaults(), f.check); err != nil {
		return registry.Report{}, err
	}
	if err := f.mayTry(e); err != nil {
		return registry.Report{}, err
	}
	return endpoint.Check(ctx, e, endpoint.Options{Contact: f.contact, Version: cli.Version(), Logger: f.log})
}

// mayTry returns an error if an endpoint is one that is stored and must not be asked now. If several have its URL, a wish of the
// service to wait counts for all; otherwise one that may be asked is enough.
func (f *fleet) mayTry(e registry.Endpoint) error {
	all, err := f.store.Endpoints.Endpoints()
	if err != nil {
		return err
	}
	free, rests := false, error(nil)
	for _, known := range all {
		if registry.CanonicalURL(known.URL) != registry.CanonicalURL(e.URL) {
			continue
		}
		news, err := f.store.Ledger.Since(known.Name, math.MaxUint64-1) // nothing is newer
		if err != nil && !errors.Is(err, registry.ErrNotFound) {
			return err
		}
		why, wished := scheduler.Rests(known, news.Health, f.now())
		if why == "" {
			free = true
			continue
		}
		rests = registry.Conflict(fmt.Sprintf("nothing was sent: this is the URL of the endpoint %s, and %s", known.Name, why))
		if wished {
			return rests
		}
	}
	if free {
		return nil
	}
	return rests
}

// probe runs one cheap query at an endpoint that is not stored.
func (f *fleet) probe(ctx context.Context, e registry.Endpoint) (time.Duration, error) {
	if err := registry.CheckEndpoint(e, f.check); err != nil {
		return 0, err
	}
	if err := f.mayTry(e); err != nil {
		return 0, err
	}
	c, err := endpoint.New(e, endpoint.Options{Contact: f.contact, Version: cli.Version(), Logger: f.log})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	const text = "ASK { ?s ?p ?o }"
	a, err := sparql.Analyse(text)
	if err != nil {
		return 0, err
	}
	q := registry.Query{ID: "probe", Endpoint: e.Name, Text: text, Normal: a.Normal, Form: "ASK", Limit: -1}
	answer := c.Execute(ctx, &q, scheduler.Memory{}, time.Duration(e.Timeout))
	if !answer.Outcome.Complete() {
		return 0, errors.New(string(answer.Outcome) + ": " + answer.Error)
	}
	return answer.Elapsed, nil
}
