// Package schedulertest helps to test schedulers and their ledgers. It has a test
// suite for implementations of Ledger, and a ledger in memory that passes it.
package schedulertest

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/scheduler/proof"
	"github.com/freshet/freshet/scheduler/rounds"
)

// Memory is a ledger in memory. It keeps every change and every slot. The zero
// value is ready to use.
type Memory struct {
	mu       sync.Mutex
	revision uint64
	queries  map[string]*kept
	journal  map[string][]entry // by endpoint, ascending revisions
	slots    map[string][]scheduler.Slot
	health   map[string]registry.Health
	edits    map[string]time.Time
	policies map[string]scheduler.PolicyState
	cohorts  map[[2]string]cohort.State // by endpoint and key
	changes  []registry.Change
	needs    map[string]*rounds.ProfileState
	ends     []registry.Round // rounds that ended, in order of their end
	models   map[string]rounds.Model
	profiled map[string]uint64 // by endpoint, revision of the latest edit of a profile
	replaced map[string]uint64 // by endpoint: how often Replace was called
	feeds    map[string]proof.Feed
	touched  map[string]touched
	proofs   map[string]proof.Endpoint
	beside   map[string]scheduler.Beside
	fail     error
	batches  int
}

type kept struct {
	query  registry.Query
	stats  policy.Stats
	result *diff.Result
	open   *string // why it cannot be proved, nil before the first proof
}

// touched is what a feed has told about a query, at a revision.
type touched struct {
	epoch    string
	endpoint string
	revision uint64
	touch    proof.Touch
}

type entry struct {
	revision uint64
	id       string
}

var (
	_ scheduler.Ledger = (*Memory)(nil)
	_ Seeder           = (*Memory)(nil)
)

// Register adds a query, or replaces the one with the same id.
func (m *Memory) Register(q registry.Query) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.queries == nil {
		m.queries, m.journal = map[string]*kept{}, map[string][]entry{}
		m.slots, m.health = map[string][]scheduler.Slot{}, map[string]registry.Health{}
		m.policies, m.cohorts = map[string]scheduler.PolicyState{}, map[[2]string]cohort.State{}
	}
	k := m.queries[q.ID]
	if k == nil {
		k = &kept{}
		k.stats.Position.Epoch = fmt.Sprint("e", m.revision+1)
		m.queries[q.ID] = k
	}
	k.query, k.open = q, nil
	m.note(q.Endpoint, q.ID)
	return nil
}

// Remove removes a query.
func (m *Memory) Remove(id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.queries[id]
	if k == nil {
		return fmt.Errorf("query %s: %w", id, registry.ErrNotFound)
	}
	delete(m.queries, id)
	delete(m.models, id)
	m.note(k.query.Endpoint, id)
	return nil
}

func (m *Memory) note(endpoint, id string) {
	m.revision++
	m.journal[endpoint] = append(m.journal[endpoint], entry{m.revision, id})
}

// Edit records that an endpoint's settings were edited.
func (m *Memory) Edit(endpoint string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.edits == nil {
		m.edits = map[string]time.Time{}
	}
	m.edits[endpoint] = at
}

// Replace removes an endpoint and adds one of the same name.
func (m *Memory) Replace(endpoint string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.replaced == nil {
		m.replaced = map[string]uint64{}
	}
	m.replaced[endpoint]++
	for id, k := range m.queries {
		if k.query.Endpoint == endpoint {
			delete(m.queries, id)
		}
	}
	delete(m.slots, endpoint)
	delete(m.health, endpoint)
	delete(m.policies, endpoint)
}

// Since implements scheduler.Ledger.
func (m *Memory) Since(endpoint string, rev uint64) (scheduler.News, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := scheduler.News{Revision: m.revision, Space: 1 + m.replaced[endpoint], Health: m.health[endpoint], Edited: m.edits[endpoint],
		Policy: m.policies[endpoint]}
	if s := m.slots[endpoint]; len(s) > 0 {
		n.Last = s[len(s)-1]
	}
	if rev == 0 {
		for k, s := range m.cohorts {
			if k[0] == endpoint {
				n.Cohorts = append(n.Cohorts, s)
			}
		}
		slices.SortFunc(n.Cohorts, func(a, b cohort.State) int { return strings.Compare(a.Key, b.Key) })
	}
	if n.Reprofiled = rev == 0 || m.profiled[endpoint] > rev; n.Reprofiled {
		n.Profiles = m.wants(endpoint)
		for _, x := range n.Profiles {
			for _, i := range x.Profile.Items {
				if k, ok := m.models[i.Query]; ok && i.When.Predicted && !slices.ContainsFunc(n.Models,
					func(o rounds.Model) bool { return o.Query == i.Query }) {
					n.Models = append(n.Models, k)
				}
			}
		}
	}
	j := m.journal[endpoint]
	j = j[sort.Search(len(j), func(i int) bool { return j[i].revision > rev }):]
	seen := map[string]bool{}
	for _, e := range j {
		if seen[e.id] {
			continue
		}
		seen[e.id] = true
		if k := m.queries[e.id]; k != nil {
			n.Entries = append(n.Entries, policy.Entry{Query: k.query, Stats: k.stats})
		} else {
			n.Removed = append(n.Removed, e.id)
		}
	}
	n.Feeds, n.Proof, n.Touched = maps.Clone(m.feeds), m.proofs[endpoint], map[string]proof.Touch{}
	n.Beside = m.beside[endpoint]
	for id, t := range m.touched {
		if k := m.queries[id]; k != nil && k.stats.Position.Epoch == t.epoch && t.endpoint == endpoint && (t.revision > rev || seen[id]) {
			n.Touched[id] = t.touch
		}
	}
	return n, nil
}

// RecordFeed records what follows from a batch of events.
func (m *Memory) RecordFeed(b scheduler.FeedBatch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	if m.feeds == nil {
		m.feeds, m.touched = map[string]proof.Feed{}, map[string]touched{}
	}
	b.State.Members = maps.Clone(b.State.Members)
	m.feeds[b.Feed] = b.State
	m.revision++
	for id, t := range b.Touched {
		k := m.queries[id]
		if k == nil {
			continue
		}
		x := m.touched[id]
		if x.epoch != k.stats.Position.Epoch {
			x = touched{epoch: k.stats.Position.Epoch, endpoint: k.query.Endpoint}
		}
		x.touch.Join(t)
		x.revision = m.revision
		m.touched[id] = x
	}
	return nil
}

// Feed returns what is recorded about a feed.
func (m *Memory) Feed(name string) (proof.Feed, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, ok := m.feeds[name]
	return f, ok, nil
}

// Known returns what is recorded about the last complete answer to a query.
func (m *Memory) Known(id string) (scheduler.Known, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.queries[id]
	if k == nil {
		return scheduler.Known{}, nil
	}
	t := m.touched[id]
	if t.epoch != k.stats.Position.Epoch {
		t = touched{}
	}
	return scheduler.Known{Before: k.stats.Before, Touch: t.touch, Result: k.result}, nil
}

// Proof says what is proved about a query at an endpoint with a feed.
func (m *Memory) Proof(e registry.Endpoint, id string, now time.Time) feed.Proof {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := proof.NewView(e, m.feeds[e.Feed], 1+m.replaced[e.Name], m.proofs[e.Name], now)
	t := m.touched[id]
	if t.epoch != m.queries[id].stats.Position.Epoch {
		t = touched{}
	}
	k := m.queries[id]
	if k.open == nil {
		k.open = new(sparql.Unprovable(k.query.Text, k.query.Ordered))
	}
	return v.Proof(t.touch, k.stats.Before, *k.open)
}

// Prepare implements scheduler.Ledger: there is nothing to prepare.
func (m *Memory) Prepare(func() error, *diff.Result, *diff.Delta) (scheduler.Prepared, error) {
	return nil, nil
}

// Record implements scheduler.Ledger.
func (m *Memory) Record(endpoint string, b scheduler.Batch) ([]registry.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, m.fail
	}
	if b.Space != 0 && b.Space != 1+m.replaced[endpoint] {
		return nil, nil
	}
	m.batches++
	var out []registry.Change
	for _, o := range b.Outcomes {
		if k := m.queries[o.Query]; k != nil {
			if c, ok := m.record(k, endpoint, o); ok {
				out = append(out, c)
			}
		}
	}
	slot := uint64(0)
	if b.Slot != nil {
		slot = b.Slot.Number
	}
	for _, r := range b.Rounds {
		m.round(r, slot)
	}
	for _, x := range b.Models {
		if k := m.queries[x.Query]; k != nil {
			if m.models == nil {
				m.models = map[string]rounds.Model{}
			}
			m.models[x.Query] = x
		}
	}
	if b.Slot != nil {
		s := m.slots[endpoint]
		if n := len(s); n > 0 && s[n-1].Number == b.Slot.Number {
			s[n-1] = *b.Slot
		} else if m.slots != nil {
			m.slots[endpoint] = append(s, *b.Slot)
		}
	}
	if b.Health != nil && m.health != nil {
		m.health[endpoint] = *b.Health
	}
	if b.Proof != nil {
		if m.proofs == nil {
			m.proofs = map[string]proof.Endpoint{}
		}
		m.proofs[endpoint] = *b.Proof
	}
	if b.Beside != nil {
		if m.beside == nil {
			m.beside = map[string]scheduler.Beside{}
		}
		m.beside[endpoint] = *b.Beside
	}
	if b.Policy != nil && m.policies != nil {
		m.policies[endpoint] = *b.Policy
	}
	if m.cohorts != nil {
		for _, s := range b.Cohorts {
			m.cohorts[[2]string{endpoint, s.Key}] = s
		}
		for _, key := range b.DroppedCohorts {
			delete(m.cohorts, [2]string{endpoint, key})
		}
	}
	return out, nil
}

func (m *Memory) record(k *kept, endpoint string, o scheduler.Outcome) (registry.Change, bool) {
	was := k.stats.Position
	if e := o.Stats.Position.Epoch; e != "" && e != was.Epoch {
		return registry.Change{}, false // the query was removed meanwhile
	}
	k.stats = o.Stats.Clone()
	k.stats.Position = was
	if o.Delta == nil {
		return registry.Change{}, false
	}
	k.stats.Position.Seq++
	k.result = o.Result
	c := registry.Change{
		Query: o.Query, Endpoint: endpoint, Epoch: was.Epoch, Prev: was.Seq, Seq: was.Seq + 1,
		Offset: uint64(len(m.changes) + 1), Time: o.At, CheckedAt: o.Checked, Slot: o.Stats.LastRun.Slot,
		Baseline: was.Seq == 0, Delta: o.Delta, Edits: o.Edits,
	}
	m.changes = append(m.changes, c)
	return c, true
}

// Result implements scheduler.Ledger.
func (m *Memory) Result(query string) (*diff.Result, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.queries[query]; k != nil {
		return k.result, nil
	}
	return nil, nil
}

// Changes lists all changes, oldest first.
func (m *Memory) Changes() []registry.Change {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.changes)
}

// Slots lists an endpoint's slots, oldest first.
func (m *Memory) Slots(endpoint string) []scheduler.Slot {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.slots[endpoint])
}

// Batches counts the successful calls of Record.
func (m *Memory) Batches() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.batches
}

// Break makes every later Record fail with err.
func (m *Memory) Break(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

// Restore replaces the last slot of an endpoint, as if nothing had been recorded since.
func (m *Memory) Restore(endpoint string, s scheduler.Slot) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.slots[endpoint]
	if n := len(list); n == 0 || list[n-1].Number != s.Number {
		return fmt.Errorf("slot %d of endpoint %s: %w", s.Number, endpoint, registry.ErrNotFound)
	}
	list[len(list)-1] = s
	return nil
}
