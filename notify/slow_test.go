package notify_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/live"
	"github.com/freshet/freshet/registry"
)

// wide is a result that fills buffers: n rows of about a kilobyte.
func wide(version, n int) *diff.Result {
	var values []string
	for i := range n {
		values = append(values, fmt.Sprintf("%d %d %s", version, i, strings.Repeat("x", 1000)))
	}
	return rows(values...)
}

// A client that does not read is closed with 4001, which it finds when it reads again.
// It delays no other client.
func TestSlowReader(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Timing.Write = 2 * time.Second })
	id := r.log.Add("q", "SELECT", false)
	r.record(id, wide(0, 1))
	slow := r.dial(nil)
	slow.send(`{"type":"init"}`)
	slow.expect("ready")
	slow.follow("a", "q", "")
	quick := r.hello()
	quick.follow("a", "q", "")
	quick.expect("snapshot")
	// 4 MB fill the buffers, unless some changes were folded for the slow reader.
	for i, end := 1, time.Now().Add(patience); r.slow() == 0 && time.Now().Before(end); i++ {
		if i > 20 {
			time.Sleep(100 * time.Millisecond)
		}
		r.record(id, wide(i, 100))
		for seq := uint64(0); seq < uint64(i+1); {
			m, err := quick.next()
			if err != nil {
				t.Fatalf("the quick reader: %v", err)
			}
			seq = m.Seq
		}
	}
	r.eventually("the slow reader is noticed", func() bool { return r.slow() > 0 })
	if got := slow.closed(); got != 4001 {
		t.Errorf("closed with %d, want 4001", got)
	}
	if n := r.slow(); n != 1 {
		t.Errorf("%d slow readers counted, want 1", n)
	}
	r.record(id, rows("z"))
	if m, err := quick.next(); err != nil || m.Type != "delta" {
		t.Errorf("the quick reader got %s, %v", m.raw, err)
	}
}

// A client that reads slowly gets the waiting changes as one exact delta.
func TestLaggingReader(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", "SELECT", false)
	r.record(id, wide(0, 1))
	p := r.dial(nil)
	p.send(`{"type":"init"}`)
	p.expect("ready")
	p.follow("a", "q", "")
	last := p.expect("snapshot").Seq
	const n = 40
	for i := 1; i <= n; i++ {
		r.record(id, wide(i, 60)) // 5 MB: far more than the buffers between us hold
		time.Sleep(time.Millisecond)
	}
	messages := 0
	for last < n+1 {
		m := p.expect("delta")
		if m.Prev != last {
			t.Fatalf("(%d, %d] after %d", m.Prev, m.Seq, last)
		}
		last = m.Seq
		messages++
	}
	if messages > 3*n/4 {
		t.Errorf("%d messages for %d changes, want many of them folded", messages, n)
	}
}

// TestManyReaders: two hundred followers of one query, a tenth of which never
// read; the others get every change, and memory does not grow with what waits.
func TestManyReaders(t *testing.T) {
	const readers, steps = 200, 40
	r := newRig(t, func(o *notify.Options) { o.Timing.Write, o.Timing.Close = 30*time.Second, 10*time.Millisecond })
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("start"))
	var wg sync.WaitGroup
	var at [readers]atomic.Int64 // what each has read
	for i := range readers {
		p := r.dial(nil)
		p.send(`{"type":"init"}`)
		p.expect("ready")
		p.follow("a", "q", "")
		if i%10 == 0 {
			at[i].Store(steps + 1) // it never reads
			continue
		}
		wg.Go(func() {
			for last := 0; last < steps+1; {
				p.conn.SetReadDeadline(time.Now().Add(patience))
				_, b, err := p.conn.ReadMessage()
				if err != nil || last > 0 && number(b, "prev") != last {
					t.Errorf("reader %d at %d: %.200s %v", i, last, b, err)
					return
				}
				last = number(b, "seq")
				at[i].Store(int64(last))
			}
		})
	}
	if n := int64(len(r.srv.Subscriptions("", 1<<20))); n != readers {
		t.Errorf("%d subscriptions, want %d", n, readers)
	}
	before := r.goroutines()
	var first, later uint64
	for i := 1; i <= steps; i++ {
		r.eventually("those who read are within what the log keeps", func() bool {
			for n := range at {
				if at[n].Load() < int64(i-20) {
					return false
				}
			}
			return true
		})
		r.record(id, wide(i, 4))
		r.log.Trim(id, 30)
		time.Sleep(5 * time.Millisecond)
		if i == steps/4 {
			first = heap()
		}
	}
	wg.Wait()
	later = heap()
	if grown := int64(later) - int64(first); grown > 40<<20 {
		t.Errorf("the heap grew by %d MiB while readers lag", grown>>20)
	}
	if after := r.goroutines(); after > before+10 {
		t.Errorf("%d goroutines, %d before", after, before)
	}
	ctx, cancel := contextFor(50 * time.Millisecond)
	defer cancel()
	if err := r.srv.Shutdown(ctx); err == nil {
		t.Log("blocked readers took the close in time")
	}
	r.empty()
}

// number finds a member of a message without decoding it, because decoding would take
// most of the time of this test.
func number(b []byte, name string) (n int) {
	_, rest, _ := strings.Cut(string(b), `"`+name+`":`)
	if end := strings.IndexAny(rest, ",}"); end > 0 {
		fmt.Sscan(rest[:end], &n)
	}
	return n
}

// goroutines returns the number of goroutines once it is stable: those of handshakes
// end after the client has finished.
func (r *rig) goroutines() (n int) {
	same := 0
	r.eventually("the number of goroutines stays the same", func() bool {
		same++
		if now := runtime.NumGoroutine(); now != n {
			n, same = now, 0
		}
		return same > 20
	})
	return n
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestIdleMemory: an idle connection costs a few kilobytes.
func TestIdleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("not in short mode")
	}
	r := newRig(t, nil)
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	r.hello()
	before := heap()
	const n = 200
	for range n {
		p := r.hello()
		p.follow("a", "q", "")
		p.expect("snapshot")
	}
	per := (int64(heap()) - int64(before)) / n
	t.Logf("%d bytes of heap per idle connection, the test's own end included", per)
	if per > 40<<10 {
		t.Errorf("%d bytes of heap per idle connection", per)
	}
}

// TestStalledSnapshot: a client that does not read its snapshot holds no part of
// it.
func TestStalledSnapshot(t *testing.T) {
	if testing.Short() {
		t.Skip("not in short mode")
	}
	r := newRig(t, func(o *notify.Options) { o.Timing.Write = time.Minute })
	id := r.log.Add("q", "SELECT", false)
	r.record(id, wide(0, 8000))
	stall := func(n int) {
		peers := make([]*peer, n)
		for i := range peers {
			peers[i] = r.hello()
		}
		before := r.goroutines()
		for _, p := range peers {
			p.send(`{"type":"subscribe","id":"a","query":"q"}`)
		}
		r.eventually("a goroutine waits for each client", func() bool { return runtime.NumGoroutine() >= before+n })
	}
	stall(1)
	before := heap()
	const n = 100
	stall(n)
	per := (int64(heap()) - int64(before)) / n
	t.Logf("%d bytes of heap per client that does not read, the test's own end included", per)
	if per > 32<<10 {
		t.Errorf("%d bytes of heap per client that does not read", per)
	}
}

// stalled returns a client that follows n queries and reads nothing of their next changes,
// each of so many kilobytes.
func (r *rig) stalled(n, kilobytes int) (p *peer, ids []string) {
	p = r.hello()
	results := make([]*diff.Result, n)
	for i := range results {
		ids = append(ids, r.log.Add(fmt.Sprintf("q%d", i), "SELECT", false))
		r.record(ids[i], rows("a"))
		p.follow(fmt.Sprint(i), ids[i], "")
		p.expect("snapshot")
		results[i] = wide(i, kilobytes)
	}
	r.log.RecordAll(ids, results, time.Unix(1_800_000_000, 0))
	r.waker.Wake(ids...)
	r.eventually("each subscription has come to its change", func() bool {
		for s := range r.srv.AllSubscriptions {
			if s.Cursor.Seq < 2 {
				return false
			}
		}
		return true
	})
	return p, ids
}

func patient(o *notify.Options) {
	o.Timing.Write, o.Timing.Ping, o.Timing.Read = time.Hour, time.Hour, 2*time.Hour
}

// settledHeap returns the size of the heap once it stays the same.
func (r *rig) settledHeap() uint64 {
	var sizes []uint64
	r.eventually("memory stays the same", func() bool {
		time.Sleep(20 * time.Millisecond)
		sizes = append(sizes, heap())
		last := sizes[max(0, len(sizes)-6):]
		return len(sizes) > 10 && slices.Max(last) < slices.Min(last)+1<<16
	})
	return sizes[len(sizes)-1]
}

// TestStalledChanges: a client that does not read holds none of the changes of the many
// queries that it follows, large or small. What is kept for clients of earlier tests may go
// meanwhile and would count as held, but not each time.
func TestStalledChanges(t *testing.T) {
	for _, kilobytes := range []int{20, 200} {
		t.Run(fmt.Sprintf("%d KB", kilobytes), func(t *testing.T) {
			var more int64
			for range 3 {
				if more = stalledMemory(t, kilobytes); more <= 3<<20 {
					return
				}
			}
			t.Errorf("a client that does not read holds %d MiB", more>>20)
		})
	}
}

// stalledMemory returns by how much the heap shrinks when a client goes that did not read.
func stalledMemory(t *testing.T, kilobytes int) int64 {
	r := newRig(t, patient)
	p, _ := r.stalled(200, kilobytes)
	held := r.settledHeap()
	p.conn.Close()
	r.empty()
	more := int64(held) - int64(heap())
	t.Logf("the client holds %d KB", more>>10)
	return more
}

// A client that reads again after the log has lost what waited gets the results instead.
func TestChangesLostWhileStalled(t *testing.T) {
	const n = 650 // of one piece each, and together more than is kept
	r := newRig(t, patient)
	p, ids := r.stalled(n, 29)
	for _, id := range ids {
		r.record(id, rows("end"))
		r.log.Trim(id, 1)
	}
	results := 0
	for at := make(map[string]uint64); len(at) < n; {
		m, err := p.next()
		if err != nil || m.Type != "delta" && m.Type != "snapshot" {
			t.Fatalf("%.200s %v", m.raw, err)
		}
		if m.Type == "snapshot" {
			results++
		}
		if m.Seq == 3 {
			at[m.ID] = m.Seq
		}
	}
	if results == 0 {
		t.Error("no change was lost")
	}
}

// A client whose token was revoked gets no more of the changes that wait for it.
func TestRevokedWhileStalled(t *testing.T) {
	var revoked, refused atomic.Bool
	r := newRig(t, func(o *notify.Options) {
		patient(o)
		o.Gate = gateFunc(func(string) (registry.Caller, error) {
			if revoked.Load() {
				refused.Store(true)
				return registry.Caller{}, notify.ErrUnauthorized
			}
			return registry.Caller{Role: registry.RoleRead}, nil
		})
	})
	r.token = "t"
	const n = 100
	p, _ := r.stalled(n, 200)
	revoked.Store(true)
	r.srv.Recheck()
	r.eventually("the token is refused", refused.Load)
	got := 0
	for {
		_, err := p.next()
		if websocket.IsCloseError(err, live.CloseUnauthorized) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got++
	}
	if got > n/4 {
		t.Errorf("%d changes came after it, of %d", got, n)
	}
}
