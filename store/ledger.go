package store

import (
	"errors"
	"fmt"
	"slices"
	"time"

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

func (d *Ledger) Prepare(stop func() error, r *diff.Result, delta *diff.Delta) (scheduler.Prepared, error) {
	var p prepared
	var err error
	if p.delta, err = d.pack.pack(nil, stop, delta); err != nil {
		return nil, err
	}
	if p.result, err = d.pack.packResult(stop, r); err != nil {
		return nil, err
	}
	if r := d.replica; r != nil && int64(p.size()) > largestResult(r.Largest()) {
		return nil, fmt.Errorf("%w: with what has changed it takes %d MiB, and a journal has room for %d MiB: add a LIMIT to the "+
			"query, or divide it into several",
			scheduler.ErrTooLarge, p.size()>>20, largestResult(r.Largest())>>20)
	}
	return &p, nil
}

// largestRest is the room in a command besides one result and its delta.
const largestRest = 1 << 20

// largestResult returns the size of a result with its delta for which a command has room.
func largestResult(command int64) int64 { return command - min(largestRest, command/2) }

// Record implements scheduler.Ledger. A batch that is too large for one command of the journal
// is recorded by several.
func (d *Ledger) Record(endpoint string, b scheduler.Batch) (changes []registry.Change, err error) {
	if b.Outcomes, err = d.prepareRest(b.Outcomes); err != nil {
		return nil, fmt.Errorf("record for %s: %w", endpoint, err)
	}
	if d.replica == nil {
		return d.record(endpoint, b)
	}
	return d.recordParts(endpoint, b)
}

// recordParts records a batch by as many commands as it takes.
func (d *Ledger) recordParts(endpoint string, b scheduler.Batch) (changes []registry.Change, err error) {
	size := 0
	for i := range b.Outcomes {
		if p, changed := b.Outcomes[i].Prepared.(*prepared); changed {
			size += p.size()
		}
	}
	first, second, ok := halve(b)
	if whole := int64(size) <= d.replica.Largest()/2; whole || len(b.Outcomes) < 2 {
		if changes, err = d.record(endpoint, b); !ok || !errors.Is(err, registry.ErrTooLarge) {
			return changes, err
		}
	}
	if changes, err = d.recordParts(endpoint, first); err != nil {
		return changes, err
	}
	more, err := d.recordParts(endpoint, second)
	return append(changes, more...), err
}

// halve divides the longest list of a batch. It reports false if no list has two entries. The
// first part says that the slot has not ended. Rounds come with the last outcomes or after them.
func halve(b scheduler.Batch) (first, second scheduler.Batch, ok bool) {
	first, second = earlier(b), b
	switch n := max(len(b.Outcomes), len(b.Cohorts), len(b.DroppedCohorts), len(b.Rounds), len(b.Models)); {
	case n < 2:
		return first, second, false
	case n == len(b.Outcomes):
		first.Outcomes, second.Outcomes = b.Outcomes[:n/2], b.Outcomes[n/2:]
	case n == len(b.Cohorts):
		first.Cohorts, second.Cohorts = b.Cohorts[:n/2], b.Cohorts[n/2:]
	case n == len(b.DroppedCohorts):
		first.DroppedCohorts, second.DroppedCohorts = b.DroppedCohorts[:n/2], b.DroppedCohorts[n/2:]
	case n == len(b.Rounds):
		first.Outcomes, second.Outcomes = b.Outcomes, nil
		first.Rounds, second.Rounds = b.Rounds[:n/2], b.Rounds[n/2:]
	default:
		first.Models, second.Models = b.Models[:n/2], b.Models[n/2:]
	}
	return first, second, true
}

// earlier returns what a part of a batch before the last one says of the endpoint: that the slot
// has not ended.
func earlier(b scheduler.Batch) scheduler.Batch {
	part := scheduler.Batch{Space: b.Space, Slot: b.Slot, Health: b.Health, Proof: b.Proof, Beside: b.Beside}
	if part.Slot != nil {
		s := *b.Slot
		s.Finished = time.Time{}
		part.Slot = &s
	}
	return part
}

func (d *Ledger) record(endpoint string, b scheduler.Batch) ([]registry.Change, error) {
	if err := d.refusal(); err != nil {
		return nil, fmt.Errorf("record for %s: %w", endpoint, err)
	}
	w := &writer{b: &b, endpoint: endpoint, token: d.token, epoch: d.epoch, now: d.now().UTC()}
	stored, err := d.storedAging()
	if err != nil {
		return nil, fmt.Errorf("record for %s: %w", endpoint, err)
	}
	w.keep, w.aging = d.aging.bounds(d.retention, w.now, d.elapsed(), stored)
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

// restoreDeltas replaces the deltas of a decoded batch's changes by those of the batch that was
// encoded.
func (w *writer) restoreDeltas(b *scheduler.Batch) {
	i := 0
	for k := range w.changes {
		for w.b.Outcomes[i].Delta != w.changes[k].Delta {
			i++
		}
		w.changes[k].Delta = b.Outcomes[i].Delta
		i++
	}
}
