package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/people"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/notify/webhook"
	"github.com/freshet/freshet/notify/websub"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/web"
)

// deliveries joins the engine that calls callbacks, its senders, and the live
// connections.
type deliveries struct {
	engine *deliver.Engine
	websub *websub.Hub
	hub    http.Handler
	hooks  *webhook.Manager
	people *people.Manager
	desk   *people.Desk
	store  deliver.Store
	live   *notify.Server
	peers  *peers // nil without a cluster; they have further live connections
}

// newDeliveries returns the deliveries of a server. Topics are read through API c.
func newDeliveries(s *Server, c web.Config) (*deliveries, error) {
	guard, err := deliver.NewGuard(s.conf.WebSub.AllowCallbackNetworks)
	if err != nil {
		return nil, cli.UsageErrorf("websub.allow_callback_networks: %v", err)
	}
	topics, err := web.NewTopics(c)
	if err != nil {
		return nil, err
	}
	owns, nodes := func(string) bool { return true }, func() []string { return nil }
	holds := owns
	if s.member != nil {
		owns, holds, nodes = s.member.callsHost, s.member.holdsHost, s.member.publicURLs
	}
	sub := websub.New(websub.Options{
		Log: s.Store.History, Contents: &deliver.Contents{Read: reader(topics)}, Find: topics.Find, Caller: s.gate.Named,
		Query: s.Store.Queries.Query, PublicURL: s.conf.PublicURL,
		Nodes: nodes, Calls: owns, Now: s.clock.Now,
	})
	hooks := webhook.New(webhook.Options{
		Log: s.Store.History, Head: s.Store.History.Head, Query: s.Store.Queries.Query, Caller: s.gate.Named,
		Format: s.inWords(), Now: s.clock.Now,
	})
	mail, err := mailOf(s)
	if err != nil {
		return nil, err
	}
	told := people.New(people.Options{
		Log: s.Store.History, Query: s.Store.Queries.Query, Caller: s.gate.Named, PublicURL: strings.TrimSuffix(s.conf.PublicURL, "/"),
		Mail: mail, Names: c.Labels.Begin, Now: s.clock.Now, PushKey: s.pushKey,
	})
	engine, err := deliver.New(deliver.Options{
		Owns: owns, Holds: holds, Now: s.clock.Now,
		Store: s.Store.Subscriptions, Waker: s.Waker, Guard: guard, UserAgent: userAgent(s.conf.Contact), Logger: s.log,
		Writable: s.Store.Writable,
		Targets: map[registry.Way]deliver.Target{registry.WebSub: sub, registry.Webhook: hooks, registry.People: told,
			registry.Alerts: alert.Target{Engine: s.alerts}},
	})
	if err != nil {
		return nil, err
	}
	for _, k := range service.Kinds() {
		engine.CountKind(registry.People, k.Name)
	}
	manager := &people.Manager{Engine: engine, Guard: guard, Target: told, Resolve: s.Registry.Resolve,
		MostEach: cmp.Or(s.conf.Limits.TokenWebhooks, math.MaxInt)}
	return &deliveries{
		engine: engine, store: s.Store.Subscriptions, live: s.live, peers: s.peers, websub: sub,
		hub: websub.NewHandler(sub, engine, guard, s.gate, websub.Caps{}, s.log),
		hooks: &webhook.Manager{Engine: engine, Guard: guard, Target: hooks, Resolve: s.Registry.Resolve,
			MostEach: cmp.Or(s.conf.Limits.TokenWebhooks, math.MaxInt)},
		people: manager, desk: people.NewDesk(manager, s.conf.Mail.Visitors),
	}, nil
}

// mailOf returns how the server sends e-mail.
func mailOf(s *Server) (*service.Mail, error) {
	m := s.conf.Mail
	password, err := m.Password()
	return &service.Mail{Server: m.Server, From: m.From, Username: m.Username, Password: password, Security: m.Security,
		Recipients: m.Recipients}, err
}

// pushKey returns the key that signs messages to browsers.
func (s *Server) pushKey() (string, error) { return s.Store.Secret("push", service.NewPushKey) }

// newAlerts returns the alert rules of a server.
func newAlerts(s *Server, labels *watch.Labels) (*alert.Engine, error) {
	guard, err := deliver.NewGuard(s.conf.WebSub.AllowCallbackNetworks)
	if err != nil {
		return nil, cli.UsageErrorf("websub.allow_callback_networks: %v", err)
	}
	mail, err := mailOf(s)
	if err != nil {
		return nil, err
	}
	var rules alert.Store = s.Store.Rules
	lease := func() (uint64, bool) { return 0, true }
	if s.member != nil {
		rules, lease = fencedRules{s.Store.Rules, s.member}, s.member.alerts
	}
	return alert.New(alert.Options{
		// 0 is no limit.
		Most: cmp.Or(s.conf.Limits.Rules, math.MaxInt), MostEach: cmp.Or(s.conf.Limits.TokenRules, math.MaxInt),
		Bytes: cmp.Or(int(s.conf.Limits.TokenBytes), math.MaxInt), Rows: cmp.Or(s.conf.Limits.RuleRows, math.MaxInt),
		Receivers: cmp.Or(s.conf.Limits.RuleReceivers, math.MaxInt), Addresses: cmp.Or(s.conf.Limits.TokenReceivers, math.MaxInt),
		Lease: lease, Now: s.clock.Now, Machine: s.clock.Machine,
		Mail: *mail, PushKey: s.pushKey, Names: labels.Known,
		Store: rules, Queue: s.Store.Subscriptions, Log: s.Store.History, Past: s.Store.History, Waker: s.Waker, Guard: guard,
		Query:   s.Store.Queries.Query,
		Proved:  changeFeeds{s}.until,
		Halted:  web.Halts{Registry: s.Registry, Daemon: s.loops}.Why,
		Resolve: s.Registry.Resolve, Caller: s.gate.Named, PublicURL: strings.TrimSuffix(s.conf.PublicURL, "/"), Logger: s.log,
	})
}

// reader reads topics for deliveries as GET does.
func reader(t *web.Topics) func(context.Context, string) (deliver.Content, error) {
	return func(ctx context.Context, path string) (deliver.Content, error) {
		x, err := t.Read(ctx, path)
		if errors.Is(err, web.ErrNoTopic) {
			return deliver.Content{}, fmt.Errorf("%w: %w", deliver.ErrNoContent, err)
		}
		return deliver.Content{At: x.At, Version: x.Version, Type: x.Type, Body: x.Body}, err
	}
}

func userAgent(contact string) string {
	if contact == "" {
		return "freshet/" + cli.Version()
	}
	return "freshet/" + cli.Version() + " (+" + contact + ")"
}

// Subscriptions implements web.Subscriptions.
func (o *deliveries) Subscriptions(after string, limit int) ([]registry.Subscription, error) {
	stored, err := o.store.Subscriptions(after, limit)
	if err != nil {
		return nil, err
	}
	all := append(stored, o.live.Subscriptions(after, limit)...)
	all = append(all, o.peers.connections(after, limit)...)
	slices.SortFunc(all, func(a, b registry.Subscription) int { return strings.Compare(a.ID, b.ID) })
	return all[:min(len(all), limit)], nil
}

// AllSubscriptions goes through all subscriptions. Stored subscriptions come first,
// then those of connections of this node.
func (o *deliveries) AllSubscriptions(yield func(registry.Subscription, error) bool) {
	for x, err := range registry.EachSubscription(o.store.Subscriptions, "") {
		if !yield(x, err) || err != nil {
			return
		}
	}
	o.live.AllSubscriptions(func(x registry.Subscription) bool { return yield(x, nil) })
}

// Subscription implements web.Subscriptions.
func (o *deliveries) Subscription(id string) (registry.Subscription, error) {
	if x, err := o.live.Subscription(id); err == nil {
		return x, nil
	}
	x, err := o.store.Subscription(id)
	if errors.Is(err, registry.ErrNotFound) {
		return o.peers.connection(id, "", err)
	}
	return x, err
}

// Deliveries counts deliveries by way.
func (o *deliveries) Deliveries() (list []web.Deliveries) {
	for _, w := range o.live.WayStats() {
		list = append(list, web.Deliveries{Way: w.Way, Connections: w.Connections, Delivered: w.Delivered, Failed: w.Slow})
	}
	for _, w := range o.engine.WayStats() {
		list = append(list, web.Deliveries{Way: w.Way, Kind: w.Kind, Delivered: w.Taken, Failed: w.Failed, Retried: w.Retried,
			Dropped: w.GivenUp})
	}
	return list
}

// Act implements web.Subscriptions.
func (o *deliveries) Act(id, verb string) (registry.Subscription, error) {
	x, err := connections{o.live}.Act(id, verb)
	if errors.Is(err, registry.ErrNotFound) {
		x, err = o.peers.connection(id, verb, err)
	}
	if !errors.Is(err, registry.ErrNotFound) {
		return x, err
	}
	switch verb {
	case "pause":
		return o.engine.Pause(id)
	case "resume":
		return o.engine.Resume(id)
	}
	return registry.Subscription{}, o.engine.Drop(id, func(s *registry.Subscription) {
		if s.Way == registry.WebSub {
			o.websub.Deny(s, "the subscription was dropped at the hub") // the subscriber is told
		}
	})
}
