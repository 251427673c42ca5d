package deliver

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/freshet/freshet/registry"
)

func at(seq uint64) registry.Position { return registry.Position{Epoch: "e", Seq: seq} }

// Many who want one version share one rendering; a newer one is rendered again,
// and those who know only of the older one get it, too.
func TestContentsShare(t *testing.T) {
	var reads atomic.Int32
	c := &Contents{Read: func(context.Context, string) (Content, error) {
		reads.Add(1)
		return Content{Version: "v", Body: make([]byte, 1000)}, nil
	}}
	var wg sync.WaitGroup
	first, done, err := c.Get(context.Background(), "/t", at(1))
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		wg.Go(func() {
			got, release, err := c.Get(context.Background(), "/t", at(1))
			if err != nil || got != first {
				t.Errorf("another copy: %v", err)
				return
			}
			release()
			release() // twice is once
		})
	}
	wg.Wait()
	if reads.Load() != 1 || c.bytes != 1000 {
		t.Errorf("%d renderings, %d bytes under way", reads.Load(), c.bytes)
	}
	newer, done2, err := c.Get(context.Background(), "/t", at(2))
	if err != nil || newer == first || reads.Load() != 2 {
		t.Errorf("%d renderings after a change: %v", reads.Load(), err)
	}
	older, done3, err := c.Get(context.Background(), "/t", at(1))
	if err != nil || older != newer {
		t.Errorf("who knows of the older version only gets another rendering: %v", err)
	}
	done()
	done2()
	done3()
	if c.bytes != 0 {
		t.Errorf("%d bytes are counted as under way", c.bytes)
	}
	if len(c.shared) > 0 {
		t.Error("content without a delivery is kept in memory")
	}
}

// Above the budget only what is under way already goes.
func TestContentsBudget(t *testing.T) {
	sizes := map[string]int{"/big": 600_000, "/other": 600_000, "/third": 600_000}
	c := &Contents{Budget: 1_000_000, Read: func(_ context.Context, topic string) (Content, error) {
		return Content{Body: make([]byte, sizes[topic])}, nil
	}}
	get := func(topic string, seq uint64) (func(), error) {
		_, release, err := c.Get(context.Background(), topic, at(seq))
		return release, err
	}
	a, err1 := get("/big", 1)
	b, err2 := get("/other", 1)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if _, err := get("/third", 1); !errors.Is(err, ErrBusy) {
		t.Errorf("a third large one: %v", err)
	}
	again, err := get("/big", 1)
	if err != nil {
		t.Errorf("one that is under way: %v", err)
	}
	again()
	a()
	third, err := get("/third", 1)
	if err != nil {
		t.Errorf("a third, when the first is done: %v", err)
	} else {
		third()
	}
	b()
}

func TestContentsErrors(t *testing.T) {
	fail := errors.New("no")
	c := &Contents{Read: func(context.Context, string) (Content, error) {
		if fail != nil {
			return Content{}, fail
		}
		return Content{Body: []byte("x")}, nil
	}}
	if _, _, err := c.Get(context.Background(), "/t", at(1)); !errors.Is(err, fail) {
		t.Errorf("%v", err)
	}
	fail = nil
	if _, release, err := c.Get(context.Background(), "/t", at(1)); err != nil {
		t.Errorf("after a failure: %v", err)
	} else {
		release()
	}
}
