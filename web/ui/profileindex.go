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

// A profileIndex caches the data by which the list of profiles is sorted, filtered and
// counted. The cost of a read is proportional to the number of profiles, so it is read
// only on request, and uses at most a twentieth of the time.
type profileIndex struct {
	profiles web.Profiles
	now      func() time.Time

	cached[*profileSnapshot]
}

const (
	oldestProfiles = 30 * time.Second // maximum age of the index, however long a read takes
	profilesAPage  = 500
)

// A profileDigest holds the data of a profile that the list needs.
type profileDigest struct {
	ID, Name, Endpoint string
	Items, Open        int
	Captured, Expired  uint64
	Ended              time.Time // end of the last captured or expired round
	Broken             bool      // one of its queries has been removed
}

// A profileSnapshot is the index at one moment, problems first. It is immutable.
type profileSnapshot struct {
	List              []profileDigest
	Captured, Expired uint64
	Losing, Broken    int // numbers of profiles
	endpoints         map[string]int
	BrokenOne         string // name of the first broken profile
}

// Ended returns the number of rounds that ended.
func (s *profileSnapshot) Ended() uint64 { return s.Captured + s.Expired }

// look returns a current snapshot, reading the profiles if needed.
func (x *profileIndex) look() (*profileSnapshot, error) {
	oldest := func(took time.Duration) time.Duration { return min(idleIndex*took, oldestProfiles) }
	return x.get(x.now(), oldest, x.refresh)
}

func (x *profileIndex) refresh() (*profileSnapshot, error) {
	s := &profileSnapshot{endpoints: map[string]int{}}
	for cursor, more := "", true; more; more = cursor != "" {
		items, next, err := x.profiles.ListProfiles(registry.ProfileFilter{}, cursor, profilesAPage)
		if err != nil {
			return nil, err
		}
		for i := range items {
			s.add(digestOf(&items[i]))
		}
		cursor = next
	}
	slices.SortFunc(s.List, byLosses)
	if s.Broken > 0 {
		s.BrokenOne = s.List[0].name()
	}
	return s, nil
}

func digestOf(it *registry.ListedProfile) profileDigest {
	p, s := &it.Profile, &it.Status
	return profileDigest{ID: p.ID, Name: strings.TrimSpace(p.Name), Endpoint: p.Endpoint, Items: len(p.Items), Open: s.Open,
		Captured: s.Seq, Expired: s.Expired, Ended: s.EndedAt, Broken: len(s.Missing) > 0}
}

func (s *profileSnapshot) add(d profileDigest) {
	s.List = append(s.List, d)
	s.Captured, s.Expired = s.Captured+d.Captured, s.Expired+d.Expired
	s.endpoints[d.Endpoint]++
	if d.Expired > 0 {
		s.Losing++
	}
	if d.Broken {
		s.Broken++
	}
}

func (d *profileDigest) name() string { return cmp.Or(d.Name, d.ID) }

// Title returns the name by which a row shows the profile.
func (d profileDigest) Title() string { return clip(d.name(), 120) }

// Ends returns the number of its rounds that ended.
func (d profileDigest) Ends() uint64 { return d.Captured + d.Expired }

// Lost returns the fraction of the ended rounds that were not captured.
func (d profileDigest) Lost() float64 {
	if d.Expired == 0 {
		return 0
	}
	return float64(d.Expired) / float64(d.Captured+d.Expired)
}

// byLosses orders broken profiles first, then those with the largest fraction of lost
// rounds.
func byLosses(a, b profileDigest) int {
	if a.Broken != b.Broken {
		if a.Broken {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.Lost(), a.Lost()), cmp.Compare(b.Expired, a.Expired), byProfileName(a, b))
}

func byProfileName(a, b profileDigest) int {
	return cmp.Or(strings.Compare(strings.ToLower(a.name()), strings.ToLower(b.name())), strings.Compare(a.ID, b.ID))
}

// A profileOrder is a sort order of the list.
type profileOrder struct {
	key     string
	compare func(a, b profileDigest) int // nil for the order of the snapshot
}

var profileOrders = []profileOrder{
	{"", nil},
	{"name", byProfileName},
	{"ended", func(a, b profileDigest) int { return cmp.Or(b.Ended.Compare(a.Ended), byProfileName(a, b)) }},
	{"captured", func(a, b profileDigest) int { return cmp.Or(cmp.Compare(b.Captured, a.Captured), byProfileName(a, b)) }},
}

// find returns the matching profiles in a sort order.
func (s *profileSnapshot) find(text, endpoint, sort string) []profileDigest {
	text = strings.ToLower(strings.TrimSpace(text))
	var out []profileDigest
	for i := range s.List {
		d := &s.List[i]
		if (endpoint == "" || d.Endpoint == endpoint) && (text == "" || strings.Contains(strings.ToLower(d.Name), text) ||
			strings.Contains(d.ID, text)) {
			out = append(out, *d)
		}
	}
	for _, o := range profileOrders {
		if o.key == sort && o.compare != nil {
			slices.SortFunc(out, o.compare)
		}
	}
	return out
}

// A cached value is expensive to read and used by many pages. At most one caller reads
// it at a time; meanwhile the others get the previous value without waiting. The zero
// value is empty.
type cached[T any] struct {
	mu      sync.Mutex // guards the fields below; not held while the value is read
	value   T
	at      time.Time // when the read began; zero if the value is invalid
	took    time.Duration
	drops   int
	reading chan struct{} // closed when the current read ends; nil if none is running
}

// drop invalidates the value. Later callers of get wait for a new read, so that the
// effect of a user's action shows at once.
func (c *cached[T]) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = time.Time{}
	c.drops++
}

// get returns the value. It reads the value first if there is none, or if it is older
// than oldest allows for a value that took so long to read.
func (c *cached[T]) get(now time.Time, oldest func(took time.Duration) time.Duration, read func() (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.at.IsZero() && c.reading != nil {
		reading := c.reading
		c.mu.Unlock()
		<-reading
		c.mu.Lock()
	}
	age := now.Sub(c.at)
	if !c.at.IsZero() && (c.reading != nil || age >= 0 && age <= oldest(c.took)) {
		return c.value, nil
	}
	return c.renew(now, read)
}

// renew reads the value. The caller holds the lock; renew releases it during the read.
func (c *cached[T]) renew(now time.Time, read func() (T, error)) (value T, err error) {
	over, drops, began := make(chan struct{}), c.drops, time.Now()
	c.reading = over
	c.mu.Unlock()
	whole := false
	defer func() { // also on panic
		c.mu.Lock()
		c.reading = nil
		close(over)
		if !whole {
			return
		}
		c.value, c.took = value, time.Since(began)
		if c.drops == drops {
			c.at = now
		}
	}()
	value, err = read()
	whole = err == nil
	return value, err
}
