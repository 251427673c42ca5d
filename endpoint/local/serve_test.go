package local

import (
	"context"
	"net/http"
	"testing"
)

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
