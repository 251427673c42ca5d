// A test of what a node says whose disk is full.

package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store/journal/memory"
)

// A node whose disk is full cannot apply what it writes, so that the journal seems not to answer.
// Its refusals name the disk.
func TestFullDiskOfANode(t *testing.T) {
	cut := &cutJournal{Journal: openJournal(t, memory.New("test"))}
	retries(t, time.Hour)
	d := open(t, t.TempDir(), Options{Journal: cut})
	d.replica.SetPatience(10 * time.Millisecond)
	cut.cut(true, false)
	t.Cleanup(func() { cut.cut(false, false) })
	if err := d.Tokens.PutToken(registry.Token{Name: "first"}); err == nil {
		t.Error("a token was stored without the journal")
	}
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

// A node whose disk is full does not say that it is cut off from its cluster, does not wait for what it cannot apply,
// and has no outage of the journal.
func TestReadsOnFullDiskOfANode(t *testing.T) {
	retries(t, time.Hour)
	d := open(t, t.TempDir(), Options{Journal: openJournal(t, memory.New("test"))})
	put(t, d, "q_a", "city")
	_ = d.disk.markFull(errors.New("no space left"), 0)
	began := d.Applied()
	_, err := d.Queries.Query("unknown")
	if p, ok := errors.AsType[*registry.Problem](err); !ok || p.Kind != registry.KindUnavailable || !strings.Contains(p.Detail,
		"disk is full") || p.RetryAfter <= 0 {
		t.Errorf("a query that is not known: %v", err)
	}
	if _, err := d.Queries.Query("q_a"); err != nil {
		t.Errorf("a query that is known: %v", err)
	}
	if d.Applied() != began {
		t.Error("something was appended")
	}
}

// retries sets the time between two attempts to write on a full disk until the end of a test.
func retries(t *testing.T, pause time.Duration) {
	t.Helper()
	was := retryPause
	t.Cleanup(func() { retryPause = was })
	retryPause = pause
}
