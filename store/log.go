package store

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// Bounds on the work of one transaction. They exceed the number of changes that one transaction
// adds, so that a backlog shrinks (after a lower bound was set, or after days without changes).
const (
	trimQueryAtOnce = 8
	trimAtOnce      = 128
)

// A logWriter adds changes to the log and bounds it, in one transaction. It keeps all
// changes except the newest of each query in the bucket "old", in offset order, and so
// finds those that may be dropped without skipping those that must stay.
type logWriter struct {
	tx       *bbolt.Tx
	keep     Retention
	now      time.Time
	counters counters
	began    uint64 // the size of the log before the transaction
}

// add numbers and stores the next change of a query, which leads to a packed result.
func (w *logWriter) add(l *logEntry, result []byte) error {
	w.counters.offset++
	l.offset = w.counters.offset
	before, err := w.supersede(l.serial, l.seq-1)
	if err != nil {
		return err
	}
	l.weigh(before, result)
	k := key16(l.serial, l.seq)
	if l.snapshot {
		w.counters.logBytes += uint64(len(k) + len(result))
		if err := w.tx.Bucket(bSnapshots).Put(k, result); err != nil {
			return err
		}
	}
	v := l.append(nil)
	w.counters.logBytes += uint64(len(k) + len(v))
	if err := w.tx.Bucket(bChanges).Put(k, v); err != nil {
		return err
	}
	if err := w.tx.Bucket(bOffsets).Put(key8(l.offset), k); err != nil {
		return err
	}
	return w.trimQuery(l.serial, l.seq)
}

// supersede moves the previous newest change of a query to the bucket "old". It returns
// nil for the first change of an epoch.
func (w *logWriter) supersede(serial, seq uint64) (*logEntry, error) {
	k := key16(serial, seq)
	v := w.tx.Bucket(bChanges).Get(k)
	if v == nil {
		return nil, nil
	}
	l, err := parseLogEntry(k, v)
	if err != nil {
		return nil, err
	}
	mark := binary.BigEndian.AppendUint64(k, uint64(l.at.UnixNano()))
	return &l, w.tx.Bucket(bOld).Put(key8(l.offset), mark)
}

// trimQuery bounds the number of changes of one query.
func (w *logWriter) trimQuery(serial, newest uint64) error {
	keep := uint64(w.keep.Changes)
	if keep == 0 {
		return nil
	}
	for range trimQueryAtOnce {
		k, v := w.tx.Bucket(bChanges).Cursor().Seek(key8(serial))
		first := number(skipNumber(k))
		if !hasPrefix(k, key8(serial)) || newest-first < keep {
			return nil
		}
		l, err := parseLogEntry(k, v)
		if err != nil {
			return err
		}
		if err := w.drop(l.offset, k); err != nil {
			return err
		}
	}
	return nil
}

// retain bounds the age and the size of the whole log, oldest first. A log that is too large does
// not grow, however many small changes a large one replaces. So the work is bounded by what is added.
func (w *logWriter) retain() error {
	age, size := w.keep.Age, uint64(w.keep.Bytes)
	before := int64(0)
	if age > 0 {
		before = w.now.Add(-age).UnixNano()
	}
	from := uint64(0) // without it, bbolt would pass over the pages that this loop has emptied each time
	for n := 0; n < trimAtOnce || w.counters.logBytes > w.began; n++ {
		k, mark := w.tx.Bucket(bOld).Cursor().Seek(key8(from))
		if k == nil {
			return nil
		}
		if len(mark) != 24 {
			return fmt.Errorf("%w: the list of old changes cannot be read", ErrDamaged)
		}
		tooOld := age > 0 && int64(number(mark[16:])) < before
		tooMuch := size > 0 && w.counters.logBytes > size
		if !tooOld && !tooMuch {
			return nil
		}
		from = number(k) + 1
		if err := w.drop(from-1, mark[:16]); err != nil {
			return err
		}
	}
	return nil
}

// drop deletes one old change because of retention. It creates a gap for followers of
// all queries, unless the change's query was removed and only waits to be purged:
// these followers never see such changes.
func (w *logWriter) drop(offset uint64, key []byte) error {
	l, err := parseLogEntry(key, w.tx.Bucket(bChanges).Get(key))
	if err != nil {
		return err
	}
	if r, _, ok := liveRecord(w.tx, l.query); ok && r.serial == l.serial {
		w.counters.trimmed = max(w.counters.trimmed, offset)
	}
	n, err := deleteChange(w.tx, offset, key)
	w.counters.logBytes -= min(n, w.counters.logBytes)
	return err
}

// changeVersion is the first byte of log entries.
const changeVersion = 1

// Flags of a log entry.
const (
	changeBaseline = 1 << iota
	changeSnapshot
	changeEdits // only with a feed
)

// A logEntry is a change as stored in the log. Its delta stays packed until the
// transaction has ended.
type logEntry struct {
	query, endpoint string
	serial, seq     uint64
	offset          uint64
	at, checked     time.Time
	slot            uint64
	baseline        bool
	snapshot        bool   // the result after the change is stored
	weight          uint64 // of the changes after the last entry with a result, including this one
	edits           []registry.DataEdit
	delta           []byte // packed
}

func (l *logEntry) append(b []byte) []byte {
	flags := byte(0)
	if l.baseline {
		flags |= changeBaseline
	}
	if l.snapshot {
		flags |= changeSnapshot
	}
	if len(l.edits) > 0 {
		flags |= changeEdits
	}
	b = append(b, changeVersion, flags)
	b = binary.AppendUvarint(b, l.offset)
	b = putTime(b, l.at)
	b = putTime(b, l.checked)
	b = binary.AppendUvarint(b, l.slot)
	b = putText(b, l.query)
	b = putText(b, l.endpoint)
	b = binary.AppendUvarint(b, l.weight)
	if len(l.edits) > 0 {
		b = binary.AppendUvarint(b, uint64(len(l.edits)))
		for _, e := range l.edits {
			b = putText(putText(b, e.Text), e.Link)
		}
	}
	return append(b, l.delta...)
}

// parseLogEntry parses a log entry; delta refers to the file's mapped memory.
func parseLogEntry(k, v []byte) (logEntry, error) {
	in := scan{b: v}
	if in.byte() != changeVersion || len(k) != 16 {
		in.fail()
	}
	l := logEntry{serial: number(k), seq: number(skipNumber(k))}
	flags := in.byte()
	l.baseline, l.snapshot = flags&changeBaseline != 0, flags&changeSnapshot != 0
	l.offset, l.at, l.checked, l.slot = in.number(), in.time(), in.time(), in.number()
	l.query, l.endpoint = in.text(), in.text()
	l.weight = in.number()
	if flags&changeEdits != 0 {
		for range in.count() {
			l.edits = append(l.edits, registry.DataEdit{Text: in.text(), Link: in.text()})
		}
	}
	if in.bad || len(in.b) == 0 {
		return l, fmt.Errorf("%w: change %d of query number %d cannot be read", ErrDamaged, l.seq, l.serial)
	}
	l.delta = in.b
	return l, nil
}

// announce returns l as a change with the given delta.
func (l *logEntry) announce(e storeEpoch, delta *diff.Delta) registry.Change {
	return registry.Change{
		Query: l.query, Endpoint: l.endpoint, Epoch: e.of(l.serial), Prev: l.seq - 1, Seq: l.seq,
		Offset: l.offset, Time: l.at, CheckedAt: l.checked, Slot: l.slot, Baseline: l.baseline, Delta: delta, Edits: l.edits,
	}
}

// unpack returns l as a change with its stored delta.
func (l *logEntry) unpack(p *packer, e storeEpoch) (registry.Change, error) {
	raw, err := p.unpack(l.delta)
	if err != nil {
		return registry.Change{}, fmt.Errorf("change %d of %s: %w", l.seq, l.query, err)
	}
	delta := new(diff.Delta)
	if err := delta.UnmarshalBinary(raw); err != nil {
		return registry.Change{}, fmt.Errorf("change %d of %s: %w: %w", l.seq, l.query, ErrDamaged, err)
	}
	return l.announce(e, delta), nil
}

// deleteChange deletes a change from all indexes, with the result stored beside it, and
// returns their size.
func deleteChange(tx *bbolt.Tx, offset uint64, key []byte) (uint64, error) {
	key = append([]byte(nil), key...) // deletion invalidates the memory it may refer to
	b := tx.Bucket(bChanges)
	v := b.Get(key)
	if v == nil {
		return 0, fmt.Errorf("%w: change %d is not in the log", ErrDamaged, offset)
	}
	size := uint64(len(key) + len(v))
	if r := tx.Bucket(bSnapshots).Get(key); r != nil {
		size += uint64(len(key) + len(r))
		if err := tx.Bucket(bSnapshots).Delete(key); err != nil {
			return 0, err
		}
	}
	if err := b.Delete(key); err != nil {
		return 0, err
	}
	if err := tx.Bucket(bOffsets).Delete(key8(offset)); err != nil {
		return 0, err
	}
	return size, tx.Bucket(bOld).Delete(key8(offset))
}

// weigh computes the weight of a change after another one, nil if there is none, and
// decides whether its packed result is stored as a snapshot.
func (l *logEntry) weigh(before *logEntry, result []byte) {
	l.weight = changeWeight + uint64(unpackedSize(l.delta))
	switch {
	case l.baseline:
		return
	case before == nil: // what came before cannot be used
		l.snapshot = true
		return
	case !before.base():
		l.weight += before.weight
	}
	l.snapshot = l.weight >= snapshotFactor*resultWeight(result)
}

// base reports whether the result after a change can be read without other changes.
func (l *logEntry) base() bool { return l.baseline || l.snapshot }

// resultWeight is the cost of reading a stored result, in bytes.
func resultWeight(v []byte) uint64 {
	in := scan{b: v[min(2, len(v)):]}
	_, _ = in.text(), in.text()
	return changeWeight + uint64(unpackedSize(in.b))
}

// Weights of snapshots: see the section "Past states" of the package comment.
const (
	snapshotFactor = 4 // a change stores one once the changes since the last one weigh so many times as much as the result
	// changeWeight is the cost of reading an empty change or result, in bytes of rows.
	changeWeight = 2 << 10
)
