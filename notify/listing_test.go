package notify_test

import (
	"errors"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

// What a client follows can be seen with its position, and ended.
func TestListing(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", diff.Select, false)
	r.record(id, rows("a"))
	p := r.hello()
	p.send(`{"type":"subscribe","id":"one","query":"q","rate":"1ms","filter":{"min_rows":1}}`)
	p.expect("subscribed")
	p.expect("snapshot")
	list := r.srv.Subscriptions("", 10)
	if len(list) != 1 {
		t.Fatalf("%d subscriptions are listed", len(list))
	}
	x := list[0]
	if x.Way != registry.WebSocket || x.Caller != registry.Anonymous || x.Name != "one" || x.Query != id || x.Rate == 0 || x.Cursor.Seq != 1 || string(x.Filter) != `{"min_rows":1}` {
		t.Errorf("listed as %+v", x)
	}
	r.record(id, rows("a", "b"))
	p.expect("delta")
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) { // it moves once the message is written
		x, err := r.srv.Subscription(x.ID)
		if err != nil || time.Now().After(end) {
			t.Fatalf("after a change it stands at %v: %v", x.Cursor, err)
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
		t.Errorf("told %s", m.raw)
	}
	if err := r.srv.Drop(x.ID); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("dropped twice: %v", err)
	}
	p.send(`{"type":"subscribe","id":"one","query":"q"}`) // the connection stands
	p.expect("subscribed")
	p.expect("snapshot")
	p.conn.Close()
	for end := time.Now().Add(patience); len(r.srv.Subscriptions("", 10)) > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what a client that is gone followed is still listed")
		}
	}
}
