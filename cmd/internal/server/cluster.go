package server

// This file makes a server a node of a cluster.

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	natsio "github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/cluster"
	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/nats"
	"github.com/freshet/freshet/store/journal/postgres"
)

// majorityWait is how long a node that starts waits for a majority of the journal's members.
const majorityWait = 5 * time.Minute

// headWait bounds how long the state of the cluster waits for the end of the journal.
const headWait = 2 * time.Second

// A member is what a server has as a node of a cluster.
type member struct {
	*cluster.Keeper
	conf    config.Cluster
	journal journal.Journal
	store   *store.DB
	log     *slog.Logger
	secret  string // that the nodes share
	fenced  atomic.Uint64
	files   atomic.Pointer[string] // what nodes compare of their settings
	closers []func()
}

// openMember opens the journal, unless the caller has one. It waits for a majority of its members
// until ctx ends.
func openMember(ctx context.Context, conf *config.Config, log *slog.Logger, j journal.Journal) (m *member, err error) {
	m = &member{conf: conf.Cluster, log: log, journal: j}
	defer func() {
		if err != nil {
			m.close()
			err = fmt.Errorf("join the cluster %s: %w", conf.Cluster.Name, err)
		}
	}()
	token, err := m.conf.Token()
	if m.secret = token; err != nil || j != nil {
		return m, err
	}
	tls, err := m.conf.TLS.Config()
	if err != nil {
		return m, err
	}
	ctx, cancel := context.WithTimeout(ctx, majorityWait)
	defer cancel()
	m.warnOfToken()
	log.Info("waiting for the journal", "cluster", m.conf.Name, "node", m.conf.Node)
	var embedded atomic.Pointer[nats.Server]
	var last atomic.Pointer[error]
	waits := func(err error) { last.Store(&err) }
	waits(errors.New("no answer yet"))
	defer m.announce(&embedded, &last)()
	switch scheme, _, _ := strings.Cut(m.conf.Journal, "://"); scheme {
	case config.EmbeddedJournal:
		s, err := nats.Start(nats.ServerConfig{Cluster: m.conf.Name, Node: m.conf.Node, Listen: m.conf.Listen, Peers: m.conf.Peers,
			Clients: m.conf.Clients,
			Dir:     filepath.Join(conf.Data, "journal"), Token: token, TLS: tls, Log: log})
		if err != nil {
			return m, cli.WithCode(cli.ExitUsage, err)
		}
		embedded.Store(s)
		m.later(func() { s.Close() })
		nc, err := s.Connect()
		if err != nil {
			return m, err
		}
		m.later(nc.Close)
		return m, m.opened(nats.Open(ctx, nc, nats.Config{Name: m.conf.Name, Replicas: s.Replicas(), Own: s, Waits: waits}))
	case "nats", "tls":
		var options []natsio.Option
		if token != "" {
			options = append(options, natsio.Token(token))
		}
		if tls != nil {
			options = append(options, natsio.Secure(tls))
		}
		return m, m.opened(nats.Dial(ctx, m.conf.Journal, nats.Config{Name: m.conf.Name, Replicas: m.conf.Replicas, Waits: waits}, options...))
	}
	return m, m.opened(postgres.Open(ctx, postgres.Config{URL: m.conf.Journal, Name: m.conf.Name}))
}

// announceEvery is the time between two reports that a node waits for its journal.
const announceEvery = 5 * time.Second

// announce reports from time to time that this node waits for the journal, and what to look at,
// until the returned function is called. embedded is nil as long as there is no server here. last is why the last attempt was in vain.
func (m *member) announce(embedded *atomic.Pointer[nats.Server], last *atomic.Pointer[error]) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var reports sync.WaitGroup
	reports.Go(func() {
		t := time.NewTicker(announceEvery)
		defer t.Stop()
		for began := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
			}
			waited := time.Since(began).Round(time.Second)
			if s := embedded.Load(); s != nil {
				m.log.Warn("waiting for other members", "waited", waited, "connected", s.Members(), "members", len(m.conf.Peers), "peers",
					m.conf.Members(), "error", *last.Load(), "remedy", m.remedy())
			} else {
				m.log.Warn("waiting for the servers of the journal", "waited", waited, "journal", m.conf.Masked().Journal, "error", *last.Load(),
					"remedy", m.remedy())
			}
		}
	})
	return func() {
		cancel()
		reports.Wait()
	}
}

// remedy says what to look at while this node waits for its journal.
func (m *member) remedy() string {
	switch scheme, _, _ := strings.Cut(m.conf.Journal, "://"); scheme {
	case config.EmbeddedJournal:
		return "start the other members: a new journal needs all of them, and one that has entries a majority; " +
			"cluster.peers has the addresses at which they reach each other, and cluster.name and the secret of " +
			"cluster.token_file are the same on all"
	case "nats", "tls":
		return "start a majority of them, with JetStream enabled; cluster.journal has their addresses, and " +
			"cluster.token_file the token that they expect"
	}
	return "see that the PostgreSQL server of cluster.journal runs and answers, and which transactions wait for others there " +
		"(pg_stat_activity)"
}

// warnOfToken warns of a secret that every user of the machine can read.
func (m *member) warnOfToken() {
	i, err := os.Stat(m.conf.TokenFile)
	if err == nil && runtime.GOOS != "windows" && i.Mode().Perm()&0o007 != 0 {
		m.log.Warn("every user of this machine can read the secret of the cluster", "setting", "cluster.token_file", "remedy",
			"chmod 600 "+m.conf.TokenFile)
	}
}

func (m *member) opened(j journal.Journal, err error) error {
	if err != nil {
		return err
	}
	m.journal = j
	m.later(func() { j.Close() })
	return nil
}

func (m *member) later(f func()) { m.closers = append(m.closers, f) }

func (m *member) close() {
	for len(m.closers) > 0 {
		last := len(m.closers) - 1
		m.closers[last]()
		m.closers = m.closers[:last]
	}
}

// agree returns an error if members that have joined have other peers than this node.
func (m *member) agree() error {
	nodes, _, err := m.store.Leases.Nodes()
	for _, n := range nodes {
		if own := m.conf.Members(); n.Name != m.conf.Node && n.Session != "" && n.Peers != "" && own != "" && n.Peers != own {
			return cli.UsageErrorf("cluster.peers: this node has %s, and the member %s has %s: make them equal on all members, and "+
				"stop %s before its address changes", own, n.Name, n.Peers, n.Name)
		}
	}
	return err
}

// keys returns the keys of all leases of the cluster. feeds are those in force: a node has no lease of a feed that its
// file does not define yet, because it cannot read that and does not know whether it is to be read.
func (m *member) keys(feeds []feed.Definition) ([]string, error) {
	all, err := m.store.Endpoints.Endpoints()
	list := []string{journalLease, store.AlertsLease}
	for i := range shards {
		list = append(list, fmt.Sprint(shardPrefix, i))
	}
	for _, e := range all {
		list = append(list, store.EndpointLease(e.Name))
		read := slices.ContainsFunc(feeds, func(d feed.Definition) bool { return d.Name == e.Feed && d.Kind != feed.Deltas })
		if key := store.FeedLease(e.Feed); read && !slices.Contains(list, key) {
			list = append(list, key)
		}
	}
	return list, err
}

// Keys of the leases of deliveries.
const (
	shardPrefix = "delivery/"
	shards      = 64 // of the hosts of callbacks
)

// callsHost reports whether this node calls the callbacks of a host.
func (m *member) callsHost(host string) bool {
	_, holds := m.token(deliveryLease(host))
	return holds
}

// holdsHost reports whether this node has the lease to call the callbacks of a host, though that may have lapsed
// for the moment.
func (m *member) holdsHost(host string) bool { return m.Held(deliveryLease(host)) != nil }

// deliveryLease is the key of the lease of the node that calls the callbacks of a host.
func deliveryLease(host string) string {
	h := fnv.New32a()
	io.WriteString(h, host)
	return fmt.Sprint(shardPrefix, h.Sum32()%shards)
}

// publicURLs returns where clients reach the nodes.
func (m *member) publicURLs() (list []string) {
	nodes, _, err := m.store.Leases.Nodes()
	if err != nil {
		m.log.Error("the nodes of the cluster cannot be read", "error", err)
	}
	for _, n := range nodes {
		list = append(list, n.URL)
	}
	return list
}

// alerts reports whether this node evaluates alert rules, and the token of its lease.
func (m *member) alerts() (token uint64, holds bool) { return m.token(store.AlertsLease) }

// token reports whether this node may do what a lease of deliveries or alert rules allows, and
// the token of that lease. A request to a receiver that has begun ends, so a message may arrive
// twice, with the same id.
func (m *member) token(key string) (uint64, bool) {
	h := m.Held(key)
	if h == nil || !h.Valid() {
		return 0, false
	}
	return h.Token, true
}

// deliver calls callbacks of a shard until ctx ends, and waits for those that are being called.
func (s *Server) deliver(ctx context.Context, h *cluster.Hold) {
	h.Begin()
	s.deliveries.engine.Recheck()
	<-ctx.Done()
	for s.deliveries.engine.Calling() {
		time.Sleep(50 * time.Millisecond)
	}
}

// evaluate evaluates alert rules until ctx ends.
func (s *Server) evaluate(ctx context.Context, h *cluster.Hold) {
	if err := alert.Reload(s.alerts); err != nil {
		s.log.Error("alert rules cannot be read", "error", err)
		return
	}
	h.Begin()
	<-ctx.Done()
}

// journalLease is the lease of the node that drops old entries of the journal.
const journalLease = "journal"

// dropPause is the time between two looks at what the journal need not keep.
const dropPause = 10 * time.Minute

// dropOld drops what no member needs of the journal, until ctx ends.
func (m *member) dropOld(ctx context.Context) {
	t := time.NewTicker(dropPause)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if err := m.store.Leases.Drop(); err != nil && ctx.Err() == nil {
			m.log.Warn("old entries of the journal were not dropped", "error", err)
		}
	}
}

func newKeeper(s *Server) *cluster.Keeper {
	m := s.member
	api := m.conf.API[m.conf.Node]
	if api == "" {
		api = s.conf.PublicURL
	}
	return cluster.New(cluster.Config{
		Leases: s.Store.Leases, Logger: s.log, Now: s.clock.Machine, Asleep: clock.Asleep,
		Keys: func() ([]string, error) { return m.keys(s.fleet.feeds.Load().all) },
		Report: func(n *registry.Node) {
			n.Applied, n.Fenced, n.Files = s.Store.Applied(), m.fenced.Load(), *m.files.Load()
		},
		Node: registry.Node{Name: m.conf.Node, Gateway: m.conf.Gateway(), API: api, URL: s.conf.PublicURL, TTL: int64(m.conf.Lease),
			Peers: m.conf.Members()},
		Work: func(ctx context.Context, h *cluster.Hold) {
			if name, ok := strings.CutPrefix(h.Key, store.FeedLease("")); ok {
				s.followUnder(ctx, h, name)
				return
			}
			name, ok := strings.CutPrefix(h.Key, store.EndpointLease(""))
			switch {
			case h.Key == journalLease:
				m.dropOld(ctx)
				return
			case h.Key == store.AlertsLease:
				s.evaluate(ctx, h)
				return
			case !ok:
				s.deliver(ctx, h)
				return
			}
			h.Begin()
			s.fleet.owns(name)
			<-ctx.Done()
			s.fleet.owns(name)
		},
		Linger: func(key string) time.Duration {
			name, ok := strings.CutPrefix(key, store.EndpointLease(""))
			if !ok {
				return 0
			}
			e, _ := s.Store.Endpoints.Endpoint(name) // one that is gone has no timeout
			return time.Duration(e.Timeout)
		},
	})
}

func (m *member) Status() (registry.ClusterStatus, error) {
	ctx, cancel := context.WithTimeout(context.Background(), headWait)
	defer cancel()
	head, err := m.journal.Head(ctx)
	if err != nil { // the node is cut off, and knows only what it has applied
		head.Seq = m.store.Applied()
	}
	c, err := m.Keeper.Status(head.Seq)
	c.Name = m.conf.Name
	return c, err
}

func (m *member) Owner(endpoint string) string {
	n, _ := m.Has(store.EndpointLease(endpoint))
	return n.Name
}

func (m *member) Drain(node string) error {
	err := m.store.Leases.Drain(node, true)
	if errors.Is(err, registry.ErrNotFound) {
		return &registry.Problem{Kind: registry.KindNotFound, Detail: fmt.Sprintf("no node has the name %s", node)}
	}
	return err
}

// ready returns why a node must not be asked now.
func (m *member) ready() error {
	err := m.Ready()
	if err == nil {
		return nil
	}
	if disk := m.store.Storage(); disk.ReadOnly {
		return fmt.Errorf("the node %s applies nothing of the journal of the cluster %s: %s", m.conf.Node, m.conf.Name, disk.Reason)
	}
	ctx, cancel := context.WithTimeout(context.Background(), headWait)
	defer cancel()
	head, unreached := m.journal.Head(ctx)
	applied := m.store.Applied()
	switch {
	case unreached != nil:
		return fmt.Errorf("the node %s does not reach the journal of the cluster %s: %s (%w: %w)", m.conf.Node, m.conf.Name,
			m.reachable(), err, unreached)
	case head.Seq > applied:
		return fmt.Errorf("the node %s lags behind the journal of the cluster %s: it has applied entry %d of %d (%w)", m.conf.Node,
			m.conf.Name, applied, head.Seq, err)
	}
	return fmt.Errorf("the node %s of the cluster %s: %w", m.conf.Node, m.conf.Name, err)
}

// reachable says what must run so that this node reaches the journal.
func (m *member) reachable() string {
	switch scheme, _, _ := strings.Cut(m.conf.Journal, "://"); scheme {
	case config.EmbeddedJournal:
		return "a majority of its members must run and be connected"
	case "nats", "tls":
		return "a majority of the NATS servers of cluster.journal must run"
	}
	return "the PostgreSQL server of cluster.journal must run and admit this node"
}

// compare makes this node report the settings in force to the other nodes, as fingerprints.
func (m *member) compare(c *config.Config) {
	var list []string
	for key, value := range c.Shared() {
		if key == "mail.password_file" && m.secret == "" { // a short password could be guessed
			continue
		}
		b, err := json.Marshal(value)
		if err != nil {
			m.log.Error("a setting cannot be compared with that of other nodes", "setting", key, "error", err)
			continue
		}
		h := hmac.New(sha256.New, []byte(m.secret))
		h.Write(b)
		list = append(list, fmt.Sprintf("%s=%.4x", key, h.Sum(nil)))
	}
	slices.Sort(list)
	m.files.Store(new(strings.Join(list, " ")))
}

var (
	journalAppliedDesc = prometheus.NewDesc("freshet_journal_applied", "The last entry of the journal that this node has applied.", nil, nil)
	journalHeadDesc    = prometheus.NewDesc("freshet_journal_head", "The last entry of the journal.", nil, nil)
	leaseOwnedDesc     = prometheus.NewDesc("freshet_lease_owned", "Leases that this node has and that have not run out.",
		[]string{"kind"}, nil)
	takeoversDesc = prometheus.NewDesc("freshet_takeovers_total", "Leases that this node has taken from nodes that were gone.", nil, nil)
	differingDesc = prometheus.NewDesc("freshet_nodes_differing", "Live nodes whose settings differ from those of this node.", nil, nil)
	fencedDesc    = prometheus.NewDesc("freshet_fenced_total", "Writes of this node that were refused because it had lost "+
		"the lease.", nil, nil)
)

func (m *member) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{journalAppliedDesc, journalHeadDesc, leaseOwnedDesc, takeoversDesc, fencedDesc, differingDesc} {
		ch <- d
	}
}

func (m *member) Collect(ch chan<- prometheus.Metric) {
	s, err := m.Status()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(journalAppliedDesc, err)
		return
	}
	differing := 0
	for _, n := range s.Nodes {
		if len(n.Differs) > 0 {
			differing++
		}
	}
	if !m.Valid() { // others may have taken leases that have run out
		s.Leases = nil
	}
	ch <- prometheus.MustNewConstMetric(journalAppliedDesc, prometheus.GaugeValue, float64(s.Applied))
	ch <- prometheus.MustNewConstMetric(journalHeadDesc, prometheus.GaugeValue, float64(s.Head))
	for kind, n := range s.Owned(s.Node) {
		ch <- prometheus.MustNewConstMetric(leaseOwnedDesc, prometheus.GaugeValue, float64(n), kind)
	}
	ch <- prometheus.MustNewConstMetric(takeoversDesc, prometheus.CounterValue, float64(m.Takeovers()))
	ch <- prometheus.MustNewConstMetric(differingDesc, prometheus.GaugeValue, float64(differing))
	ch <- prometheus.MustNewConstMetric(fencedDesc, prometheus.CounterValue, float64(m.fenced.Load()))
}
