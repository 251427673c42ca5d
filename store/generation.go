package store

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A generationFile is a random token that every Open renews, in the store and in a small
// companion file. After a restore or copy the two differ, and numbering starts with a
// new epoch. Without this, a follower at change 57 of a store that went back to change
// 50 would mistake the next seven changes for others.
//
// The order of writes makes this safe against a crash: the companion file names both
// the old and the new token before the store has the new one, and only the new one
// afterwards. It also records the inode, so a directory restored by copying is
// detected as well. A restored snapshot of a whole file system is not detected.
type generationFile struct {
	path string // of the companion file
}

const generationSuffix = ".generation"

// trusts reports whether the store's token and inode are those last in use; if not,
// reason says why.
func (g generationFile) trusts(token, inode string) (ok bool, reason string, err error) {
	f, err := os.Open(g.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, "the file " + g.path + " is missing", nil
	}
	if err != nil {
		return false, "", err
	}
	defer f.Close()
	known, lines := false, bufio.NewScanner(f)
	place := ""
	for lines.Scan() {
		kind, value, _ := strings.Cut(lines.Text(), " ")
		known = known || kind == "token" && value == token
		if kind == "inode" {
			place = value
		}
	}
	if err := lines.Err(); err != nil {
		return false, "", err
	}
	if !known {
		return false, "another copy of the store was in use since", nil
	}
	if place != inode {
		return false, "the file has been copied", nil
	}
	return true, "", nil
}

// write replaces the companion file durably.
func (g generationFile) write(inode string, tokens ...string) error {
	text := "# Freshet: says which copy of the store was in use last. Do not copy or edit.\ninode " + inode + "\n"
	for _, t := range tokens {
		text += "token " + t + "\n"
	}
	temp := g.path + ".new"
	if err := writeSynced(temp, text); err != nil {
		return err
	}
	if err := os.Rename(temp, g.path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(g.path))
}

func writeSynced(path, text string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
