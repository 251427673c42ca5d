package store

import (
	"fmt"
	"slices"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"go.etcd.io/bbolt"
)

// A Ledger records what the loops of the endpoints do. It implements scheduler.Ledger.
type Ledger struct {
	*boltFile
	token uint64
}

// Under returns a ledger for the node that has the lease of an endpoint. Record returns
// scheduler.ErrFenced once the lease has another token.
func (d *Ledger) Under(token uint64) *Ledger { return &Ledger{d.boltFile, token} }

// Result implements scheduler.Ledger. A query without a holder has no result.
func (d *Ledger) Result(query string) (*diff.Result, error) {
	var packed []byte
	err := d.view(func(tx *bbolt.Tx) error {
		r, _, ok := liveRecord(tx, query)
		if !ok {
			return nil
		}
		packed = slices.Clone(tx.Bucket(bResults).Get(key8(r.serial)))
		return nil
	})
	if err != nil || packed == nil {
		return nil, err
	}
	r, err := d.pack.unpackResult(packed)
	if err != nil {
		return nil, fmt.Errorf("result of %s: %w", query, err)
	}
	return r, nil
}

// Since implements scheduler.Ledger. It uses an index of revisions, so a call costs
// little if nothing has changed.
func (d *Ledger) Since(endpoint string, rev uint64) (scheduler.News, error) {
	n, err := fetch(d.boltFile, func(tx *bbolt.Tx) (scheduler.News, error) { return newsSince(tx, d.epoch, endpoint, rev) })
	if err != nil {
		return scheduler.News{}, fmt.Errorf("registrations of %s: %w", endpoint, err)
	}
	return n, nil
}

// Prepare implements scheduler.Ledger.
func (d *Ledger) Prepare(stop func() error, r *diff.Result, delta *diff.Delta) (scheduler.Prepared, error) {
	var p prepared
	var err error
	if p.delta, err = d.pack.pack(nil, stop, delta); err != nil {
		return nil, err
	}
	if p.result, err = d.pack.packResult(stop, r); err != nil {
		return nil, err
	}
	return &p, nil
}

// Record implements scheduler.Ledger.
func (d *Ledger) Record(endpoint string, b scheduler.Batch) ([]registry.Change, error) {
	var err error
	if b.Outcomes, err = d.prepareRest(b.Outcomes); err != nil {
		return nil, fmt.Errorf("record for %s: %w", endpoint, err)
	}
	if err := d.refusal(); err != nil {
		return nil, fmt.Errorf("record for %s: %w", endpoint, err)
	}
	w := &writer{b: &b, endpoint: endpoint, token: d.token, epoch: d.epoch, keep: d.retention, now: d.now().UTC()}
	c, err := d.execute(func(*bbolt.Tx) (command, error) { return w, nil })
	if err != nil {
		return nil, fmt.Errorf("record for %s: %w", endpoint, err)
	}
	if applied := c.(*writer); applied != w {
		applied.restoreDeltas(&b)
		w = applied
	}
	for _, id := range w.skipped {
		d.log.Warn("an outcome was passed over: it does not follow from the result kept", "query", id, "endpoint", endpoint)
	}
	return w.changes, nil
}

// prepareRest prepares the remaining outcomes before the transaction, because a
// transaction blocks all other writers. It does not modify the caller's list.
func (d *Ledger) prepareRest(outcomes []scheduler.Outcome) ([]scheduler.Outcome, error) {
	out := outcomes
	for i, o := range outcomes {
		if (o.Result == nil) != (o.Delta == nil) {
			return nil, fmt.Errorf("%s: a result and its delta come together", o.Query)
		}
		if o.Result == nil || o.Prepared != nil {
			continue
		}
		p, err := d.Prepare(nil, o.Result, o.Delta)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Query, err)
		}
		if &out[0] == &outcomes[0] {
			out = slices.Clone(outcomes)
		}
		out[i].Prepared = p
	}
	return out, nil
}
