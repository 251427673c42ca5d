package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

// Page headers and elements of bbolt's format, version 2.
const (
	pageHead    = 16
	pageElement = 16
	bucketHead  = 16
	branchPage  = 0x01
	leafPage    = 0x02
	listPage    = 0x10
	deepest     = 64
	manyFree    = 0xFFFF // the number of free pages is stored in the first element
)

// A walker visits the pages of a file from the root, each once, so that a cycle of
// references is detected.
type walker struct {
	f      io.ReaderAt
	meta   *metaPage
	leaves bool // read all leaves, too; otherwise only what is needed to find the buckets
	seen   map[int64]bool
}

// walk reports the first invalid page reference of the file.
func walk(path string, leaves bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := newestMeta(f)
	if err != nil || m == nil {
		return err // bbolt reports it
	}
	w := walker{f: f, meta: m, leaves: leaves, seen: map[int64]bool{}}
	if m.freelist >= 0 {
		if err := w.freePages(m.freelist); err != nil {
			return err
		}
	}
	return w.tree(m.root, 0, true)
}

// freePages checks the list of free pages, which bbolt uses for writes without
// validation.
func (w *walker) freePages(id int64) error {
	h, err := w.head(id)
	if err != nil {
		return err
	}
	if h.flags != listPage {
		return w.damaged(id, "is not the list of free pages")
	}
	at, count := int64(pageHead), int64(h.count)
	if count == manyFree {
		b, err := w.read(id, at, 8)
		if err != nil {
			return err
		}
		at, count = at+8, int64(binary.NativeEndian.Uint64(b))
	}
	if count < 0 || count > ((h.overflow+1)*w.meta.pageSize-at)/8 {
		return w.damaged(id, "has no room for what it lists")
	}
	b, err := w.read(id, at, int(8*count))
	if err != nil {
		return err
	}
	last := int64(1)
	for ; len(b) > 0; b = b[8:] {
		free := int64(binary.NativeEndian.Uint64(b))
		if free <= last || free >= w.meta.pages {
			return w.damaged(id, "lists free pages that there cannot be")
		}
		last = free
	}
	return nil
}

func (w *walker) damaged(page int64, what string) error {
	return fmt.Errorf("%w: page %d %s: %s", ErrDamaged, page, what, putBackup)
}

type pageHeader struct {
	flags    uint16
	count    int
	overflow int64
}

// enter records that a page is referenced.
func (w *walker) enter(id int64) error {
	switch {
	case id < 2 || id >= w.meta.pages:
		return w.damaged(id, "is not in the file")
	case w.seen[id]:
		return w.damaged(id, "is used twice")
	}
	w.seen[id] = true
	return nil
}

func (w *walker) head(id int64) (h pageHeader, err error) {
	if err := w.enter(id); err != nil {
		return h, err
	}
	return w.peek(id)
}

func (w *walker) peek(id int64) (h pageHeader, err error) {
	b, err := w.read(id, 0, pageHead)
	if err != nil {
		return h, err
	}
	h = pageHeader{binary.NativeEndian.Uint16(b[8:]), int(binary.NativeEndian.Uint16(b[10:])), int64(binary.NativeEndian.Uint32(b[12:]))}
	if binary.NativeEndian.Uint64(b) != uint64(id) || id+h.overflow >= w.meta.pages {
		return h, w.damaged(id, "is not what its head says")
	}
	return h, nil
}

func (w *walker) read(page, at int64, n int) ([]byte, error) {
	b := make([]byte, n)
	_, err := w.f.ReadAt(b, page*w.meta.pageSize+at)
	if errors.Is(err, io.EOF) {
		return nil, w.damaged(page, "is cut off")
	}
	return b, err
}

// tree visits a tree of pages; top means that its leaves hold the buckets.
func (w *walker) tree(id int64, depth int, top bool) error {
	h, err := w.head(id)
	if err != nil {
		return err
	}
	extent := (h.overflow + 1) * w.meta.pageSize
	if depth > deepest || int64(pageHead+h.count*pageElement) > extent {
		return w.damaged(id, "has no room for what it lists")
	}
	b, err := w.read(id, pageHead, h.count*pageElement)
	if err != nil {
		return err
	}
	switch h.flags {
	case branchPage:
		return w.branch(id, b, extent, depth, top)
	case leafPage:
		return w.leaf(id, b, extent, depth, top)
	}
	return w.damaged(id, "is neither branch nor leaf")
}

func (w *walker) branch(id int64, b []byte, extent int64, depth int, top bool) error {
	if len(b) == 0 {
		return w.damaged(id, "is an empty branch")
	}
	skip := false
	for i := 0; i < len(b); i += pageElement {
		e := b[i:]
		pos, key := int64(binary.NativeEndian.Uint32(e)), int64(binary.NativeEndian.Uint32(e[4:]))
		child := int64(binary.NativeEndian.Uint64(e[8:]))
		if pageHead+int64(i)+pos+key > extent {
			return w.damaged(id, "has a key that is not in it")
		}
		if i == 0 && !w.leaves && !top && child >= 2 && child < w.meta.pages {
			h, err := w.peek(child)
			if err != nil {
				return err
			}
			skip = h.flags == leafPage // its siblings are leaves as well
		}
		err := error(nil)
		if skip {
			err = w.enter(child)
		} else {
			err = w.tree(child, depth+1, top)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) leaf(id int64, b []byte, extent int64, depth int, top bool) error {
	for i := 0; i < len(b); i += pageElement {
		e := b[i:]
		pos, key, value := int64(binary.NativeEndian.Uint32(e[4:])), int64(binary.NativeEndian.Uint32(e[8:])), int64(binary.NativeEndian.Uint32(e[12:]))
		at := pageHead + int64(i) + pos
		bucket := binary.NativeEndian.Uint32(e)&1 != 0
		if at+key+value > extent || bucket && (value < bucketHead || !top) {
			return w.damaged(id, "has an entry that is not in it")
		}
		if !bucket {
			continue
		}
		v, err := w.read(id, at+key, int(value))
		if err != nil {
			return err
		}
		if root := int64(binary.NativeEndian.Uint64(v)); root != 0 {
			err = w.tree(root, depth+1, false)
		} else {
			err = w.inline(id, v[bucketHead:])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inline checks the page of a small bucket, which is a value in a leaf. bbolt uses it without
// validation: a page that is not a leaf would be its own child.
func (w *walker) inline(id int64, page []byte) error {
	if len(page) < pageHead || binary.NativeEndian.Uint64(page) != 0 || binary.NativeEndian.Uint16(page[8:]) != leafPage {
		return w.damaged(id, "has a small bucket that is not a leaf")
	}
	n := int(binary.NativeEndian.Uint16(page[10:]))
	if pageHead+n*pageElement > len(page) {
		return w.damaged(id, "has a small bucket without room for what it lists")
	}
	return w.leaf(id, page[pageHead:pageHead+n*pageElement], int64(len(page)), 0, false)
}
