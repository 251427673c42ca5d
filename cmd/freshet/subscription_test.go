package main

import (
	"testing"
	"time"

	"github.com/freshet/freshet/web/api"
)

func TestTroubleOfOneFailure(t *testing.T) {
	now := time.Unix(0, 0)
	next := now.Add(5 * time.Second)
	for n, want := range map[int]string{1: "no (1 failure, again in 5s)", 2: "no (2 failures, again in 5s)"} {
		if got := troubleOf(&api.Subscription{LastError: "no", Failures: n, NextTry: &next}, now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
