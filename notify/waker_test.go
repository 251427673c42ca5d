package notify_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

func woken(f *notify.Follower) bool {
	select {
	case <-f.C():
		return true
	default:
		return false
	}
}

func TestWaker(t *testing.T) {
	h := notify.NewWaker()
	a, ab, all := h.Follow("a"), h.Follow("a", "b"), h.FollowAll()
	h.Wake("b", "c")
	if woken(a) || !woken(ab) || !woken(all) {
		t.Error("b and c woke the wrong ones")
	}
	h.Wake("a")
	h.Wake("a", "b")
	if got := ab.Take(); !slices.Equal(sorted(got), []string{"a", "b"}) || !woken(ab) || woken(ab) {
		t.Errorf("two wake-ups brought %v, want both queries and one signal", got)
	}
	if got := ab.Take(); got != nil {
		t.Errorf("taken again: %v", got)
	}
	ab.Add("a") // twice now
	ab.Remove("a")
	h.Wake("a")
	if got := ab.Take(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("after one of two removals: %v", got)
	}
	h.Wake("a")
	ab.Remove("a")
	if got := ab.Take(); got != nil || h.Followers("a") != 1 {
		t.Errorf("after the last removal: %v, %d followers", got, h.Followers("a"))
	}
	woken(a)
	h.WakeAll()
	if got := ab.Take(); !woken(a) || !woken(ab) || !woken(all) || !slices.Equal(got, []string{"b"}) {
		t.Errorf("all were woken, but not all know, and one of %v", got)
	}
	for _, f := range []*notify.Follower{a, ab, all} {
		f.Close()
		woken(f)
	}
	h.Wake("a", "b")
	if woken(a) || woken(ab) || woken(all) || h.Followers("a")+h.Followers("b") != 0 {
		t.Error("closed followers are still there")
	}
	h.Wake()
}

func sorted(s []string) []string { slices.Sort(s); return s }

// An owner that stops may end its follower before it forgets the queries of that follower.
func TestRemoveAfterClose(t *testing.T) {
	h := notify.NewWaker()
	f, other := h.Follow("a"), h.Follow("b")
	f.Add("b")
	f.Close()
	f.Remove("a")
	f.Remove("b")
	if a, b := h.Followers("a"), h.Followers("b"); a != 0 || b != 1 {
		t.Errorf("%d follow a and %d follow b, want none and one", a, b)
	}
	other.Close()
}

func TestWakerConcurrent(t *testing.T) {
	h := notify.NewWaker()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 500 {
				f := h.Follow("q")
				h.Wake("q", "other")
				<-f.C() // its own wake-up at the latest
				f.Add("other")
				f.Take()
				f.Close()
			}
		})
	}
	wg.Wait()
	if n := h.Followers("q"); n != 0 {
		t.Errorf("%d followers left", n)
	}
}

// A wake-up between Follow and the first read, or between two reads, is never lost,
// and a stream that waits says so at every heartbeat.
func TestStreamWakesUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		log, waker := notifytest.NewLog("store"), notify.NewWaker()
		srv := notify.NewServer(notifytest.Options(log, waker, open))
		id := log.Add("q", diff.Select, false)
		st, _, _ := log.Current(id, false)
		record := func(v string) {
			log.Record(id, rows(v), time.Now())
			waker.Wake(id)
		}
		go func() {
			for _, v := range []string{"a", "b", "c"} {
				time.Sleep(time.Minute)
				record(v)
			}
			time.Sleep(time.Minute)
			log.Remove(id)
			waker.Wake(id)
		}()
		var seqs []uint64
		var beats int
		var last error
		for ev, err := range srv.Stream(t.Context(), id, notify.StreamOptions{After: &st.Position}) {
			switch last = err; {
			case err != nil:
			case ev.Kind == notify.StreamIdle:
				beats++
			default:
				seqs = append(seqs, ev.At.Seq)
			}
		}
		if !slices.Equal(seqs, []uint64{1, 2, 3}) || !errors.Is(last, registry.ErrNotFound) || beats < 8 {
			t.Errorf("%v, %d heartbeats, %v", seqs, beats, last)
		}
		if waker.Followers(id) != 0 {
			t.Error("a stream that ended still follows")
		}
	})
}
