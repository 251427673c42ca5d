// Package follow follows a change feed: it finds the queries that the events of each batch reach, and
// records them together with the cursor of the feed. Loops draw the conclusions.
//
// Every query of an endpoint that names the feed is compared with all events after the place at which
// it became known: that place counts as an event that may have changed it. So nothing is proved from
// events that came before. If the process ends, it continues at the recorded cursor.
package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/proof"
)

// A Ledger stores what follows from feeds.
type Ledger interface {
	Since(endpoint string, rev uint64) (scheduler.News, error)
	Known(query string) (scheduler.Known, error)
	Feed(name string) (proof.Feed, bool, error)
	RecordFeed(scheduler.FeedBatch) error
}

// A Config configures a follower. All fields are required.
type Config struct {
	Definition feed.Definition
	Source     feed.Source
	Ledger     Ledger
	Clock      scheduler.Clock
	Endpoints  func() []registry.Endpoint // that name the feed now
	Heard      func(string)               // an endpoint's loop has to look at what was recorded
	Logger     *slog.Logger
}

// A Follower follows one feed.
type Follower struct {
	Config
	state     proof.Feed
	endpoints map[string]*seen  // nil until it begins
	open      map[string]bool   // queries whose results can change without an event
	by        map[string]uint64 // of queries, see proof.Touch.By
	narrow    map[string]*narrowed
	unlearnt  map[string]bool        // those of narrow whose results are not known
	views     map[string]*proof.View // of endpoints
	recorded  time.Time
	taken     time.Time // when the last batch was
	fails     int
	got       bool // a batch came since Follow was called
	sent      bool // the events come from Tell
}

// A seen is what was read of an endpoint.
type seen struct {
	space, revision uint64
	queries         *proof.Matcher
	of              uint64 // what answers have to be of to say something, see feed.Before
}

// New returns a follower.
func New(c Config) *Follower { return &Follower{Config: c} }

// Waits between attempts to read a feed that fails.
const (
	firstWait = time.Second
	longest   = 5 * time.Minute
	atOnce    = 10 * time.Second // a connection that ends within this, without a batch, failed
)

// recordEvery is how often a cursor is recorded if events reach nothing.
const recordEvery = time.Second

// Run follows the feed until ctx ends. It returns an error of the ledger.
func (f *Follower) Run(ctx context.Context) error {
	f.begin()
	if err := f.load(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		var wrong *ledgerError
		began := f.Clock.Now()
		f.got = false
		err := f.Source.Follow(ctx, f.state.Cursor, f.takeBatch)
		took := f.Clock.Now().Sub(began)
		if took > longest { // it was asked seldom enough
			f.fails = 0
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &wrong):
			return wrong.error
		case err != nil, !f.got && took < atOnce:
			f.fails++
		default:
			f.fails = 0
		}
		wait := f.wait(err)
		if err != nil {
			f.Logger.Warn("a feed cannot be read", "feed", f.Definition.Name, "error", err, "again_in", wait)
			if f.state.Failing != err.Error() {
				f.state.Failing, f.state.Since = err.Error(), f.Clock.Now().UTC()
				if err := f.record(nil); err != nil {
					return err
				}
			}
		}
		if f.Clock.Sleep(ctx, f.Clock.Now().Add(wait)) != nil {
			return nil
		}
	}
	return nil
}

// begin forgets the registrations.
func (f *Follower) begin() {
	f.endpoints, f.open = map[string]*seen{}, map[string]bool{}
	f.narrow, f.unlearnt, f.views = map[string]*narrowed{}, map[string]bool{}, map[string]*proof.View{}
	f.by = map[string]uint64{}
}

// load reads what is recorded about the feed.
func (f *Follower) load() error {
	state, known, err := f.Ledger.Feed(f.Definition.Name)
	if err != nil {
		return err
	}
	switch source := proof.SourceOf(f.Definition); {
	case !known:
		state = proof.Feed{Source: source}
	case state.Source != source:
		state = proof.Feed{Source: source, Numbering: state.Numbering + 1}
	}
	f.state = state
	return nil
}

// Tell records events that were sent to a feed that has no source. They arm all queries that they may have
// reached, also after a restart: nothing else says when the data show them.
func (f *Follower) Tell(events []feed.Event) error {
	if f.endpoints == nil {
		f.begin()
	}
	if err := f.load(); err != nil { // in a cluster, another node may have been told, too
		return err
	}
	f.sent = true
	err := f.takeBatch(feed.Batch{Events: events})
	if err != nil { // what was read of the registrations is not recorded
		f.endpoints = nil
	}
	return err
}

// wait returns how long to wait after Follow has returned.
func (f *Follower) wait(err error) time.Duration {
	wait := min(firstWait<<min(max(f.fails-1, 0), 10), longest)
	if w := (*feed.Wait)(nil); errors.As(err, &w) {
		wait = max(wait, w.For)
	}
	return wait
}

// A ledgerError is an error of the ledger, after which the source is not asked again.
type ledgerError struct{ error }

// takeBatch records what follows from a batch.
func (f *Follower) takeBatch(b feed.Batch) error {
	if f.got = true; !b.More { // else it may fail before its end each time
		f.fails = 0
	}
	was, at := f.state, f.Clock.Now()
	now := at.UTC()
	// Once the clock is set forward, what was heard shortly before seems to be older than it is. Take notices one that is set back.
	ahead := at.Round(0).Sub(f.taken.Round(0)) - at.Sub(f.taken)
	b.Renumbered = b.Renumbered || !f.taken.IsZero() && ahead > time.Second
	f.taken = at
	f.state.Take(&b, now)
	f.state.Silence = proof.Silence(f.Definition)
	touched, err := f.updateMatchers(was)
	if err == nil {
		err = f.batch(b, was, now, touched)
	}
	if err != nil {
		return &ledgerError{err}
	}
	return nil
}

func (f *Follower) batch(b feed.Batch, was proof.Feed, now time.Time, touched map[string]proof.Touch) error {
	if was.Base != f.state.Base || was.Numbering != f.state.Numbering || b.Gap != "" {
		f.forgetResults()
	} else if err := f.learn(was, now, touched); err != nil {
		return err
	}
	for i := range b.Events {
		e := b.Events[i]
		if e.All && !f.sent { // one note for all queries
			f.state.Reach(&e)
			for _, s := range f.endpoints {
				f.state.Possible += uint64(s.queries.Len())
			}
			f.forgetResults()
			e.All = false
		}
		for _, s := range f.endpoints {
			s.queries.Reach(&e, func(id string, how feed.Reach) { f.found(id, &e, how, touched) })
		}
	}
	urgent := len(touched) > 0 || was.Any.Reached != f.state.Any.Reached || b.Gap != "" || was.Failing != "" ||
		was.Base != f.state.Base || was.Mixed != f.state.Mixed || !maps.Equal(was.Members, f.state.Members)
	if b.Gap != "" {
		f.Logger.Warn("events of a feed are missing: nothing is proved until the results have been asked for", "feed",
			f.Definition.Name, "reason", b.Gap)
	}
	if !urgent && !f.sent && now.Sub(f.recorded) < recordEvery {
		return nil
	}
	err := f.record(touched)
	if err == nil && urgent {
		for _, name := range slices.Sorted(maps.Keys(f.endpoints)) {
			f.Heard(name)
		}
	}
	return err
}

// found notes that an event reached a query.
func (f *Follower) found(id string, e *feed.Event, how feed.Reach, touched map[string]proof.Touch) {
	if how = f.reach(id, e, how); how == feed.None {
		return
	}
	if f.sent {
		how = feed.Matched
	}
	if how == feed.Matched {
		f.state.Matched++
	} else {
		f.state.Possible++
	}
	t := touched[id]
	grew, grows := t.Grew, f.grow(id, e)
	t.Feed, t.Numbering, t.Open, t.By = f.Definition.Name, f.state.Numbering, f.open[id], f.by[id]
	if t.Add(e, how); !grows {
		t.Grew = grew
	}
	touched[id] = t
}

// record commits the state, and which queries were touched.
func (f *Follower) record(touched map[string]proof.Touch) error {
	if err := f.Ledger.RecordFeed(scheduler.FeedBatch{Feed: f.Definition.Name, State: f.state, Touched: touched}); err != nil {
		return fmt.Errorf("feed %s: %w", f.Definition.Name, err)
	}
	f.recorded = f.Clock.Now()
	return nil
}

// updateMatchers brings the matchers up to date with the registrations. Queries that are new to the feed are
// touched at its head before the batch, or at the first place in it.
func (f *Follower) updateMatchers(was proof.Feed) (map[string]proof.Touch, error) {
	touched, list := map[string]proof.Touch{}, f.Endpoints()
	now := make([]string, 0, len(list))
	for _, e := range list {
		now = append(now, e.Name)
	}
	place := was.Head
	if place == (feed.Place{}) || was.Numbering != f.state.Numbering {
		place = f.base()
	}
	if place == (feed.Place{}) { // nothing has a place yet
		now = nil
	}
	for name := range f.endpoints {
		if !slices.Contains(now, name) {
			f.leave(name)
		}
	}
	members := maps.Clone(f.state.Members)
	for name := range members {
		if !slices.Contains(now, name) {
			delete(members, name)
		}
	}
	for _, e := range list[:len(now)] {
		name := e.Name
		space, err := f.look(e, place, touched)
		if err != nil {
			return nil, err
		}
		if space == 0 {
			delete(members, name)
			continue
		}
		if members == nil {
			members = map[string]uint64{}
		}
		members[name] = space
	}
	f.state.Members = members
	return touched, nil
}

// base is the last place before those from which on all events are known, or that of the first one.
func (f *Follower) base() feed.Place {
	p := f.state.Base
	p.Offset = min(p.Offset, f.state.Head.Offset) // it is that of the next event, unless the feed began with one
	return p
}

func (f *Follower) drop(id string) {
	delete(f.open, id)
	delete(f.narrow, id)
	delete(f.unlearnt, id)
	delete(f.by, id)
}

// leave forgets an endpoint.
func (f *Follower) leave(name string) {
	for id := range f.endpoints[name].queries.All() {
		f.drop(id)
	}
	delete(f.endpoints, name)
}

// put notes whether a result narrows what reaches its query.
func (f *Follower) put(endpoint string, q *registry.Query) {
	delete(f.narrow, q.ID)
	delete(f.unlearnt, q.ID)
	if f.open[q.ID] {
		return
	}
	if list := sparql.Narrowed(q.Text); list != nil {
		f.narrow[q.ID], f.unlearnt[q.ID] = &narrowed{list: list, endpoint: endpoint, star: star(list)}, true
	}
}

// star reports whether all patterns that may add rows have the same column.
func star(list []sparql.Narrow) bool {
	column := ""
	for _, n := range list {
		if n.Both && n.Column == "" || !n.Both && (n.Column == "" || column != "" && n.Column != column) {
			return false
		}
		if !n.Both {
			column = n.Column
		}
	}
	return !slices.ContainsFunc(list, func(n sparql.Narrow) bool { return n.Column != column })
}

// touchedAt is the touch of a query that all events up to a place may have reached.
func (f *Follower) touchedAt(id string, place feed.Place) proof.Touch {
	f.forgetResult(id)
	delete(f.by, id)
	return proof.Touch{Feed: f.Definition.Name, Numbering: f.state.Numbering, Open: f.open[id], Reached: place, Grew: place, Dropped: place}
}

// look reads the registrations of an endpoint, and returns its number in the ledger.
func (f *Follower) look(e registry.Endpoint, place feed.Place, touched map[string]proof.Touch) (space uint64, err error) {
	name := e.Name
	s := f.endpoints[name]
	if s == nil {
		s = &seen{queries: proof.NewMatcher()}
	}
	news, err := f.Ledger.Since(name, s.revision)
	if err != nil {
		return 0, err
	}
	if f.endpoints[name] != nil && news.Space != s.space { // another endpoint of the same name
		f.leave(name)
		s = &seen{queries: proof.NewMatcher()}
		if news, err = f.Ledger.Since(name, 0); err != nil {
			return 0, err
		}
	}
	f.endpoints[name] = s
	if news.Full {
		for id := range s.queries.All() {
			f.drop(id)
		}
		s.queries = proof.NewMatcher()
	}
	for _, id := range news.Removed {
		f.drop(id)
		s.queries.Drop(id)
	}
	// What an endpoint missed while it did not name the feed is not known.
	joins := f.state.Members[name] != news.Space || news.Space == 0
	for i := range news.Entries {
		q := &news.Entries[i].Query
		told := news.Touched[q.ID]
		known := told.Feed == f.Definition.Name
		patterns, why := sparql.Patterns(q.Text)
		if why != "" && !f.sent { // it is never touched, so nothing is proved about it
			continue
		}
		if why != "" { // whatever is sent may concern it
			patterns = []sparql.Pattern{{}}
		}
		if !s.queries.Has(q.ID) || !known {
			s.queries.Put(q.ID, patterns)
			if delete(f.open, q.ID); sparql.Unprovable(q.Text, q.Ordered) != "" {
				f.open[q.ID] = true
			}
			if f.put(name, q); known && told.By != 0 {
				f.by[q.ID] = told.By
			}
		}
		if joins || !known || f.open[q.ID] != told.Open {
			touched[q.ID] = f.touchedAt(q.ID, place)
		}
	}
	for id, told := range news.Touched { // by a late batch of the feed that the endpoint named before
		if told.Feed != f.Definition.Name && s.queries.Has(id) {
			touched[id] = f.touchedAt(id, place)
		}
	}
	s.space, s.revision = news.Space, news.Revision
	state := f.state
	state.Members = map[string]uint64{name: news.Space}
	v := proof.NewView(e, state, news.Space, news.Proof, f.Clock.Now())
	f.views[name] = v
	if of := v.Of(); s.of != of {
		for id := range s.queries.All() {
			f.doubt(id, v, place, touched)
		}
		s.of = of
	}
	return news.Space, nil
}
