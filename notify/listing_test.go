package notify_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A subscription is listed with its position, and can be ended.
func TestListing(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", diff.Select, false)
	r.record(id, rows("a"))
	p := r.dial(nil)
	p.send(`{"type":"init","client":"board ` + strings.Repeat("é", 100) + `"}`)
	p.expect("ready")
	p.send(`{"type":"subscribe","id":"one","query":"q","rate":"1ms","filter":{"min_rows":1}}`)
	p.expect("subscribed")
	p.expect("snapshot")
	list := r.srv.Subscriptions("", 10)
	if len(list) != 1 {
		t.Fatalf("%d subscriptions are listed", len(list))
	}
	x := list[0]
	if x.Way != registry.WebSocket || x.Caller != registry.Anonymous || x.Name != "one" || x.Query != id || x.Rate == 0 ||
		x.Cursor.Seq != 1 || string(x.Filter) != `{"min_rows":1}` {
		t.Errorf("listed as %+v", x)
	}
	if x.Remote != "127.0.0.1" {
		t.Errorf("it comes from %q", x.Remote)
	}
	if x.Client != "board "+strings.Repeat("é", 29)+"…" {
		t.Errorf("its program is called %q", x.Client)
	}
	r.record(id, rows("a", "b"))
	p.expect("delta")
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // it moves once the message is written
		x, err := r.srv.Subscription(x.ID)
		if err != nil || time.Now().After(end) {
			t.Fatalf("after a change its position is %v: %v", x.Cursor, err)
		}
		if x.Cursor.Seq == 2 {
			break
		}
	}
	if len(r.srv.Subscriptions(x.ID, 10)) != 0 {
		t.Error("there is one after the last")
	}
	if err := r.srv.Drop(x.ID); err != nil {
		t.Fatal(err)
	}
	if m := p.expect("complete"); m.Reason != "dropped" || m.ID != "one" {
		t.Errorf("received %s", m.raw)
	}
	if err := r.srv.Drop(x.ID); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("dropped twice: %v", err)
	}
	p.send(`{"type":"subscribe","id":"one","query":"q"}`) // the connection is there
	p.expect("subscribed")
	p.expect("snapshot")
	p.conn.Close()
	for end := time.Now().Add(patience); len(r.srv.Subscriptions("", 10)) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what a client that is gone followed is still listed")
		}
	}
}

// Event streams are listed, can be paused without loss, and can be ended.
func TestListingOfStreams(t *testing.T) {
	for name, path := range map[string]string{"query": "/v1/queries/%s/changes?min_rows=1", "all": "/v1/changes?tag=t",
		"all with a rate": "/v1/changes?rate=1ms"} {
		r := newRig(t, nil)
		id := r.log.Add("q", diff.Select, false)
		r.record(id, rows("a"))
		s := r.stream(t, strings.Replace(path, "%s", id, 1))
		until(t, "listed", func() bool { return len(r.srv.Subscriptions("", 10)) == 1 })
		x := r.srv.Subscriptions("", 10)[0]
		if x.Way != registry.SSE || x.Caller != registry.Anonymous || (x.Query == "") == (name == "query") ||
			(x.Tag == "t") != (name == "all") || (x.Rate == 0) != (name != "all with a rate") {
			t.Errorf("%s: listed as %+v", name, x)
		}
		if name == "query" {
			s.next()
		}
		if y, err := r.srv.SetPaused(x.ID, true); err != nil || y.State != registry.SubscriptionPaused {
			t.Fatalf("%s: paused: %+v %v", name, y, err)
		}
		for _, v := range []string{"b", "c", "d"} {
			r.record(id, rows("a", v))
		}
		time.Sleep(20 * time.Millisecond)
		if y, _ := r.srv.Subscription(x.ID); y.Cursor.Seq > 2 { // one change may have been under way
			t.Errorf("%s: while it is paused it is at %v", name, y.Cursor)
		}
		if y, err := r.srv.SetPaused(x.ID, false); err != nil || y.State != registry.Active {
			t.Fatalf("%s: resumed: %+v %v", name, y, err)
		}
		for seq := uint64(1); seq < 4; { // nothing is lost, whether folded or not
			e := s.next()
			if e.kind != "change" || e.Prev != seq {
				t.Fatalf("%s: %s %+v after %d", name, e.kind, e.reply, seq)
			}
			seq = e.Seq
		}
		if err := r.srv.Drop(x.ID); err != nil {
			t.Fatal(err)
		}
		if e := s.next(); e.kind != "complete" || e.Reason != "dropped" {
			t.Errorf("%s: the end is %+v", name, e)
		}
		if n := len(r.srv.Subscriptions("", 10)); n != 0 {
			until(t, "not listed", func() bool { return len(r.srv.Subscriptions("", 10)) == 0 })
		}
		for _, w := range r.srv.WayStats() {
			if w.Way == registry.SSE && w.Delivered < 1 || w.Way != registry.SSE && w.Delivered+uint64(w.Connections) > 0 {
				t.Errorf("%s: counted %+v", name, w)
			}
		}
	}
}

// A paused subscription of a WebSocket falls behind without affecting the connection
// and its other subscriptions.
func TestPauseWebSocket(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Timing.Ping = 30 * time.Millisecond })
	id, other := r.log.Add("q", diff.Select, false), r.log.Add("other", diff.Select, false)
	r.record(id, rows("a"))
	r.record(other, rows("a"))
	p := r.hello()
	for _, q := range []string{"q", "other"} {
		p.send(`{"type":"subscribe","id":"` + q + `","query":"` + q + `"}`)
		for _, want := range []string{"subscribed", "snapshot"} {
			if m := p.skipAlive(); m.Type != want {
				t.Fatalf("got %s, want %s", m.raw, want)
			}
		}
	}
	x := r.srv.Subscriptions("", 10)[0]
	if x.Name != "q" {
		x = r.srv.Subscriptions("", 10)[1]
	}
	if _, err := r.srv.SetPaused(x.ID, true); err != nil {
		t.Fatal(err)
	}
	p.send(`{"type":"ping"}`)
	for m := p.skipAlive(); m.Type != "pong"; m = p.skipAlive() { // what the session did before is done
		t.Errorf("got %s, want pong", m.raw)
	}
	r.record(id, rows("a", "b"))
	r.record(id, rows("a", "c"))
	r.record(other, rows("a", "b"))
	p.deltas(func(m reply) bool {
		if m.ID == "q" {
			t.Errorf("while it is paused: %s", m.raw)
		}
		return m.ID == "other"
	})
	if y, err := r.srv.Subscription(x.ID); err != nil || y.State != registry.SubscriptionPaused || y.Cursor.Seq != 1 ||
		y.Deliveries != 1 || y.LastDelivery == nil {
		t.Errorf("paused: %+v %v", y, err)
	}
	if _, err := r.srv.SetPaused(x.ID, false); err != nil {
		t.Fatal(err)
	}
	at := uint64(1)
	p.deltas(func(m reply) bool {
		if m.ID != "q" || m.Prev != at {
			t.Fatalf("after the pause at %d: %s", at, m.raw)
		}
		at = m.Seq
		return at == 3
	})
	if _, err := r.srv.SetPaused("live_none", true); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("pause of an unknown id: %v", err)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not come: %s", what)
		}
	}
}

// deltas reads deltas and skips other messages until done returns true.
func (p *peer) deltas(done func(reply) bool) {
	p.t.Helper()
	for {
		m, err := p.next()
		if err != nil {
			p.t.Fatal(err)
		}
		if m.Type == "delta" && done(m) {
			return
		}
		if m.Type != "delta" && m.Type != "alive" {
			p.t.Fatalf("got %s", m.raw)
		}
	}
}

// Connections of every protocol are listed with their address and program.
func TestListingNamesConnections(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", diff.Select, false)
	r.record(id, rows("a"))
	for _, path := range []string{"/v1/queries/" + id + "/changes", "/v1/changes"} {
		s := r.stream(t, path, "User-Agent", "reader/1.0", "X-Forwarded-For", "203.0.113.9, 198.51.100.4")
		r.eventually("it is listed", func() bool { return len(r.srv.Subscriptions("", 10)) == 1 })
		if x := r.srv.Subscriptions("", 10)[0]; x.Client != "reader/1.0" || x.Remote != "198.51.100.4" {
			t.Errorf("%s is listed as %+v", path, x)
		}
		s.stop()
		r.eventually("it has gone", func() bool { r.waker.Wake(id); return len(r.srv.Subscriptions("", 10)) == 0 })
	}
}
