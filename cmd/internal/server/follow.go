// Change feeds: one connection for each, however many endpoints use it.

package server

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/cluster"
	"github.com/freshet/freshet/cmd/internal/config"
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

// A feedList is the feeds that there are, until changed is closed.
type feedList struct {
	all     []feed.Definition
	changed chan struct{}
}

func newFeedList(all []feed.Definition) *feedList { return &feedList{all, make(chan struct{})} }

// checkFeeds returns an error if an endpoint needs a feed that a new configuration does not have.
func (f *fleet) checkFeeds(c *config.Config) error {
	for _, d := range c.Feeds {
		if err := d.Check(f.contact, time.Now()); err != nil {
			return fmt.Errorf("the feed %s: %w; a contact of the server takes effect at the next start", d.Name, err)
		}
	}
	stored, err := f.store.Endpoints.Endpoints()
	if err != nil {
		return err
	}
	all := c.AllFeeds()
	for _, e := range stored {
		i := slices.IndexFunc(c.Endpoints, func(own registry.Endpoint) bool { return own.Name == e.Name })
		if _, err := feed.Known(all, e.Feed); e.Feed != "" && err != nil && (i < 0 || c.Endpoints[i].Feed == e.Feed) {
			return fmt.Errorf("the endpoint %s names the feed %s, which is gone: name another one in its setting feed first, or none: %w",
				e.Name, e.Feed, err)
		}
	}
	return nil
}

// setFeeds puts other definitions of feeds in force. Those that differ are read again from their cursors.
func (f *fleet) setFeeds(all []feed.Definition) {
	was := f.feeds.Swap(newFeedList(all))
	close(was.changed)
}

// whileDefined returns a context that ends with ctx, or when another definition of a feed is in force.
func (f *fleet) whileDefined(ctx context.Context, d feed.Definition, list *feedList) (life context.Context, end func()) {
	life, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer cancel()
		for {
			select {
			case <-life.Done():
				return
			case <-list.changed:
			}
			list = f.feeds.Load()
			if now, err := feed.Known(list.all, d.Name); err != nil || !reflect.DeepEqual(now, d) {
				return
			}
		}
	}()
	return life, func() {
		cancel()
		<-over
	}
}

// usersOf returns the endpoints that name a feed.
func (s *Server) usersOf(name string) (list []registry.Endpoint) {
	all, err := s.Store.Endpoints.Endpoints()
	if err != nil {
		s.log.Error("the endpoints of a feed cannot be read", "feed", name, "error", err)
	}
	for _, e := range all {
		if e.Feed == name {
			list = append(list, e)
		}
	}
	return list
}

// feedsInUse returns the feeds that endpoints name and that are read.
func (f *fleet) feedsInUse() (names []string, err error) {
	all, err := f.store.Endpoints.Endpoints()
	for _, e := range all {
		d, unknown := feed.Known(f.feeds.Load().all, e.Feed)
		if e.Feed != "" && unknown == nil && d.Kind != feed.Deltas && !slices.Contains(names, e.Feed) {
			names = append(names, e.Feed)
		}
	}
	return names, err
}

// followFeeds follows the feeds that endpoints name until ctx ends. In a cluster, the nodes that have
// their leases do.
func (s *Server) followFeeds(ctx context.Context) {
	used := func() ([]string, error) {
		names, err := s.fleet.feedsInUse()
		if err != nil {
			s.log.Error("the feeds of endpoints cannot be read", "error", err)
		}
		return names, err
	}
	whileUsed(ctx, s.clock, used, func(ctx context.Context, name string) { s.followFeed(ctx, name, s.Store.Ledger) })
}

// whileUsed calls follow for each feed that is in use, until it is not, or ctx ends. No feed is followed twice at a
// time.
func whileUsed(ctx context.Context, c scheduler.Clock, used func() ([]string, error),
	follow func(ctx context.Context, name string)) {
	running := map[string]func(){} // which ends it and waits for that
	defer func() {
		for _, stop := range running {
			stop()
		}
	}()
	for {
		names, err := used()
		for _, name := range names {
			if running[name] == nil {
				life, cancel := context.WithCancel(ctx)
				over := make(chan struct{})
				running[name] = func() {
					cancel()
					<-over
				}
				go func() {
					defer close(over)
					follow(life, name)
				}()
			}
		}
		for name, stop := range running {
			if err == nil && !slices.Contains(names, name) {
				stop()
				delete(running, name)
			}
		}
		if c.Sleep(ctx, c.Now().Add(lookForFeeds)) != nil {
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
	for ctx.Err() == nil {
		list := s.fleet.feeds.Load()
		d, err := feed.Known(list.all, name)
		if err != nil {
			s.log.Error("a feed is not read", "feed", name, "error", err)
			select {
			case <-ctx.Done():
			case <-list.changed:
			}
			continue
		}
		life, end := s.fleet.whileDefined(ctx, d, list)
		err = s.readFeed(life, d, ledger)
		replaced := life.Err() != nil && ctx.Err() == nil
		end()
		switch {
		case ctx.Err() != nil || errors.Is(err, scheduler.ErrFenced) || errors.Is(err, registry.ErrUnusable):
			return
		case replaced:
			s.log.Info("a feed has other settings", "feed", name)
			continue
		case err != nil:
			s.log.Error("what a feed tells is not recorded", "feed", name, "error", err)
		}
		if s.clock.Sleep(ctx, s.clock.Now().Add(followAgain)) != nil {
			return
		}
	}
}

// readFeed follows a feed by one definition until ctx ends, or what it tells cannot be recorded.
func (s *Server) readFeed(ctx context.Context, d feed.Definition, ledger *store.Ledger) error {
	source, err := feedreader.Open(d, feedreader.Options{Contact: s.conf.Contact, Version: cli.Version(), Logger: s.log, Now: s.clock.Now})
	if err != nil {
		s.log.Error("a feed cannot be read", "feed", d.Name, "error", err)
		return s.failing(ledger, d.Name, err)
	}
	return follow.New(follow.Config{
		Definition: d, Source: source, Ledger: ledger, Clock: s.clock, Logger: s.log,
		Endpoints: func() []registry.Endpoint { return s.usersOf(d.Name) }, Heard: s.fleet.Heard,
	}).Run(ctx)
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
			s.fleet.Heard(e.Name)
		}
	}
}
