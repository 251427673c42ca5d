package store

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A damaged file is told as such: no panic, no fault, and an end.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{})
	if err := registerChild(d); err != nil {
		t.Fatal(err)
	}
	for slot := uint64(1); slot < 30; slot++ {
		if err := recordSlot(d, slot); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 400 {
		put(t, d, fmt.Sprintf("q_%04d", i), "city")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(filepath.Join(dir, File))
	if err != nil {
		t.Fatal(err)
	}
	m, err := newestMeta(bytes.NewReader(good))
	if err != nil || m == nil {
		t.Fatal(err)
	}
	good = good[:m.pages*m.pageSize] // what follows was never used
	seed := uint64(20261122)
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	told := 0
	for i := range 450 {
		b := append([]byte(nil), good...)
		switch {
		case i%10 == 9: // a page of zeros
			p := 2 + r.IntN(len(b)/4096-2)
			clear(b[p*4096 : (p+1)*4096])
		case i%3 == 0: // in the head of a page and its first elements, where it hurts most
			b[(2+r.IntN(len(b)/4096-2))*4096+r.IntN(64)] ^= byte(1 + r.IntN(255))
		default:
			b[8192+r.IntN(len(b)-8192)] ^= byte(1 + r.IntN(255))
		}
		if err := examine(t, b); errors.Is(err, ErrDamaged) {
			told++
		} else if err != nil {
			t.Errorf("copy %d: %v", i, err)
		}
	}
	if told < 50 {
		t.Errorf("only %d of 450 damaged copies were told", told)
	}
}

func examine(t *testing.T, file []byte) error {
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, File), file, 0o600); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		d, err := Open(dir, Options{})
		if err == nil {
			err = errors.Join(d.Check(), d.Close())
		}
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatal("it does not end")
		return nil
	}
}
