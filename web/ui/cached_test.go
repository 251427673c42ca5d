package ui

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"

	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

// slowIndex is an index that answers only when the test allows it.
type slowIndex struct {
	web.Queries
	reads int
	let   chan struct{} // nil: answers at once
}

func (x *slowIndex) Digests(string) ([]registry.QueryDigest, error) {
	x.reads++
	n := x.reads
	if x.let != nil {
		<-x.let
	}
	return make([]registry.QueryDigest, n), nil
}

func (x *slowIndex) Recent(after registry.Offset, _ time.Time, _ func(string, time.Time)) (registry.Offset, error) {
	return after, nil
}

// A read of the catalogue does not delay other pages: they get the previous value.
func TestPagesDoNotWaitForTheCatalogue(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		index := &slowIndex{}
		c := newCatalogue(index, func() map[string]string { return nil }, time.Now)
		look := func() int {
			s, err := c.look()
			if err != nil {
				t.Fatal(err)
			}
			return len(s.digests)
		}
		if n := look(); n != 1 {
			t.Fatalf("the first look finds %d queries, want 1", n)
		}
		time.Sleep(time.Hour)
		index.let = make(chan struct{})
		first, second := make(chan int, 1), make(chan int, 1)
		go func() { first <- look() }()
		synctest.Wait() // until the read is in progress
		go func() { second <- look() }()
		synctest.Wait()
		select {
		case n := <-second:
			if n != 1 {
				t.Errorf("another one gets %d queries, want the 1 from before", n)
			}
		default:
			t.Error("another one waits")
		}
		close(index.let)
		if n := <-first; n != 2 {
			t.Errorf("the one who reads finds %d queries, want 2", n)
		}
	})
}

// A dropped value is not returned to later callers, even if its read is still running.
func TestDroppedValueIsReadAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var c cached[int]
		reads, let := 0, make(chan struct{})
		get := func() int {
			n, err := c.get(time.Now(), func(time.Duration) time.Duration { return time.Minute }, func() (int, error) {
				reads++
				n := reads
				<-let
				return n, nil
			})
			if err != nil {
				t.Error(err)
			}
			return n
		}
		before, after := make(chan int, 1), make(chan int, 2)
		go func() { before <- get() }()
		synctest.Wait()
		c.drop()
		for range 2 {
			go func() { after <- get() }()
		}
		synctest.Wait()
		close(let)
		if n := <-before; n != 1 {
			t.Errorf("who asked before gets value %d, want 1", n)
		}
		if a, b := <-after, <-after; a != 2 || b != 2 || reads != 2 {
			t.Errorf("who asked after it was dropped gets the values %d and %d of %d, want the second twice", a, b, reads)
		}
	})
}

// A read that fails or panics keeps the previous value, and the next one tries again.
func TestValueThatCannotBeRead(t *testing.T) {
	var c cached[int]
	now := time.Now()
	get := func(read func() (int, error)) (n int, err error) {
		defer func() {
			if recover() != nil {
				err = errors.New("it panics")
			}
		}()
		return c.get(now, func(time.Duration) time.Duration { return time.Minute }, read)
	}
	for _, read := range []func() (int, error){
		func() (int, error) { return 7, errors.New("it fails") },
		func() (int, error) { panic("it panics") },
	} {
		if n, err := get(read); err == nil {
			t.Errorf("read as %d", n)
		}
		if n, err := get(func() (int, error) { return 5, nil }); n != 5 || err != nil {
			t.Errorf("read as %d, %v, want 5", n, err)
		}
		c.drop()
	}
}
