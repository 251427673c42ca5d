package memory

import (
	"testing"

	"github.com/freshet/freshet/store/journal"
	"github.com/freshet/freshet/store/journal/journaltest"
)

func TestContract(t *testing.T) {
	journaltest.Run(t, func(*testing.T) journaltest.Rig {
		l := New("test")
		return journaltest.Rig{
			Name: "test", Open: func(testing.TB, int) journal.Journal { return l.Open() },
			Stall: func(testing.TB) (j journal.Journal, stall, resume func()) {
				return l.Open(), l.mu.Lock, l.mu.Unlock
			},
			Rewrite: func(_ testing.TB, f func([]journal.Entry) []journal.Entry) { l.Rewrite(f) },
		}
	})
}
