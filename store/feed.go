// What feeds the catalog in memory.

package store

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/catalog"
	fastjson "github.com/go-json-experiment/json"
	"go.etcd.io/bbolt"
)

// A feed keeps the catalog of all queries in step with the file.
type feed struct {
	mu      sync.Mutex       // held while what was read is put into the catalog, so that it is the newest
	catalog *catalog.Catalog // nil until somebody asks for it
	err     error            // a registration could not be read
}

// all returns the catalog of all queries.
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
		stats := along{c: tx.Bucket(bStats).Cursor()}
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
	return catalog.NewEntry(&registry.Query{ID: id, Endpoint: q.Endpoint, Text: q.Text, Holders: q.Holders, Pause: q.Pause}, number(query), &r.stats), err
}

// refresh brings the catalog up to date with commands that were applied, before their callers get an answer.
func (d *boltFile) refresh(commands ...command) {
	d.feed.mu.Lock()
	defer d.feed.mu.Unlock()
	if d.feed.catalog == nil {
		return
	}
	var ids []string
	for _, c := range commands {
		switch c := c.(type) {
		case *queryEdit:
			for i := range c.queries {
				if !c.queries[i].same {
					ids = append(ids, c.queries[i].now.ID)
				}
			}
		case *endpointEdit:
			if c.removes() {
				d.feed.catalog.DropEndpoint(c.now.Endpoint.Name)
			}
		case *writer:
			for id, r := range c.records {
				if r.dirty {
					d.feed.catalog.Ran(id, r.serial, &r.stats)
				}
			}
		}
	}
	if len(ids) > 0 {
		d.feed.err = errors.Join(d.feed.err, d.view(func(tx *bbolt.Tx) error { return d.reload(tx, ids) }))
	}
}

// reload reads queries again.
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
