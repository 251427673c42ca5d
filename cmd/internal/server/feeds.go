package server

import (
	"cmp"
	"errors"
	"math"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/atom"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/scheduler/follow"
	"github.com/freshet/freshet/scheduler/proof"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/web"
)

// feed writes the Atom feed of a query, of a watch, or of all queries.
func (s *Server) feed(q *registry.Query, w *watch.Watch, names watch.Namer, params url.Values) (web.Feed, error) {
	source := &atom.Source{Log: s.Store.History, Head: s.Store.History.Head, Tagged: s.tagged, Title: s.title,
		PublicURL: s.conf.PublicURL, Named: s.named}
	var d atom.Document
	var err error
	if q == nil {
		d, err = source.All(params)
	} else {
		d, err = source.Query(q, w, names, params)
	}
	return web.Feed{Body: d.Body, Type: atom.Type, ETag: d.ETag, Modified: d.Modified, Self: d.Self, Topic: d.Topic}, err
}

// tagged reports whether a query has a tag now.
func (s *Server) tagged(query, tag string) bool {
	q, err := s.Store.Queries.Query(query)
	return err == nil && slices.Contains(q.Tags(), tag)
}

// inWords is the format of changes for webhooks, which people read in chats.
func (s *Server) inWords() notify.Format {
	f := s.Format()
	f.Summary = true
	return f
}

// title returns what feeds call a query.
func (s *Server) title(query string) string {
	q, err := s.Store.Queries.Query(query)
	if err != nil {
		return query
	}
	return feedTitle(&q)
}

// feedTitle returns the first name that a holder gave to a query, else its id. Strangers may read the feed of a public query,
// so its name is one that was made public, too.
func feedTitle(q *registry.Query) string {
	if (registry.Caller{}).MayRead(q) {
		return cmp.Or(q.PublicName(), q.ID)
	}
	for _, h := range q.Holders {
		if h.Name != "" {
			return h.Name
		}
	}
	return q.ID
}

// named returns the URL whose host is in the ids of feeds. Readers may continue at another node of a
// cluster, so it is that of the node with the first name.
func (s *Server) named() string {
	if s.member != nil {
		if list := s.member.publicURLs(); len(list) > 0 && list[0] != "" {
			return list[0]
		}
	}
	return s.conf.PublicURL
}

// changeFeeds reads what is recorded about change feeds. Every node of a cluster has that.
type changeFeeds struct{ *Server }

// Feeds lists the feeds that are defined or that endpoints use.
func (s changeFeeds) Feeds() (list []feed.Status, err error) {
	all, err := s.Store.Endpoints.Endpoints()
	if err != nil {
		return nil, err
	}
	for _, d := range s.fleet.feeds.Load().all {
		var used []string
		for _, e := range all {
			if e.Feed == d.Name {
				used = append(used, e.Name)
			}
		}
		defined := slices.ContainsFunc(s.inForce.Load().Feeds, func(own feed.Definition) bool { return own.Name == d.Name })
		if !defined && len(used) == 0 {
			continue
		}
		f, _, err := s.Store.Ledger.Feed(d.Name)
		if err != nil {
			return nil, err
		}
		st := f.Status(d, s.clock.Now())
		if st.Endpoints = used; d.Kind == feed.Deltas && st.State != feed.Failing { // it is sent, and may be silent
			st.State, st.Error = feed.Live, ""
		}
		if err = s.tellEndpoints(&st); err != nil {
			return nil, err
		}
		if s.member != nil {
			node, _ := s.member.Has(store.FeedLease(d.Name))
			st.Owner = node.Name
		}
		list = append(list, st)
	}
	slices.SortFunc(list, func(a, b feed.Status) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// tellEndpoints adds what was learnt about how far endpoints are behind, and which proofs were wrong.
func (s changeFeeds) tellEndpoints(st *feed.Status) error {
	for _, name := range st.Endpoints {
		n, err := s.Store.Ledger.Since(name, math.MaxUint64-1) // nothing is newer: only the state is wanted
		if err != nil {
			return err
		}
		if len(n.Proof.Lags) > 0 {
			if st.EndpointLags == nil {
				st.EndpointLags = map[string]float64{}
			}
			st.EndpointLags[name] = n.Proof.MedianLag().Seconds()
		}
		if w := n.Proof.Wrong; w != nil && n.Proof.Off.After(s.clock.Now()) {
			st.Wrong = append(st.Wrong, feed.Wrong{Endpoint: name, Query: w.Query, At: w.At, Was: w.Was, Now: w.Now, Until: n.Proof.Off})
		}
	}
	return nil
}

// Deltas takes the events of a message.
func (s changeFeeds) Deltas(name string, events []feed.Event) error {
	f, err := web.FindFeed(s, name)
	if err != nil {
		return err
	}
	if len(f.Endpoints) == 0 {
		return &registry.Problem{Kind: registry.KindBadSetting, Detail: "no endpoint uses the feed " + name +
			": name it in the setting feed of one"}
	}
	var h registry.Hint
	for _, e := range events {
		h.All = h.All || e.All || len(e.Loose) > 0
		h.Changed = append(append(h.Changed, e.Added...), e.Removed...)
	}
	if err := s.tell(f.Definition, events); err != nil {
		return err
	}
	for _, endpoint := range f.Endpoints {
		if _, err := s.loops.Hint(endpoint, h); err != nil {
			s.log.Warn("what a feed was told is stored, and the queries run a little later", "feed", f.Name, "endpoint", endpoint, "error", err)
		}
	}
	return nil
}

// tell records which queries the events may have reached, so that they run also after a restart.
func (s changeFeeds) tell(d feed.Definition, events []feed.Event) error {
	s.counting.Lock()
	defer s.counting.Unlock()
	f := s.told[d.Name]
	if f == nil || !reflect.DeepEqual(f.Definition, d) {
		f = follow.New(follow.Config{
			Definition: d, Ledger: s.Store.Ledger, Clock: s.clock, Logger: s.log,
			Endpoints: func() []registry.Endpoint { return s.usersOf(d.Name) }, Heard: s.fleet.Heard,
		})
		if s.told == nil {
			s.told = map[string]*follow.Follower{}
		}
		s.told[d.Name] = f
	}
	return f.Tell(events)
}

// Proofs says what is proved about queries.
func (s changeFeeds) Proofs() func(q *registry.Query) (*feed.Proof, error) {
	views := map[string]*proof.View{} // by endpoint, nil without a feed
	view := func(endpoint string) (*proof.View, error) {
		if v, ok := views[endpoint]; ok {
			return v, nil
		}
		e, err := s.Store.Endpoints.Endpoint(endpoint)
		if err != nil || e.Feed == "" {
			views[endpoint] = nil
			if errors.Is(err, registry.ErrNotFound) {
				err = nil
			}
			return nil, err
		}
		n, err := s.Store.Ledger.Since(endpoint, math.MaxUint64-1) // nothing is newer: only the state is wanted
		if err != nil {
			return nil, err
		}
		views[endpoint] = proof.NewView(e, n.Feeds[e.Feed], n.Space, n.Proof, s.clock.Now())
		return views[endpoint], nil
	}
	return func(q *registry.Query) (*feed.Proof, error) {
		v, err := view(q.Endpoint)
		if err != nil || v == nil {
			return nil, err
		}
		t, err := s.Store.Ledger.Touch(q.ID)
		if err != nil {
			return nil, err
		}
		stats, err := s.Store.Catalog.Stats(q.ID)
		if errors.Is(err, registry.ErrNotFound) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
		open := sparql.Unprovable(q.Text, q.Ordered)
		p := v.Proof(t, stats.Before, open)
		return &p, nil
	}
}

// until returns until when the result of a query at a position is proved, zero if it is not, or if that cannot be
// read now.
func (s changeFeeds) until(query string, at registry.Position) (t time.Time) {
	q, err := s.Store.Queries.Query(query)
	if err != nil {
		return t
	}
	if e, err := s.Store.Endpoints.Endpoint(q.Endpoint); err != nil || e.Feed == "" {
		return t
	}
	p, err := s.Proofs()(&q)
	if err != nil || p == nil {
		return t
	}
	// It is the proof of this result only if no other one came before it was read.
	if st, _, err := s.Store.History.Current(query, false); err != nil || st.Position != at {
		return t
	}
	return p.Until
}
