package notify_test

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A gatedLog returns pages only when its gate is open.
type gatedLog struct {
	notify.Log
	gate             atomic.Pointer[chan struct{}]
	pages, now, most atomic.Int64
}

// shut closes the gate and returns the function that opens it again.
func (l *gatedLog) shut() (open func()) {
	gate := make(chan struct{})
	l.gate.Store(&gate)
	return sync.OnceFunc(func() { close(gate) })
}

func (l *gatedLog) After(query string, p registry.Position, limit int) ([]registry.Change, error) {
	if limit > 1 && p.Seq > 200 { // not the first pages, which take no place
		for n, most := l.now.Add(1), l.most.Load(); n > most && !l.most.CompareAndSwap(most, n); most = l.most.Load() {
		}
		defer l.now.Add(-1)
		l.pages.Add(1)
		<-*l.gate.Load()
	}
	return l.Log.After(query, p, limit)
}

// Adding up much of the log ends when the client goes away, and few do it at a
// time, by event streams and by WebSocket.
func TestLongFoldsEnd(t *testing.T) {
	var log *gatedLog
	r := newRig(t, func(o *notify.Options) {
		log = &gatedLog{Log: o.Log}
		o.Log = log
	})
	id := r.log.Add("q", diff.Select, false)
	const changes, clients = 3200, 10
	for i := range changes {
		r.record(id, rows(fmt.Sprint(i)))
	}
	places := int64(max(1, runtime.GOMAXPROCS(0)-1))
	for _, way := range []string{"SSE", "WebSocket"} {
		log.pages.Store(0)
		open := log.shut()
		t.Cleanup(open)
		var close []func()
		for range clients {
			if way == "SSE" {
				s := r.stream(t, "/v1/queries/"+id+"/changes", "Last-Event-ID", "e1-q:1")
				close = append(close, s.stop)
				continue
			}
			p := r.hello()
			p.send(`{"type":"subscribe","id":"a","query":"q","resume":{"epoch":"e1-q","seq":1}}`)
			close = append(close, func() { p.conn.Close() })
		}
		r.eventually("the log is read", func() bool { return log.pages.Load() > 0 })
		for _, c := range close {
			c()
		}
		r.eventually("all have gone but those who read", func() bool { return r.srv.Connections() <= places })
		open()
		r.empty()
		if n := log.pages.Load(); n > changes/64 {
			t.Errorf("%s: %d pages were read for clients that had gone, %d would be all for one", way, n, changes/64)
		}
	}
	if n := log.most.Load(); n > places {
		t.Errorf("%d read at a time", n)
	}
}
