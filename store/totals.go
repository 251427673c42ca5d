package store

import (
	"errors"

	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// totals are the counters, spaces and holdings that a transaction changes when it edits
// queries. They are written once, at its end: a transaction may contain many edits.
type totals struct {
	tx       *bbolt.Tx
	counters counters
	spaces   map[string]*storedSpace
	holdings map[string]registry.Holdings // what to add
}

func newTotals(tx *bbolt.Tx) *totals {
	return &totals{tx, loadCounters(tx), map[string]*storedSpace{}, map[string]registry.Holdings{}}
}

// space is findSpace. The caller may modify the space.
func (t *totals) space(name string) (*storedSpace, bool) {
	if s := t.spaces[name]; s != nil {
		return s, true
	}
	s, ok := findSpace(t.tx, name)
	if ok {
		t.spaces[name] = &s
	}
	return &s, ok
}

// hold adds to what a caller holds.
func (t *totals) hold(caller string, queries int, bytes int64) {
	h := t.holdings[caller]
	h.Queries, h.Bytes = h.Queries+queries, h.Bytes+bytes
	t.holdings[caller] = h
}

// held returns what a caller holds.
func (t *totals) held(caller string) registry.Holdings {
	h, more := loadHoldings(t.tx, caller), t.holdings[caller]
	h.Queries, h.Bytes = h.Queries+more.Queries, h.Bytes+more.Bytes
	return h
}

// save writes the totals. They must not be used afterwards.
func (t *totals) save() error {
	err := t.counters.save(t.tx)
	for _, s := range t.spaces {
		err = errors.Join(err, s.save(t.tx))
	}
	return errors.Join(err, t.saveHoldings())
}

func (t *totals) saveHoldings() (err error) {
	for caller, more := range t.holdings {
		err = errors.Join(err, addToHoldings(t.tx, caller, more))
	}
	return err
}
