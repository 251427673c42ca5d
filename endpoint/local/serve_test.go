package local

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/freshet/freshet/scheduler/schedulertest/bubble"
)

func TestPlay(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		var at []time.Duration
		begin := time.Now()
		err := RunEvery(ctx, 10*time.Second, func() error {
			at = append(at, time.Since(begin))
			return nil
		})
		if err != nil || len(at) != 4 || at[0] != 0 || at[3] != 30*time.Second {
			t.Errorf("applied at %v, %v", at, err)
		}
		full := errors.New("no more")
		if err := RunEvery(t.Context(), time.Second, func() error { return full }); !errors.Is(err, full) {
			t.Errorf("got %v", err)
		}
		if err := RunEvery(t.Context(), 0, func() error { return nil }); err == nil {
			t.Error("an interval of 0 is taken")
		}
	})
}

func TestListenEndsWithItsContext(t *testing.T) {
	e := openEngine(t)
	ctx, cancel := context.WithCancel(context.Background())
	s, err := Listen(ctx, "127.0.0.1:0", Handler(e, HandlerOptions{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(ctx, s.URL[len("http://"):len(s.URL)-len("/sparql")], Handler(e, HandlerOptions{})); err == nil {
		t.Error("one address was taken twice")
	}
	cancel()
	if err := s.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
	if err := s.Close(); err != nil { // as a caller does who defers it
		t.Errorf("Close after the end: %v", err)
	}
	if response, err := http.Get(s.URL); err == nil {
		response.Body.Close()
		t.Error("it still listens")
	}
}
