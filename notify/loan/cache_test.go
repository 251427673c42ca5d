package loan

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

func size(b []byte) int { return len(b) }

// Concurrent callers get one value, or the error of the one that made it, which is not kept.
func TestCacheMakesOnce(t *testing.T) {
	c := Cache[int, []byte]{Capacity: 1 << 20}
	var mu sync.Mutex
	made := 0
	ask := func(err error) ([]byte, error) {
		return c.Get(7, func() ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			made++
			return []byte("x"), err
		}, size)
	}
	failed := errors.New("not now")
	if _, err := ask(failed); err != failed {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if v, err := ask(nil); err != nil || string(v) != "x" {
				t.Errorf("%s %v", v, err)
			}
		})
	}
	if all.Wait(); made != 2 {
		t.Errorf("made %d times", made)
	}
}

func TestCacheIsBounded(t *testing.T) {
	const room = 16 << 20
	c := Cache[int, []byte]{Capacity: room}
	made := 0
	put := func(key, n int) {
		if _, err := c.Get(key, func() ([]byte, error) { made++; return make([]byte, n), nil }, size); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() (n, bytes int) {
		for key, m := range c.young {
			if n, bytes = n+1, bytes+m.weight; c.old[key] == m {
				bytes -= m.weight
			}
		}
		for _, m := range c.old {
			n, bytes = n+1, bytes+m.weight
		}
		return n, bytes
	}
	const many = 3 * room / entryWeight
	for i := range many {
		put(i, 1)
		put(0, 1) // is used all the time
	}
	if n, bytes := kept(); made != many || n > 2*room/entryWeight || bytes > room {
		t.Errorf("made %d of %d, kept %d of %d bytes", made, many, n, bytes)
	}
	for i := range 60 {
		put(-i-1, 1<<20)
		if n, bytes := kept(); bytes > room+2<<20 || n < min(i, 7) {
			t.Fatalf("kept %d of %d bytes", n, bytes)
		}
	}
	made = 0
	put(many, 2*room)
	if put(many, 2*room); made != 1 {
		t.Error("one that is too heavy is not kept while it is the newest")
	}
	for i := range 2 * room >> 20 {
		put(-i-100, 1<<20)
	}
	if _, bytes := kept(); bytes > room+2<<20 {
		t.Errorf("kept %d bytes", bytes)
	}
}

// What is put under a key takes the place of what was there, and is kept for as long as there is room.
func TestCachePut(t *testing.T) {
	c := Cache[string, int]{Capacity: 100}
	for i := range 1000 {
		c.Put("a", i, 40)
	}
	if v, ok := c.Find("a"); !ok || v != 999 || c.weight != 40 {
		t.Errorf("%d %v, %d", v, ok, c.weight)
	}
	for i := range 100 {
		c.Put(string(rune('b'+i)), i, 10)
		if _, ok := c.Find("a"); !ok {
			t.Fatalf("what is used is forgotten after %d others", i)
		}
	}
	if _, ok := c.Find("b"); ok {
		t.Error("what is not used is kept")
	}
}

// What nothing asks for is forgotten after a while, and the timer ends with it.
func TestCacheForgets(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := Cache[int, []byte]{Capacity: 1 << 20, Keep: time.Minute}
		made := 0
		ask := func() {
			c.Get(1, func() ([]byte, error) { made++; return nil, nil }, size)
		}
		for range 10 {
			ask()
			time.Sleep(50 * time.Second)
		}
		if made != 1 {
			t.Errorf("made %d times while it is in use", made)
		}
		time.Sleep(3 * time.Minute)
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.young)+len(c.old) != 0 || c.ending {
			t.Errorf("%d and %d are kept, a timer: %v", len(c.young), len(c.old), c.ending)
		}
	})
}
