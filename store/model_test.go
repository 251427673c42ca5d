package store

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A model is the expected content of the store, in simple form: everything in memory, no
// sharing, and retention by examining all changes.
type model struct {
	t        *rapid.T
	tb       testing.TB
	dir      string
	d        *DB
	options  func() Options
	now      time.Time
	slot     uint64
	recorded time.Time // of the newest slot that was committed
	city     bool      // the city is stored: it had a query and was not removed since
	offset   uint64
	trimmed  uint64
	lives    map[string]*life // by id
	past     []registry.Position
	revs     map[string]rev // by endpoint, what a loop knows
}

// A life is a query from registration to removal.
type life struct {
	endpoint string
	epoch    string
	values   []string // the result, nil before the first one
	seq      uint64
	log      []happened
	stats    policy.Stats
}

type happened struct {
	seq, offset uint64
	at          time.Time
	values      []string
}

// A rev is a loop's knowledge of an endpoint's queries.
type rev struct {
	n     uint64
	known map[string]bool
}

var (
	modelIDs       = []string{"q_a", "q_b", "q_c", "q_d"}
	modelEndpoints = map[string]string{"q_a": "city", "q_b": "city", "q_c": "city", "q_d": "port"}
)

const (
	modelKeep = 2 // small, so that a run reaches it
	modelAge  = 10 * time.Minute
)

func testModel(t *testing.T, options func(dir string) Options) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp("", "freshet-model-")
		if err != nil {
			rt.Fatal(err)
		}
		defer os.RemoveAll(dir)
		m := &model{t: rt, tb: t, dir: dir, now: start, lives: map[string]*life{}, revs: map[string]rev{}}
		m.options = func() Options {
			o := options(dir)
			o.Retention, o.Now = Retention{Changes: modelKeep, Age: modelAge}, func() time.Time { return m.now }
			return o
		}
		m.open()
		defer func() { m.d.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"register":       func(rt *rapid.T) { m.register(rapid.SampledFrom(modelIDs).Draw(rt, "id")) },
			"remove":         func(rt *rapid.T) { m.remove(rapid.SampledFrom(modelIDs).Draw(rt, "id")) },
			"removeEndpoint": m.removeEndpoint,
			"record":         m.record,
			"record again":   m.record,
			"wait": func(rt *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.IntRange(1, 400).Draw(rt, "s")) * time.Second)
			},
			"since":  m.since,
			"reopen": m.reopen,
			"":       m.agree,
		})
		m.check()
	})
}

func (m *model) must(err error) {
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) open() {
	d, err := Open(m.dir, m.options())
	m.must(err)
	m.d = d
}

func (m *model) close() { m.must(m.d.Close()) }

// reopen lets as much time pass as between the last commit and the end of the process, and a minute more, for which the
// store need not have stored what time it was. Until then it keeps more than the model, because it cannot know how much of
// that time has really passed.
func (m *model) reopen(*rapid.T) {
	m.close()
	m.open()
	if !m.recorded.IsZero() {
		m.now = m.now.Add(m.now.Sub(m.recorded) + time.Minute)
	}
}

func (m *model) check() { m.must(m.d.Check()) }

func (m *model) register(id string) {
	put(m.tb, m.d, id, modelEndpoints[id])
	m.city = m.city || modelEndpoints[id] == "city"
	if m.lives[id] == nil {
		m.lives[id] = &life{endpoint: modelEndpoints[id]}
	}
}

func (m *model) remove(id string) {
	remove(m.tb, m.d, id)
	m.end(id)
}

func (m *model) end(id string) {
	if l := m.lives[id]; l != nil && l.epoch != "" {
		m.past = append(m.past, registry.Position{Epoch: l.epoch, Seq: l.seq})
	}
	delete(m.lives, id)
}

func (m *model) removeEndpoint(rt *rapid.T) {
	name := rapid.SampledFrom([]string{"city", "port"}).Draw(rt, "endpoint")
	_, err := m.d.Endpoints.EditEndpoint(name, func(c *registry.Configured, _ bool) error {
		c.Endpoint.URL = ""
		return nil
	})
	m.must(err)
	m.city = m.city && name != "city"
	for id, l := range m.lives {
		if l.endpoint == name {
			m.end(id)
		}
	}
}

// record records a batch of outcomes for the city, including queries without a holder and
// failures.
func (m *model) record(rt *rapid.T) {
	m.slot++
	batch := scheduler.Batch{Slot: &scheduler.Slot{Endpoint: "city", Number: m.slot, Started: m.now, Finished: m.now}}
	if m.city { // otherwise nothing is committed
		m.recorded = m.now
	}
	ids := rapid.SliceOfNDistinct(rapid.SampledFrom(modelIDs[:3]), 0, 3, rapid.ID[string]).Draw(rt, "ids")
	var expected []string
	for _, id := range ids {
		kind := rapid.SampledFrom([]string{"failed", "result"}).Draw(rt, "kind")
		values := rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 3).Draw(rt, "values")
		l := m.lives[id]
		if l == nil {
			batch.Outcomes = append(batch.Outcomes, outcome(policy.Stats{}, nil, id, m.slot, bag(m.tb, values...)))
			continue
		}
		var o scheduler.Outcome
		if kind == "failed" {
			o = scheduler.Outcome{Query: id, Stats: l.stats, At: m.now}
			o.Stats.Failures++
			o.Stats.LastRun = policy.Run{Slot: m.slot, At: m.now, Outcome: registry.Failed, Error: "refused"}
		} else {
			o = outcome(l.stats, m.result(l), id, m.slot, bag(m.tb, values...))
			o.Stats.Failures = 0
		}
		l.stats = o.Stats
		if batch.Outcomes = append(batch.Outcomes, o); o.Delta != nil {
			expected = append(expected, id)
			m.changed(l, values)
		}
	}
	changes, err := m.d.Ledger.Record("city", batch)
	m.must(err)
	m.retain()
	if len(changes) != len(expected) {
		rt.Fatalf("%d changes, want those of %v", len(changes), expected)
	}
	for i, c := range changes {
		l := m.lives[expected[i]]
		last := l.log[len(l.log)-1]
		if c.Query != expected[i] || c.Seq != l.seq || c.Prev != l.seq-1 || c.Baseline != (l.seq == 1) || c.Offset != last.offset ||
			c.Endpoint != "city" || c.Slot != m.slot || !c.Time.Equal(m.now) || l.epoch != "" && l.epoch != c.Epoch {
			rt.Fatalf("change %d of %s: %+v", l.seq, expected[i], c)
		}
		l.epoch = c.Epoch
	}
}

func (m *model) result(l *life) *diff.Result {
	if l.seq == 0 {
		return nil
	}
	return bag(m.tb, l.values...)
}

func (m *model) changed(l *life, values []string) {
	m.offset++
	l.seq++
	l.values = values
	l.log = append(l.log, happened{l.seq, m.offset, m.now, values})
}

// retain drops the changes beyond the count and then those that are too old, but never the
// newest.
func (m *model) retain() {
	for _, l := range m.lives {
		for len(l.log) > 1 && (len(l.log) > modelKeep || l.log[0].at.Before(m.now.Add(-modelAge))) {
			m.trimmed = max(m.trimmed, l.log[0].offset)
			l.log = l.log[1:]
		}
	}
}

func (m *model) since(rt *rapid.T) {
	name := rapid.SampledFrom([]string{"city", "port"}).Draw(rt, "endpoint")
	view := m.revs[name]
	n, err := m.d.Ledger.Since(name, view.n)
	m.must(err)
	if view.n == 0 || n.Full {
		view.known = nil
	}
	known := map[string]bool{}
	for id := range view.known {
		known[id] = true
	}
	for _, id := range n.Removed {
		delete(known, id)
	}
	for _, e := range n.Entries {
		known[e.Query.ID] = true
	}
	want := map[string]bool{}
	for id, l := range m.lives {
		if l.endpoint == name {
			want[id] = true
		}
	}
	if d := cmp.Diff(want, known); d != "" {
		rt.Fatalf("a loop that follows %s from revision %d (-want +got):\n%s", name, view.n, d)
	}
	m.revs[name] = rev{n.Revision, known}
}

// agree compares the store with the model by all read methods.
func (m *model) agree(rt *rapid.T) {
	for _, id := range modelIDs {
		l := m.lives[id]
		if l == nil {
			m.absent(id)
			continue
		}
		s, err := m.d.Catalog.Stats(id)
		m.must(err)
		want := l.stats
		want.Position = registry.Position{Epoch: s.Position.Epoch, Seq: l.seq}
		if d := cmp.Diff(want, s); d != "" {
			rt.Fatalf("statistics of %s (-want +got):\n%s", id, d)
		}
		m.current(id, l)
		m.follow(rt, id, l, s.Position.Epoch)
	}
	m.all()
}

func (m *model) absent(id string) {
	_, err1 := m.d.Queries.Query(id)
	_, err2 := m.d.History.After(id, registry.Position{}, 1)
	_, _, err3 := m.d.History.Current(id, true)
	_, err4 := m.d.History.Latest(id)
	for _, err := range []error{err1, err2, err3, err4} {
		if !errors.Is(err, registry.ErrNotFound) {
			m.t.Fatalf("%s is not registered, yet: %v", id, err)
		}
	}
}

func (m *model) current(id string, l *life) {
	st, r, err := m.d.History.Current(id, true)
	m.must(err)
	state := registry.Live
	if l.stats.Executions == 0 {
		state = registry.New
	} else if l.stats.Failures > 0 {
		state = registry.Stale
	}
	if st.State != state || st.Position.Seq != l.seq || (r == nil) != (l.seq == 0) {
		m.t.Fatalf("status of %s: %+v, want %s at %d", id, st, state, l.seq)
	}
	if r != nil && (st.Hash != r.Hash() || r.Hash() != bag(m.tb, l.values...).Hash()) {
		m.t.Fatalf("the result of %s is not %q", id, l.values)
	}
}

// follow reads the changes from every valid position and from some invalid ones.
func (m *model) follow(rt *rapid.T, id string, l *life, epoch string) {
	if l.epoch != "" && l.epoch != epoch {
		rt.Fatalf("the epoch of %s went from %s to %s", id, l.epoch, epoch)
	}
	first := l.seq + 1
	if len(l.log) > 0 {
		first = l.log[0].seq
	}
	limit := rapid.IntRange(1, 6).Draw(rt, "limit")
	for from := uint64(0); from <= l.seq+1; from++ {
		got, err := m.d.History.After(id, registry.Position{Epoch: epoch, Seq: from}, limit)
		switch {
		case from > l.seq:
			m.expectGap(err, registry.Ahead)
		case from+1 < first:
			m.expectGap(err, registry.TooOld)
		default:
			m.must(err)
			i := int(from + 1 - first)
			m.same(got, l.log[i:min(i+limit, len(l.log))])
		}
	}
	for _, p := range append([]registry.Position{{}, {Epoch: "other", Seq: l.seq}}, m.past...) {
		if p.Epoch != epoch {
			_, err := m.d.History.After(id, p, 1)
			m.expectGap(err, registry.OtherEpoch)
		}
	}
}

func (m *model) expectGap(err error, reason string) {
	if gap(err) != reason {
		m.t.Fatalf("got %v, want a gap: %s", err, reason)
	}
}

func (m *model) same(got []registry.Change, want []happened) {
	if len(got) != len(want) {
		m.t.Fatalf("%d changes, want %d", len(got), len(want))
	}
	for i, c := range got {
		h := want[i]
		if c.Seq != h.seq || c.Offset != h.offset || !c.Time.Equal(h.at) || c.Delta.NewHash != bag(m.tb, h.values...).Hash() {
			m.t.Fatalf("change %+v, want %+v", c, h)
		}
	}
}

// all reads the whole log in pages, from the beginning and from each offset.
func (m *model) all() {
	var want []happened
	for _, l := range m.lives {
		want = append(want, l.log...)
	}
	slices.SortFunc(want, func(a, b happened) int { return int(a.offset) - int(b.offset) })
	after := func(o uint64) []happened {
		i := slices.IndexFunc(want, func(h happened) bool { return h.offset > o })
		if i < 0 {
			return nil
		}
		return want[i:]
	}
	got, err := m.d.History.All(registry.Offset{}, 1000)
	m.must(err)
	m.same(got, after(m.trimmed))
	for o := uint64(0); o <= m.offset+1; o++ {
		got, err := m.d.History.All(registry.Offset{Epoch: m.d.Epoch(), Seq: o}, 3)
		switch {
		case o > m.offset:
			m.expectGap(err, registry.Ahead)
		case o < m.trimmed:
			m.expectGap(err, registry.TooOld)
		default:
			m.must(err)
			rest := after(o)
			m.same(got, rest[:min(3, len(rest))])
		}
	}
	head, err := m.d.History.Head()
	m.must(err)
	if want := (registry.Offset{Epoch: m.d.Epoch(), Seq: m.offset}); head != want {
		m.t.Fatal(fmt.Sprintf("head is %v, not %v", head, want))
	}
}
