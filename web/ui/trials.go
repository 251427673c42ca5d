package ui

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// Trials keeps the last trial runs for a short time, so that their rows remain
// available when the form is shown again.
type trials struct {
	mu   sync.Mutex
	list []keptTrial // oldest first
}

type keptTrial struct {
	key [sha256.Size]byte
	at  time.Time
	*trial
}

const (
	mostTrials  = 8 // each holds the first rows of a result
	oldestTrial = 10 * time.Minute
)

// trialKey identifies a caller's trial of a query.
func trialKey(caller string, reg registry.Registration) [sha256.Size]byte {
	return sha256.Sum256([]byte(caller + "\x00" + reg.Endpoint + "\x00" + reg.Text))
}

func (k *trials) keep(key [sha256.Size]byte, t *trial, now time.Time) {
	if t == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = slices.DeleteFunc(k.list, func(x keptTrial) bool { return x.key == key })
	if len(k.list) == mostTrials {
		k.list = slices.Delete(k.list, 0, 1)
	}
	k.list = append(k.list, keptTrial{key, now, t})
}

// kept returns nil if there is no recent trial.
func (k *trials) kept(key [sha256.Size]byte, now time.Time) *trial {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.list = slices.DeleteFunc(k.list, func(x keptTrial) bool { return now.Sub(x.at) > oldestTrial })
	for _, x := range k.list {
		if x.key == key {
			return x.trial
		}
	}
	return nil
}

// A trial is a single execution whose result is not stored.
type trial struct {
	Table   *preview // nil if it brought no result
	Form    diff.Form
	Took    time.Duration
	Outcome registry.Outcome // "" if it was refused
	Error   string
	Busy    bool // too many trials run
}

// A preview shows the first rows of a result.
type preview struct {
	grid
	All int // total number of rows
}
