// A test of what a node says whose disk is full.

package store

import (
	"errors"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal/memory"
)

// A node whose disk is full cannot apply what it writes, so that the journal seems not to answer.
// Its refusals name the disk.
func TestFullDiskOfANode(t *testing.T) {
	d := open(t, t.TempDir(), Options{Journal: openJournal(t, memory.New("test")), Retry: time.Hour})
	d.replica.mu.Lock()
	d.replica.outage = &outage{unknown: map[string][]byte{}} // nothing ends this one
	d.replica.mu.Unlock()
	refusals := func() map[string]error {
		return map[string]error{"a token": d.Tokens.PutToken(registry.Token{Name: "x"}), "Writable": d.Writable()}
	}
	for what, err := range refusals() {
		if p, ok := errors.AsType[*registry.Problem](err); !ok || p.Kind != registry.KindUnavailable {
			t.Errorf("%s, without the journal: %v", what, err)
		}
	}
	_ = d.disk.markFull(errors.New("no space left"), 0)
	for what, err := range refusals() {
		if p, ok := errors.AsType[*registry.Problem](err); !ok || p.Kind != registry.KindStorageFull {
			t.Errorf("%s, on a full disk: %v", what, err)
		}
	}
}
