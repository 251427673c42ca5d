package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"go.etcd.io/bbolt"
)

var _ scheduler.Ledger = (*DB)(nil)

// keptSlots is how many slots of an endpoint are remembered.
const keptSlots = 2000

// prepared is a result and the delta to it as the file holds them.
type prepared struct{ result, delta []byte }

// Prepare is scheduler.Ledger's.
func (d *DB) Prepare(stop func() error, r *diff.Result, delta *diff.Delta) (scheduler.Prepared, error) {
	var p prepared
	var err error
	if p.delta, err = d.pack.pack(nil, stop, delta); err != nil {
		return nil, err
	}
	if p.result, err = d.packResult(stop, r); err != nil {
		return nil, err
	}
	return &p, nil
}

// Record is scheduler.Ledger's.
func (d *DB) Record(endpoint string, b scheduler.Batch) ([]registry.Change, error) {
	var err error
	if b.Outcomes, err = d.prepareRest(b.Outcomes); err != nil {
		return nil, fmt.Errorf("record for %s: %w", endpoint, err)
	}
	w := writer{db: d, endpoint: endpoint, now: d.now().UTC()}
	err = d.update(func(tx *bbolt.Tx) error {
		w.tx, w.changes = tx, nil
		return w.batch(&b)
	})
	if err != nil {
		return nil, fmt.Errorf("record for %s: %w", endpoint, err)
	}
	for _, id := range w.strangers {
		d.log.Warn("an outcome was passed over: it does not follow from the result kept", "query", id, "endpoint", endpoint)
	}
	return w.changes, nil
}

// prepareRest prepares what is not yet, before the transaction, in which no
// other writer can write. The caller's list stays as it is.
func (d *DB) prepareRest(outcomes []scheduler.Outcome) ([]scheduler.Outcome, error) {
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

// A writer is one Record's transaction.
type writer struct {
	db        *DB
	tx        *bbolt.Tx
	endpoint  string
	now       time.Time
	slot      uint64 // of the batch, 0 when it has none
	counters  counters
	space     space
	records   map[string]*record
	changes   []registry.Change
	strangers []string // outcomes that follow from another result than the one kept
}

func (w *writer) batch(b *scheduler.Batch) error {
	w.counters = loadCounters(w.tx)
	before := w.counters
	var known bool
	if w.space, known = findSpace(w.tx, w.endpoint); !known {
		return nil // the endpoint is gone, and all that it held
	}
	if b.Slot != nil {
		w.slot = b.Slot.Number
	}
	ids := w.load(b.Outcomes)
	for i := range b.Outcomes {
		if err := w.outcome(&b.Outcomes[i], b.Slot); err != nil {
			return fmt.Errorf("%s: %w", b.Outcomes[i].Query, err)
		}
	}
	if err := w.save(ids); err != nil {
		return err
	}
	if err := errors.Join(w.rounds(b.Rounds), w.models(b.Models)); err != nil {
		return err
	}
	if err := w.loop(b); err != nil {
		return err
	}
	if err := w.retain(); err != nil {
		return err
	}
	if w.counters == before {
		return nil
	}
	return w.counters.save(w.tx)
}

// load reads the records' heads in the order of ids, so that neighbours share
// pages; the rest of a record is replaced.
func (w *writer) load(list []scheduler.Outcome) []string {
	ids := make([]string, 0, len(list))
	for i := range list {
		ids = append(ids, list[i].Query)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	w.records = make(map[string]*record, len(ids))
	c := w.tx.Bucket(bStats).Cursor()
	for _, id := range ids {
		k, v := c.Seek([]byte(id))
		if string(k) != id {
			continue
		}
		if r := recordHead(v); r.space == w.space.number {
			w.records[id] = &r
		}
	}
	return ids
}

// outcome applies one outcome to the record and the history of its query.
func (w *writer) outcome(o *scheduler.Outcome, slot *scheduler.Slot) error {
	r := w.records[o.Query]
	if r == nil {
		return nil // it has no holder any more
	}
	if !w.follows(r, o) {
		w.strangers = append(w.strangers, o.Query)
		return nil
	}
	r.stats = o.Stats
	r.dirty = true
	if o.Result == nil {
		return nil
	}
	return w.change(r, o, slot)
}

// follows says whether an outcome belongs to the history kept. It does not when
// the query was removed and registered again while it was being executed.
func (w *writer) follows(r *record, o *scheduler.Outcome) bool {
	if e := o.Stats.Position.Epoch; e != "" && e != w.db.queryEpoch(r.serial) {
		return false
	}
	if o.Delta == nil {
		return r.seq > 0 || o.Stats.Hash == ""
	}
	if r.seq == 0 {
		return o.Delta.Baseline || o.Delta.OldHash == ""
	}
	kept := resultHash(w.tx.Bucket(bResults).Get(key8(r.serial)))
	return !o.Delta.Baseline && (o.Delta.OldHash == "" || o.Delta.OldHash == kept)
}

// change numbers and stores a change and the result it leads to.
func (w *writer) change(r *record, o *scheduler.Outcome, slot *scheduler.Slot) error {
	w.counters.offset++
	packed := o.Prepared.(*prepared)
	l := logged{
		query: o.Query, endpoint: w.endpoint, serial: r.serial, seq: r.seq + 1, offset: w.counters.offset,
		at: w.now, checked: o.Checked.UTC(), slot: slotOf(o, slot), baseline: r.seq == 0, delta: packed.delta,
	}
	if err := w.supersede(r); err != nil {
		return err
	}
	r.seq++
	k, v := key16(l.serial, l.seq), l.append(nil)
	w.counters.logBytes += uint64(len(k) + len(v))
	if err := w.tx.Bucket(bChanges).Put(k, v); err != nil {
		return err
	}
	if err := w.tx.Bucket(bOffsets).Put(key8(l.offset), k); err != nil {
		return err
	}
	if err := w.tx.Bucket(bResults).Put(key8(r.serial), packed.result); err != nil {
		return err
	}
	w.changes = append(w.changes, w.announce(&l, o.Delta))
	return w.trimQuery(r)
}

func (w *writer) announce(l *logged, delta *diff.Delta) registry.Change {
	return registry.Change{
		Query: l.query, Endpoint: l.endpoint, Epoch: w.db.queryEpoch(l.serial), Prev: l.seq - 1, Seq: l.seq,
		Offset: l.offset, Time: l.at, CheckedAt: l.checked, Slot: l.slot, Baseline: l.baseline, Delta: delta,
	}
}

// slotOf is the slot in which an execution ran.
func slotOf(o *scheduler.Outcome, slot *scheduler.Slot) uint64 {
	switch {
	case o.Stats.LastRun.Slot > 0:
		return o.Stats.LastRun.Slot
	case o.Stats.Last > 0:
		return o.Stats.Last
	case slot != nil:
		return slot.Number
	}
	return 0
}

// save writes the records that an outcome touched.
func (w *writer) save(ids []string) error {
	b := w.tx.Bucket(bStats)
	room := make([]byte, 0, 512*len(ids)) // values must live until the commit
	for _, id := range ids {
		r := w.records[id]
		if r == nil || !r.dirty {
			continue
		}
		from := len(room)
		room = r.append(room)
		if err := b.Put([]byte(id), room[from:len(room):len(room)]); err != nil {
			return err
		}
	}
	return nil
}

// loop writes what belongs to the endpoint: the slot, the health and what its
// policy has learnt.
func (w *writer) loop(b *scheduler.Batch) error {
	if b.Health != nil {
		if err := saveHealth(w.tx, w.space.number, *b.Health); err != nil {
			return err
		}
	}
	if b.Policy != nil {
		if err := w.tx.Bucket(bHealth).Put(policyKey(w.space.number), appendPolicy(nil, b.Policy)); err != nil {
			return err
		}
	}
	if b.Slot == nil {
		return nil
	}
	v, err := json.Marshal(b.Slot)
	if err != nil {
		return err
	}
	slots := w.tx.Bucket(bSlots)
	if err := slots.Put(key16(w.space.number, b.Slot.Number), v); err != nil {
		return err
	}
	return forgetSlots(slots, w.space.number, b.Slot.Number)
}

// forgetSlots deletes the slots that fell out of the ring, a few at a time
// should the number have jumped.
func forgetSlots(b *bbolt.Bucket, space, newest uint64) error {
	c := b.Cursor()
	for range 4 {
		k, _ := c.Seek(key8(space))
		if !hasPrefix(k, key8(space)) || number(after(k))+keptSlots > newest {
			return nil
		}
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}
