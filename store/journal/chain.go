package journal

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// A Hash identifies an entry together with all entries before it.
type Hash [sha256.Size]byte

// A Position is the number of an entry and its hash. The number alone does not identify an
// entry, since a journal may have been replaced by another.
type Position struct {
	Seq  uint64
	Hash Hash
}

// An Entry is a command at its place in the journal. Numbers begin with 1 and increase by 1.
type Entry struct {
	Position
	Prev    Hash // of the entry before
	ID      string
	Command []byte
}

// Genesis returns the position before the first entry of a journal. Journals with different
// names have no hash in common.
func Genesis(name string) Position {
	return Position{Hash: sha256.Sum256([]byte("freshet journal " + name))}
}

// Next returns the entry that adds a command after a position.
func (p Position) Next(id string, cmd []byte) Entry {
	e := Entry{Position: Position{Seq: p.Seq + 1}, Prev: p.Hash, ID: id, Command: cmd}
	e.Hash = e.sum()
	return e
}

// sum returns the hash of the entry before, the number, the length of the id, the id, and the
// command. Numbers are big-endian. The function of the PostgreSQL engine computes the same.
func (e *Entry) sum() (h Hash) {
	s := sha256.New()
	s.Write(e.Prev[:])
	b := binary.BigEndian.AppendUint64(nil, e.Seq)
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.ID)))
	s.Write(append(b, e.ID...))
	s.Write(e.Command)
	s.Sum(h[:0])
	return h
}

// Follows returns an error unless e is intact and is the entry after p.
func (e *Entry) Follows(p Position) error {
	switch {
	case e.Seq != p.Seq+1:
		return fmt.Errorf("%w: entry %d follows entry %d: %s", ErrAltered, e.Seq, p.Seq, remedy)
	case e.Prev != p.Hash:
		return fmt.Errorf("%w: entry %d does not continue entry %d: %s", ErrAltered, e.Seq, p.Seq, remedy)
	case e.Hash != e.sum():
		return fmt.Errorf("%w: entry %d does not have its hash: %s", ErrAltered, e.Seq, remedy)
	}
	return nil
}
