package ui

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
)

// An Index is what lists of queries are ordered, filtered and counted by. The
// methods may be called concurrently.
type Index interface {
	// Digests of all queries in id order, or of those that mention a text.
	Digests(text string) ([]registry.QueryDigest, error)
	// Recent reports the changes after an offset (the zero Offset is before
	// everything) that were committed not before since, baselines left out, the
	// oldest first, and returns up to where it read.
	Recent(after registry.Offset, since time.Time, f func(query string, at time.Time)) (registry.Offset, error)
}

const (
	freshIndex = 2 * time.Second // how old what lists are ordered by may be at most
	idleIndex  = 20              // reading it again waits this many times as long as it took
	hours      = 24
)

// A catalogue keeps the digests for a moment, and counts the changes of the last
// 24 hours by hour: some hundred bytes a query. Nothing runs without requests.
type catalogue struct {
	index Index
	now   func() time.Time

	cached[*snapshot]

	// Only the one who reads has these.
	read    registry.Offset
	tallies map[string]*byHour
	total   byHour
}

// ByHour counts by hour, in a ring; Last is the newest hour that it holds.
type byHour struct {
	last int64
	n    [hours]uint32
}

// add counts at an hour that is not too old.
func (b *byHour) add(hour int64) {
	b.turn(hour)
	if hour > b.last-hours {
		b.n[hour%hours]++
	}
}

// turn empties the hours between the newest and this one.
func (b *byHour) turn(hour int64) {
	if hour <= b.last {
		return
	}
	for h := max(b.last+1, hour-hours+1); h <= hour; h++ {
		b.n[h%hours] = 0
	}
	b.last = hour
}

// series are the counts up to an hour, the oldest first.
func (b *byHour) series(hour int64) (out [hours]uint32) {
	for i := range out {
		if h := hour - hours + 1 + int64(i); h > b.last-hours && h <= b.last && h > 0 {
			out[i] = b.n[h%hours]
		}
	}
	return out
}

func (b *byHour) sum(hour int64) (n int) {
	for _, x := range b.series(hour) {
		n += int(x)
	}
	return n
}

func newCatalogue(i Index, now func() time.Time) *catalogue {
	return &catalogue{index: i, now: now, tallies: map[string]*byHour{}}
}

// A snapshot is the catalogue of one moment. It is not changed any more, except
// that orders are added to it as they are asked for.
type snapshot struct {
	digests []registry.QueryDigest
	changes []int // of the last 24 hours, beside the digests
	byHour  [hours]uint32
	states  tallied
	facets  facets

	mu     sync.Mutex // guards orders; not held while sorting
	orders map[string]func() []int32
}

// Facets count queries by what lists are filtered by.
type facets struct{ endpoints, tags map[string]int }

// look reads what is new, unless that was just done.
func (c *catalogue) look() (*snapshot, error) {
	now := c.now()
	oldest := func(took time.Duration) time.Duration { return min(freshIndex, idleIndex*took) }
	return c.get(now, oldest, func() (*snapshot, error) { return c.refresh(now) })
}

// order is the indices of the digests in an order; ties are broken by id.
func (s *snapshot) order(o sorting) []int32 {
	s.mu.Lock()
	sorted, ok := s.orders[o.key]
	if !ok {
		sorted = sync.OnceValue(func() []int32 { return s.sort(o) })
		s.orders[o.key] = sorted
	}
	s.mu.Unlock()
	return sorted()
}

func (s *snapshot) sort(o sorting) []int32 {
	list := make([]int32, len(s.digests))
	for i := range list {
		list[i] = int32(i)
	}
	less := o.by(s)
	slices.SortFunc(list, func(a, b int32) int { return cmp.Or(less(a, b), cmp.Compare(a, b)) })
	return list
}

// changesOf is how often a query changed in the last 24 hours.
func (s *snapshot) changesOf(id string) int {
	if i, ok := slices.BinarySearchFunc(s.digests, id, digestID); ok {
		return s.changes[i]
	}
	return 0
}

func (c *catalogue) snapshot(digests []registry.QueryDigest, hour int64) *snapshot {
	s := &snapshot{digests: digests, byHour: c.total.series(hour), changes: make([]int, len(digests)), states: tallyStates(digests),
		facets: facets{map[string]int{}, map[string]int{}}, orders: map[string]func() []int32{}}
	for i := range digests {
		d := &digests[i]
		if t := c.tallies[d.ID]; t != nil {
			s.changes[i] = t.sum(hour)
		}
		s.facets.endpoints[d.Endpoint]++
		for _, t := range d.Tags {
			s.facets.tags[t]++
		}
	}
	return s
}

func (c *catalogue) refresh(now time.Time) (*snapshot, error) {
	digests, err := c.index.Digests("")
	if err != nil {
		return nil, err
	}
	read, err := c.index.Recent(c.read, now.Add(-hours*time.Hour), func(query string, at time.Time) {
		hour := at.Unix() / 3600
		t := c.tallies[query]
		if t == nil {
			t = &byHour{}
			c.tallies[query] = t
		}
		t.add(hour)
		c.total.add(hour)
	})
	if err != nil {
		return nil, err
	}
	hour := now.Unix() / 3600
	c.read = read
	s := c.snapshot(digests, hour)
	c.forget(hour, digests)
	return s, nil
}

// forget drops the counts of queries that are gone or rest.
func (c *catalogue) forget(hour int64, digests []registry.QueryDigest) {
	if len(c.tallies) <= len(digests)+1000 {
		return
	}
	for id, t := range c.tallies {
		_, there := slices.BinarySearchFunc(digests, id, digestID)
		if !there || t.last <= hour-hours {
			delete(c.tallies, id)
		}
	}
}

func digestID(d registry.QueryDigest, id string) int { return strings.Compare(d.ID, id) }
