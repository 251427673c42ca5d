package registry_test

import (
	"context"
	"errors"
	"testing"

	"github.com/freshet/freshet/registry"
)

func TestPlaces(t *testing.T) {
	p := registry.NewPlaces(4)
	var leave []func()
	take := func(caller string, want bool) {
		t.Helper()
		l, ok := p.Take(caller)
		if ok != want {
			t.Fatalf("%s: %v", caller, ok)
		}
		if ok {
			leave = append(leave, l)
		}
	}
	for _, x := range []struct {
		caller string
		want   bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"c", true}, {"b", false}, {registry.Anonymous, false}} {
		take(x.caller, x.want)
	}
	for _, l := range leave {
		l()
	}
	for range 4 {
		take(registry.Anonymous, true)
	}
	take(registry.Anonymous, false)
	one := registry.NewPlaces(1)
	if _, ok := one.Take("a"); !ok {
		t.Error("the only place is not for one caller")
	}
}

// Callers wait for a place of their own, or until they have enough of it.
func TestWaitForAPlace(t *testing.T) {
	p := registry.NewPlaces(2)
	first, err := p.Wait(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context(), "b"); err != nil {
		t.Fatal("another caller waits")
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Wait(gone, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("one that is gone: %v", err)
	}
	const waiting = 20
	done := make(chan error)
	for range waiting {
		go func() {
			leave, err := p.Wait(t.Context(), "a")
			if err == nil {
				leave()
			}
			done <- err
		}()
	}
	first()
	for range waiting {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
