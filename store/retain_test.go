package store

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/store/journal/memory"
	"go.etcd.io/bbolt"
)

// first returns the seq of the oldest kept change of a query.
func first(t *testing.T, d *DB, id string) uint64 {
	t.Helper()
	s, err := d.Catalog.Stats(id)
	if err != nil {
		t.Fatal(err)
	}
	for from := uint64(0); ; from++ {
		log, err := d.History.After(id, registry.Position{Epoch: s.Position.Epoch, Seq: from}, 1)
		if err == nil && len(log) > 0 {
			return log[0].Seq
		}
		if err == nil || gap(err) != registry.TooOld {
			t.Fatalf("no change of %s is left: %v", id, err)
		}
	}
}

func TestRetentionByCount(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, Options{Retention: Retention{Changes: 3}})
	put(t, d, "q_a", "city")
	put(t, d, "q_b", "city")
	step(t, d, "city", "q_b", 1, "still")
	for slot := uint64(1); slot <= 10; slot++ {
		step(t, d, "city", "q_a", slot, fmt.Sprint(slot))
	}
	if a, b := first(t, d, "q_a"), first(t, d, "q_b"); a != 8 || b != 1 {
		t.Fatalf("kept from change %d and %d on, want 8 and 1", a, b)
	}
	// A lower bound removes the backlog in steps of bounded size.
	d = reopen(t, d, dir, Options{Retention: Retention{Changes: 1}})
	step(t, d, "city", "q_a", 11, "11")
	if a := first(t, d, "q_a"); a != 11 {
		t.Fatalf("kept from change %d on, want 11", a)
	}
	check(t, d)
}

func TestRetentionByAge(t *testing.T) {
	now := start
	d := open(t, t.TempDir(), Options{Retention: Retention{Age: time.Hour}, Now: func() time.Time { return now }})
	put(t, d, "q_a", "city")
	put(t, d, "q_b", "city")
	step(t, d, "city", "q_b", 1, "still")
	for slot := uint64(1); slot <= 5; slot++ {
		step(t, d, "city", "q_a", slot, fmt.Sprint(slot))
		now = now.Add(20 * time.Minute)
	}
	// The time is 10:40: the next Record drops what was committed before 09:40.
	step(t, d, "city", "q_b", 6, "still")
	if a, b := first(t, d, "q_a"), first(t, d, "q_b"); a != 3 || b != 1 {
		t.Fatalf("kept from change %d and %d on, want 3 and 1", a, b)
	}
	now = now.Add(24 * time.Hour)
	step(t, d, "city", "q_b", 7, "still")
	if a, b := first(t, d, "q_a"), first(t, d, "q_b"); a != 5 || b != 1 {
		t.Fatalf("kept from change %d and %d on: the newest of each must stay, and only it", a, b)
	}
	check(t, d)
}

// A clock that is ahead for a while deletes nothing, however often the process starts in it. Once it has been right for as
// long as it was ahead, what is too old is deleted.
func TestRetentionWithClockAhead(t *testing.T) {
	const ahead = 40 * 24 * time.Hour
	now, passed, dir := start, time.Duration(0), t.TempDir()
	options := Options{Retention: Retention{Age: time.Hour}, Now: func() time.Time { return now }}
	start := func(d *DB) *DB {
		passed = 0
		d.elapsed = func() time.Duration { return passed }
		return d
	}
	wait := func(d time.Duration) { now, passed = now.Add(d), passed+d }
	d := start(open(t, dir, options))
	put(t, d, "q_a", "city")
	slot := uint64(0)
	record := func() {
		slot++
		b := scheduler.Batch{Outcomes: []scheduler.Outcome{next(t, d, "q_a", slot, bag(t, fmt.Sprint(slot)))},
			Slot: &scheduler.Slot{Number: slot, Finished: now}}
		if _, err := d.Ledger.Record("city", b); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		record()
		wait(time.Second)
	}
	for restarts := range 4 {
		now = now.Add(ahead)
		for n := range restarts + 1 {
			if n > 0 {
				d = start(reopen(t, d, dir, options))
			}
			for range 4 {
				record()
				wait(time.Second)
			}
		}
		if n := first(t, d, "q_a"); n != 1 {
			t.Fatalf("%d restarts: kept from change %d on", restarts, n)
		}
		now = now.Add(-ahead)
		record()
		wait(time.Second)
		if n := first(t, d, "q_a"); n != 1 {
			t.Fatalf("%d restarts: kept from change %d on, after the clock was set back", restarts, n)
		}
	}
	now = now.Add(ahead) // the clock was wrong before, and is right now
	record()
	for range 90 {
		wait(12 * time.Hour)
		record()
	}
	if n := first(t, d, "q_a"); n < slot-1 {
		t.Errorf("kept from change %d of %d on", n, slot)
	}
	check(t, d)
}

// A process that begins with a clock that is ahead deletes nothing, even if the process before was killed during a slot,
// and if the first commit is for an endpoint without slots.
func TestRetentionWithClockAheadAfterKill(t *testing.T) {
	for name, first := range map[string]string{"in a slot": "city", "another endpoint first": "port"} {
		t.Run(name, func(t *testing.T) {
			now, dir := start, t.TempDir()
			options := Options{Retention: Retention{Age: time.Hour}, Now: func() time.Time { return now }}
			d := open(t, dir, options)
			put(t, d, "q_a", "city")
			put(t, d, "q_b", "port")
			for slot := uint64(1); slot <= 3; slot++ {
				now = now.Add(time.Minute)
				b := scheduler.Batch{Outcomes: []scheduler.Outcome{next(t, d, "q_a", slot, bag(t, fmt.Sprint(slot)))},
					Slot: &scheduler.Slot{Number: slot, Started: now}}
				if _, err := d.Ledger.Record("city", b); err != nil {
					t.Fatal(err)
				}
			}
			now = now.Add(40 * 24 * time.Hour)
			d = reopen(t, d, dir, options)
			if _, err := d.Ledger.Record(first, scheduler.Batch{Slot: &scheduler.Slot{Number: 4, Started: now}}); err != nil {
				t.Fatal(err)
			}
			if log, err := d.History.All(registry.Offset{}, 10); err != nil || len(log) != 3 {
				t.Errorf("%d changes are left, %v", len(log), err)
			}
		})
	}
}

// A node of a cluster that has long been idle deletes nothing when it takes over with a clock that is ahead.
func TestRetentionOfIdleNode(t *testing.T) {
	const day = 24 * time.Hour
	for name, worked := range map[string]bool{"since its start": false, "since it worked": true} {
		t.Run(name, func(t *testing.T) {
			log, passed, ahead := memory.New("test"), time.Duration(0), time.Duration(0)
			node := func(ahead *time.Duration) *DB {
				d := open(t, t.TempDir(), Options{Journal: openJournal(t, log), Retention: Retention{Age: 30 * day},
					Now: func() time.Time { return start.Add(passed + *ahead) }})
				d.elapsed = func() time.Duration { return passed }
				return d
			}
			busy := node(new(time.Duration))
			put(t, busy, "q_a", "city")
			step(t, busy, "city", "q_a", 1, "1")
			idle, slot := node(&ahead), uint64(1)
			work := func(d *DB) {
				t.Helper()
				slot++
				settle(t, busy, idle)
				step(t, d, "city", "q_a", slot, fmt.Sprint(slot))
			}
			if worked {
				work(idle)
			}
			for ; passed < 25*day; passed += day {
				work(busy)
			}
			ahead = 40 * day
			work(idle)
			if n := first(t, idle, "q_a"); n != 1 {
				t.Errorf("kept from change %d on", n)
			}
			ahead = 0
			for ; passed < 110*day; passed += day {
				work(idle)
			}
			if n := first(t, idle, "q_a"); n < slot-31 {
				t.Errorf("kept from change %d of %d on, when the clock has long been right", n, slot)
			}
		})
	}
}

func TestRetentionByBytes(t *testing.T) {
	const bound = 4000
	d := open(t, t.TempDir(), Options{Retention: Retention{Bytes: bound}})
	put(t, d, "q_a", "city")
	put(t, d, "q_b", "city")
	step(t, d, "city", "q_b", 1, "still")
	for slot := uint64(1); slot <= 50; slot++ {
		step(t, d, "city", "q_a", slot, fmt.Sprint(slot))
		if n := logBytes(t, d); n > bound {
			t.Fatalf("the log has %d bytes after slot %d", n, slot)
		}
	}
	if a, b := first(t, d, "q_a"), first(t, d, "q_b"); a < 10 || a > 45 || b != 1 {
		t.Fatalf("kept from change %d and %d on", a, b)
	}
	// One change above the bound stays, because it is the newest.
	huge := make([]string, 2000)
	for i := range huge {
		huge[i] = fmt.Sprint("row ", i*i*7919)
	}
	step(t, d, "city", "q_a", 51, huge...)
	if a, b := first(t, d, "q_a"), first(t, d, "q_b"); a != 51 || b != 1 || logBytes(t, d) < bound {
		t.Fatalf("kept from change %d and %d on, %d bytes", a, b, logBytes(t, d))
	}
	check(t, d)
}

// A few large changes push out as many bytes of small ones, however many changes that are.
func TestRetentionByBytesOfLargeChanges(t *testing.T) {
	const bound, queries = 400 << 10, 100
	d := open(t, t.TempDir(), Options{Retention: Retention{Bytes: bound}})
	var small []string
	for i := range queries {
		small = append(small, fmt.Sprint("q_", i))
		put(t, d, small[i], "city")
	}
	put(t, d, "q_large", "city")
	slot := uint64(1)
	for ; logBytes(t, d) < bound*9/10; slot++ {
		var b scheduler.Batch
		for _, id := range small {
			b.Outcomes = append(b.Outcomes, next(t, d, id, slot, bag(t, fmt.Sprint(slot))))
		}
		if _, err := d.Ledger.Record("city", b); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 10 {
		values := make([]string, 2500)
		for i := range values {
			values[i] = fmt.Sprintf("%x", sha256.Sum256(fmt.Append(nil, n, i)))
		}
		step(t, d, "city", "q_large", slot, values...)
		slot++
		if size := logBytes(t, d); size > bound {
			t.Errorf("after large change %d the log has %d bytes, and its bound is %d", n, size, bound)
		}
	}
	check(t, d)
}

// Followers of all queries get a gap where a change is missing, whatever bound removed it, and
// nowhere else.
func TestRetentionIsToldToFollowersOfAll(t *testing.T) {
	now := start
	for name, x := range map[string]struct {
		keep Retention
		wait time.Duration
	}{
		"count": {keep: Retention{Changes: 2}},
		"age":   {keep: Retention{Age: time.Hour}, wait: 25 * time.Minute},
		"bytes": {keep: Retention{Bytes: 600}},
	} {
		t.Run(name, func(t *testing.T) {
			d := open(t, t.TempDir(), Options{Retention: x.keep, Now: func() time.Time { return now }})
			put(t, d, "q_a", "city")
			put(t, d, "q_b", "city")
			step(t, d, "city", "q_b", 1, "still") // offset 1 stays: it is the newest of q_b
			for slot := uint64(2); slot <= 10; slot++ {
				now = now.Add(x.wait)
				step(t, d, "city", "q_a", slot, fmt.Sprint(slot))
			}
			oldest := first(t, d, "q_a") + 1 // its offset, because one change of q_b comes before
			if oldest < 4 || oldest > 10 {
				t.Fatalf("kept from offset %d on", oldest)
			}
			for o := range uint64(11) {
				got, err := d.History.All(registry.Offset{Epoch: d.Epoch(), Seq: o}, 100)
				switch {
				case o < oldest-1:
					if gap(err) != registry.TooOld {
						t.Errorf("after offset %d: %d changes, %v; offset %d is gone", o, len(got), err, oldest-1)
					}
				case err != nil || len(got) != int(10-o) || len(got) > 0 && got[0].Offset != o+1:
					t.Errorf("after offset %d: %d changes, %v", o, len(got), err)
				}
			}
		})
	}
}

func logBytes(t *testing.T, d *DB) (n uint64) {
	t.Helper()
	if err := d.bolt.View(func(tx *bbolt.Tx) error {
		n = loadCounters(tx).logBytes
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// The size of a page of the log is bounded after decompression.
func TestAfterIsBounded(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_a", "city")
	var epoch string
	for slot := uint64(1); slot <= 6; slot++ {
		epoch = step(t, d, "city", "q_a", slot, strings.Repeat("x", 900<<10), fmt.Sprint(slot), strings.Repeat(fmt.Sprint(slot), 1<<20))[0].Epoch
	}
	total := 0
	for p := (registry.Position{Epoch: epoch}); ; {
		log, err := d.History.After("q_a", p, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(log) == 0 {
			break
		}
		if len(log) > 4 {
			t.Fatalf("a page of %d changes of a MiB and more", len(log))
		}
		total += len(log)
		p = log[len(log)-1].Position()
	}
	if total != 6 {
		t.Fatalf("%d changes in all", total)
	}
	if log, err := d.History.After("q_a", registry.Position{Epoch: epoch}, 0); err != nil || len(log) != 0 {
		t.Fatalf("limit 0: %d changes, %v", len(log), err)
	}
}

func TestSlotsAreARing(t *testing.T) {
	d := open(t, t.TempDir(), Options{})
	put(t, d, "q_a", "city")
	put(t, d, "q_b", "port")
	for _, n := range []uint64{1, 2, 3, keptSlots, keptSlots + 1, keptSlots + 2} {
		slot(t, d, "city", n)
		slot(t, d, "port", n)
	}
	list, err := d.History.Slots("city", 10)
	if err != nil {
		t.Fatal(err)
	}
	var numbers []uint64
	for _, s := range list {
		if s.Endpoint != "city" {
			t.Fatalf("a slot of %s", s.Endpoint)
		}
		numbers = append(numbers, s.Number)
	}
	if fmt.Sprint(numbers) != fmt.Sprint([]uint64{keptSlots + 2, keptSlots + 1, keptSlots, 3}) {
		t.Fatalf("slots %v", numbers)
	}
	if list, err = d.History.Slots("city", 2); err != nil || len(list) != 2 || list[0].Number != keptSlots+2 {
		t.Fatalf("the last two: %v, %v", list, err)
	}
}
