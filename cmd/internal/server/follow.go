// Change feeds: one connection for each, however many endpoints use it.

package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/cluster"
	feedreader "github.com/freshet/freshet/endpoint/feed"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/follow"
	"github.com/freshet/freshet/store"
)

const (
	// lookForFeeds is how often the settings of endpoints are looked at for other feeds.
	lookForFeeds = 2 * time.Second
	// followAgain is how long a feed waits after what follows from it could not be recorded.
	followAgain = 5 * time.Second
)

// usersOf returns the endpoints that name a feed.
func (s *Server) usersOf(name string) (list []string) {
	all, err := s.Store.Endpoints.Endpoints()
	if err != nil {
		s.log.Error("the endpoints of a feed cannot be read", "feed", name, "error", err)
	}
	for _, e := range all {
		if e.Feed == name {
			list = append(list, e.Name)
		}
	}
	return list
}

// feedsInUse returns the feeds that endpoints name and that are read.
func (f *fleet) feedsInUse() (names []string, err error) {
	all, err := f.store.Endpoints.Endpoints()
	for _, e := range all {
		d, unknown := feed.Known(f.feeds, e.Feed)
		if e.Feed != "" && unknown == nil && d.Kind != feed.Deltas && !slices.Contains(names, e.Feed) {
			names = append(names, e.Feed)
		}
	}
	return names, err
}

// followFeeds follows the feeds that endpoints name until ctx ends. In a cluster, the nodes that have
// their leases do.
func (s *Server) followFeeds(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	running := map[string]context.CancelFunc{}
	for {
		names, err := s.fleet.feedsInUse()
		if err != nil {
			s.log.Error("the feeds of endpoints cannot be read", "error", err)
		}
		for _, name := range names {
			if running[name] == nil {
				life, stop := context.WithCancel(ctx)
				running[name] = stop
				work.Go(func() { s.followFeed(life, name, s.Store.Ledger) })
			}
		}
		for name, stop := range running {
			if err == nil && !slices.Contains(names, name) {
				stop()
				delete(running, name)
			}
		}
		if s.clock.Sleep(ctx, s.clock.Now().Add(lookForFeeds)) != nil {
			for _, stop := range running {
				stop()
			}
			return
		}
	}
}

// followUnder follows a feed while this node has its lease.
func (s *Server) followUnder(ctx context.Context, h *cluster.Hold, name string) {
	h.Begin()
	s.followFeed(ctx, name, s.Store.Ledger.Under(h.Token))
	<-ctx.Done()
}

// followFeed follows a feed until ctx ends, or another node has taken its lease.
func (s *Server) followFeed(ctx context.Context, name string, ledger *store.Ledger) {
	d, err := feed.Known(s.fleet.feeds, name)
	if err != nil {
		s.log.Error("a feed is not read", "feed", name, "error", err)
		return
	}
	for ctx.Err() == nil {
		source, err := feedreader.Open(d, feedreader.Options{Contact: s.conf.Contact, Version: cli.Version(), Logger: s.log})
		if err != nil {
			s.log.Error("a feed cannot be read", "feed", name, "error", err)
			err = s.failing(ledger, name, err)
		} else {
			err = follow.New(follow.Config{
				Definition: d, Source: source, Ledger: ledger, Clock: s.clock, Logger: s.log,
				Endpoints: func() []string { return s.usersOf(name) }, Heard: s.fleet.Heard,
			}).Run(ctx)
			if err == nil {
				return
			}
		}
		if ctx.Err() != nil || errors.Is(err, scheduler.ErrFenced) || errors.Is(err, registry.ErrUnusable) {
			return
		}
		if err != nil {
			s.log.Error("what a feed tells is not recorded", "feed", name, "error", err)
		}
		if s.clock.Sleep(ctx, s.clock.Now().Add(followAgain)) != nil {
			return
		}
	}
}

// failing records why a feed cannot be read.
func (s *Server) failing(ledger *store.Ledger, name string, why error) error {
	f, _, err := ledger.Feed(name)
	if err != nil || f.Failing == why.Error() {
		return err
	}
	f.Failing, f.Since = why.Error(), s.clock.Now().UTC()
	return ledger.RecordFeed(scheduler.FeedBatch{Feed: name, State: f})
}

// heardOf makes the loops of this node look at what another node has recorded of feeds.
func (s *Server) heardOf(feeds []string) {
	for _, name := range feeds {
		for _, e := range s.usersOf(name) {
			s.fleet.Heard(e)
		}
	}
}
