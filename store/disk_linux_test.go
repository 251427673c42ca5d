package store

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// smallDisk mounts a separate file system, which requires root.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("A FULL DISK IS NOT TESTED: mounting a small file system needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillDisk uses up all free space. The returned function frees it.
func fillDisk(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1 << 16, 1 << 12, 1 << 8} {
		for err = nil; err == nil; {
			_, err = f.Write(bytes.Repeat([]byte{1}, n))
		}
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	f.Close()
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

// recordRandom gives q_a a result that cannot be compressed.
func recordRandom(d *DB, slot uint64, size int) error {
	stats, err := d.Catalog.Stats("q_a")
	if err != nil {
		return err
	}
	old, err := d.Ledger.Result("q_a")
	if err != nil {
		return err
	}
	noise := make([]byte, size/2)
	rand.Read(noise)
	result, err := rows(hex.EncodeToString(noise))
	if err != nil {
		return err
	}
	_, err = d.Ledger.Record("city", scheduler.Batch{Outcomes: []scheduler.Outcome{outcome(stats, old, "q_a", slot, result)},
		Slot: &scheduler.Slot{Endpoint: "city", Number: slot}})
	return err
}

// exhaust records until the disk is full and returns the number of acknowledged slots.
func exhaust(t *testing.T, d *DB) (slots uint64) {
	t.Helper()
	for slot := uint64(1); slot < 1000; slot++ {
		err := recordRandom(d, slot, 200_000)
		if errors.Is(err, registry.ErrReadOnly) {
			var p *registry.Problem
			if !errors.As(err, &p) || p.Kind != registry.KindStorageFull {
				t.Errorf("the refusal is %v", err)
			}
			return slot - 1
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the disk never became full")
	return 0
}

func waitWritable(t *testing.T, d *DB) {
	t.Helper()
	for end := time.Now().Add(time.Minute); d.Writable() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("with room again: %v", d.Writable())
		}
	}
}

// A full disk undoes only what did not fit. Reads continue, deletions are tried, and writes
// Resume by themselves once there is room.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "8m")
	retries(t, time.Millisecond)
	d := open(t, dir, Options{})
	if err := registerChild(d); err != nil {
		t.Fatal(err)
	}
	if err := recordRandom(d, 1, 1000); err != nil {
		t.Fatal(err)
	}
	epoch := d.Epoch()
	for round := range 3 {
		free := fillDisk(t, dir)
		before, _ := d.Catalog.Stats("q_a")
		for slot := before.Last; d.Writable() == nil; {
			err := recordRandom(d, slot+1, 100_000)
			if err == nil {
				slot++
			} else if !errors.Is(err, registry.ErrReadOnly) {
				t.Fatal(err)
			}
		}
		stats, err := d.Catalog.Stats("q_a")
		if err != nil {
			t.Fatal(err)
		}
		if r, err := d.Ledger.Result("q_a"); err != nil || r.Hash() != stats.Hash {
			t.Errorf("round %d: the result does not belong to the statistics: %v", round, err)
		}
		if s := d.Storage(); !s.ReadOnly || s.Reason == "" {
			t.Errorf("the state is %+v", s)
		}
		for name, write := range map[string]func() error{
			"a slot":     func() error { return recordRandom(d, stats.Last+1, 10) },
			"a token":    func() error { return d.Tokens.PutToken(registry.Token{Name: "new"}) },
			"a register": func() error { _, err := putNew(d, "q_new"); return err },
		} {
			if err := write(); !errors.Is(err, registry.ErrReadOnly) {
				t.Errorf("%s on a full disk: %v", name, err)
			}
		}
		time.Sleep(20 * time.Millisecond) // time for some attempts that must fail
		if d.Writable() == nil {
			t.Error("it writes without room")
		}
		free()
		waitWritable(t, d)
		now, err := d.Catalog.Stats("q_a")
		if err != nil || now.Position != stats.Position {
			t.Errorf("round %d: at %v, before %v (%v)", round, now.Position, stats.Position, err)
		}
		if err := recordRandom(d, stats.Last+1, 50_000); err != nil {
			t.Fatal(err)
		}
		after, _ := d.Catalog.Stats("q_a")
		if after.Position.Seq != stats.Position.Seq+1 || d.Epoch() != epoch {
			t.Errorf("round %d: from %v to %v", round, stats.Position, after.Position)
		}
		check(t, d)
	}
}

func putNew(d *DB, id string) (registry.Query, error) {
	return d.Queries.EditQuery(id, func(q *registry.Query, _ bool) error {
		q.Endpoint, q.Form, q.Holders = "city", "SELECT", []registry.Holder{{Caller: "app", Since: start}}
		return nil
	})
}

// Removals are tried on a full disk, because they free space in the file.
func TestFullDiskTakesRemovals(t *testing.T) {
	dir := smallDisk(t, "8m")
	retries(t, time.Millisecond)
	d := open(t, dir, Options{})
	if err := registerChild(d); err != nil {
		t.Fatal(err)
	}
	exhaust(t, d)
	fillDisk(t, dir)
	if _, err := d.Queries.EditQuery("q_a", func(q *registry.Query, _ bool) error { q.Holders = nil; return nil }); err != nil {
		t.Fatalf("a removal on a full disk: %v", err)
	}
	waitWritable(t, d) // because of the pages that the purge freed
	if _, err := putNew(d, "q_new"); err != nil && !errors.As(err, new(*registry.Problem)) {
		t.Error(err)
	}
	check(t, d)
}

// A process that is killed while its disk is full leaves a store that opens and can be read
// under the same epoch. It can be written once there is room.
func TestKilledOnFullDisk(t *testing.T) {
	dir := smallDisk(t, "8m")
	ballast := filepath.Join(dir, "first")
	if err := os.WriteFile(ballast, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	c := child(t, "disk", dir)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var acknowledged uint64
	for {
		var line string
		if _, err := fmt.Fscanln(out, &line); err != nil {
			t.Fatal(err)
		}
		if line == "full" {
			break
		}
		fmt.Sscan(line, &acknowledged)
	}
	c.Process.Kill()
	c.Wait()
	free := fillDisk(t, dir)

	retries(t, time.Millisecond)
	d := open(t, dir, Options{})
	epoch := d.Epoch()
	if !d.Storage().ReadOnly || d.entered.Load() {
		t.Errorf("opened on a full disk: %+v", d.Storage())
	}
	stats, err := d.Catalog.Stats("q_a")
	if err != nil || stats.Last != acknowledged {
		t.Errorf("slot %d was acknowledged, %d is there (%v)", acknowledged, stats.Last, err)
	}
	if err := recordRandom(d, acknowledged+1, 10); !errors.Is(err, registry.ErrReadOnly) {
		t.Errorf("a write on a full disk: %v", err)
	}
	if _, err := d.Queries.EditQuery("q_b", func(q *registry.Query, _ bool) error { q.Holders = nil; return nil }); !errors.Is(err,
		registry.ErrReadOnly) {
		t.Errorf("a removal before the generation is renewed: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, dir, Options{}) // again, as a supervisor would
	free()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	waitWritable(t, d)
	if err := recordRandom(d, acknowledged+1, 100); err != nil {
		t.Error(err)
	}
	check(t, d)
	d = reopen(t, d, dir, Options{})
	if d.Epoch() != epoch {
		t.Error("the numbering began again")
	}
}

// fillUp is the task of the child: it writes until its disk is full, and keeps running.
func fillUp(d *DB) error {
	if err := registerChild(d); err != nil {
		return err
	}
	for slot := uint64(1); ; slot++ {
		err := recordRandom(d, slot, 200_000)
		if errors.Is(err, registry.ErrReadOnly) {
			fmt.Println("full")
			select {}
		}
		if err != nil {
			return err
		}
		fmt.Println(slot)
	}
}

func init() { childTasks["disk"] = fillUp }

// Below the reserve, new registrations are refused and existing queries continue.
func TestReserve(t *testing.T) {
	d := open(t, t.TempDir(), Options{Reserve: 100})
	if err := registerChild(d); err != nil {
		t.Fatal(err)
	}
	endpoint := func(name, url string) error {
		_, err := d.Endpoints.EditEndpoint(name, func(c *registry.Configured, _ bool) error {
			c.Endpoint.URL = url
			return nil
		})
		return err
	}
	if err := endpoint("town", "http://127.0.0.1/sparql"); err != nil {
		t.Fatal(err)
	}
	d.disk.free = func(string) (int64, int64, error) { return 99, 1 << 20, nil }
	if _, err := putNew(d, "q_new"); !storageFull(err) {
		t.Errorf("a registration: %v", err)
	}
	if _, err := d.Profiles.EditProfile("p_new", registry.Bounds{}, func(p *registry.Profile, _ bool) error {
		p.Endpoint, p.Items = "city", []registry.Item{{Query: "q_a"}}
		return nil
	}); !storageFull(err) {
		t.Errorf("a profile: %v", err)
	}
	if err := endpoint("new", "http://127.0.0.1/sparql"); !storageFull(err) {
		t.Errorf("an endpoint: %v", err)
	}
	for _, url := range []string{"http://127.0.0.1/other", ""} { // of one that is there
		if err := endpoint("town", url); err != nil {
			t.Errorf("an edit of an endpoint: %v", err)
		}
	}
	if err := recordSlot(d, 1); err != nil {
		t.Errorf("a slot: %v", err)
	}
	if s := d.Storage(); s.ReadOnly || !s.Short || s.Reason == "" {
		t.Errorf("the state is %+v", s)
	}
	d.disk.free = func(string) (int64, int64, error) { return 99, 900, nil } // a tenth is less than the reserve
	if _, err := putNew(d, "q_new"); err != nil {
		t.Errorf("on a tiny disk: %v", err)
	}
}

// A backup is refused if its copy would take the reserve.
func TestBackupThatDoesNotFit(t *testing.T) {
	const reserve = 1 << 20
	d := open(t, t.TempDir(), Options{Reserve: reserve})
	if err := registerChild(d); err != nil {
		t.Fatal(err)
	}
	size, _, err := d.Size()
	if err != nil {
		t.Fatal(err)
	}
	free := size + reserve - 1
	d.disk.free = func(string) (int64, int64, error) { return free, 1 << 40, nil }
	var b bytes.Buffer
	if n, err := d.Backup(&b); n != 0 || b.Len() > 0 || !storageFull(err) {
		t.Errorf("a backup without room: %d bytes, %v", n, err)
	}
	free++
	if n, err := d.Backup(&b); n < size || err != nil {
		t.Errorf("a backup that fits: %d bytes, %v", n, err)
	}
	d.disk.free = func(string) (int64, int64, error) { return 0, 0, errors.ErrUnsupported }
	if _, err := d.Backup(&b); err != nil {
		t.Errorf("a backup where the room is unknown: %v", err)
	}
}

func storageFull(err error) bool {
	var p *registry.Problem
	return errors.As(err, &p) && p.Kind == registry.KindStorageFull
}
