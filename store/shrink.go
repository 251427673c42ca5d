package store

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// This file puts a copy of the database file without unused pages in its place.

// Shrink replaces the store in dir, which no process has open, by a copy without unused pages. The copy goes on as the store:
// numbering does not begin again. A process that is killed meanwhile leaves the one or the other.
func Shrink(dir string) error {
	path := filepath.Join(dir, File)
	err := guarded(func() error { return errors.Join(plausible(path), whole(path)) })
	if err == nil {
		err = guarded(func() error { return shrink(path) })
	}
	if err != nil {
		return withRemedy(path, err)
	}
	return nil
}

func shrink(path string) error {
	b, err := openCurrent(path, bbolt.Options{FreelistType: bbolt.FreelistMapType, Timeout: lockWait})
	if err != nil {
		return err
	}
	defer b.Close() // until then no other process has the file
	token := ""
	if err := b.View(func(tx *bbolt.Tx) error {
		v, err := schemaVersion(tx)
		if err == nil && v == 0 {
			err = ErrNotStore
		}
		if err == nil {
			token = string(tx.Bucket(bMeta).Get(kGeneration))
		}
		return err
	}); err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	part, err := compacted(b, filepath.Dir(real), filepath.Base(real)+copySuffix)
	if err != nil {
		return err
	}
	defer os.Remove(part) // fails after a successful rename
	return supplant(real, part, generationFile{path + generationSuffix}, token, func() error {
		if runtime.GOOS == "windows" { // it replaces no open file, so the rename fails if a process opens the store first
			if err := b.Close(); err != nil {
				return err
			}
		}
		return os.Rename(part, real)
	})
}

// supplant puts part in the place of a store by replace. The file beside the store names both from then on, until the store is
// opened. It must not be written after replace, because a server may have opened part. If the store was not the one that was last
// in use, part is a copy like it.
func supplant(path, part string, g generationFile, token string, replace func() error) error {
	inode, err := inodeOf(path)
	if err != nil {
		return err
	}
	into, err := inodeOf(part)
	if err != nil {
		return err
	}
	trusted, _, err := g.trusts(token, inode)
	if err != nil {
		return err
	}
	next := rand.Text()
	if trusted {
		err = errors.Join(setMeta(part, kGeneration, []byte(next)), g.write(inode+" "+into, token, next))
	} else {
		err = markCopy(part)
	}
	if err != nil {
		return err
	}
	if err := replace(); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// openCurrent opens the file at a path. It refuses one that another process has replaced while this one waited for its end.
func openCurrent(path string, o bbolt.Options) (*bbolt.DB, error) {
	var f *os.File
	open := o.OpenFile
	if open == nil {
		open = os.OpenFile
	}
	o.OpenFile = func(name string, flag int, mode os.FileMode) (_ *os.File, err error) {
		f, err = open(name, flag, mode)
		return f, err
	}
	b, err := bbolt.Open(path, 0o600, &o)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil {
		var now fs.FileInfo
		if now, err = os.Stat(path); err == nil && !os.SameFile(opened, now) {
			err = bolterrors.ErrTimeout
		}
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}
