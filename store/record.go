package store

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/store/catalog"
	"go.etcd.io/bbolt"
)

// keptSlots is the number of slots stored per endpoint.
const keptSlots = 2000

// A writer is the command of one Record. Its form in the journal is in batch.go.
type writer struct {
	b        *scheduler.Batch
	endpoint string
	token    uint64 // of the endpoint's lease, 0 without a cluster
	epoch    storeEpoch
	keep     Retention
	now      time.Time
	aging    time.Time

	tx      *bbolt.Tx
	log     logWriter
	space   storedSpace
	records map[string]*record
	changes []registry.Change
	written []byte   // the records that were saved
	skipped []string // outcomes that are based on a result other than the stored one
}

func (w *writer) kind() byte { return kindBatch }

func (w *writer) frees() bool { return false }

// Resume refuses what was found under a lease that has ended. An endpoint that was removed has
// none; apply passes its batch over.
func (w *writer) Resume(tx *bbolt.Tx) error {
	if _, known := findSpace(tx, w.endpoint); !known {
		return nil
	}
	return fence(tx, EndpointLease(w.endpoint), w.token)
}

// Apply performs the batch. Outcomes and rounds that no longer fit what is stored are skipped.
func (w *writer) Apply(tx *bbolt.Tx) error {
	b := w.b
	w.tx, w.changes, w.skipped, w.written = tx, nil, nil, nil
	before := loadCounters(w.tx)
	w.log = logWriter{tx: w.tx, keep: w.keep, now: w.now, counters: before, began: before.logBytes}
	var known bool
	if w.space, known = findSpace(w.tx, w.endpoint); !known || b.Space != 0 && b.Space != w.space.number {
		return nil // the endpoint and its data were removed
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
	if err := errors.Join(w.rounds(b), saveModels(w.tx, w.space.number, b.Models)); err != nil {
		return err
	}
	if err := w.loop(b); err != nil {
		return err
	}
	if err := errors.Join(w.log.retain(), saveAging(w.tx, w.aging)); err != nil {
		return err
	}
	if w.log.counters == before {
		return nil
	}
	return w.log.counters.save(w.tx)
}

// load reads the heads of the records in id order, so that neighbours share pages; the
// rest of a record is replaced.
func (w *writer) load(list []scheduler.Outcome) []string {
	ids := make([]string, 0, len(list))
	for i := range list {
		ids = append(ids, list[i].Query)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	w.records = make(map[string]*record, len(ids))
	c, queries := w.tx.Bucket(bStats).Cursor(), w.tx.Bucket(bQueries).Cursor()
	for _, id := range ids {
		var r record
		if k, v := c.Seek([]byte(id)); string(k) == id {
			r = recordHead(v)
		} else if k, v := queries.Seek([]byte(id)); string(k) == id && len(v) >= queryHead {
			r = youngRecord(v)
		}
		if r.space == w.space.number {
			w.records[id] = &r
		}
	}
	return ids
}

func (w *writer) outcome(o *scheduler.Outcome, slot *scheduler.Slot) error {
	r := w.records[o.Query]
	if r == nil {
		return nil // it no longer has a holder
	}
	if !w.follows(r, o) {
		w.skipped = append(w.skipped, o.Query)
		return nil
	}
	r.stats = o.Stats
	r.dirty = true
	if o.Prepared == nil {
		return nil
	}
	return w.change(r, o, slot)
}

// follows reports whether an outcome continues the stored history. It does not if the
// query was removed and registered again during the execution.
func (w *writer) follows(r *record, o *scheduler.Outcome) bool {
	if e := o.Stats.Position.Epoch; e != "" && e != w.epoch.of(r.serial) {
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

func (w *writer) change(r *record, o *scheduler.Outcome, slot *scheduler.Slot) error {
	packed := o.Prepared.(*prepared)
	l := logEntry{
		query: o.Query, endpoint: w.endpoint, serial: r.serial, seq: r.seq + 1,
		at: w.now, checked: o.Checked.UTC(), slot: slotOf(o, slot), baseline: r.seq == 0, edits: o.Edits, delta: packed.delta,
	}
	if err := w.log.add(&l, packed.result); err != nil {
		return err
	}
	r.seq++
	if err := w.tx.Bucket(bResults).Put(key8(r.serial), packed.result); err != nil {
		return err
	}
	w.changes = append(w.changes, l.announce(w.epoch, o.Delta))
	return nil
}

// rounds records the state of profiles. It runs after the outcomes, whose positions it
// uses.
func (w *writer) rounds(b *scheduler.Batch) error {
	x := roundWriter{tx: w.tx, space: w.space.number, epoch: w.epoch, keep: w.keep, now: w.now, position: w.position}
	if b.Slot != nil {
		x.slot = b.Slot.Number
	}
	return x.all(b.Rounds)
}

// position returns a query's current position, the zero Position if it has no holder.
func (w *writer) position(query string) registry.Position {
	if r := w.records[query]; r != nil {
		return r.position(w.epoch)
	}
	if r, _, ok := liveRecord(w.tx, query); ok {
		return r.position(w.epoch)
	}
	return registry.Position{}
}

// slotOf returns the slot of an execution.
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
	w.written = room
	return nil
}

// loop writes the endpoint's data: the slot, the health and the policy's state.
func (w *writer) loop(b *scheduler.Batch) error {
	space, health, slots := w.space.number, w.tx.Bucket(bHealth), w.tx.Bucket(bSlots)
	err := saveCohorts(w.tx, space, b)
	if b.Health != nil {
		err = errors.Join(err, saveHealth(w.tx, space, *b.Health))
	}
	if b.Policy != nil {
		err = errors.Join(err, health.Put(policyKey(space), appendPolicy(nil, b.Policy)))
	}
	if b.Proof != nil {
		err = errors.Join(err, putJSON(health, proofKey(space), b.Proof))
	}
	if b.Beside != nil {
		err = errors.Join(err, putJSON(health, besideKey(space), b.Beside))
	}
	if b.Slot != nil {
		err = errors.Join(err, putJSON(slots, key16(space, b.Slot.Number), b.Slot), forgetSlots(slots, space, b.Slot.Number))
	}
	return err
}

// forgetSlots deletes slots that are older than the stored ones, a few at a time in
// case the slot number jumped.
func forgetSlots(b *bbolt.Bucket, space, newest uint64) error {
	c := b.Cursor()
	for range 4 {
		k, _ := c.Seek(key8(space))
		if !hasPrefix(k, key8(space)) || number(skipNumber(k))+keptSlots > newest {
			return nil
		}
		if err := c.Delete(); err != nil {
			return err
		}
	}
	return nil
}

// prepared is a result and its delta in stored form.
type prepared struct{ result, delta []byte }

func (p *prepared) size() int { return len(p.result) + len(p.delta) }

func (w *writer) relist(c *catalog.Catalog) []string {
	for id, r := range w.records {
		if r.dirty {
			c.Ran(id, r.serial, &r.stats)
		}
	}
	return nil
}

func (w *writer) touch(o *Others) {
	for i := range w.changes {
		o.Changed.add(w.changes[i].Query)
	}
	for i := range w.b.Outcomes {
		if x := &w.b.Outcomes[i]; x.Turned {
			o.Changed.add(x.Query)
		}
	}
	for i := range w.b.Rounds {
		if x := &w.b.Rounds[i]; x.State != registry.RoundOpen {
			o.Changed.add(x.Profile)
		}
	}
}
