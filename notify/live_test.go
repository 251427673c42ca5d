package notify_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/live"
	"github.com/freshet/freshet/registry"
)

func TestFollowQuery(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("greetings", "SELECT", false)
	p := r.hello()
	p.send(`{"type":"subscribe","id":"a","query":"greetings"}`)
	if m := p.expect("subscribed"); m.ID != "a" || m.Query != id || m.Seq != 0 || m.Resumed ||
		m.Topic != "http://fresh.example/v1/queries/"+id+"/results" {
		t.Fatalf("subscribed: %s", m.raw)
	}
	r.record(id, rows("one"))
	if m := p.expect("delta"); !m.Baseline || m.Prev != 0 || m.Seq != 1 || m.Jaccard != nil || m.Hash != rows("one").Hash() {
		t.Fatalf("baseline: %s", m.raw)
	}
	r.record(id, rows("one", "two"))
	m := p.expect("delta")
	if m.Baseline || m.Prev != 1 || m.Seq != 2 || *m.Jaccard != 0.5 ||
		string(m.Added) != `{"head":{"vars":["s"]},"results":{"bindings":[{"s":{"type":"literal","value":"two"}}]}}` ||
		string(m.Removed) != `{"head":{"vars":["s"]},"results":{"bindings":[]}}` {
		t.Fatalf("delta: %s", m.raw)
	}
	q := r.hello()
	q.send(fmt.Sprintf(`{"type":"subscribe","id":"b","query":%q}`, id))
	q.expect("subscribed")
	if m := q.expect("snapshot"); m.Seq != 2 || string(m.Results) != string(rows("one", "two").Document()) || m.Part != 0 {
		t.Fatalf("snapshot: %s", m.raw)
	}
	p.send(`{"type":"unsubscribe","id":"a"}`)
	p.expect("complete")
	r.record(id, rows())
	p.send(`{"type":"ping","payload":{"n":1}}`)
	if m := p.expect("pong"); string(m.Payload) != `{"n":1}` {
		t.Fatalf("pong: %s", m.raw)
	}
	q.expect("delta")
}

// slowRegistrar calls meanwhile while a query is registered.
type slowRegistrar struct {
	notify.Registrar
	meanwhile func()
	holds     atomic.Int64
}

func (s *slowRegistrar) Follow(ctx context.Context, caller registry.Caller, endpoint, sparql string) (registry.Query, func(), error) {
	s.meanwhile()
	q, release, err := s.Registrar.Follow(ctx, caller, endpoint, sparql)
	s.holds.Add(1)
	return q, func() { s.holds.Add(-1); release() }, err
}

const registering = `{"type":"subscribe","id":"a","query":{"endpoint":"test","sparql":"SELECT * {}"}}`

// A subscription that is requested while the connection ends does not begin, and holds nothing.
func TestSubscribeDuringTheEnd(t *testing.T) {
	slow := &slowRegistrar{}
	var began atomic.Bool
	r := newRig(t, func(o *notify.Options) {
		slow.Registrar, o.Registrar = o.Registrar, slow
		o.Confirm = func() error { began.Store(true); return nil }
	})
	slow.meanwhile = func() {
		go r.srv.Shutdown(t.Context())
		r.eventually("the server drains", func() bool {
			answer, err := http.Get(r.http.URL + "/v1/live")
			must(err)
			answer.Body.Close()
			return answer.StatusCode == http.StatusServiceUnavailable
		})
	}
	p := r.hello()
	p.send(registering)
	if code := p.closed(); code != live.CloseDraining {
		t.Errorf("closed with %d", code)
	}
	r.empty()
	if n := slow.holds.Load(); n != 0 || began.Load() {
		t.Errorf("%d queries are held, and a subscription began: %v", n, began.Load())
	}
}

// A client that takes a large message for longer than it may be silent is not cut. One that is silent otherwise is.
func TestLongTransferIsNoSilence(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Timing.Read, o.Timing.Ping = 2*time.Second, 100*time.Millisecond })
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	p := r.dialSlow()
	p.send(`{"type":"init"}`)
	p.expect("ready")
	p.follow("a", "q", "")
	p.expect("snapshot")
	r.record(id, wide(0, 6000))
	large := p.skipAlive()
	if large.Type != "large" || large.ID != "a" {
		t.Errorf("%.300s", large.raw)
	}
	if m, err := p.next(); err != nil || !strings.Contains(large.raw, fmt.Sprintf(`"bytes":%d}`, len(m.raw))) {
		t.Errorf("%d bytes (%v) after %s", len(m.raw), err, large.raw)
	} else if m.Type != "delta" || m.Seq != 2 {
		t.Errorf("%.300s", m.raw)
	}
	p.conn.SetPingHandler(func(string) error { return nil })
	for {
		if _, err := p.next(); err != nil {
			if errors.As(err, new(net.Error)) {
				t.Errorf("a silent client: %v", err)
			}
			return
		}
	}
}

// The time that the server takes for a message is no silence of the client.
func TestSlowAnswerIsNoSilence(t *testing.T) {
	slow := &slowRegistrar{meanwhile: func() { time.Sleep(2100 * time.Millisecond) }}
	r := newRig(t, func(o *notify.Options) {
		slow.Registrar, o.Registrar = o.Registrar, slow
		o.Timing.Read = 2 * time.Second
	})
	p := r.hello()
	p.send(registering)
	p.expect("subscribed")
	p.send(`{"type":"ping"}`)
	p.expect("pong")
}
