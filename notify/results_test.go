package notify_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A reading log gives a copy of its own to each reader of a result, as one on a
// disk does, and counts them.
type readingLog struct {
	notify.Log
	takes time.Duration
	reads atomic.Int64
}

func (l *readingLog) Current(query string, withResult bool) (registry.Status, *diff.Result, error) {
	st, r, err := l.Log.Current(query, withResult)
	if r == nil || err != nil {
		return st, nil, err
	}
	l.reads.Add(1)
	time.Sleep(l.takes) // as a large one takes: others come meanwhile
	r, err = diff.Decode(r.Document(), r.Form(), r.Ordered())
	return st, r, err
}

// Concurrent readers of a result share one copy of it.
func TestReadersShareAResult(t *testing.T) {
	log := &readingLog{takes: 20 * time.Millisecond}
	r := newRig(t, func(o *notify.Options) { log.Log, o.Log = o.Log, log })
	id := r.log.Add("q", diff.Select, false)
	if _, res, err := r.srv.Current(id, true); res != nil || err != nil {
		t.Fatalf("before the first result: %v, %v", res, err)
	}
	for seq := range uint64(2) {
		r.record(id, rows("a", string(rune('b'+seq))))
		before := log.reads.Load()
		var wg sync.WaitGroup
		var got [50]*diff.Result
		for i := range got {
			wg.Go(func() {
				st, res, err := r.srv.Current(id, true)
				if err != nil || st.Position.Seq != seq+1 {
					t.Errorf("at %v: %v", st.Position, err)
				}
				got[i] = res
			})
		}
		wg.Wait()
		for _, res := range got {
			if res != got[0] {
				t.Fatal("two copies of one result")
			}
		}
		if n := log.reads.Load() - before; n != 1 {
			t.Errorf("read %d times", n)
		}
	}
}

// The cost of reading the results of many queries once each grows with their number
// only: shared results are not searched each time.
func TestSharingCostsLittle(t *testing.T) {
	log := &readingLog{}
	r := newRig(t, func(o *notify.Options) { log.Log, o.Log = o.Log, log })
	ids := make([]string, 10_000)
	timed := func(read func(string, bool) (registry.Status, *diff.Result, error)) time.Duration {
		start := time.Now()
		for _, id := range ids {
			if _, res, err := read(id, true); err != nil || res == nil {
				t.Fatal(res, err)
			}
		}
		return time.Since(start)
	}
	var times float64
	for try := range 5 { // the machine may stop during one
		for i := range ids {
			ids[i] = r.log.Add(fmt.Sprint("q", try, "-", i), diff.Select, false)
			r.record(ids[i], rows("a"))
		}
		alone, shared := timed(log.Current), timed(r.srv.Current)
		t.Logf("%d results in %v, and shared in %v", len(ids), alone, shared)
		if times = float64(shared) / float64(alone); times <= 30 {
			return
		}
	}
	t.Errorf("sharing takes %.0f times what reading takes", times)
}
