package main

// This file is the disk of a simulated machine: a file system in memory that knows which
// bytes would survive a loss of power.

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero/experimental/sys"
	wasys "github.com/tetratelabs/wazero/sys"
)

// noSpace takes the place of ENOSPC, which wazero does not have. See needed.
const noSpace = sys.ELOOP

// sector is the number of bytes that a disk writes as a whole.
const sector = 512

// A Disk is a file system in memory. Names and their changes are durable at once, as in
// ordered mode of ext4; the content of a file is durable up to its last sync.
type Disk struct {
	sys.UnimplementedFS
	nodes map[string]*inode // by path without a leading slash; "" is the root
	next  uint64

	// before is called before each call that changes content. It may return an error for the
	// call, and how many bytes are written all the same, or end the machine.
	before func(op Op) (int, sys.Errno)
}

// An Op is a call that changes the disk.
type Op struct {
	Kind  string // write, sync, truncate, name
	Path  string
	Size  int
	Grows bool // it needs room
}

// An inode is a file or a directory.
type inode struct {
	id      uint64
	dir     bool
	mode    fs.FileMode
	data    []byte
	durable []byte
	pending []write // since the last sync
}

// A write changes bytes of a file, or its length if data is nil.
type write struct {
	off  int64
	data []byte
	size int64
}

// NewDisk returns an empty disk.
func NewDisk() *Disk {
	d := &Disk{nodes: map[string]*inode{}}
	d.nodes[""] = d.make(true, 0o755)
	return d
}

func (d *Disk) make(dir bool, mode fs.FileMode) *inode {
	d.next++
	return &inode{id: d.next, dir: dir, mode: mode}
}

// clone returns a disk with the same content.
func (d *Disk) clone() *Disk {
	c := &Disk{nodes: map[string]*inode{}, next: d.next}
	for name, n := range d.nodes {
		same := *n
		same.data, same.durable, same.pending = slices.Clone(n.data), slices.Clone(n.durable), slices.Clone(n.pending)
		c.nodes[name] = &same
	}
	return c
}

// hash adds the names and contents of all files to a hash.
func (d *Disk) hash(to io.Writer) {
	for _, name := range slices.Sorted(maps.Keys(d.nodes)) {
		fmt.Fprintf(to, "%q %d ", name, len(d.nodes[name].data))
		_, _ = to.Write(d.nodes[name].data)
	}
}

// Crash takes the power away: each write since the last sync of its file is kept, lost, or
// kept in part, sector by sector.
func (d *Disk) Crash(rng *rand.Rand) {
	for _, name := range slices.Sorted(maps.Keys(d.nodes)) {
		n := d.nodes[name]
		keep := rng.Float64() // how much of this file is kept
		for _, w := range n.pending {
			if w.data == nil {
				if rng.Float64() < keep {
					n.durable = resized(n.durable, w.size)
				}
				continue
			}
			for from := 0; from < len(w.data); {
				until := min(len(w.data), from+sector-int((w.off+int64(from))%sector))
				if rng.Float64() < keep {
					n.durable = written(n.durable, w.data[from:until], w.off+int64(from))
				}
				from = until
			}
		}
		n.pending = nil
		n.data = slices.Clone(n.durable)
	}
}

// Stop ends the machine in an orderly way: everything is kept.
func (d *Disk) Stop() {
	for _, n := range d.nodes {
		n.sync()
	}
}

func (n *inode) sync() {
	for _, w := range n.pending {
		if w.data == nil {
			n.durable = resized(n.durable, w.size)
		} else {
			n.durable = written(n.durable, w.data, w.off)
		}
	}
	n.pending = nil
}

// written returns b with data at off.
func written(b, data []byte, off int64) []byte {
	if need := off + int64(len(data)); need > int64(len(b)) {
		b = resized(b, need)
	}
	copy(b[off:], data)
	return b
}

func resized(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

func (d *Disk) OpenFile(name string, flag sys.Oflag, perm fs.FileMode) (sys.File, sys.Errno) {
	name = clean(name)
	n := d.nodes[name]
	switch {
	case n == nil && flag&sys.O_CREAT == 0:
		return nil, sys.ENOENT
	case n == nil:
		if p := d.nodes[clean(path.Dir("/"+name))]; p == nil {
			return nil, sys.ENOENT
		}
		if _, errno := d.before(Op{Kind: "name", Path: name, Grows: true}); errno != 0 {
			return nil, errno
		}
		n = d.make(false, perm&0o777)
		d.nodes[name] = n
	case flag&sys.O_EXCL != 0 && flag&sys.O_CREAT != 0:
		return nil, sys.EEXIST
	case n.dir && flag&(sys.O_RDWR|sys.O_WRONLY) != 0:
		return nil, sys.EISDIR
	case !n.dir && flag&sys.O_DIRECTORY != 0:
		return nil, sys.ENOTDIR
	}
	f := &file{disk: d, node: n, name: name, append: flag&sys.O_APPEND != 0}
	if flag&sys.O_TRUNC != 0 && len(n.data) > 0 {
		if errno := f.Truncate(0); errno != 0 {
			return nil, errno
		}
	}
	return f, 0
}

func (n *inode) stat() wasys.Stat_t {
	mode := n.mode
	if n.dir {
		mode |= fs.ModeDir
	}
	return wasys.Stat_t{Dev: 1, Ino: n.id, Mode: mode, Nlink: 1, Size: int64(len(n.data))}
}

func (d *Disk) Stat(name string) (wasys.Stat_t, sys.Errno) {
	n := d.nodes[clean(name)]
	if n == nil {
		return wasys.Stat_t{}, sys.ENOENT
	}
	return n.stat(), 0
}

func (d *Disk) Lstat(name string) (wasys.Stat_t, sys.Errno) { return d.Stat(name) }

func (d *Disk) Mkdir(name string, perm fs.FileMode) sys.Errno {
	name = clean(name)
	if d.nodes[name] != nil {
		return sys.EEXIST
	}
	if d.nodes[clean(path.Dir("/"+name))] == nil {
		return sys.ENOENT
	}
	if _, errno := d.before(Op{Kind: "name", Path: name}); errno != 0 {
		return errno
	}
	d.nodes[name] = d.make(true, perm&0o777)
	return 0
}

func (d *Disk) Chmod(name string, perm fs.FileMode) sys.Errno {
	n := d.nodes[clean(name)]
	if n == nil {
		return sys.ENOENT
	}
	n.mode = perm & 0o777
	return 0
}

func (d *Disk) Utimens(string, int64, int64) sys.Errno { return 0 }

func (d *Disk) Rename(from, to string) sys.Errno {
	from, to = clean(from), clean(to)
	n := d.nodes[from]
	if n == nil {
		return sys.ENOENT
	}
	if _, errno := d.before(Op{Kind: "name", Path: to}); errno != 0 {
		return errno
	}
	if n.dir {
		for _, name := range d.below(from) {
			d.nodes[to+strings.TrimPrefix(name, from)] = d.nodes[name]
			delete(d.nodes, name)
		}
	}
	d.nodes[to] = n
	delete(d.nodes, from)
	return 0
}

// below lists the paths in a directory, at any depth.
func (d *Disk) below(dir string) (names []string) {
	for name := range d.nodes {
		if name != "" && (dir == "" || strings.HasPrefix(name, dir+"/")) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (d *Disk) Rmdir(name string) sys.Errno {
	if name = clean(name); len(d.below(name)) > 0 {
		return sys.ENOTEMPTY
	}
	return d.remove(name)
}

func (d *Disk) Unlink(name string) sys.Errno {
	name = clean(name)
	if n := d.nodes[name]; n != nil && n.dir {
		return sys.EISDIR
	}
	return d.remove(name)
}

func (d *Disk) remove(name string) sys.Errno {
	if d.nodes[name] == nil {
		return sys.ENOENT
	}
	if _, errno := d.before(Op{Kind: "name", Path: name}); errno != 0 {
		return errno
	}
	delete(d.nodes, name)
	return 0
}

// A file is an open file or directory.
type file struct {
	sys.UnimplementedFile
	disk   *Disk
	node   *inode
	name   string
	at     int64
	append bool
	listed bool
}

func (f *file) IsDir() (bool, sys.Errno) { return f.node.dir, 0 }

func (f *file) Ino() (wasys.Inode, sys.Errno) { return f.node.id, 0 }

func (f *file) IsAppend() bool { return f.append }

func (f *file) SetAppend(on bool) sys.Errno { f.append = on; return 0 }

func (f *file) Stat() (wasys.Stat_t, sys.Errno) { return f.node.stat(), 0 }

func (f *file) Read(buf []byte) (int, sys.Errno) {
	n, errno := f.Pread(buf, f.at)
	f.at += int64(n)
	return n, errno
}

func (f *file) Pread(buf []byte, off int64) (int, sys.Errno) {
	if f.node.dir {
		return 0, sys.EISDIR
	}
	if off >= int64(len(f.node.data)) {
		return 0, 0
	}
	return copy(buf, f.node.data[off:]), 0
}

// place is a position in a file. With int64, go vet takes Seek for io.Seeker's.
type place = int64

func (f *file) Seek(offset place, whence int) (int64, sys.Errno) {
	switch whence {
	case 1:
		offset += f.at
	case 2:
		offset += int64(len(f.node.data))
	}
	if offset < 0 {
		return 0, sys.EINVAL
	}
	if f.node.dir {
		f.listed = offset != 0
	}
	f.at = offset
	return offset, 0
}

func (f *file) Readdir(int) (list []sys.Dirent, errno sys.Errno) {
	if !f.node.dir {
		return nil, sys.ENOTDIR
	}
	if f.listed {
		return nil, 0
	}
	f.listed = true
	for _, name := range f.disk.below(f.name) {
		if clean(path.Dir("/"+name)) != f.name {
			continue
		}
		n := f.disk.nodes[name]
		list = append(list, sys.Dirent{Ino: n.id, Name: path.Base(name), Type: n.stat().Mode.Type()})
	}
	return list, 0
}

func (f *file) Write(buf []byte) (int, sys.Errno) {
	if f.append {
		f.at = int64(len(f.node.data))
	}
	n, errno := f.Pwrite(buf, f.at)
	f.at += int64(n)
	return n, errno
}

func (f *file) Pwrite(buf []byte, off int64) (int, sys.Errno) {
	n, errno := f.disk.before(Op{Kind: "write", Path: f.name, Size: len(buf)})
	switch {
	case errno == 0:
		n = len(buf)
	case n == 0:
		return 0, errno
	}
	f.node.data = written(f.node.data, buf[:n], off)
	f.node.pending = append(f.node.pending, write{off: off, data: slices.Clone(buf[:n])})
	return n, 0
}

func (f *file) Truncate(size int64) sys.Errno {
	if _, errno := f.disk.before(Op{Kind: "truncate", Path: f.name, Grows: size > int64(len(f.node.data))}); errno != 0 {
		return errno
	}
	f.node.data = resized(f.node.data, size)
	f.node.pending = append(f.node.pending, write{size: size})
	return 0
}

// Sync makes what was written durable. If it fails, the system takes it for written all the
// same, as Linux does: it is read until the next crash, and then it is lost.
func (f *file) Sync() sys.Errno {
	if _, errno := f.disk.before(Op{Kind: "sync", Path: f.name}); errno != 0 {
		f.node.pending = nil
		return errno
	}
	f.node.sync()
	return 0
}

func (f *file) Datasync() sys.Errno { return f.Sync() }

func (f *file) Utimens(int64, int64) sys.Errno { return 0 }
