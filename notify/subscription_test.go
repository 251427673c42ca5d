package notify_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/live"
	"github.com/freshet/freshet/registry"
)

// follow subscribes and reads the answer.
func (p *peer) follow(id, query, more string) reply {
	p.t.Helper()
	p.send(fmt.Sprintf(`{"type":"subscribe","id":%q,"query":%q%s}`, id, query, more))
	return p.expect("subscribed")
}

func resume(epoch string, seq int) string {
	return fmt.Sprintf(`,"resume":{"epoch":%q,"seq":%d}`, epoch, seq)
}

func TestResume(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", "SELECT", false)
	for i := range 8 {
		r.record(id, rows(fmt.Sprint(i)))
	}
	r.log.Trim(id, 4) // 5, 6, 7, 8 are left
	st, _, _ := r.log.Current(id, false)
	e := st.Position.Epoch
	for _, c := range []struct {
		name, epoch string
		seq         int
		resumed     bool
		reason      string
		deltas      []uint64
	}{
		{"current", e, 8, true, "", nil},
		{"within history", e, 5, true, "", []uint64{6, 7, 8}},
		{"oldest", e, 4, true, "", []uint64{5, 6, 7, 8}},
		{"too old", e, 3, false, "too_old", nil},
		{"beginning", e, 0, false, "too_old", nil},
		{"ahead", e, 9, false, "ahead", nil},
		{"other epoch", "x" + e, 8, false, "other_epoch", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := r.hello()
			m := p.follow("a", "q", resume(c.epoch, c.seq))
			if m.Resumed != c.resumed || m.Reason != c.reason || m.Resumed && m.Seq != uint64(c.seq) || !m.Resumed && m.Seq != 8 || m.Epoch != e {
				t.Fatalf("subscribed: %s", m.raw)
			}
			if !c.resumed {
				if s := p.expect("snapshot"); s.Seq != 8 || string(s.Results) != string(rows("7").Document()) {
					t.Errorf("snapshot: %s", s.raw)
				}
			}
			for _, seq := range c.deltas {
				if d := p.expect("delta"); d.Seq != seq || d.Prev != seq-1 {
					t.Errorf("delta: %s, want %d", d.raw, seq)
				}
			}
			p.send(`{"type":"ping"}`)
			p.expect("pong") // and nothing else
		})
	}
}

func TestResumeFromNothing(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", "SELECT", false)
	st, _, _ := r.log.Current(id, false)
	r.record(id, rows("a"))
	r.record(id, rows("b"))
	p := r.hello()
	if m := p.follow("a", "q", resume(st.Position.Epoch, 0)); !m.Resumed || m.Seq != 0 {
		t.Fatalf("subscribed: %s", m.raw)
	}
	if m := p.expect("delta"); !m.Baseline || m.Seq != 1 {
		t.Errorf("baseline: %s", m.raw)
	}
	if m := p.expect("delta"); m.Baseline || m.Seq != 2 {
		t.Errorf("delta: %s", m.raw)
	}
}

// After a gap that opens while it follows, a client gets the reason and a snapshot.
func TestGapWhileFollowing(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	p := r.hello()
	p.follow("a", "q", "")
	p.expect("snapshot")
	r.log.Renumber(id, "new")
	r.waker.Wake(id)
	if m := p.expect("subscribed"); m.Resumed || m.Reason != "other_epoch" || m.Epoch != "new" {
		t.Errorf("subscribed: %s", m.raw)
	}
	if m := p.expect("snapshot"); m.Epoch != "new" {
		t.Errorf("snapshot: %s", m.raw)
	}
	r.record(id, rows("b"))
	if m := p.expect("delta"); m.Epoch != "new" || m.Seq != m.Prev+1 {
		t.Errorf("delta: %s", m.raw)
	}
}

func TestStatus(t *testing.T) {
	soon := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	r := newRig(t, func(o *notify.Options) {
		o.Timing.Ping = 50 * time.Millisecond
		o.Proved = func(query string, at registry.Position) time.Time {
			if at.Seq != 1 {
				return time.Time{}
			}
			return map[string]time.Time{registry.Identity("test", "q", false, nil, nil): soon}[query]
		}
		o.Due = func(endpoint, query string) (time.Time, error) {
			if endpoint != "test" || query != registry.Identity("test", "q", false, nil, nil) {
				return time.Time{}, nil
			}
			return soon, nil
		}
	})
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	p := r.hello()
	p.follow("a", "q", "")
	if m := p.expect("snapshot"); !strings.Contains(m.raw, `"proved":"2026-11-20T09:00:00Z"`) {
		t.Errorf("snapshot: %s", m.raw)
	}
	st, _, _ := r.log.Current(id, false)
	if m := p.expect("alive"); !strings.Contains(m.raw, `"proved":"2026-11-20T09:00:00Z"`) || m.ID != "a" || m.Seq != 1 ||
		m.Epoch != st.Position.Epoch || !m.CheckedAt.Equal(st.CheckedAt) {
		t.Errorf("alive: %s", m.raw)
	}
	r.log.Fail(id, "endpoint answered 503")
	r.waker.Wake(id)
	m := p.skipAlive()
	if m.Type != "status" || m.State != "stale" || m.Error != "endpoint answered 503" || !strings.Contains(m.raw,
		`"reason":"stale"`) || !m.CheckedAt.Equal(st.CheckedAt) || !m.NextDue.Equal(soon) {
		t.Errorf("status: %s", m.raw)
	}
	r.record(id, rows("a"))
	if m := p.skipAlive(); m.Type != "status" || m.State != "live" || m.Error != "" || !m.NextDue.Equal(soon) {
		t.Errorf("status: %s", m.raw)
	}
	// A client that comes while the query fails learns so, also before any result.
	r.log.Add("never", "SELECT", false)
	never, _ := r.log.Resolve(open[""], "never")
	r.log.Fail(never.ID, "no")
	q := r.hello()
	q.follow("b", "never", "")
	if m := q.skipAlive(); m.Type != "status" || m.State != "stale" || m.Error != "no" || !strings.Contains(m.raw,
		`"reason":"failing"`) || strings.Contains(m.raw, "next_due") {
		t.Errorf("status: %s", m.raw)
	}
	// That a holder's time is over wakes no follower: a heartbeat finds it.
	r.log.Idle(id, "until is over")
	if m := p.skipAlive(); m.Type != "status" || m.State != "stale" || m.Error != "until is over" || !strings.Contains(m.raw,
		`"reason":"idle"`) {
		t.Errorf("status: %s", m.raw)
	}
}

// A client learns when the endpoint of its query stops keeping results up to date, and when it does so again: at once when
// its followers are woken, else by a heartbeat. So does one that comes meanwhile.
func TestStatusOfHaltedEndpoint(t *testing.T) {
	var why atomic.Pointer[string]
	r := newRig(t, func(o *notify.Options) {
		o.Timing.Ping = 50 * time.Millisecond
		o.Halted = func(endpoint string) string {
			if x := why.Load(); x != nil && endpoint == "test" {
				return *x
			}
			return ""
		}
	})
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	p := r.hello()
	p.follow("a", "q", "")
	p.expect("snapshot")
	p.expect("alive")
	stale := func(p *peer) {
		t.Helper()
		if m := p.skipAlive(); m.Type != "status" || m.State != "stale" || m.Error != "the endpoint fails: no route" ||
			!strings.Contains(m.raw, `"reason":"stale"`) || m.CheckedAt.IsZero() {
			t.Errorf("status: %s", m.raw)
		}
	}
	reason := "the endpoint fails: no route"
	why.Store(&reason)
	stale(p) // found by a heartbeat
	q := r.hello()
	q.follow("b", "q", "")
	q.expect("snapshot")
	stale(q)
	why.Store(nil)
	r.waker.Wake(id)
	for _, p := range []*peer{p, q} {
		if m := p.skipAlive(); m.Type != "status" || m.State != "live" || m.Error != "" {
			t.Errorf("status: %s", m.raw)
		}
	}
	r.log.Fail(id, "endpoint answered 503") // its own trouble is said with its own words
	why.Store(&reason)
	r.waker.Wake(id)
	if m := p.skipAlive(); m.Type != "status" || m.State != "stale" || m.Error != "endpoint answered 503" {
		t.Errorf("status: %s", m.raw)
	}
}

// Clients take each subscribed for a beginning as live, so one in the middle is followed by the status of a query that is
// still stale.
func TestStatusAfterGap(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	p := r.hello()
	p.follow("a", "q", "")
	p.expect("snapshot")
	fail := func(reason string) {
		r.log.Fail(id, reason)
		r.waker.Wake(id)
	}
	fail("no answer")
	for i, begin := range []func(){
		func() {},
		func() { r.log.Renumber(id, "e2") },
		func() { r.log.Renumber(id, "e3") },
	} {
		if begin(); i > 0 {
			r.waker.Wake(id)
			if m := p.skipAlive(); m.Type != "subscribed" || m.Reason != "other_epoch" {
				t.Fatalf("%s", m.raw)
			}
			p.expect("snapshot")
		}
		if m := p.skipAlive(); m.Type != "status" || m.State != "stale" {
			t.Fatalf("%s", m.raw)
		}
		fail("no answer") // which tells nothing new
	}
	r.record(id, rows("a"))
	if m := p.skipAlive(); m.Type != "status" || m.State != "live" {
		t.Fatalf("%s", m.raw)
	}
}

// skipAlive reads the next message that is not a heartbeat.
func (p *peer) skipAlive() reply {
	p.t.Helper()
	for end := time.Now().Add(patience); ; {
		m, err := p.next()
		if err == nil && time.Now().After(end) {
			err = errors.New("nothing else comes")
		}
		if err != nil {
			p.t.Fatal(err)
		}
		if m.Type != "alive" {
			return m
		}
	}
}

func TestRateHolds(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	p := r.hello()
	p.follow("x", "q", `,"rate":"1h"`)
	p.expect("snapshot")
	p.follow("y", "q", "")
	p.expect("snapshot")
	r.record(id, rows("b"))
	if m := p.expect("delta"); m.ID != "y" {
		t.Errorf("sent in spite of the rate: %s", m.raw)
	}
	p.send(`{"type":"ping"}`)
	p.expect("pong")
}

// A client that waits for its rate hears that nothing has changed and whether the query is
// kept up to date.
func TestSignsOfLifeDuringRate(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Timing.Ping = 30 * time.Millisecond })
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	p := r.hello()
	p.follow("x", "q", `,"rate":"1h"`)
	p.expect("snapshot")
	if m := p.expect("alive"); m.Seq != 1 || m.CheckedAt.IsZero() {
		t.Errorf("alive: %s", m.raw)
	}
	r.log.Fail(id, "endpoint answered 503")
	r.waker.Wake(id)
	if m := p.skipAlive(); m.Type != "status" || m.State != "stale" {
		t.Errorf("after a failure: %s", m.raw)
	}
}

func TestRateFolds(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	p := r.hello()
	p.follow("x", "q", `,"rate":"300ms"`)
	p.expect("snapshot")
	r.log.Record(id, rows("a", "b"), time.Now())
	r.log.Record(id, rows("c"), time.Now())
	r.record(id, rows("c", "d"))
	m := p.expect("delta")
	if m.Prev != 1 || m.Seq != 4 || strings.Count(string(m.Added), `"value"`) != 2 || strings.Count(string(m.Removed),
		`"value"`) != 1 || *m.Jaccard != 1 {
		t.Errorf("folded: %s", m.raw)
	}
	// What cancels out only moves the position.
	r.log.Record(id, rows("z"), time.Now())
	r.record(id, rows("c", "d"))
	if m := p.expect("alive"); m.Seq != 6 {
		t.Errorf("alive: %s", m.raw)
	}
	r.record(id, rows("e"))
	if m := p.expect("delta"); m.Prev != 6 || m.Seq != 7 {
		t.Errorf("after alive: %s", m.raw)
	}
}

func TestAckWindow(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Limits.Window = 2 })
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("0"))
	p := r.hello()
	p.follow("a", "q", "")
	p.expect("snapshot")
	p.send(`{"type":"ack","id":"a","seq":1}`)
	p.send(`{"type":"ping"}`)
	p.expect("pong") // the window is in force
	for i := 1; i <= 5; i++ {
		r.record(id, rows(fmt.Sprint(i)))
		if i <= 2 {
			if m := p.expect("delta"); m.Seq != uint64(i+1) {
				t.Fatalf("delta: %s", m.raw)
			}
		}
	}
	p.send(`{"type":"ping"}`)
	p.expect("pong") // two are under way: no more until one is acknowledged
	p.send(`{"type":"ack","id":"a","seq":2}`)
	if m := p.expect("delta"); m.Prev != 3 || m.Seq != 6 {
		t.Errorf("after the ack: %s, want everything that waited", m.raw)
	}
}

// A lateListener accepts connections of which a write returns only after the client has had the time to answer.
type lateListener struct{ net.Listener }

type lateConn struct{ *net.TCPConn }

func (l lateListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lateConn{c.(*net.TCPConn)}, nil
}

func (c *lateConn) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	time.Sleep(20 * time.Millisecond)
	return n, err
}

// An acknowledgement counts although it comes before the write of what it acknowledges has returned.
func TestAckDuringWrite(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Limits.Window = 2 })
	late := httptest.NewUnstartedServer(r.http.Config.Handler)
	late.Listener = lateListener{late.Listener}
	late.Start()
	defer late.Close()
	r.http.URL = late.URL
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("0"))
	p := r.hello()
	p.follow("a", "q", "")
	p.expect("snapshot")
	p.send(`{"type":"ack","id":"a","seq":1}`)
	p.send(`{"type":"ping"}`)
	p.expect("pong")
	for i := 1; i <= 2; i++ { // the window has room for both
		r.record(id, rows(fmt.Sprint(i)))
		if m := p.expect("delta"); m.Seq != uint64(i+1) {
			t.Fatalf("delta: %s", m.raw)
		}
	}
}

func TestSnapshots(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Limits.Part, o.Limits.Change = 300, 1000 })
	id := r.log.Add("q", "SELECT", true)
	var many []string
	for i := range 40 {
		many = append(many, fmt.Sprintf("value %02d", 40-i))
	}
	r.record(id, table(true, many...))
	p := r.hello()
	if m := p.follow("a", "q", ""); !strings.Contains(m.raw, `"ordered":true`) || m.Form != "SELECT" {
		t.Errorf("subscribed: %s", m.raw)
	}
	var got []string
	for part := 1; ; part++ {
		m := p.expect("snapshot")
		if m.Part != part || m.Seq != 1 || len(m.Results) > 400 {
			t.Fatalf("part %d: %s", part, m.raw)
		}
		_, rows, err := diff.ParseRowsJSON(diff.Select, m.Results)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows {
			got = append(got, string(row))
		}
		if m.Last {
			break
		}
	}
	if want := table(true, many...); len(got) != 40 || got[0] != string(want.Row(0)) || got[39] != string(want.Row(39)) {
		t.Errorf("parts hold %d rows: %v", len(got), got)
	}
	// A change above the limit comes as a snapshot.
	slices.Reverse(many)
	r.record(id, table(true, many[:20]...))
	if m := p.expect("snapshot"); m.Seq != 2 || m.Part != 1 {
		t.Errorf("instead of a large delta: %s", m.raw)
	}
	for !p.expect("snapshot").Last {
	}
	q := r.hello()
	q.follow("b", "q", `,"mode":"snapshot"`)
	for !q.expect("snapshot").Last {
	}
	r.record(id, table(true, "one"))
	if m := q.expect("snapshot"); m.Seq != 3 || string(m.Results) != string(table(true, "one").Document()) {
		t.Errorf("snapshot: %s", m.raw)
	}
}

func TestForms(t *testing.T) {
	r := newRig(t, nil)
	a := r.log.Add("ask", "ASK", false)
	g := r.log.Add("graph", "CONSTRUCT", false)
	o := r.log.Add("ordered", "SELECT", true)
	p := r.hello()
	for _, q := range []string{"ask", "graph", "ordered"} {
		p.follow(q, q, "")
	}
	for _, c := range []struct {
		id   string
		res  *diff.Result
		want map[string]string
	}{
		{a, ask(true), map[string]string{"boolean": "true", "previous": "null", "baseline": "true", "jaccard": "null", "previous_hash": "null"}},
		{a, ask(false), map[string]string{"boolean": "false", "previous": "true", "jaccard": "1"}},
		{g, graph("a"), map[string]string{"added": `{"triples":["<http://x/a> <http://x/p> \"a\" ."]}`, "removed": `{"triples":[]}`}},
		{o, table(true, "a", "b", "c"), map[string]string{"added_at": "[0,1,2]", "removed_at": "[]"}},
		{o, table(true, "b", "a", "c"), map[string]string{"jaccard": "0"}},
	} {
		r.record(c.id, c.res)
		m := p.expect("delta")
		var fields map[string]json.RawMessage
		if err := json.Unmarshal([]byte(m.raw), &fields); err != nil {
			t.Fatal(err)
		}
		for name, want := range c.want {
			if string(fields[name]) != want {
				t.Errorf("%s is %s, want %s in %s", name, fields[name], want, m.raw)
			}
		}
	}
}

// brokenLog returns only errors once it has returned a gap.
type brokenLog struct {
	notify.Log
	err    error
	broken atomic.Bool
}

func (l *brokenLog) After(id string, p registry.Position, limit int) ([]registry.Change, error) {
	changes, err := l.Log.After(id, p, limit)
	var gap *registry.GapError
	if errors.As(err, &gap) {
		l.broken.Store(true)
	}
	return changes, err
}

func (l *brokenLog) Current(id string, withResult bool) (registry.Status, *diff.Result, error) {
	if l.broken.Load() {
		return registry.Status{}, nil, l.err
	}
	return l.Log.Current(id, withResult)
}

// An error of the restart after a gap concerns its subscription only, and the
// connection continues.
func TestGapWithoutNewBeginning(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kind string
		want string
	}{
		"the query ended": {fmt.Errorf("query: %w", registry.ErrNotFound), "complete", `"reason":"released"`},
		"the log failed":  {errors.New("disk on fire"), "error", `"code":"unavailable"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *notify.Options) { o.Log = &brokenLog{Log: o.Log, err: c.err} })
			id := r.log.Add("q", "SELECT", false)
			r.record(id, rows("a"))
			p := r.hello()
			p.follow("a", "q", "")
			p.expect("snapshot")
			r.log.Renumber(id, "new")
			r.waker.Wake(id)
			if m := p.expect(c.kind); !strings.Contains(m.raw, `"id":"a"`) || !strings.Contains(m.raw, c.want) {
				t.Errorf("received %s", m.raw)
			}
			// The connection goes on. The turn after the snapshot may have failed too, before
			// the one that Wake caused.
			p.send(`{"type":"ping"}`)
			for {
				m, err := p.next()
				if err != nil {
					t.Fatalf("waiting for pong: %v", err)
				}
				if m.Type == "pong" {
					break
				}
				if m.Type != "error" || c.kind != "error" || !strings.Contains(m.raw, c.want) {
					t.Fatalf("got %s, want pong", m.raw)
				}
			}
		})
	}
}

// A subscription ends when the log fails. The client may open it again, from where it was.
func TestSubscriptionEndsWhenTheLogFails(t *testing.T) {
	l := &brokenLog{err: errors.New("disk on fire")}
	r := newRig(t, func(o *notify.Options) { l.Log, o.Log = o.Log, l })
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	p := r.hello()
	p.follow("a", "q", "")
	epoch := p.expect("snapshot").Epoch
	l.broken.Store(true)
	r.record(id, rows("a", "b"))
	if m := p.skipAlive(); m.Type != "error" || m.Code != "unavailable" || !strings.Contains(m.raw, `"id":"a"`) {
		t.Fatalf("%s", m.raw)
	}
	if list := r.srv.Subscriptions("", 10); len(list) != 0 {
		t.Errorf("still there: %+v", list)
	}
	l.broken.Store(false)
	p.follow("a", "q", fmt.Sprintf(`,"resume":{"epoch":%q,"seq":1}`, epoch))
	if m := p.skipAlive(); m.Type != "delta" || m.Seq != 2 {
		t.Errorf("after it was opened again: %s", m.raw)
	}
}

// The token is checked again at every heartbeat.
func TestTokenWithdrawn(t *testing.T) {
	withdrawn := make(chan struct{})
	r := newRig(t, func(o *notify.Options) {
		o.Timing.Ping = 20 * time.Millisecond
		o.Gate = gateFunc(func(token string) (registry.Caller, error) {
			select {
			case <-withdrawn:
				return registry.Caller{}, notify.ErrUnauthorized
			default:
				return registry.Caller{Name: token, Role: registry.RoleRead}, nil
			}
		})
	})
	p := r.dial(nil)
	p.send(`{"type":"init","token":"t"}`)
	p.expect("ready")
	close(withdrawn)
	if got := p.closed(); got != 4401 {
		t.Errorf("closed with %d, want 4401", got)
	}
}

// A client without a token follows public queries of a server that has tokens, and is not told whether there are others. Of
// trouble it is told that there is some, but not what the endpoint or an operator said, which may name hosts and users.
func TestStranger(t *testing.T) {
	var paused atomic.Bool
	r := newRig(t, func(o *notify.Options) {
		o.Gate = gate{"t": {Name: "r", Role: registry.RoleRead}}
		o.Timing.Ping = 20 * time.Millisecond
		o.Halted = func(string) string {
			if paused.Load() {
				return "the endpoint is paused by ops"
			}
			return ""
		}
	})
	id, hidden := r.log.Add("q", "SELECT", false), r.log.Add("hidden", "SELECT", false)
	r.log.Publish(id, true)
	r.record(id, rows("a"))
	r.record(hidden, rows("a"))
	p := r.dial(nil)
	p.send(`{"type":"init"}`)
	if m := p.expect("ready"); !strings.Contains(string(m.Limits), `"message":16384`) {
		t.Errorf("%s", m.raw)
	}
	messages := make(map[string]bool)
	for _, what := range []string{`"query":"hidden"`, `"query":"` + hidden + `"`, `"query":"none"`} {
		p.send(`{"type":"subscribe","id":"x",` + what + `}`)
		m := p.skipAlive()
		if m.Type != "error" || m.Code != "not_allowed" || m.ID != "x" {
			t.Errorf("%s: %s", what, m.raw)
		}
		messages[m.Message] = true
	}
	if len(messages) != 1 {
		t.Errorf("a private query and none differ: %v", messages)
	}
	for _, what := range []string{`"query":{"endpoint":"test","sparql":"SELECT live"}`, `"profile":"p"`} {
		p.send(`{"type":"subscribe","id":"x",` + what + `}`)
		if m := p.skipAlive(); m.Type != "error" || m.Code != "not_allowed" {
			t.Errorf("%s: %s", what, m.raw)
		}
	}
	p.follow("a", "q", "")
	if m := p.skipAlive(); m.Type != "snapshot" {
		t.Fatalf("%s", m.raw)
	}
	r.record(id, rows("b"))
	if m := p.skipAlive(); m.Type != "delta" || m.Seq != 2 {
		t.Fatalf("%s", m.raw)
	}
	status := func(state, said string) {
		t.Helper()
		if m := p.skipAlive(); m.Type != "status" || m.State != state || m.Error != said {
			t.Errorf("%s, want %s and the error %q", m.raw, state, said)
		}
	}
	stranger := p
	r.token = "t"
	reader := r.hello()
	reader.follow("b", "q", "")
	reader.expect("snapshot")
	for _, why := range []string{"the endpoint is paused by ops", "no route to inside.example"} {
		if paused.Store(strings.Contains(why, "paused")); !paused.Load() {
			r.log.Fail(id, why)
		}
		p = reader
		status("stale", why)
		p = stranger
		status("stale", "")
		paused.Store(false)
		r.record(id, rows("b"))
		status("live", "")
		p = reader
		status("live", "")
	}
	p.send(`{"type":"unsubscribe","id":"b"}`)
	if m := p.skipAlive(); m.Type != "complete" {
		t.Fatalf("%s", m.raw)
	}
	p = stranger
	r.log.Publish(id, false)
	if m := p.skipAlive(); m.Type != "error" || m.Code != "not_allowed" || m.ID != "a" {
		t.Fatalf("a query that is not public any more: %s", m.raw)
	}
	r.record(id, rows("c"))
	p.send(`{"type":"ping"}`)
	if m := p.skipAlive(); m.Type != "pong" {
		t.Errorf("after the end of the subscription: %s", m.raw)
	}
	if list := r.srv.Subscriptions("", 10); len(list) != 0 {
		t.Errorf("still there: %+v", list)
	}
}

// The connection of a server without tokens goes on when the server gets its first one, with its public queries.
func TestFirstToken(t *testing.T) {
	var closed atomic.Bool
	r := newRig(t, func(o *notify.Options) {
		o.Gate = gateFunc(func(string) (registry.Caller, error) {
			if closed.Load() {
				return registry.Caller{}, notify.ErrUnauthorized
			}
			return open[""], nil
		})
	})
	public, hidden := r.log.Add("public", "SELECT", false), r.log.Add("hidden", "SELECT", false)
	r.log.Publish(public, true)
	p := r.hello()
	p.follow("a", "public", "")
	p.follow("b", "hidden", "")
	closed.Store(true)
	r.srv.Recheck()
	if m := p.skipAlive(); m.Type != "error" || m.Code != "not_allowed" || m.ID != "b" {
		t.Fatalf("%s", m.raw)
	}
	r.record(hidden, rows("a"))
	r.record(public, rows("a"))
	if m := p.skipAlive(); m.Type != "delta" || m.ID != "a" {
		t.Errorf("%s", m.raw)
	}
}

// A subscription without a token counts as a connection of its address, as an event stream does.
func TestStrangersOfOneAddress(t *testing.T) {
	r := newRig(t, func(o *notify.Options) {
		o.Gate = gate{"t": {Name: "r", Role: registry.RoleRead}}
		o.Limits.OneAddress = 3
	})
	r.log.Publish(r.log.Add("q", "SELECT", false), true)
	from := http.Header{"X-Forwarded-For": {"203.0.113.9"}}
	p := r.dial(from)
	p.send(`{"type":"init"}`)
	p.expect("ready")
	p.follow("a", "q", "")
	p.follow("b", "q", "")
	again := `{"type":"subscribe","id":"c","query":"q"}`
	p.send(again)
	if m := p.skipAlive(); m.Type != "error" || m.Code != "limit" || !strings.Contains(m.Message, "limits.address_connections") ||
		!strings.Contains(m.raw, `"retry_after":"10s"`) {
		t.Errorf("%s", m.raw)
	}
	if code := r.dial(from).closed(); code != 4006 {
		t.Errorf("closed with %d", code)
	}
	p.send(`{"type":"unsubscribe","id":"a"}`)
	p.expect("complete")
	r.eventually("a place", func() bool {
		p.send(again)
		return p.skipAlive().Type == "subscribed"
	})
	p.conn.Close()
	r.empty()
	p = r.dial(from)
	p.send(`{"type":"init","token":"t"}`)
	p.expect("ready")
	for i := range 5 {
		p.follow(fmt.Sprint(i), "q", "")
	}
}

// A connection without a token is closed when it has followed nothing for a while. One with a token may be idle.
func TestIdleStrangers(t *testing.T) {
	r := newRig(t, func(o *notify.Options) {
		o.Gate = gate{"t": {Name: "r", Role: registry.RoleRead}}
		o.Timing.Idle, o.Timing.Ping = time.Second, 100*time.Millisecond
	})
	id := r.log.Add("q", "SELECT", false)
	r.log.Publish(id, true)
	r.record(id, rows("a"))
	var busy *peer
	for end, m := time.Now().Add(patience), (reply{}); m.Type != "subscribed"; { // a slow machine may need more time to subscribe
		busy = r.hello()
		busy.send(`{"type":"subscribe","id":"a","query":"q"}`)
		var err error
		if m, err = busy.next(); err != nil && time.Now().After(end) {
			t.Fatal(err)
		}
	}
	r.token = "t"
	reader := r.hello()
	r.token = ""
	if code := r.hello().closed(); code != live.CloseIdle {
		t.Errorf("one that follows nothing: %d", code)
	}
	reader.send(`{"type":"ping"}`)
	reader.expect("pong")
	r.record(id, rows("b"))
	busy.expect("snapshot")
	if m := busy.skipAlive(); m.Type != "delta" {
		t.Errorf("one that follows something: %s", m.raw)
	}
	busy.send(`{"type":"unsubscribe","id":"a"}`)
	if code := busy.closed(); code != live.CloseIdle {
		t.Errorf("one that has unsubscribed: %d", code)
	}
}

type gateFunc func(string) (registry.Caller, error)

func (f gateFunc) Authenticate(_, token string) (registry.Caller, error) { return f(token) }

// A slow prediction of a query's next execution does not delay new followers.
func TestSlowPredictionDelaysNoClient(t *testing.T) {
	asked, answer := make(chan struct{}, 2), make(chan struct{})
	r := newRig(t, func(o *notify.Options) {
		o.Due = func(string, string) (time.Time, error) {
			asked <- struct{}{}
			<-answer
			return time.Time{}, nil
		}
	})
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	p := r.hello()
	p.follow("a", "q", "")
	p.expect("snapshot")
	r.log.Fail(id, "endpoint answered 503")
	r.waker.Wake(id)
	<-asked
	defer close(answer)
	r.hello().follow("b", "q", "")
}

// A subscription that ends in the middle of a result receives no further parts.
func TestUnsubscribeInTheMiddle(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", "SELECT", false)
	r.record(id, wide(0, 10_000)) // 10 MB, far more than the buffers between us hold
	p := r.hello()
	p.send(`{"type":"subscribe","id":"a","query":"q"}`)
	p.expect("subscribed")
	all := p.expect("snapshot").Part
	p.send(`{"type":"unsubscribe","id":"a"}`)
	for m := (reply{}); m.Type != "complete"; all++ {
		var err error
		if m, err = p.next(); err != nil {
			t.Fatal(err)
		}
		if m.Last {
			t.Fatal("it got all of the result")
		}
	}
	t.Logf("%d messages", all)
	if all > 250 {
		t.Errorf("%d messages came after it, of about 340 parts", all)
	}
	p.follow("a", "q", "") // another of the same name gets everything
	for n := 1; ; n++ {
		m := p.expect("snapshot")
		if m.Part != n {
			t.Fatalf("part %d comes as number %d", m.Part, n)
		}
		if m.Last {
			break
		}
	}
}

// A snapshot whose result is replaced during the transfer ends as the result of one
// moment.
func TestSnapshotOfOneMoment(t *testing.T) {
	r := newRig(t, nil)
	id := r.log.Add("q", "SELECT", false)
	r.record(id, wide(0, 4000))
	p := r.hello()
	p.send(`{"type":"subscribe","id":"a","query":"q"}`)
	p.expect("subscribed")
	r.record(id, wide(1, 4000))
	n, seq := 0, uint64(0)
	for {
		m := p.expect("snapshot")
		if m.Part == 1 {
			n, seq = 0, m.Seq
		}
		var doc struct {
			Results struct{ Bindings []json.RawMessage }
		}
		must(json.Unmarshal(m.Results, &doc))
		if n += len(doc.Results.Bindings); m.Seq != seq {
			t.Fatalf("a part of %d after one of %d", m.Seq, seq)
		}
		if m.Last {
			break
		}
	}
	if n != 4000 {
		t.Errorf("%d rows in the parts", n)
	}
}
