package notifytest_test

import (
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/notifytest"
)

func TestMemory(t *testing.T) {
	notifytest.TestLog(t, func(*testing.T) notifytest.Subject {
		l := notifytest.NewLog("one")
		return notifytest.Subject{
			Log: l, Head: l.Head, Add: l.Add,
			Record:   func(q string, r *diff.Result, at time.Time) { l.Record(q, r, at) },
			Trim:     l.Trim,
			Renumber: func() { l.RenumberAll("two") },
			Remove:   l.Remove,
		}
	})
}
