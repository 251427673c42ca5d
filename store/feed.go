// What commits tell the catalog in memory, and the followers of this node.

package store

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/catalog"
	"github.com/freshet/freshet/store/replica"
	fastjson "github.com/go-json-experiment/json"
	"go.etcd.io/bbolt"
)

// A feed keeps the catalog of all queries in step with the file.
type feed struct {
	mu      sync.Mutex       // held while what was read is put into the catalog, so that it is the newest
	catalog *catalog.Catalog // nil until somebody asks for it
	err     error            // a registration could not be read; kept until the next commit
}

func (d *boltFile) all() (*catalog.Catalog, error) {
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	if d.feed.catalog == nil {
		d.loadCatalog()
	}
	return d.feed.catalog, d.feed.err
}

// loadCatalog reads all registrations. The caller holds mu of the feed.
func (d *boltFile) loadCatalog() {
	type stored struct{ id, query, stats []byte }
	d.feed.catalog = catalog.New(nil)
	d.feed.err = d.view(func(tx *bbolt.Tx) error {
		var all []stored
		stats := ascendingReader{c: tx.Bucket(bStats).Cursor()}
		err := tx.Bucket(bQueries).ForEach(func(id, v []byte) error {
			if len(v) < queryHead || owned(tx, number(skipNumber(v))) {
				all = append(all, stored{id, v, stats.get(id)})
			}
			return nil
		})
		list, parts := make([]*catalog.Entry, len(all)), runtime.GOMAXPROCS(0)
		errs := make([]error, parts)
		var done sync.WaitGroup
		for p := range parts {
			done.Go(func() {
				errs[p] = guarded(func() (err error) {
					for i := p; i < len(all) && err == nil; i += parts {
						list[i], err = entry(string(all[i].id), all[i].query, all[i].stats)
					}
					return err
				})
			})
		}
		done.Wait()
		if err = errors.Join(append(errs, err)...); err == nil {
			d.feed.catalog = catalog.New(list)
		}
		return err
	})
}

// entry returns the entry of a query. stats is nil if it was never executed.
func entry(id string, query, stats []byte) (*catalog.Entry, error) {
	var q struct { // the fields that an entry is made of: a start decodes all registrations
		Endpoint string            `json:"endpoint"`
		Text     string            `json:"text"`
		Holders  []registry.Holder `json:"holders"`
		Pause    *registry.Pause   `json:"pause"`
	}
	if len(query) < queryHead {
		return nil, fmt.Errorf("query %s: %w: a registration is missing", id, ErrDamaged)
	}
	if err := fastjson.Unmarshal(query[queryHead:], &q); err != nil {
		return nil, fmt.Errorf("query %s: %w: a registration cannot be read: %w", id, ErrDamaged, err)
	}
	var r record
	var err error
	if stats != nil {
		r, err = parseRecord(stats)
	}
	listed := registry.Query{ID: id, Endpoint: q.Endpoint, Text: q.Text, Holders: q.Holders, Pause: q.Pause}
	return catalog.NewEntry(&listed, number(query), &r.stats), err
}

// A listed command changes what is in the catalog. relist returns the ids of queries that must be read again.
type listed interface {
	relist(c *catalog.Catalog) (ids []string)
}

// refresh brings the catalog up to date with commands that were applied, before their callers get an answer.
func (d *boltFile) refresh(commands ...command) {
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	if d.feed.err != nil { // what could not be read may be gone
		d.feed.catalog, d.feed.err = nil, nil
	}
	if d.feed.catalog == nil {
		return
	}
	var ids []string
	for _, c := range commands {
		if x, ok := c.(listed); ok {
			ids = append(ids, x.relist(d.feed.catalog)...)
		}
	}
	if len(ids) > 0 && d.view(func(tx *bbolt.Tx) error { return d.reload(tx, ids) }) != nil {
		d.feed.catalog = nil // the next list reads all and reports the error
	}
}

func (d *boltFile) reload(tx *bbolt.Tx, ids []string) error {
	for _, id := range ids {
		v := tx.Bucket(bQueries).Get([]byte(id))
		if v == nil || !owned(tx, number(skipNumber(v))) {
			d.feed.catalog.Drop(id)
			continue
		}
		e, err := entry(id, v, tx.Bucket(bStats).Get([]byte(id)))
		if err != nil {
			return err
		}
		d.feed.catalog.Put(e)
	}
	return nil
}

// What other nodes have written, for the memory and the followers of this node.

// Others says what was written by commands that no caller on this node waits for. It names
// things, and does not say how they have changed: read them.
type Others struct {
	Queries       Set // registered, edited or removed; also profiles
	Changed       Set // with another result or status; also profiles
	Hidden        Set // queries that are no longer public; they are also in Queries
	Endpoints     Set // edited or removed
	Subscriptions Set
	Rules         Set
	Feeds         Set // that had events, or whose state is another one
	Tokens        bool
}

// A Set has names. It is nil while it is empty.
type Set map[string]struct{}

func (s *Set) add(id string) {
	if *s == nil {
		*s = Set{}
	}
	(*s)[id] = struct{}{}
}

// List returns the names in order.
func (s Set) List() []string { return slices.Sorted(maps.Keys(s)) }

// foreign is what WatchOthers has not reported yet.
type foreign struct {
	mu   sync.Mutex
	list Others
	wake chan struct{} // signals that there is something

	added, told uint64 // how many commands there were, and how many of them WatchOthers has reported
}

// wait waits for a time until WatchOthers has reported what there is. It reports whether it has.
func (f *foreign) wait(most time.Duration) bool {
	f.mu.Lock()
	until := f.added
	f.mu.Unlock()
	end := time.After(most)
	for {
		f.mu.Lock()
		told := f.told
		f.mu.Unlock()
		if told >= until {
			return true
		}
		select {
		case <-end:
			return false
		case <-time.After(time.Millisecond):
		}
	}
}

// add takes note of commands that no caller on this node waits for.
func (f *foreign) add(list []replica.Answer) {
	if len(list) == 0 {
		return
	}
	f.mu.Lock()
	f.added += uint64(len(list))
	for _, a := range list {
		if c, ok := a.Command.(command); ok {
			c.touch(&f.list)
		}
	}
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}
