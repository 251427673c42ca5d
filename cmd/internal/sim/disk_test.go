package main

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/tetratelabs/wazero/experimental/sys"
)

// newFile returns an open file of a disk that refuses nothing.
func newFile(t *testing.T, d *Disk) sys.File {
	d.before = func(Op) (int, sys.Errno) { return 0, 0 }
	f, errno := d.OpenFile("x", sys.O_CREAT|sys.O_RDWR, 0o644)
	if errno != 0 {
		t.Fatal(errno)
	}
	return f
}

// A crash keeps what was synced, and each sector of the rest entirely or not at all.
func TestCrash(t *testing.T) {
	kept, lost := 0, 0
	for seed := range uint64(50) {
		d := NewDisk()
		f := newFile(t, d)
		f.Pwrite(bytes.Repeat([]byte{1}, 4*sector), 0)
		f.Sync()
		f.Pwrite(bytes.Repeat([]byte{2}, 3*sector), sector/2)
		d.Crash(rand.New(rand.NewPCG(seed, 1)))
		got := d.nodes["x"].data
		if len(got) != 4*sector {
			t.Fatalf("seed %d: %d bytes", seed, len(got))
		}
		for i := range 4 {
			part := got[i*sector : (i+1)*sector]
			if i == 0 && bytes.Contains(part[:sector/2], []byte{2}) || i == 3 && bytes.Contains(part[sector/2:], []byte{2}) {
				t.Fatalf("seed %d: bytes changed that no call wrote", seed)
			}
			switch i { // the first and the last sector are written in part
			case 0:
				part = part[sector/2:]
			case 3:
				part = part[:sector/2]
			}
			switch bytes.Count(part, []byte{2}) {
			case 0:
				lost++
			case len(part):
				kept++
			default:
				t.Fatalf("seed %d: sector %d is torn", seed, i)
			}
		}
	}
	if kept == 0 || lost == 0 {
		t.Errorf("%d sectors were kept and %d lost", kept, lost)
	}
}

// What was written is read at once, and an orderly end keeps it.
func TestStop(t *testing.T) {
	d := NewDisk()
	f := newFile(t, d)
	f.Write([]byte("hello"))
	f.Truncate(4)
	b := make([]byte, 10)
	if n, errno := f.Pread(b, 1); errno != 0 || string(b[:n]) != "ell" {
		t.Errorf("read %q, %v", b[:n], errno)
	}
	d.Stop()
	d.Crash(rand.New(rand.NewPCG(1, 1)))
	if got := string(d.nodes["x"].data); got != "hell" {
		t.Errorf("after an orderly end the file has %q", got)
	}
}

// Each bug changes a text that the product has.
func TestPlanted(t *testing.T) {
	edits, added := planted()
	t.Chdir("../../..")
	if _, err := overlaid(t.TempDir(), append(needed, edits...), added); err != nil {
		t.Error(err)
	}
	names := map[string]bool{}
	for _, b := range bugs {
		if names[b.name] {
			t.Errorf("two bugs have the name %s", b.name)
		}
		names[b.name] = true
	}
	for name := range needs {
		if !names[name] {
			t.Errorf("there is no bug %s", name)
		}
	}
}
