package store

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

const changeVersion = 1

const changeBaseline = 1

// A logEntry change is a change as stored in the log. Its delta stays packed until the
// transaction has ended.
type logEntry struct {
	query, endpoint string
	serial, seq     uint64
	offset          uint64
	at, checked     time.Time
	slot            uint64
	baseline        bool
	delta           []byte // packed
}

func (l *logEntry) append(b []byte) []byte {
	flags := byte(0)
	if l.baseline {
		flags |= changeBaseline
	}
	b = append(b, changeVersion, flags)
	b = binary.AppendUvarint(b, l.offset)
	b = putTime(b, l.at)
	b = putTime(b, l.checked)
	b = binary.AppendUvarint(b, l.slot)
	b = putText(b, l.query)
	b = putText(b, l.endpoint)
	return append(b, l.delta...)
}

// parseLogEntry parses a log entry; delta refers to the file's mapped memory.
func parseLogEntry(k, v []byte) (logEntry, error) {
	in := scan{b: v}
	if in.byte() != changeVersion || len(k) != 16 {
		in.fail()
	}
	l := logEntry{serial: number(k), seq: number(after(k))}
	l.baseline = in.byte()&changeBaseline != 0
	l.offset, l.at, l.checked, l.slot = in.number(), in.time(), in.time(), in.number()
	l.query, l.endpoint = in.text(), in.text()
	if in.bad || len(in.b) == 0 {
		return l, fmt.Errorf("%w: change %d of query number %d cannot be read", ErrDamaged, l.seq, l.serial)
	}
	l.delta = in.b
	return l, nil
}

// change unpacks l.
func (d *DB) change(l *logEntry) (registry.Change, error) {
	raw, err := d.pack.unpack(l.delta)
	if err != nil {
		return registry.Change{}, fmt.Errorf("change %d of %s: %w", l.seq, l.query, err)
	}
	delta := new(diff.Delta)
	if err := delta.UnmarshalBinary(raw); err != nil {
		return registry.Change{}, fmt.Errorf("change %d of %s: %w: %w", l.seq, l.query, ErrDamaged, err)
	}
	return registry.Change{
		Query: l.query, Endpoint: l.endpoint, Epoch: d.epoch.of(l.serial), Prev: l.seq - 1, Seq: l.seq,
		Offset: l.offset, Time: l.at, CheckedAt: l.checked, Slot: l.slot, Baseline: l.baseline, Delta: delta,
	}, nil
}

func (d *DB) changes(list []logEntry) ([]registry.Change, error) {
	var out []registry.Change
	for i := range list {
		c, err := d.change(&list[i])
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}
