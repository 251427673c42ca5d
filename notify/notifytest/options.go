package notifytest

import (
	"log/slog"
	"time"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/registry"
)

// Options returns the options of a server over a log, whose results are all confirmed and unproved, and due at
// unknown times. There are no profiles.
func Options(log *Log, waker *notify.Waker, gate notify.Gate) notify.Options {
	return notify.Options{Log: log, Waker: waker, Registrar: log, Gate: gate, Head: log.Head, Logger: slog.New(slog.DiscardHandler),
		Confirm: func() error { return nil },
		Due:     func(string, string) (time.Time, error) { return time.Time{}, nil },
		Halted:  func(string) string { return "" },
		Proved:  func(string, registry.Position) time.Time { return time.Time{} },
		ResolveProfile: func(registry.Caller, string) (registry.Profile, error) {
			return registry.Profile{}, registry.ErrNotFound
		}}
}

// Delivering completes the options of an engine that is alone, with a store that takes writes.
func Delivering(o deliver.Options) deliver.Options {
	o.Writable = func() error { return nil }
	if o.Owns == nil {
		o.Owns = func(string) bool { return true }
	}
	if o.Holds == nil {
		o.Holds = o.Owns
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}
