package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/replica"
	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// This file copies the database file: for backups, and to compact it.

// A copy that is not complete has the name of the file that it was made from with copySuffix.
const (
	copySuffix       = ".copy-*"
	temporaryPattern = File + copySuffix
)

// Backup writes a consistent snapshot of the store while other transactions continue.
// The copy is first written to the store's own disk, which needs enough free space; a
// slow receiver therefore never holds a transaction open. A store opened from the copy
// gets a new epoch, since its age is unknown.
func (d *DB) Backup(w io.Writer) (n int64, err error) {
	if err := d.backupFits(); err != nil {
		return 0, fmt.Errorf("backup of %s: %w", d.path, err)
	}
	f, err := os.CreateTemp(filepath.Dir(d.path), temporaryPattern)
	if err == nil {
		defer os.Remove(f.Name())
		defer f.Close()
		err = d.view(func(tx *bbolt.Tx) error {
			_, err := tx.WriteTo(f)
			return err
		})
	}
	if err == nil {
		err = markCopy(f.Name())
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil {
		n, err = io.Copy(w, f)
	}
	if err != nil {
		return n, fmt.Errorf("backup of %s: %w", d.path, err)
	}
	return n, nil
}

// backupFits refuses a backup whose copy would take the reserve of the disk, because a full disk stops the server.
func (d *DB) backupFits() error {
	size, _, err := d.Size()
	free, reserve, known := d.disk.left()
	if err != nil || !known || size <= free-reserve {
		return err
	}
	return registry.StorageFull(fmt.Sprintf("a backup of the store first needs %d MiB of the server's disk. %d MiB are free there, and "+
		"limits.reserve keeps %d MiB of them. Make room, or stop the server and copy the store to another disk by freshet store compact FILE",
		size>>20, free>>20, reserve>>20))
}

func markCopy(path string) error { return setMeta(path, kCopy, []byte{1}) }

// setMeta sets an entry of the meta bucket of a file.
func setMeta(path string, key, value []byte) error {
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType, Timeout: lockWait})
	if err != nil {
		return err
	}
	err = b.Update(func(tx *bbolt.Tx) error { return tx.Bucket(bMeta).Put(key, value) })
	return errors.Join(err, b.Close())
}

// compactStep is the number of bytes that one transaction of a compaction writes.
const compactStep = 64 << 20

// Compact writes a copy without unused pages to dst, which must not exist. As with a
// backup, a store opened from it gets a new epoch.
func (d *DB) Compact(dst string) error {
	err := d.compact(dst)
	if err != nil {
		return fmt.Errorf("compact %s to %s: %w", d.path, dst, err)
	}
	return nil
}

// compact writes the copy under a temporary name, so that the remains of a crash are
// not taken for a store.
func (d *DB) compact(dst string) error {
	if _, err := os.Lstat(dst); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fs.ErrExist, err)
	}
	part, err := compacted(d.bolt, filepath.Dir(dst), filepath.Base(dst)+".part-*")
	if err != nil {
		return err
	}
	defer os.Remove(part) // fails after a successful rename
	if err := markCopy(part); err != nil {
		return err
	}
	if err := os.Rename(part, dst); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dst))
}

// compacted writes a copy without unused pages to a temporary file. It leaves none behind if it fails, as at a damaged page.
func compacted(from *bbolt.DB, dir, pattern string) (part string, err error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return "", err
	}
	complete := false
	defer func() {
		if !complete {
			os.Remove(f.Name())
		}
	}()
	if err := f.Close(); err != nil {
		return "", err
	}
	b, err := bbolt.Open(f.Name(), 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType, Timeout: lockWait})
	if err != nil {
		return "", err
	}
	if err := errors.Join(bbolt.Compact(b, from, compactStep), b.Close()); err != nil {
		return "", err
	}
	complete = true
	return f.Name(), nil
}

// HeadSize is the number of bytes that HasHead needs.
const HeadSize = 20

// HasHead reports whether a file that begins with these bytes is a store. They are in the byte order of the machine
// that wrote it.
func HasHead(b []byte) bool {
	const magic = 0xED0CDAED // of bbolt, in the first page after its header of 16 bytes
	return len(b) >= HeadSize && (binary.LittleEndian.Uint32(b[16:]) == magic || binary.BigEndian.Uint32(b[16:]) == magic)
}

// InUse reports whether the file at path is a store that a process has open.
func InUse(path string) bool {
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Millisecond})
	if err == nil {
		err = b.Close()
	}
	return errors.Is(err, bolterrors.ErrTimeout)
}

// Follows reports whether the store in a file follows a journal, so that only a running node of its
// cluster can edit it.
func Follows(path string) (follows bool, err error) {
	b, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockWait})
	if err != nil {
		return false, withRemedy(path, err)
	}
	defer b.Close()
	err = guarded(func() error {
		return b.View(func(tx *bbolt.Tx) error {
			m := tx.Bucket(bMeta)
			follows = m != nil && m.Get(replica.Applied) != nil
			return nil
		})
	})
	return follows, err
}

// sweepTemporary removes files left by a crash during a backup, or where the store really is while it was shrunk.
func sweepTemporary(d *boltFile) {
	left, _ := filepath.Glob(d.path + copySuffix)
	if real, err := filepath.EvalSymlinks(d.path); err == nil {
		more, _ := filepath.Glob(real + copySuffix)
		left = append(left, more...)
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // most are listed twice
			d.log.Warn("an unfinished backup could not be removed", "file", path, "error", err)
		}
	}
}

// A generationFile is a random token that every Open renews, in the store and in a small
// companion file. After a restore or copy the two differ, and numbering starts with a
// new epoch. Without this, a follower at change 57 of a store that went back to change
// 50 would mistake the next seven changes for others.
//
// The order of writes makes this safe against a crash: the companion file names both
// the old and the new token before the store has the new one, and only the new one
// afterwards. It also records the inode, so a directory restored by copying is
// detected as well; it names two after one file has taken the place of another, until the
// next Open. A restored snapshot of a whole file system is not detected.
type generationFile struct {
	path string // of the companion file
}

const generationSuffix = ".generation"

// A generation is the content of the companion file.
type generation struct {
	Note   string   `json:"note"`
	Inode  string   `json:"inode"`
	Tokens []string `json:"tokens"`
}

// trusts reports whether the store's token and inode are those last in use; if not,
// reason says why.
func (g generationFile) trusts(token, inode string) (ok bool, reason string, err error) {
	text, err := os.ReadFile(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, "the file " + g.path + " is missing", nil
	}
	if err != nil {
		return false, "", err
	}
	var known generation
	if err := json.Unmarshal(text, &known); err != nil || !slices.Contains(known.Tokens, token) {
		return false, "another copy of the store was in use since", nil
	}
	inodes := strings.Fields(known.Inode)
	for i, named := range inodes { // of two files each has a token of its own: a copy may get the inode of the one that is gone
		if named == inode && (len(inodes) == 1 || i < len(known.Tokens) && known.Tokens[i] == token) {
			return true, "", nil
		}
	}
	return false, "the file has been copied", nil
}

// write replaces the companion file durably.
func (g generationFile) write(inode string, tokens ...string) error {
	text, err := json.Marshal(generation{"Freshet: says which copy of the store was in use last. Do not copy or edit.", inode, tokens})
	if err != nil {
		return err
	}
	temp := g.path + ".new"
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", temp, err)
	}
	if err := os.Rename(temp, g.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(g.path))
}

// syncDir makes the names in a directory durable. Windows has no such call.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
