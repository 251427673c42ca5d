// Package catalog keeps in memory what lists of queries need of each query, so that a list, a search or a count
// reads no registration that it does not return. The store builds a catalog for the first list and feeds it after each
// commit. An entry takes about 430 bytes besides the text of its query.
package catalog

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
)

// scanAtOnce is the number of entries that are examined under one lock.
const scanAtOnce = 1000

// A Catalog has an entry for each query. Its methods may be called concurrently.
type Catalog struct {
	mu      sync.RWMutex
	byID    map[string]*Entry
	ordered []*Entry // by id, including those that are gone
	fresh   []*Entry // not in ordered yet
	gone    int      // in ordered or fresh
}

// New returns a catalog of some entries.
func New(list []*Entry) *Catalog {
	c := &Catalog{byID: make(map[string]*Entry, len(list)), fresh: list}
	for _, e := range list {
		c.byID[e.ID] = e
	}
	return c
}

// Put adds the entry of a query or replaces it.
func (c *Catalog) Put(e *Entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.byID[e.ID]; old != nil {
		*old = *e
		return
	}
	c.byID[e.ID] = e
	c.fresh = append(c.fresh, e)
}

// Ran replaces the statistics of a query unless it was registered again since.
func (c *Catalog) Ran(id string, serial uint64, s *policy.Stats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byID[id]; e != nil && e.serial == serial {
		e.ran(s)
	}
}

// Drop removes the entry of a query.
func (c *Catalog) Drop(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byID[id]
	if e == nil {
		return
	}
	delete(c.byID, id)
	e.gone = true
	if c.gone++; c.gone > len(c.byID)+scanAtOnce { // no list was asked for since
		c.order()
	}
}

// Of returns the ids of an endpoint's queries in no order.
func (c *Catalog) Of(endpoint string) (ids []string) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, e := range c.byID {
		if e.Endpoint == endpoint {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// order sorts what was added and forgets what is gone. The caller holds mu.
func (c *Catalog) order() {
	if len(c.fresh) == 0 && c.gone == 0 {
		return
	}
	byID := func(a, b *Entry) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(c.fresh, byID)
	list, old := make([]*Entry, 0, len(c.byID)), c.ordered
	for _, e := range append(c.fresh, nil) {
		for len(old) > 0 && (e == nil || old[0].ID < e.ID) {
			if !old[0].gone {
				list = append(list, old[0])
			}
			old = old[1:]
		}
		if e != nil && !e.gone {
			list = append(list, e)
		}
	}
	c.ordered, c.fresh, c.gone = list, nil, 0
}

// Scan calls f for the entries after an id in the order of ids until f returns false. f must neither keep the entry
// nor call the catalog. Entries that are added meanwhile may be left out.
func (c *Catalog) Scan(after string, f func(*Entry) bool) {
	for more := true; more; {
		c.mu.Lock()
		c.order()
		c.mu.Unlock()
		after, more = c.scanSome(after, f)
	}
}

func (c *Catalog) scanSome(after string, f func(*Entry) bool) (last string, more bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	at, found := slices.BinarySearchFunc(c.ordered, after, func(e *Entry, id string) int { return strings.Compare(e.ID, id) })
	if found {
		at++
	}
	end := min(at+scanAtOnce, len(c.ordered))
	for _, e := range c.ordered[at:end] {
		if last = e.ID; !e.gone && !f(e) {
			return last, false
		}
	}
	return last, end < len(c.ordered)
}

// Find returns the ids of at most most queries after an id to which a filter applies.
func (c *Catalog) Find(f *registry.QueryFilter, after string, most int, now time.Time) (ids []string) {
	text := strings.ToLower(f.Text)
	g := gramsOf(text)
	c.Scan(after, func(e *Entry) bool {
		if e.fits(f, now) && e.mentions(text, &g) {
			ids = append(ids, e.ID)
		}
		return len(ids) < most
	})
	return ids
}

// Digests returns the digests of the queries that mention a text, in the order of ids.
func (c *Catalog) Digests(text string, now time.Time) (list []registry.QueryDigest) {
	text = strings.ToLower(text)
	g := gramsOf(text)
	c.mu.RLock()
	n := len(c.byID)
	c.mu.RUnlock()
	if text == "" {
		list = make([]registry.QueryDigest, 0, n)
	}
	c.Scan("", func(e *Entry) bool {
		if e.mentions(text, &g) {
			x := e.QueryDigest
			x.State = e.state(now)
			list = append(list, x)
		}
		return true
	})
	return list
}
