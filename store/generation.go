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

// A generation is a random token that every Open renews, in the file and in a
// small file beside it. When a restored or copied file is opened the two do not
// agree, and numbering starts again: had the store gone back from change 57 to
// 50, a follower at 57 would otherwise take the next seven changes for others.
//
// The order of writing makes this safe against a crash: the file beside names
// both the old and the new token before the store has the new one, and only the
// new one afterwards. It also names the inode, so a directory restored as a
// whole by copying is noticed too. A restored snapshot of a whole file system
// cannot be.
type generation struct {
	path string // of the file beside
}

const generationSuffix = ".generation"

// trusts says whether the store's token and inode are those that were in use
// last; reason says why not.
func (g generation) trusts(token, inode string) (ok bool, reason string, err error) {
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

// write replaces the file beside, durably.
func (g generation) write(inode string, tokens ...string) error {
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
