// The comparison of what the nodes of a cluster have made of the same commands.

package replica

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zeebo/xxh3"
	"go.etcd.io/bbolt"
)

// Every node keeps a hash of what commands have made of its file: what Options.Digest says after each command, and
// whether the command had an effect. After every Options.CompareEvery entries it reports the hash by a command. A node
// whose hash is not that of the others stops for good, because its file is damaged or its program has a fault.
const usualCompare = 1000

// stateVersion is the version of the hash. Nodes compare hashes of the same version only.
const stateVersion = 1

// ErrDiverged is wrapped by the error of a replica that must be rebuilt.
var ErrDiverged = errors.New("the state of this node is not that of the others, " +
	"though it has applied the same commands: its file is damaged, or its program differs. " +
	"Keep the file for an examination, and rebuild this node from a member (freshet cluster rebuild). " +
	"If no member goes on, choose one file by freshet store check, and go back to one server on it")

// A stateHash is the hash after the last entry, and the one after the last entry at which nodes
// compare.
type stateHash struct {
	current, checkpoint uint64
	seq                 uint64 // of the checkpoint
}

func (s *stateHash) load(meta *bbolt.Bucket) {
	if b := meta.Get(State); len(b) == 24 {
		n := binary.BigEndian.Uint64
		*s = stateHash{n(b), n(b[8:]), n(b[16:])}
	}
}

func (s *stateHash) save(meta *bbolt.Bucket) error {
	b := make([]byte, 24)
	for i, n := range []uint64{s.current, s.checkpoint, s.seq} {
		binary.BigEndian.PutUint64(b[8*i:], n)
	}
	return meta.Put(State, b)
}

// add adds what an entry has done.
func (s *stateHash) add(o *Options, tx *bbolt.Tx, seq uint64, a Answer) {
	var b []byte
	for _, n := range []uint64{s.current, seq} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	s.current = xxh3.Hash(o.Digest(fmt.Append(b, a.Err == nil), tx, a))
	if seq%o.CompareEvery == 0 {
		s.checkpoint, s.seq = s.current, seq
	}
}

// A stateReport says what a node's hash was. It is a command without an effect.
type stateReport struct {
	Version uint64 `json:"version"`
	Node    string `json:"node"` // of one process
	At      uint64 `json:"at"`
	Hash    uint64 `json:"hash"`
}

func (*stateReport) Resume(*bbolt.Tx) error { return nil }

func (*stateReport) Apply(*bbolt.Tx) error { return ErrUnchanged }

// A comparison counts the nodes that have reported the same state as this one, and another one.
type comparison struct {
	at              uint64
	same, different int
}

// exchangeReports reports the state of this node when it is time, and compares the reports of others,
// after entries were applied.
func (r *Replica) exchangeReports(answers []Answer) error {
	if r.state.seq != r.reported {
		if r.reported = r.state.seq; r.reports.Load() {
			r.report(r.state)
		}
	}
	for _, a := range answers {
		if x, ok := a.Command.(*stateReport); ok {
			if err := r.compare(x); err != nil {
				return r.diverge(err)
			}
		}
	}
	return nil
}

// Name returns the name of this process in reports.
func (r *Replica) Name() string { return r.name }

// report appends a report after an entry at which nodes compare.
func (r *Replica) report(s stateHash) {
	x := &stateReport{stateVersion, r.name, s.seq, s.checkpoint}
	r.done.Go(func() {
		// Without this report the others compare what they have.
		_ = r.Once(fmt.Sprintf("state-%d-%s", s.seq, r.name), x)
	})
}

// compare takes note of a report. It returns ErrDiverged if most nodes have another state. If no
// further report decides between as many nodes on both sides, it returns ErrDiverged when the
// next comparison begins.
func (r *Replica) compare(x *stateReport) error {
	s, c := r.state, &r.compared
	if c.at != s.seq {
		undecided := c.different > 0 && c.different >= c.same
		if *c = (comparison{at: s.seq, same: 1}); undecided {
			return ErrDiverged
		}
	}
	switch {
	case x.Version != stateVersion || x.Node == r.name || x.At != s.seq:
	case x.Hash == s.checkpoint:
		c.same++
	default:
		if c.different++; c.different == 1 {
			r.o.Log.Error("another node has a different state: one of them is damaged", "entry", s.seq)
		}
	}
	if c.different > c.same {
		return ErrDiverged
	}
	return nil
}

// diverge marks the file, so that it is not opened as that of a member again.
func (r *Replica) diverge(err error) error {
	return errors.Join(err, r.o.Edit(func(tx *bbolt.Tx) error {
		return tx.Bucket(r.o.Bucket).Put(Diverged, []byte{1})
	}))
}
