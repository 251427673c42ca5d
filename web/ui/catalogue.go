package ui

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// digests returns the digests of all queries. The live ones of endpoints that fail or run no slot are stale.
func (c *catalogue) digests() ([]registry.QueryDigest, error) {
	list, err := c.index.Digests("")
	why := c.halted()
	if err != nil || len(why) == 0 {
		return list, err
	}
	list = slices.Clone(list)
	for i := range list {
		if d := &list[i]; d.State == registry.Live && why[d.Endpoint] != "" {
			d.State = registry.Stale
		}
	}
	return list, nil
}

const (
	freshIndex = 2 * time.Second // maximum age of the list index
	idleIndex  = 20              // wait before the next read, as a multiple of the time that the last read took
	hours      = 24
)

// A catalogue caches the digests for a short time and counts the changes of the last
// 24 hours by hour. It needs a few hundred bytes per query. It does no work without
// requests.
type catalogue struct {
	index  web.Queries
	halted func() map[string]string // why the results of endpoints may no longer be true
	now    func() time.Time

	cached[*snapshot]

	// Only the goroutine that reads the index uses these fields.
	read    registry.Offset
	tallies map[string]*byHour
	total   byHour
}

// ByHour is a ring of counts by hour; Last is the newest hour in it.
type byHour struct {
	last int64
	n    [hours]uint32
}

// add counts a change unless its hour is too old.
func (b *byHour) add(hour int64) {
	b.turn(hour)
	if hour > b.last-hours {
		b.n[hour%hours]++
	}
}

// turn clears the hours between the newest one and this one.
func (b *byHour) turn(hour int64) {
	if hour <= b.last {
		return
	}
	for h := max(b.last+1, hour-hours+1); h <= hour; h++ {
		b.n[h%hours] = 0
	}
	b.last = hour
}

// series returns the counts up to an hour, oldest first.
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

func newCatalogue(i web.Queries, halted func() map[string]string, now func() time.Time) *catalogue {
	return &catalogue{index: i, halted: halted, now: now, tallies: map[string]*byHour{}}
}

// A snapshot is the catalogue at one moment. It is immutable, except that sort orders
// are added on demand.
type snapshot struct {
	digests []registry.QueryDigest
	changes []int // of the last 24 hours, parallel to digests
	byHour  [hours]uint32
	states  tallied
	facets  facets

	mu     sync.Mutex // guards orders; not held while sorting
	orders map[string]func() []int32
}

// Facets count queries by the values of the list's filters.
type facets struct{ endpoints, tags map[string]int }

// look returns a current snapshot, reading new data if needed.
func (c *catalogue) look() (*snapshot, error) {
	now := c.now()
	oldest := func(took time.Duration) time.Duration { return min(freshIndex, idleIndex*took) }
	return c.get(now, oldest, func() (*snapshot, error) { return c.refresh(now) })
}

// order returns the indices of the digests in a sort order; ties are broken by id.
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

// changesOf returns how often a query changed in the last 24 hours.
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
	digests, err := c.digests()
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

// forget drops the counts of queries that were removed or have not changed for 24
// hours.
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

// Tallied is the number of queries in each state.
type tallied map[registry.State]int

// Of returns the number of queries in a state.
func (n tallied) Of(s registry.State) int { return n[s] }

func tallyStates(list []registry.QueryDigest) tallied {
	n := tallied{}
	for i := range list {
		n[list[i].State]++
	}
	return n
}

// A sorting is a sort order of the list with its default direction.
type sorting struct {
	key, aria string
	by        func(*snapshot) func(a, b int32) int
}

// ages returns the median and the 95th percentile of the time since active results
// were last checked; negative if there are none.
func ages(digests []registry.QueryDigest, now time.Time) (median, most time.Duration) {
	list := make([]time.Duration, 0, len(digests))
	for i := range digests {
		if d := &digests[i]; d.State != registry.Paused && !d.CheckedAt.IsZero() {
			list = append(list, now.Sub(d.CheckedAt))
		}
	}
	if len(list) == 0 {
		return -1, -1
	}
	slices.Sort(list)
	return list[len(list)/2], list[len(list)*95/100]
}
