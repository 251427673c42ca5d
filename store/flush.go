// Flushing of commits that a journal has already made durable.

package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"sync"

	"go.etcd.io/bbolt"
)

// A flusher flushes the commits of a store that follows a journal. The commands are durable in the
// journal, so readers see a commit, and its caller gets an answer, before the file is flushed. That
// is done before the next commit begins to write. Since bbolt does not write to pages of the commit
// before, the file has the last flushed state after a power failure in any case. It may also have
// the meta page of the commit after, without all of its other pages. So a flushed commit gets a mark
// in a part of its meta page that bbolt does not use, and Open returns to the marked state (see
// mend). The journal then repeats what is missing.
type flusher struct {
	file io.WriterAt
	page int64        // size
	sync func() error // flushes the file
	boot bootID

	mu      sync.Mutex
	pending int   // number of the commit that is not flushed; 0 for none
	failed  error // of a flush
}

// flushLater lets commits return before they are flushed. The last commit is flushed already.
func (d *boltFile) flushLater() error {
	f := &flusher{file: d.file, page: int64(d.bolt.Info().PageSize), sync: d.bolt.Sync, boot: currentBoot()}
	err := d.bolt.View(func(tx *bbolt.Tx) error { return f.mark(uint64(tx.ID()), f.boot) })
	if err == nil {
		err = f.sync()
	}
	if err == nil {
		d.bolt.NoSync, d.flusher = true, f
	}
	return err
}

// flush flushes the last commit if that has not been done. If the disk has no room for the mark, the
// next commit tries again. After any other error nothing is written any more.
func (d *boltFile) flush() error {
	f := d.flusher
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := d.flushLocked(); err != nil && f.failed != nil {
		return err
	}
	return nil
}

func (d *boltFile) flushLocked() error {
	f, id := d.flusher, uint64(d.flusher.pending)
	if id == 0 || f.failed != nil {
		return f.failed
	}
	err := f.sync()
	if err == nil {
		if err = f.mark(id, f.boot); isFull(err) {
			return err
		}
		err = errors.Join(err, f.sync())
	}
	if err != nil { // what the kernel has in memory may differ from the disk now
		f.failed = d.breaks(fmt.Errorf("flush %s: %w", d.path, errors.Join(err, f.mark(id-1, bootID{}), f.sync())))
		return f.failed
	}
	f.pending = 0
	return nil
}

// end commits a transaction. With a flusher, the commit before is flushed first.
func (d *boltFile) end(tx *bbolt.Tx) error {
	f := d.flusher
	if f == nil {
		return tx.Commit()
	}
	f.mu.Lock() // until the commit is pending, since the next transaction may begin earlier
	defer f.mu.Unlock()
	if err := d.flushLocked(); err != nil {
		return err
	}
	id := tx.ID()
	err := tx.Commit()
	if err == nil {
		f.pending = id
	}
	return err
}

// mark writes the mark of a commit.
func (f *flusher) mark(id uint64, boot bootID) error {
	_, err := f.file.WriteAt(flushMark(id, boot), markAt(id, f.page))
	return err
}

// A bootID identifies the time since the system was started. Zeros are an unknown one.
type bootID [16]byte

func currentBoot() (id bootID) {
	if text, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		sum := sha256.Sum256(text)
		copy(id[:], sum[:])
	}
	return id
}

// markSize is the size of a mark: the number of the commit, the boot of the system, and a checksum.
const markSize = 8 + 16 + 8

// markAt returns where the mark of a commit is: in a sector of its own, at the end of the meta page.
// bbolt writes zeros there with each commit.
func markAt(id uint64, page int64) int64 { return int64(id%2+1)*page - 512 }

func flushMark(id uint64, boot bootID) []byte {
	b := append(binary.BigEndian.AppendUint64(nil, id), boot[:]...)
	sum := fnv.New64a()
	sum.Write([]byte("freshet: flushed"))
	sum.Write(b)
	return sum.Sum(b)
}

// mend prepares a file for Open after it was used with a flusher. If the newest commit is not
// known to be flushed, and the system was started again since, the file returns to the commit before.
func mend(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil // there is none, or bbolt reports it
	}
	defer f.Close()
	if s, err := flushStateOf(f); err != nil || !s.used() {
		return err
	}
	// Other processes neither write the file nor begin to while this one reads it. Two that mend it
	// do the same.
	reader, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockWait})
	if err != nil {
		return err
	}
	s, err := flushStateOf(f)
	if err == nil && s.used() {
		err = s.mend(f)
	}
	return errors.Join(err, reader.Close())
}

// A flushState is what the meta pages say about the last two commits.
type flushState struct {
	newest, before *metaPage
	marks          [2][]byte // of newest and before; nil if there is none
}

// flushStateOf returns the zero state if the file does not have two complete meta pages. A commit
// whose meta page is torn is none.
func flushStateOf(f *os.File) (s flushState, err error) {
	first, err := readMeta(f, 0)
	if err != nil || first == nil {
		return s, err
	}
	second, err := readMeta(f, first.pageSize)
	if err != nil || second == nil {
		return s, err
	}
	if s.newest, s.before = first, second; first.transaction < second.transaction {
		s.newest, s.before = second, first
	}
	for i, m := range []*metaPage{s.newest, s.before} {
		b := make([]byte, markSize)
		if _, err := f.ReadAt(b, markAt(m.transaction, m.pageSize)); err != nil {
			return s, err
		}
		if bytes.Equal(b, flushMark(m.transaction, bootID(b[8:]))) {
			s.marks[i] = b
		}
	}
	return s, nil
}

// used reports whether one of the commits was made with a flusher.
func (s *flushState) used() bool { return s.marks[0] != nil || s.marks[1] != nil }

// mend makes the newest commit that can be trusted the newest one of the file, and removes the marks.
func (s *flushState) mend(f *os.File) error {
	if boot := currentBoot(); s.marks[0] == nil && (boot == bootID{} || bootID(s.marks[1][8:]) != boot) {
		if err := s.revert(f); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil { // before the marks go
		return err
	}
	for id := range uint64(2) {
		if _, err := f.WriteAt(make([]byte, markSize), markAt(id, s.newest.pageSize)); err != nil {
			return err
		}
	}
	return f.Sync()
}

// revert replaces the newest meta page with the one before, under a lower number. Backups of bbolt
// have such a pair of pages.
func (s *flushState) revert(f *os.File) error {
	size := s.before.pageSize
	b := make([]byte, metaHeader+metaSize)
	if _, err := f.ReadAt(b, int64(s.before.transaction%2)*size); err != nil {
		return err
	}
	to := s.newest.transaction % 2
	binary.NativeEndian.PutUint64(b, to)
	m := b[metaHeader:]
	binary.NativeEndian.PutUint64(m[48:], s.before.transaction-1)
	binary.NativeEndian.PutUint64(m[metaSize-8:], metaSum(m))
	_, err := f.WriteAt(b, int64(to)*size)
	return err
}
