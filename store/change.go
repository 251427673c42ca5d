package store

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"go.etcd.io/bbolt"
)

// changeVersion is the first byte of log entries.
const changeVersion = 1

// Flags of a log entry.
const (
	changeBaseline = 1 << iota
	changeSnapshot
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
	b = append(b, changeVersion, flags)
	b = binary.AppendUvarint(b, l.offset)
	b = putTime(b, l.at)
	b = putTime(b, l.checked)
	b = binary.AppendUvarint(b, l.slot)
	b = putText(b, l.query)
	b = putText(b, l.endpoint)
	b = binary.AppendUvarint(b, l.weight)
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
		Offset: l.offset, Time: l.at, CheckedAt: l.checked, Slot: l.slot, Baseline: l.baseline, Delta: delta,
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
