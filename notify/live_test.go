package notify_test

import (
	"fmt"
	"testing"
)

func TestFollowQuery(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("greetings", "SELECT", false)
	p := r.hello()
	p.send(`{"type":"subscribe","id":"a","query":"greetings"}`)
	if m := p.expect("subscribed"); m.ID != "a" || m.Query != id || m.Seq != 0 || m.Resumed || m.Topic != "http://fresh.example/v1/queries/"+id+"/results" {
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
