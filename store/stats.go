package store

import (
	"encoding/binary"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/policy"
	"go.etcd.io/bbolt"
)

// A record is a query's entry in the stats bucket. It is small, because each execution
// rewrites it, while the query itself is not rewritten. A query that was never executed has
// none: a registration would otherwise write two more pages, because ids are random.
type record struct {
	serial uint64 // of the query
	space  uint64 // its endpoint's number
	seq    uint64 // of its newest change
	stats  policy.Stats
	dirty  bool // must be written at the end of the transaction
}

// The first byte of records. Those of queries without a position of the endpoint have the form of
// earlier versions.
const (
	recordVersion    = 1
	recordWithBefore = 2 // without what the position belongs to
	recordWithOwner  = 3
)

// Flags of a sample.
const (
	sampleChanged = 1 << iota
	sampleJaccard
)

// recordHead reads only the keys of a record.
func recordHead(b []byte) (r record) {
	if len(b) < 25 {
		return record{}
	}
	return record{serial: number(b[1:]), space: number(b[9:]), seq: number(b[17:])}
}

// entryOf returns a query's entry in stats. For a query without one it returns the entry
// of a query that was never executed, and nil if the query does not exist.
func entryOf(entry, query []byte) []byte {
	if entry != nil || len(query) < queryHead {
		return entry
	}
	r := youngRecord(query)
	return r.append(nil)
}

// youngRecord returns the record of a query that was never executed.
func youngRecord(query []byte) record {
	return record{serial: number(query), space: number(query[8:])}
}

// position returns the position of the newest change.
func (r *record) position(e storeEpoch) registry.Position {
	return registry.Position{Epoch: e.of(r.serial), Seq: r.seq}
}

func (r *record) append(b []byte) []byte {
	version := byte(recordVersion)
	if r.stats.Before.Known() {
		version = recordWithOwner
	}
	b = append(b, version)
	for _, n := range []uint64{r.serial, r.space, r.seq} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	s := &r.stats
	for _, n := range []uint64{s.Last, s.Executions, s.Changes, uint64(s.Failures), uint64(s.Cuts),
		s.NotBefore, s.Served, uint64(s.Outdated), uint64(s.Absurd)} {
		b = binary.AppendUvarint(b, n)
	}
	b = binary.AppendVarint(b, int64(s.Rows))
	b = binary.AppendVarint(b, int64(s.Floor))
	b = putHash(b, s.Hash)
	b = putTime(b, s.CheckedAt)
	b = putTime(b, s.ChangedAt)
	b = putTime(b, s.IncompleteSince)
	b = appendRun(b, &s.LastRun)
	b = putText(b, s.Policy)
	b = putFloats(b, s.State)
	for _, n := range s.Memory.Body {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = putText(b, s.Memory.ETag)
	b = putText(b, s.Memory.LastModified)
	b = appendSamples(putTexts(b, s.Memory.Vars), s.Samples)
	if version == recordWithOwner {
		b = binary.AppendVarint(putText(b, s.Before.Topic), s.Before.Offset)
		b = putTime(putTime(putTime(b, s.Before.Time), s.Before.Assumed), s.Before.Answered)
		b = binary.BigEndian.AppendUint64(b, s.Before.Of)
	}
	return b
}

func appendRun(b []byte, r *policy.Run) []byte {
	b = binary.AppendUvarint(b, r.Slot)
	b = putTime(b, r.At)
	b = binary.AppendVarint(b, int64(r.Elapsed))
	b = putText(b, string(r.Outcome))
	b = putText(b, r.Error)
	return putText(putText(b, r.Why), r.How)
}

// appendSamples uses five or six bytes for most samples: the distance from the
// previous slot with the flags in its low bits, and the time.
func appendSamples(b []byte, samples []policy.Sample) []byte {
	b = binary.AppendUvarint(b, uint64(len(samples)))
	last := uint64(0)
	for _, s := range samples {
		step := (s.Slot - last) << 2 // slots stay far below 2^62
		last = s.Slot
		if s.Changed {
			step |= sampleChanged
		}
		if s.Jaccard != 0 {
			step |= sampleJaccard
		}
		b = binary.AppendUvarint(b, step)
		b = binary.AppendVarint(b, int64(s.Elapsed))
		if s.Jaccard != 0 {
			b = putFloat(b, s.Jaccard)
		}
	}
	return b
}

// parseRecord copies everything out of b. The caller sets Position, since it knows the
// epoch.
func parseRecord(b []byte) (record, error) {
	in := scan{b: b}
	version := in.byte()
	if version != recordVersion && version != recordWithBefore && version != recordWithOwner {
		in.fail()
	}
	r := record{serial: in.fixed(), space: in.fixed(), seq: in.fixed()}
	s := &r.stats
	s.Last, s.Executions, s.Changes = in.number(), in.number(), in.number()
	s.Failures, s.Cuts = uint32(in.number()), uint32(in.number())
	s.NotBefore, s.Served = in.number(), in.number()
	s.Outdated, s.Absurd = uint32(in.number()), uint32(in.number())
	s.Rows, s.Floor = int(in.signed()), time.Duration(in.signed())
	s.Hash, s.CheckedAt, s.ChangedAt = in.hash(), in.time(), in.time()
	s.IncompleteSince = in.time()
	s.LastRun = parseRun(&in)
	s.Policy = in.text()
	s.State = in.floats()
	s.Memory.Body = [2]uint64{in.fixed(), in.fixed()}
	s.Memory.ETag, s.Memory.LastModified = in.text(), in.text()
	s.Memory.Vars = in.texts()
	s.Samples = parseSamples(&in)
	if version != recordVersion {
		s.Before.Topic, s.Before.Offset = in.text(), in.signed()
		s.Before.Time, s.Before.Assumed, s.Before.Answered = in.time(), in.time(), in.time()
	}
	if version == recordWithOwner {
		s.Before.Of = in.fixed()
	}
	return r, in.end("a query's statistics")
}

func parseRun(in *scan) policy.Run {
	return policy.Run{Slot: in.number(), At: in.time(), Elapsed: time.Duration(in.signed()),
		Outcome: registry.Outcome(in.text()), Error: in.text(), Why: in.text(), How: in.text()}
}

func parseSamples(in *scan) []policy.Sample {
	n := in.count()
	if n == 0 {
		return nil
	}
	samples := make([]policy.Sample, n)
	last := uint64(0)
	for i := range samples {
		step := in.number()
		last += uint64(int64(step) >> 2) // signed, in case slot numbers decrease
		s := policy.Sample{Slot: last, Elapsed: time.Duration(in.signed()), Changed: step&sampleChanged != 0}
		if step&sampleJaccard != 0 {
			s.Jaccard = in.float()
		}
		samples[i] = s
	}
	return samples
}

// readRecord is parseRecord with the position, in the store's epoch.
func readRecord(v []byte, e storeEpoch) (record, error) {
	r, err := parseRecord(v)
	r.stats.Position = r.position(e)
	return r, err
}

// liveRecord returns a query's record head and its entry, and false if the query has no
// holder: it then does not exist, or waits for the purge with its endpoint.
func liveRecord(tx *bbolt.Tx, id string) (record, []byte, bool) {
	v := tx.Bucket(bStats).Get([]byte(id))
	if v == nil {
		v = entryOf(nil, tx.Bucket(bQueries).Get([]byte(id)))
	}
	if v == nil {
		return record{}, nil, false
	}
	r := recordHead(v)
	return r, v, owned(tx, r.space)
}
