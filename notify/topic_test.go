package notify_test

import (
	"sync/atomic"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A countingLog counts how often it is read.
type countingLog struct {
	notify.Log
	pages, states atomic.Int64
}

func (l *countingLog) After(query string, p registry.Position, limit int) ([]registry.Change, error) {
	l.pages.Add(1)
	return l.Log.After(query, p, limit)
}

func (l *countingLog) Current(query string, withResult bool) (registry.Status, *diff.Result, error) {
	l.states.Add(1)
	return l.Log.Current(query, withResult)
}

// A change is read from the log once for all followers of its query.
func TestReadOnceForAll(t *testing.T) {
	var log *countingLog
	r := newRig(t, func(o *notify.Options) {
		log = &countingLog{Log: o.Log}
		o.Log = log
	})
	id := r.log.Add("q", diff.Select, false)
	r.record(id, rows("a"))
	followers := make([]*peer, 40)
	for i := range followers {
		followers[i] = r.hello()
		followers[i].follow("a", "q", "")
		followers[i].expect("snapshot")
	}
	for _, v := range []string{"b", "c", "d"} {
		pages, states := log.pages.Load(), log.states.Load()
		r.record(id, rows(v))
		for _, p := range followers {
			p.expect("delta")
		}
		if pages, states = log.pages.Load()-pages, log.states.Load()-states; pages != 1 || states != 1 {
			t.Errorf("%d pages and %d states were read for one change of %d followers", pages, states, len(followers))
		}
	}
}
