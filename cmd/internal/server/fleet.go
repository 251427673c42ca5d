package server

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/cluster"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/endpoint"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/store"
)

// A fleet keeps one loop and one client per endpoint of the store.
type fleet struct {
	*scheduler.Manager
	store   *store.DB
	contact string
	feeds   atomic.Pointer[feedList]
	log     *slog.Logger
	now     func() time.Time
	member  *member                             // nil without a cluster
	under   func(token uint64) scheduler.Ledger // in a cluster: the ledger of the node that has a lease

	// turns has a lock for each endpoint, held while its loop is changed. A lock outlives its endpoint,
	// because another edit of the name may wait for it.
	turns sync.Map

	mu      sync.Mutex // guards clients; not held while loops are changed
	clients map[string]asker
}

type asker struct {
	settings registry.Endpoint
	*endpoint.Client
}

func newFleet(s *Server, l scheduler.Ledger) *fleet {
	f := &fleet{
		Manager: scheduler.NewManager(scheduler.Config{Ledger: l, Clock: s.clock, Wake: s.wake, Logger: s.log, Writable: s.Store.Writable}),
		store:   s.Store, contact: s.conf.Contact, log: s.log, now: s.clock.Now, member: s.member, clients: map[string]asker{},
	}
	f.feeds.Store(newFeedList(s.conf.AllFeeds()))
	return f
}

// check returns an error if an endpoint with these settings cannot be asked.
func (f *fleet) check(e registry.Endpoint) error {
	if err := scheduler.Validate(e); err != nil {
		return err
	}
	if _, err := endpoint.New(e, endpoint.Options{Contact: f.contact}); err != nil {
		return err
	}
	return f.checkFeed(e)
}

// checkFeed returns an error if an endpoint cannot use its feed.
func (f *fleet) checkFeed(e registry.Endpoint) error {
	if e.Feed == "" {
		return nil
	}
	d, err := feed.Known(f.feeds.Load().all, e.Feed)
	if err != nil {
		return &registry.SettingError{Setting: "feed", Err: err}
	}
	if err := d.Check(f.contact, time.Now()); err != nil {
		return &registry.SettingError{Setting: "feed", Err: fmt.Errorf("the feed %s: %w", e.Feed, err)}
	}
	if d.Kind == feed.Deltas && e.Position != "" {
		return &registry.SettingError{Setting: "position", Err: fmt.Errorf("the messages of %s have no positions, because it is "+
			"of the kind %s: leave position out, and set lag to how long the endpoint may be behind", e.Feed, d.Kind)}
	}
	return nil
}

func (f *fleet) syncAll() error {
	all, err := f.store.Endpoints.Endpoints()
	if err != nil {
		return err
	}
	for _, e := range all {
		err := f.sync(e.Name)
		if setting := (*registry.SettingError)(nil); errors.As(err, &setting) {
			return fmt.Errorf("%w; the endpoint was stored by a program that accepted this: set %s to a value that this one accepts "+
				"in the configuration file, under endpoints", err, setting.Setting)
		}
		if err != nil {
			return fmt.Errorf("endpoint %s: %w", e.Name, err)
		}
	}
	return nil
}

// owns returns once the loop of an endpoint has begun or ended, after this node got or lost its lease.
func (f *fleet) owns(name string) {
	if err := f.sync(name); err != nil {
		f.log.Error("the loop of an endpoint did not begin, or did not end", "endpoint", name, "error", err)
	}
}

// hold returns the lease of an endpoint, nil if this node does not have it.
func (f *fleet) hold(name string) *cluster.Hold {
	if f.member == nil {
		return nil
	}
	return f.member.Held(store.EndpointLease(name))
}

// sync updates the loop of an endpoint to its stored settings. Other endpoints do not
// wait while it waits for the loop.
func (f *fleet) sync(name string) error {
	turn, _ := f.turns.LoadOrStore(name, new(sync.Mutex))
	turn.(*sync.Mutex).Lock()
	defer turn.(*sync.Mutex).Unlock()
	e, err := f.store.Endpoints.Endpoint(name)
	if errors.Is(err, registry.ErrNotFound) {
		return f.drop(name)
	} else if err != nil {
		return err
	}
	hold := f.hold(name)
	if f.member != nil && hold == nil {
		return f.drop(name)
	}
	old, known := f.client(name)
	if known && reflect.DeepEqual(old.settings.RequestSettings(), e.RequestSettings()) {
		return f.Update(e, nil)
	}
	c, err := f.dial(e, old.Client, hold)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.clients[name] = asker{e, c}
	f.mu.Unlock()
	if known {
		defer old.Close()
		return f.Update(e, c)
	}
	if hold != nil {
		return f.AddWith(e, c, f.under(hold.Token))
	}
	return f.Add(e, c)
}

func (f *fleet) client(name string) (asker, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, known := f.clients[name]
	return c, known
}

func (f *fleet) drop(name string) error {
	c, known := f.client(name)
	if !known {
		return nil
	}
	f.mu.Lock()
	delete(f.clients, name)
	f.mu.Unlock()
	defer c.Close()
	return f.Remove(name)
}

// dial makes a client that replaces another one, unless that is nil. It sends requests only while a
// lease is valid, unless that is nil.
func (f *fleet) dial(e registry.Endpoint, before *endpoint.Client, hold *cluster.Hold) (*endpoint.Client, error) {
	// Nothing is newer than the last revision: only the health is wanted.
	news, err := f.store.Ledger.Since(e.Name, math.MaxUint64-1)
	if err != nil {
		return nil, err
	}
	o := endpoint.Options{Contact: f.contact, Version: cli.Version(), Seed: f.store.Seed(), Logger: f.log, Health: news.Health,
		Predecessor: before,
		Now:         f.now, LastRequest: time.Now()} // a process before this one may have asked just now, also in a slot that is not recorded
	if hold != nil {
		o.Allowed = hold.Valid
	}
	return endpoint.New(e, o)
}

func (f *fleet) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.clients {
		c.Close()
	}
}

// CheckEndpoints checks the endpoints of a configuration for "config check", which
// opens no store.
func CheckEndpoints(c *config.Config) error {
	f := fleet{contact: c.Contact}
	f.feeds.Store(newFeedList(c.AllFeeds()))
	for i, e := range c.Endpoints {
		if err := registry.CheckEndpoint(e.WithDefaults(), f.check); err != nil {
			return cli.UsageErrorf("endpoints[%d] (%s): %v", i, e.Name, err)
		}
	}
	return nil
}

// CheckStart returns why a server would refuse to start with a configuration. What its store or its cluster may
// provide is returned as doubts.
func CheckStart(c *config.Config) (doubts []string, err error) {
	if err = CheckEndpoints(c); err != nil {
		return nil, err
	}
	_, absent := os.Stat(filepath.Join(c.Data, store.File))
	where := "the store in " + c.Data
	if c.Cluster.On() {
		absent, where = nil, "the cluster"
	}
	lacks := []struct {
		what string
		err  error
	}{{"has a token", c.Safe()}, {"has this endpoint", noDefaultEndpoint(c)}}
	for _, x := range lacks {
		switch {
		case x.err == nil:
		case absent != nil:
			return nil, x.err
		default:
			doubts = append(doubts, fmt.Sprintf("%v\nThe server starts only if %s %s.", x.err, where, x.what))
		}
	}
	return append(doubts, unreadSecrets(c)...), nil
}

// unreadSecrets says which files with secrets of endpoints cannot be read now.
func unreadSecrets(c *config.Config) (doubts []string) {
	for i, e := range c.Endpoints {
		files := map[string]string{}
		for kind, p := range map[string]*registry.Password{"basic": e.Auth.Basic, "digest": e.Auth.Digest} {
			if p != nil {
				files[kind+".password_file"] = p.PasswordFile
			}
		}
		if e.Auth.Bearer != nil {
			files["bearer.token_file"] = e.Auth.Bearer.TokenFile
		}
		for setting, path := range files {
			if path == "" {
				continue
			}
			if _, err := os.ReadFile(path); err != nil {
				doubts = append(doubts, fmt.Sprintf("endpoints[%d] (%s): auth.%s: %v", i, e.Name, setting, err))
			}
		}
	}
	return doubts
}

// noDefaultEndpoint returns an error if default_endpoint is none of the endpoints of a configuration.
func noDefaultEndpoint(c *config.Config) error {
	name := c.DefaultEndpoint
	if name == "" || slices.ContainsFunc(c.Endpoints, func(e registry.Endpoint) bool { return e.Name == name }) {
		return nil
	}
	return unknownDefault(name)
}

func unknownDefault(name string) error {
	return cli.UsageErrorf("default_endpoint: no endpoint is named %s", name)
}
