// The comparison of what the nodes of a cluster have made of the same commands.

package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/freshet/freshet/store/journal"
	"github.com/zeebo/xxh3"
	"go.etcd.io/bbolt"
)

// Every node keeps a hash of what commands have made of its file: the counters after each
// command, the records that a batch has written, and whether the command had an effect. After
// every compareEvery entries it reports the hash by a command. A node whose hash is not that of
// the others stops for good, because its file is damaged or its program has a fault.
var compareEvery uint64 = 1000 // tests lower it

// stateVersion is the version of the hash. Nodes compare hashes of the same version only.
const stateVersion = 1

// kState is the entry of meta with the stateHash, and kDiverged the one that forbids to open the
// file as that of a member again.
var (
	kState    = []byte("state")
	kDiverged = []byte("diverged")
)

var errDiverged = fmt.Errorf("%w: the state of this node is not that of the others, "+
	"though it has applied the same commands: its file is damaged, or its program differs. "+
	"Keep the file for an examination, and rebuild this node from a member (freshet cluster rebuild)", ErrDamaged)

// A stateHash is the hash after the last entry, and the one after the last entry at which nodes
// compare.
type stateHash struct {
	current, checkpoint uint64
	seq                 uint64 // of the checkpoint
}

func loadState(tx *bbolt.Tx) (s stateHash) {
	if b := tx.Bucket(bMeta).Get(kState); len(b) == 24 {
		s = stateHash{number(b), number(b[8:]), number(b[16:])}
	}
	return s
}

func (s *stateHash) save(tx *bbolt.Tx) error {
	return tx.Bucket(bMeta).Put(kState, binary.BigEndian.AppendUint64(key16(s.current, s.checkpoint), s.seq))
}

// add adds what an entry has done.
func (s *stateHash) add(tx *bbolt.Tx, seq uint64, c command, err error) {
	var b []byte
	for _, n := range []uint64{s.current, seq} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	b = append(putBool(b, err == nil), tx.Bucket(bMeta).Get(kCounters)...)
	if w, ok := c.(*writer); ok && err == nil {
		b = binary.BigEndian.AppendUint64(b, xxh3.Hash(w.written))
		b = binary.AppendUvarint(b, uint64(len(w.skipped)))
	}
	s.current = xxh3.Hash(b)
	if seq%compareEvery == 0 {
		s.checkpoint, s.seq = s.current, seq
	}
}

// A stateReport says what a node's hash was. It is a command without an effect.
type stateReport struct {
	version  uint64
	node     string // of one process
	at, hash uint64
}

func (s *stateReport) kind() byte { return kindState }

func (s *stateReport) append(b []byte) ([]byte, error) {
	b = putText(binary.AppendUvarint(b, s.version), s.node)
	return append(b, key16(s.at, s.hash)...), nil
}

func (s *stateReport) decode(in *scan) {
	s.version, s.node, s.at, s.hash = in.number(), in.text(), in.fixed(), in.fixed()
}

func (s *stateReport) resume(*bbolt.Tx) error { return nil }

func (s *stateReport) apply(*bbolt.Tx) error { return errUnchanged }

func (s *stateReport) touch(*others) {}

func (s *stateReport) frees() bool { return false }

// A comparison counts the nodes that have reported the same state as this one, and another one.
type comparison struct {
	at              uint64
	same, different int
}

// settle reports the state of this node when it is time, and compares the reports of others,
// after entries were applied.
func (r *replica) settle(answers []answer) error {
	if r.state.seq != r.reported {
		if r.reported = r.state.seq; r.reports.Load() {
			r.report(r.state)
		}
	}
	for _, a := range answers {
		if x, ok := a.command.(*stateReport); ok {
			if err := r.compare(x); err != nil {
				return r.diverge(err)
			}
		}
	}
	return nil
}

// report appends a report after an entry at which nodes compare.
func (r *replica) report(s stateHash) {
	x := &stateReport{version: stateVersion, node: r.name, at: s.seq, hash: s.checkpoint}
	r.done.Go(func() {
		// Without this report the others compare what they have.
		_ = r.once(r.ctx, fmt.Sprintf("state-%d-%s", s.seq, r.name), x)
	})
}

// compare takes note of a report. It returns errDiverged if most nodes have another state. If no
// further report decides between as many nodes on both sides, it returns errDiverged when the
// next comparison begins.
func (r *replica) compare(x *stateReport) error {
	s, c := r.state, &r.compared
	if c.at != s.seq {
		undecided := c.different > 0 && c.different >= c.same
		if *c = (comparison{at: s.seq, same: 1}); undecided {
			return errDiverged
		}
	}
	switch {
	case x.version != stateVersion || x.node == r.name || x.at != s.seq:
	case x.hash == s.checkpoint:
		c.same++
	default:
		if c.different++; c.different == 1 {
			r.file.log.Error("another node has a different state: one of them is damaged", "entry", s.seq)
		}
	}
	if c.different > c.same {
		return errDiverged
	}
	return nil
}

// diverge marks the file, so that it is not opened as that of a member again.
func (r *replica) diverge(err error) error {
	return errors.Join(err, r.file.edit(func(tx *bbolt.Tx) (bool, error) {
		return false, tx.Bucket(bMeta).Put(kDiverged, key8(r.state.seq))
	}))
}

// Drop removes the entries from the journal that no member needs: those that all members have
// applied, as their heartbeats say, and those that are beyond what a journal keeps for members
// that lag. Members that have left count, because they may come back. A member that needs a dropped entry
// starts from the backup of another one.
func (d *LeaseStore) Drop() error {
	r := d.replica
	if r == nil {
		return nil
	}
	nodes, _, err := d.Nodes()
	if err != nil {
		return err
	}
	var applied []uint64
	for _, n := range nodes {
		applied = append(applied, n.Applied)
	}
	upTo, err := journal.Droppable(r.ctx, r.journal, applied...)
	if err != nil || upTo == 0 {
		return err
	}
	return r.journal.Drop(r.ctx, upTo)
}
