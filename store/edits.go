// The forms of edits in the journal.

package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/freshet/freshet/registry"
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

// resume compares all queries that the names concern with those that were seen.
func (e *queryEdit) resume(tx *bbolt.Tx) error {
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

func (e *endpointEdit) resume(tx *bbolt.Tx) error {
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

func (e *profileEdit) resume(tx *bbolt.Tx) (err error) {
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
