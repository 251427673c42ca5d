package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// plausible refuses a file that is not a bbolt file or that was truncated. The file is
// mapped into memory, and accessing pages beyond its end would crash the process. The
// offsets are those of bbolt's two meta pages, format version 2.
func plausible(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	i, err := f.Stat()
	if err != nil {
		return err
	}
	if !i.Mode().IsRegular() {
		return fmt.Errorf("%w: it is not a regular file", ErrNotStore)
	}
	if i.Size() == 0 {
		return fmt.Errorf("%w: the file is empty: put a backup in its place, or remove it to begin a new store", ErrDamaged)
	}
	need, err := extent(f)
	if err != nil {
		return err
	}
	if i.Size() < need {
		return fmt.Errorf("%w: the file was cut off (%d of %d bytes): put a backup in its place", ErrDamaged, i.Size(), need)
	}
	return nil
}

// createWhole makes a new file as a whole, so that a file that is empty or cut off is always a damaged one.
func createWhole(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil // also for errors, which opening it reports
	}
	f, err := os.CreateTemp(filepath.Dir(path), temporaryPattern)
	if err != nil {
		return err
	}
	part := f.Name()
	defer os.Remove(part)
	if err := f.Close(); err != nil {
		return err
	}
	b, err := bbolt.Open(part, 0o600, &bbolt.Options{Timeout: lockWait, FreelistType: bbolt.FreelistMapType})
	if err == nil {
		err = b.Close()
	}
	if err != nil {
		return err
	}
	if err = os.Link(part, path); err == nil {
		return syncDir(filepath.Dir(path))
	}
	if _, there := os.Stat(path); there == nil {
		return nil // another process was faster
	}
	return os.Rename(part, path) // a file system without links
}

// extent returns the size in bytes that the file's newest state requires.
func extent(f io.ReaderAt) (int64, error) {
	m, err := newestMeta(f)
	if err != nil || m == nil {
		return 0, err
	}
	return m.pages * m.pageSize, nil
}

// newestMeta returns nil if the first meta page is torn or the file is not a bbolt
// file; bbolt then reports the error.
func newestMeta(f io.ReaderAt) (*metaPage, error) {
	first, err := readMeta(f, 0)
	if err != nil || first == nil {
		return nil, err
	}
	second, err := readMeta(f, first.pageSize)
	if err != nil {
		return nil, err
	}
	if second != nil && second.transaction > first.transaction {
		first = second
	}
	return first, nil
}

type metaPage struct {
	pageSize, pages int64
	transaction     uint64
	root, freelist  int64 // pages; freelist is negative if there is none
}

// The parts of a meta page: the header of all pages, then the state, which ends with a checksum.
const metaHeader, metaSize = 16, 64

func metaSum(m []byte) uint64 {
	sum := fnv.New64a()
	sum.Write(m[:metaSize-8])
	return sum.Sum64()
}

// readMeta returns nil if there is no complete meta page at the offset.
func readMeta(f io.ReaderAt, at int64) (*metaPage, error) {
	const magicBolt = 0xED0CDAED
	b := make([]byte, metaHeader+metaSize)
	if n, err := f.ReadAt(b, at); n < len(b) {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	b = b[metaHeader:]
	if binary.NativeEndian.Uint32(b) != magicBolt || binary.NativeEndian.Uint64(b[metaSize-8:]) != metaSum(b) {
		return nil, nil
	}
	return &metaPage{
		pageSize:    int64(binary.NativeEndian.Uint32(b[8:])),
		pages:       int64(binary.NativeEndian.Uint64(b[40:])),
		transaction: binary.NativeEndian.Uint64(b[48:]),
		root:        int64(binary.NativeEndian.Uint64(b[16:])),
		freelist:    int64(binary.NativeEndian.Uint64(b[32:])),
	}, nil
}
