// Package server wires the parts of Freshet into one server: store, registry,
// the loops of the endpoints, followers, deliveries, the API and the pages.
//
// BenchmarkRestart, BenchmarkRegister and BenchmarkHint measure a restart, registrations and
// the way from a hint to its messages. web/docs/sizing.md has their figures.
package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/pack"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/notify/live"
	"github.com/freshet/freshet/notify/people"
	"github.com/freshet/freshet/notify/sepa"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/follow"
	"github.com/freshet/freshet/scheduler/shadow"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/web"
	"github.com/freshet/freshet/web/ui"
)

// A Server is the running program: all parts, wired.
type Server struct {
	conf       *config.Config
	log        *slog.Logger
	listener   net.Listener
	Store      *store.DB
	Registry   *registry.Registry
	fleet      *fleet
	loops      *loops  // those of fleet, and of other nodes
	peers      *peers  // nil without a cluster
	member     *member // nil without a cluster
	Waker      *notify.Waker
	live       *notify.Server
	deliveries *deliveries
	alerts     *alert.Engine
	gate       *web.TokenGate
	metrics    *web.Metrics
	pages      *ui.Server
	http       *http.Server
	opening    *opening                        // nil without a cluster
	phase      atomic.Int32                    // starting, ready or stopping
	cert       atomic.Pointer[tls.Certificate] // nil without TLS
	started    time.Time
	clock      *clock.Clock
	counting   sync.Mutex                    // of deltas, held while they are recorded
	told       map[string]*follow.Follower   // feeds of the kind deltas, by name; counting guards it
	inForce    atomic.Pointer[config.Config] // what the page of settings shows
	applying   sync.Mutex                    // of a file, held while it is applied
	unapplied  *config.Config                // whose endpoints are not in force yet, nil for none; applying guards it
	postponed  chan struct{}                 // wakes applyLater
	halted     *haltWatch
	behind     bool // something did not end in time and may use the store still

	WhenReady    func(context.Context) // called once it is ready; the context ends with the slots
	WhenStopping func()
}

// New opens all parts in the order of their dependencies. Nothing runs yet. The node of a cluster
// waits for the journal until ctx ends.
func New(ctx context.Context, conf *config.Config, log *slog.Logger) (*Server, error) {
	return newOn(ctx, conf, log, nil, clock.New(time.Now, clock.Patience, log))
}

// newOn is New with a clock and with a journal, which belongs to the caller. nil means that there is none.
func newOn(ctx context.Context, conf *config.Config, log *slog.Logger, j journal.Journal, c *clock.Clock) (s *Server, err error) {
	s = &Server{clock: c, started: c.Now(), WhenReady: func(context.Context) {}, WhenStopping: func() {}, conf: conf, log: log,
		postponed: make(chan struct{}, 1), Waker: notify.NewWaker(), metrics: web.NewMetrics(cli.Version())}
	s.halted = newHaltWatch(s)
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	cert, err := conf.TLS.Certificate()
	if err != nil {
		return s, err
	}
	s.cert.Store(cert)
	if s.listener, err = listen(conf.Listen); err != nil {
		return s, err
	}
	conf.Listening(s.listener.Addr().String())
	s.inForce.Store(conf)
	if conf.Cluster.On() {
		if path := filepath.Join(conf.Data, store.File); store.InUse(path) { // its journal is, too
			return s, fmt.Errorf("open %s: %w: stop the other freshet, or give this node its own data directory", path, store.ErrLocked)
		}
		s.opening = newOpening(conf.Cluster.Node, web.NotReady(s.site(), log,
			"this node waits for the journal of the cluster; its log says what it lacks"))
		s.http = s.serving(s.opening)
		go func() { s.opening.served <- s.accept() }()
		if s.member, err = openMember(ctx, conf, log, j); err != nil {
			return s, err
		}
		j = s.member.journal
		opened := context.AfterFunc(ctx, func() { j.Close() }) // which ends what waits for it
		defer func() {
			if !opened() {
				err = ctx.Err()
			}
		}()
	}
	s.Store, err = store.Open(conf.Data, store.Options{Logger: log, Now: s.clock.Now, Reserve: int64(conf.Limits.Reserve), Journal: j,
		Retention: store.Retention{Changes: conf.Retention.Changes, Age: time.Duration(conf.Retention.Age), Bytes: int64(conf.Retention.Bytes)}})
	if err != nil {
		return s, err
	}
	if err := s.metrics.Register(storeCollector{s.Store}); err != nil {
		return s, err
	}
	if m := s.member; m != nil {
		m.store = s.Store
		m.compare(conf)
		m.Keeper = newKeeper(s)
		if err := errors.Join(m.agree(), s.metrics.Register(m)); err != nil {
			return s, err
		}
	}
	if s.gate, err = web.NewTokenGate(conf.Tokens, s.Store.Tokens, s.clock.Now); err != nil {
		return s, err
	}
	if !s.gate.On() {
		if err := conf.Safe(); err != nil {
			return s, err
		}
	}
	if err := s.assemble(); err != nil {
		return s, err
	}
	return s, s.serveHTTP()
}

// listen opens the address before anything else, because an address in use is the most
// common mistake.
func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, cli.ListenError(err)
	}
	return l, nil
}

// assemble wires registry and loops to each other through the store.
func (s *Server) assemble() error {
	ledger := observed{s.Store.Ledger, s.metrics, s.member}
	s.fleet = newFleet(s, ledger)
	var err error
	if s.member != nil {
		if s.peers, err = newPeers(s.member); err != nil {
			return err
		}
	}
	s.loops = newLoops(s.fleet, s.peers, false)
	conf := registry.Config{
		Queries: s.Store.Queries, Endpoints: s.Store.Endpoints, Limits: s.conf.Limits.Registration(), DefaultEndpoint: s.conf.DefaultEndpoint,
		Check: s.fleet.check, Logger: s.log, Now: s.clock.Now, Profiles: s.Store.Profiles, SlotInterval: scheduler.Gap,
		Known: func(e registry.Endpoint, q *registry.Query) *registry.Learnt {
			p, ok := pack.Of("", e.URL)
			if !ok {
				return nil
			}
			return p.Learnt(func() string { return scheduler.TemplateText(q) })
		},
		QueryEdited: func(id string) { s.Waker.Wake(id) },
		QueryHidden: func(string) {
			if s.live != nil { // no client follows before
				s.live.Recheck()
			}
		},
		EndpointEdited: func(name string) {
			if err := s.fleet.sync(name); err != nil {
				s.log.Error("an edited endpoint is not in force", "endpoint", name, "error", err)
			}
			if _, err := s.Store.Endpoints.Endpoint(name); errors.Is(err, registry.ErrNotFound) {
				s.log.Info("an endpoint is removed, with its queries and their history", "endpoint", name, "in_file", s.Registry.InFile(name))
				s.metrics.Forget(name)
				s.Waker.WakeAll() // its queries ended with it
			}
			s.halted.look()
			if s.phase.Load() == phaseReady {
				s.warnOfSharedURLs(name)
			}
		},
	}
	if m := s.member; m != nil {
		conf.Node, conf.Lives = m.conf.Node, m.Lives
		s.fleet.under = ledger.under
	}
	if s.Registry, err = registry.Open(conf); err != nil {
		return err
	}
	if err := s.applyFile(s.conf); err != nil {
		return err
	}
	return s.fleet.syncAll()
}

// wake notifies the followers of committed changes.
func (s *Server) wake(notes []scheduler.Note) {
	ids := make([]string, 0, len(notes))
	for _, n := range notes {
		if n.Changed || n.Status {
			ids = append(ids, n.Query)
		}
		if n.Profile != "" {
			ids = append(ids, n.Profile)
		}
	}
	s.Waker.Wake(ids...)
}

func (s *Server) serveHTTP() error {
	s.live = notify.NewServer(notify.Options{
		Log: s.Store.History, Waker: s.Waker, Registrar: registrar{s.Registry}, Gate: s.gate, Head: s.Store.History.Head,
		Confirm: s.Store.History.Confirm, Due: s.due, Halted: s.halted.Why, Proved: changeFeeds{s}.until,
		Captures: s.Store.Rounds, ResolveProfile: s.Registry.ResolveProfile,
		PublicURL: s.conf.PublicURL, Origins: s.conf.Origins, Logger: s.log,
		Limits: notify.Limits{Connections: s.conf.Limits.Connections, OneAddress: s.conf.Limits.AddressConnections,
			Change: cmp.Or(int64(s.conf.Limits.Change), -1)}, // 0 is no limit
	})
	s.gate.Changed = s.live.Recheck
	sockets := live.New(s.live)
	conf := web.Config{
		Registry: s.Registry, Gate: s.gate,
		Queries: s.Store.Catalog, History: sharing{s.Store.History, s.live}, Backup: s.Store.Backup,
		Daemon: s.loops, Hint: s.loops.Hint, Merging: s.loops, Local: s.loops.local, ChangeFeeds: changeFeeds{s},
		Shadows:  shadow.NewComparer(s.loops, s.Store.Ledger).Compare,
		Profiles: s.Store.Rounds, NextRound: s.loops.NextRound, Following: s.Waker.Followers,
		Followers: s.live, Rechecked: s.live.Rechecked, Feed: s.feed,
		ChangeJSON: func(c registry.Change) ([]byte, error) { return notify.MarshalChange(c, s.Format()) },
		Live:       sockets,
		SEPA:       &sepa.Server{Status: web.Status, Hub: s.live, Live: sockets, Registrar: s.Registry, Gate: s.gate, Logger: s.log},
		Documents:  documents{s.live.Documents()},
		Site:       s.site(),
		Limits:     web.Limits{Body: cmp.Or(s.conf.Limits.Body, math.MaxInt64)}, // 0 is no limit
		Health:     health{s}, Metrics: s.metrics, Logger: s.log, Now: s.clock.Now,
	}
	if s.member != nil {
		conf.Cluster, conf.CatchUp = s.member, s.Store.CatchUp
	}
	conf.Check = s.fleet.try
	conf.Labels = web.NewLabels(s.Registry, s.loops, s.clock.Now)
	var err error
	if s.alerts, err = newAlerts(s, conf.Labels); err != nil {
		return err
	}
	if s.deliveries, err = newDeliveries(s, conf); err != nil {
		return err
	}
	s.alerts.Deliver(s.deliveries.engine)
	conf.Hub, conf.Subscriptions, conf.Webhooks = s.deliveries.hub, s.deliveries, s.deliveries.hooks
	conf.Receivers, conf.Quiet, conf.DeadLetters = s.deliveries.people, people.Due, s.deliveries.engine
	conf.Deliveries, conf.AllSubscriptions = s.deliveries.Deliveries, s.deliveries.AllSubscriptions
	conf.Rules = ruleSet{s.alerts, s.peers}
	pages, err := ui.New(ui.Config{Config: conf, Managing: s.managing(), Follow: func() (<-chan struct{}, func()) {
		f := s.Waker.FollowAll()
		return f.C(), f.Close
	}})
	if err != nil {
		return err
	}
	conf.Pages = withDesk{pages, s.deliveries.desk}
	handler, err := web.New(conf)
	if err != nil {
		return err
	}
	if s.opening != nil {
		s.opening.next, err = s.clustered(conf, handler)
	} else {
		s.http = s.serving(handler)
	}
	s.http.RegisterOnShutdown(pages.Close)
	s.pages = pages
	return err
}

// withDesk is the pages, and those for visitors without a token.
type withDesk struct {
	*ui.Server
	desk *people.Desk
}

// ServeHTTP implements http.Handler.
func (p withDesk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == people.VisitorPath || strings.HasPrefix(r.URL.Path, people.VisitorPath+"/") {
		p.desk.ServeHTTP(w, r)
		return
	}
	p.Server.ServeHTTP(w, r)
}

// clustered makes a handler also answer requests of other nodes, from what this node has itself.
func (s *Server) clustered(c web.Config, clients http.Handler) (*nodeHandler, error) {
	own := newLoops(s.fleet, s.peers, true)
	c.Daemon, c.Hint, c.Merging, c.NextRound = own, own.Hint, own, own.NextRound
	c.Subscriptions, c.Rules = connections{s.live}, ruleSet{Engine: s.alerts}
	c.Limits.Body, c.Limits.Tries = mostBody, mostTries
	c.Pages, c.Metrics, c.CatchUp = nil, nil, nil
	c.Live, c.SEPA, c.Hub = nil, nil, nil
	nodes, err := web.New(c)
	return &nodeHandler{Handler: clients, nodes: nodes, late: web.NotReady(s.site(), s.log,
		"this node lags behind the journal of the cluster: try again in a moment"), peers: s.peers}, err
}

// site describes the server as clients and other nodes see it.
func (s *Server) site() web.Site {
	return web.Site{PublicURL: s.conf.PublicURL, Listen: s.conf.Listen, NodeURL: s.conf.Cluster.API[s.conf.Cluster.Node],
		Origins: s.conf.Origins, Insecure: s.conf.Insecure, Version: cli.Version()}
}

func (s *Server) serving(h http.Handler) *http.Server {
	x := web.Serving(web.Proxies{Networks: s.conf.Proxies.Trusted(), Header: s.conf.Proxies.Header}.Clients(h))
	x.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelDebug)
	return x
}

// Format returns the format of changes for clients.
func (s *Server) Format() notify.Format {
	return notify.Format{MaxChange: int64(s.conf.Limits.Change), PublicURL: s.conf.PublicURL}
}

// documents lets the API share the bodies of its answers.
type documents struct{ *notify.Documents }

// Open is web.Documents'.
func (d documents) Open(class, key string, write func(io.Writer) (any, error)) (web.Document, any, error) {
	doc, about, err := d.Documents.Open(class, key, write)
	if err != nil {
		return nil, nil, err
	}
	return doc, about, nil
}

// A sharing is the history as web.History. Its readers share results with each other and
// with followers.
type sharing struct {
	*store.History
	live *notify.Server
}

// Current implements web.History.
func (h sharing) Current(query string, withResult bool) (registry.Status, *diff.Result, error) {
	return h.live.Current(query, withResult)
}

// After implements web.History.
func (h sharing) After(query string, p registry.Position, limit int) ([]registry.Change, error) {
	return h.live.After(query, p, limit)
}

// due predicts when a query of this node's endpoints runs next. It does not ask other nodes,
// because the goroutines that serve followers must not wait for them.
func (s *Server) due(endpoint, query string) (time.Time, error) {
	due, err := s.fleet.Due(endpoint, []string{query})
	if err != nil {
		return time.Time{}, err
	}
	return due[0], nil
}

// The phases of a server.
const (
	phaseStarting int32 = iota
	phaseReady
	phaseStopping
)

// readyLimit is how long the server waits for its loops before it is ready without
// them.
const readyLimit = time.Minute

// becomeReady makes the server ready once every loop has read its queries, or after
// limit. It does not wait for a loop that has ended.
func (s *Server) becomeReady(ctx context.Context, limit time.Duration) {
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.fleet.AwaitLoaded(wait)
	if n := s.fleet.Starting(); n > 0 && ctx.Err() == nil {
		s.log.Warn("ready, although endpoints still read their queries", "endpoints", n, "waited", limit)
	}
	if ctx.Err() == nil && s.phase.CompareAndSwap(phaseStarting, phaseReady) {
		debug.FreeOSMemory() // reading the queries has left as much garbage as there are queries
		s.WhenReady(ctx)
	}
}

// A health is the server as web.Health.
type health struct{ *Server }

// Ready implements web.Health.
func (h health) Ready() error {
	switch h.phase.Load() {
	case phaseStarting:
		return errors.New("the server is starting: endpoints read their queries")
	case phaseStopping:
		if err := h.Store.Writable(); err != nil {
			return fmt.Errorf("the server is stopping: %w", err)
		}
		return errors.New("the server is stopping")
	}
	if h.member != nil {
		return h.member.ready()
	}
	return nil
}

// Starting implements web.Health.
func (h health) Starting() int { return h.fleet.Starting() }

// Disk implements web.Health.
func (h health) Disk() registry.Storage { return h.Store.Storage() }

// URL returns the URL of the server.
func (s *Server) URL() string { return s.conf.PublicURL }

// The longest times of a stop: followers are told to reconnect while slots end, then
// requests may finish. StopGrace bounds the whole stop.
const (
	followersGrace = 10 * time.Second
	requestsGrace  = 5 * time.Second
	StopGrace      = followersGrace + requestsGrace
)

// journalGrace is how long writes of a node that stops wait for the journal. It is shorter than a
// loop may take to end, so that a node without a majority ends in order. What it does not record
// is done again, and others take its leases over when these have run out.
const journalGrace = 5 * time.Second

// Run serves until ctx ends. Then it stops in order: it is no longer ready, ends the
// slots, and closes connections with a request to reconnect. It returns within
// StopGrace.
func (s *Server) Run(ctx context.Context) error {
	slots, stopSlots := context.WithCancel(context.WithoutCancel(ctx))
	defer stopSlots()
	failed := make(chan error, 8)
	go func() { failed <- s.fleet.Run(slots) }()
	go func() { failed <- s.deliveries.engine.Run(slots) }()
	go func() { failed <- s.alerts.Run(slots) }()
	go func() { failed <- s.Store.Watch(slots) }() // a registration may be the first to find the disk broken
	if s.opening != nil {
		close(s.opening.opened)
		go func() { failed <- <-s.opening.served }()
	} else {
		go func() { failed <- s.accept() }()
	}
	go func() {
		s.followOthers(slots)
		failed <- nil
	}()
	left := 6
	if s.member == nil {
		left++
		go func() {
			s.followFeeds(slots)
			failed <- nil
		}()
	}
	if s.member != nil {
		left++
		go func() { failed <- s.member.Run(slots) }()
	}
	go s.sweep(slots)
	go s.applyLater(slots)
	go s.halted.run(slots)
	go s.pages.Watch(slots)
	go s.becomeReady(slots, readyLimit)
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		left--
	}
	s.phase.Store(phaseStopping)
	stopping := time.Now()
	s.WhenStopping()
	why := err
	if why == nil {
		why = context.Cause(ctx)
	}
	s.log.Info("stopping", "reason", why, "served", stopping.Sub(s.started))
	defer func() { s.log.Info("stopped", "took", time.Since(stopping)) }()
	s.Store.Hurry(journalGrace)
	stopSlots()
	patience := time.NewTimer(StopGrace)
	defer patience.Stop()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), followersGrace)
	defer cancel()
	if e := s.live.Shutdown(grace); e != nil {
		s.log.Warn("some followers were cut off without a word", "error", e)
	}
	last, cancelLast := context.WithTimeout(context.WithoutCancel(ctx), requestsGrace)
	defer cancelLast()
	if e := s.http.Shutdown(last); e != nil {
		s.log.Warn("some requests were cut off", "error", e)
		err = errors.Join(err, s.http.Close())
	}
	for ; left > 0; left-- {
		select {
		case e := <-failed:
			err = both(err, e)
			continue
		default:
		}
		select {
		case e := <-failed:
			err = both(err, e)
		case <-patience.C:
			s.behind = true
			s.log.Warn("the server has not ended in time; what still runs is left behind", "grace", StopGrace)
			return err
		}
	}
	s.behind = errors.Is(err, scheduler.ErrLeftBehind)
	if err == scheduler.ErrLeftBehind { // which is logged, and no failure
		return nil
	}
	return err
}

// warnOfSharedURLs warns of endpoints with the same URL: of those that share one with the named
// endpoint, or of all if name is "".
func (s *Server) warnOfSharedURLs(name string) {
	all, err := s.Store.Endpoints.Endpoints()
	if err != nil {
		return // a broken store ends the process by itself
	}
	for _, group := range registry.SharedURLs(all) {
		if name == "" || slices.Contains(group, name) {
			s.log.Warn("endpoints have the same URL: each has a budget of its own, so their service is asked for the sum", "endpoints",
				strings.Join(group, " "),
				"remedy", "use one endpoint, or divide the budget and the concurrency among them")
		}
	}
}

// LogStart logs what has been started.
func (s *Server) LogStart() error {
	endpoints, err := s.Store.Endpoints.Endpoints()
	if err != nil {
		return err
	}
	queries, err := s.Store.Queries.CountQueries()
	if err != nil {
		return err
	}
	if s.conf.Insecure && !s.gate.On() {
		s.log.Warn("--insecure: everyone who reaches this server may do everything", "listen", s.conf.Listen, "public_url", s.conf.PublicURL)
	}
	s.warnOfSharedURLs("")
	for _, e := range endpoints {
		if err := s.fleet.checkFeed(e); err != nil {
			s.log.Warn("an endpoint cannot use its feed", "endpoint", e.Name, "error", err,
				"remedy", "name another one in its setting feed, or none")
		}
	}
	b := cli.ThisBuild()
	s.log.Info("started", "version", b.Version, "revision", b.Revision, "config", s.conf.File, "data", s.conf.Data, "listen",
		s.listener.Addr().String(),
		"url", s.URL(), "endpoints", len(endpoints), "queries", queries)
	return nil
}

// Alive returns if the store is readable and no endpoint's loop is stuck.
func (s *Server) Alive() {
	all, err := s.Store.Endpoints.Endpoints()
	if err != nil {
		return // a broken store ends the process by itself
	}
	for _, e := range all {
		s.fleet.Answers(e.Name)
	}
}

// both joins two errors, unless one of them has said what the other says.
func both(a, b error) error {
	switch {
	case b == nil || errors.Is(a, b):
		return a
	case a != nil && errors.Is(b, a):
		return b
	}
	return errors.Join(a, b)
}

func (s *Server) accept() error {
	var err error
	if s.cert.Load() != nil {
		s.http.TLSConfig = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.cert.Load(), nil }}
		err = s.http.ServeTLS(s.listener, "", "")
	} else {
		err = s.http.Serve(s.listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// sweep releases the registrations of live subscriptions that did not return.
func (s *Server) sweep(ctx context.Context) {
	t := time.NewTicker(5 * time.Minute)
	defer t.Stop()
	for {
		if err := s.Registry.Sweep(); err != nil && !errors.Is(err, registry.ErrReadOnly) {
			s.log.Error("registrations of ended subscriptions were not released", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// Reload applies the parts of a new configuration that a running server can change: all of them, or none if it returns an error.
// Endpoints that cannot be stored now follow later.
func (s *Server) Reload(c *config.Config) error {
	now, was := *c, *s.conf
	now.Tokens, now.Endpoints, was.Tokens, was.Endpoints = nil, nil, nil, nil
	now.Feeds, was.Feeds = nil, nil
	now.Sources, was.Sources = nil, nil
	if strings.HasSuffix(now.Listen, ":0") { // the port that the system chose is not in the file
		now.Listen, now.PublicURL = was.Listen, was.PublicURL
	}
	cert, err := c.TLS.Certificate()
	if err != nil {
		return err
	}
	shown := *s.conf // except what takes effect at once
	renewed := cert != nil && s.cert.Load() != nil
	if renewed { // what speaks TLS goes on doing so, and what does not, too
		shown.TLS, now.TLS, was.TLS = c.TLS, config.TLS{}, config.TLS{}
	}
	if !reflect.DeepEqual(now, was) {
		s.log.Warn("what changed besides tokens, endpoints, feeds and the certificate takes effect at the next start")
	}
	if err := s.fleet.checkFeeds(c); err != nil {
		return err
	}
	s.applying.Lock()
	defer s.applying.Unlock()
	feeds := s.fleet.feeds.Load().all
	s.fleet.setFeeds(c.AllFeeds()) // endpoints of the file may name them
	if err := s.applyEndpoints(c); err != nil {
		s.fleet.setFeeds(feeds)
		return err
	}
	if renewed {
		s.cert.Store(cert)
	}
	s.gate.SetFile(c.Tokens)
	shown.Feeds = c.Feeds
	shown.Tokens, shown.Endpoints, shown.Sources = c.Tokens, c.Endpoints, s.conf.Sources.Reloaded(c.Sources)
	s.inForce.Store(&shown)
	if s.member != nil {
		s.member.compare(&shown)
	}
	return nil
}

// Close frees what newServer took; it may be called once run has returned. The
// store stays open where a loop may use it still: the process ends, and what is
// committed is safe without.
func (s *Server) Close() {
	if s.listener != nil {
		s.listener.Close()
	}
	if s.opening != nil {
		s.http.Close()
	}
	if s.fleet != nil {
		s.fleet.close()
	}
	if s.Store != nil && !s.behind {
		if err := s.Store.Close(); err != nil {
			s.log.Error("the store was not closed well", "error", err)
		}
	}
	if s.member != nil {
		s.member.close()
	}
}

// observed counts slots as they are committed.
type observed struct {
	*store.Ledger
	metrics *web.Metrics
	member  *member
}

// under returns the ledger of the node that has the lease of an endpoint.
func (o observed) under(token uint64) scheduler.Ledger {
	o.Ledger = o.Ledger.Under(token)
	return o
}

func (o observed) Record(endpoint string, b scheduler.Batch) ([]registry.Change, error) {
	changes, err := o.Ledger.Record(endpoint, b)
	if errors.Is(err, scheduler.ErrFenced) && o.member != nil {
		o.member.fenced.Add(1)
	}
	switch {
	case err != nil || b.Slot == nil || b.Slot.Finished.IsZero():
	case b.Slot.OffGrid == (scheduler.OffGrid{}):
		o.metrics.ObserveSlot(*b.Slot)
	default: // the slot was counted when it ended
		o.metrics.ObserveOffGrid(endpoint, b.Outcomes)
	}
	return changes, err
}
