package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/cohort"
	"github.com/freshet/freshet/scheduler/rounds"
	"go.etcd.io/bbolt"
)

// The forms of edits in the journal. An edit contains what its caller has seen, so that it is
// applied only to that.

// What an edit does with a query.
const (
	leavesQuery byte = iota
	storesQuery
	removesQuery
)

func (e *queryEdit) append(b []byte) ([]byte, error) {
	for _, s := range []string{e.names.Query, e.names.Caller, e.names.Name, e.names.Instead} {
		b = putText(b, s)
	}
	bounds := &e.names.Bounds
	b = putText(b, bounds.Caller)
	for _, n := range []int64{int64(bounds.Queries), int64(bounds.TokenQueries), bounds.TokenBytes} {
		b = binary.AppendVarint(b, n)
	}
	b = binary.AppendUvarint(b, uint64(len(e.queries)))
	for i := range e.queries {
		x := &e.queries[i]
		b = binary.AppendUvarint(putText(b, x.now.ID), x.old.revision)
		switch {
		case x.same:
			b = append(b, leavesQuery)
		case x.removes():
			b = append(b, removesQuery)
		default:
			b = putText(append(b, storesQuery), string(x.body))
		}
	}
	return b, nil
}

func (e *queryEdit) decode(in *scan) {
	n := &e.names
	n.Query, n.Caller, n.Name, n.Instead = in.text(), in.text(), in.text(), in.text()
	n.Bounds = registry.Bounds{Caller: in.text(), Queries: int(in.signed()), TokenQueries: int(in.signed()), TokenBytes: in.signed()}
	e.queries = make([]queryDiff, in.count())
	for i := range e.queries {
		x := &e.queries[i]
		x.now.ID, x.seen = in.text(), in.number()
		switch in.byte() {
		case leavesQuery:
			x.same = true
		case storesQuery:
			if x.body = in.bytes(); !in.bad && decodeRegistration(x.body, &x.now) != nil {
				in.fail()
			}
		case removesQuery:
		default:
			in.fail()
		}
	}
}

// Resume compares all queries that the names concern with those that were seen.
func (e *queryEdit) Resume(tx *bbolt.Tx) error {
	ids, err := namedBy(tx, e.names)
	if err != nil {
		return err
	}
	if len(ids) != len(e.queries) {
		return errMoved
	}
	for i, id := range ids {
		x := &e.queries[i]
		if x.old, err = findQuery(tx, id); notFoundIsFine(err) != nil {
			return err
		}
		x.found = err == nil
		if x.now.ID != id || x.old.revision != x.seen {
			return errMoved
		}
	}
	if e.within(newTotals(tx)) != nil {
		return errMoved // the caller decides again, and learns why
	}
	return nil
}

func (e *endpointEdit) append(b []byte) ([]byte, error) {
	if e.shorter {
		b = binary.AppendVarint(b, int64(e.linger))
	}
	b = putText(b, e.now.Endpoint.Name)
	seen := revisionOf(e.stored)
	b = putTime(append(b, seen[:]...), e.at)
	return putText(b, string(e.json)), nil
}

func (e *endpointEdit) decode(in *scan) {
	if e.shorter {
		e.linger = time.Duration(in.signed())
	}
	e.now.Endpoint.Name, e.seen, e.at = in.text(), in.revision(), in.time()
	if e.json = in.bytes(); len(e.json) > 0 && json.Unmarshal(e.json, &e.now) != nil {
		in.fail()
	}
}

func (e *endpointEdit) Resume(tx *bbolt.Tx) error {
	name := e.now.Endpoint.Name
	if revisionOf(tx.Bucket(bEndpoints).Get([]byte(name))) != e.seen {
		return errMoved
	}
	var err error
	e.was, err = findEndpoint(tx, name)
	e.found = err == nil
	return notFoundIsFine(err)
}

func (e *profileEdit) append(b []byte) ([]byte, error) {
	if e.bounded {
		b = binary.AppendVarint(binary.AppendVarint(b, int64(e.bounds.TokenProfiles)), e.bounds.TokenBytes)
	}
	seen := e.old.revision()
	b = append(putText(b, e.now.ID), seen[:]...)
	if e.removes() {
		return putText(b, ""), nil
	}
	return putText(b, string(e.json)), nil
}

func (e *profileEdit) decode(in *scan) {
	if e.bounded {
		e.bounds.TokenProfiles, e.bounds.TokenBytes = int(in.signed()), in.signed()
	}
	id := in.text()
	e.seen = in.revision()
	if e.json = in.bytes(); len(e.json) > 0 && json.Unmarshal(e.json, &e.now) != nil {
		in.fail()
	}
	e.now.ID, e.bounds.Caller = id, e.now.Owner
}

func (e *profileEdit) Resume(tx *bbolt.Tx) (err error) {
	e.old, err = findProfile(tx, e.now.ID)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	if e.found = err == nil; e.old.revision() != e.seen {
		return errMoved
	}
	if e.within(tx) != nil {
		return errMoved // the caller decides again, and learns why
	}
	return nil
}

// revision returns the revision of a profile, zero if n is none.
func (n *storedProfile) revision() revision {
	if n.serial == 0 {
		return revision{}
	}
	return revisionOf(key16(n.serial, n.space), n.json)
}

// The form of a batch in the journal. It has the time and the bounds of retention of the node
// that found its outcomes, and results and deltas as they are stored. Of a delta it has only
// what decides whether the outcome follows the stored result.

// A batchRest is the part of a batch that is stored as JSON.
type batchRest struct {
	Slot    *scheduler.Slot  `json:"slot,omitempty"`
	Health  *registry.Health `json:"health,omitempty"`
	Cohorts []cohort.State   `json:"cohorts,omitempty"`
	Rounds  []registry.Round `json:"rounds,omitempty"`
	Models  []rounds.Model   `json:"models,omitempty"`
}

func (w *writer) append(b []byte) ([]byte, error) {
	b = putMoment(putText(b, w.endpoint), w.now)
	for _, n := range []int64{int64(w.keep.Changes), int64(w.keep.Age), w.keep.Bytes} {
		b = binary.AppendVarint(b, n)
	}
	b = binary.AppendUvarint(binary.AppendUvarint(b, w.token), w.b.Space)
	b = binary.AppendUvarint(b, uint64(len(w.b.Outcomes)))
	for i := range w.b.Outcomes {
		b = appendOutcome(b, &w.b.Outcomes[i])
	}
	var learnt []byte
	if w.b.Policy != nil {
		learnt = appendPolicy(nil, w.b.Policy)
	}
	b = putTexts(putText(b, string(learnt)), w.b.DroppedCohorts)
	rest, err := json.Marshal(batchRest{w.b.Slot, w.b.Health, w.b.Cohorts, w.b.Rounds, w.b.Models})
	return putText(b, string(rest)), err
}

func (w *writer) decode(in *scan) {
	w.b = new(scheduler.Batch)
	w.endpoint, w.now = in.text(), in.moment()
	w.keep = Retention{Changes: int(in.signed()), Age: time.Duration(in.signed()), Bytes: in.signed()}
	w.token, w.b.Space = in.number(), in.number()
	w.b.Outcomes = make([]scheduler.Outcome, in.count())
	for i := range w.b.Outcomes {
		decodeOutcome(in, &w.b.Outcomes[i])
	}
	if learnt := in.bytes(); len(learnt) > 0 {
		p, err := parsePolicy(learnt)
		if err != nil {
			in.fail()
		}
		w.b.Policy = &p
	}
	w.b.DroppedCohorts = in.texts()
	var rest batchRest
	if v := in.bytes(); in.bad || json.Unmarshal(v, &rest) != nil {
		in.fail()
	}
	w.b.Slot, w.b.Health, w.b.Cohorts, w.b.Rounds, w.b.Models = rest.Slot, rest.Health, rest.Cohorts, rest.Rounds, rest.Models
}

func appendOutcome(b []byte, o *scheduler.Outcome) []byte {
	b = putText(putText(b, o.Query), o.Stats.Position.Epoch)
	b = putText(b, string((&record{stats: o.Stats}).append(nil)))
	b = putTime(b, o.Checked)
	b = putBool(b, o.Turned)
	b = putBool(b, o.Prepared != nil)
	if o.Prepared == nil {
		return b
	}
	p := o.Prepared.(*prepared)
	b = putText(putBool(b, o.Delta.Baseline), o.Delta.OldHash)
	return putText(putText(b, string(p.result)), string(p.delta))
}

func decodeOutcome(in *scan, o *scheduler.Outcome) {
	o.Query = in.text()
	epoch := in.text()
	r, err := parseRecord(in.bytes())
	if err != nil {
		in.fail()
	}
	o.Stats = r.stats
	o.Stats.Position.Epoch = epoch
	o.Checked = in.time()
	o.Turned = in.bool()
	if in.bool() {
		o.Delta = &diff.Delta{Baseline: in.bool(), OldHash: in.text()}
		o.Prepared = &prepared{result: in.bytes(), delta: in.bytes()}
	}
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
