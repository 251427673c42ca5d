package notify_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A complexLog keeps the rounds of one profile, to the contract of Captures.
type complexLog struct {
	mu    sync.Mutex
	epoch string
	ends  []registry.RoundEnd
	first uint64 // the oldest end that is kept
	gone  bool
}

var _ notify.Captures = (*complexLog)(nil)

func (l *complexLog) ProfileStatus(string) (registry.ProfileStatus, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return registry.ProfileStatus{}, registry.ErrNotFound
	}
	s := registry.ProfileStatus{Position: registry.Position{Epoch: l.epoch}}
	if n := len(l.ends); n > 0 {
		s.Seq, s.Expired = l.ends[n-1].Captured, l.ends[n-1].Expired
	}
	return s, nil
}

func (l *complexLog) EndOf(_ string, p registry.Position) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return 0, registry.ErrNotFound
	}
	if p.Epoch != l.epoch {
		return 0, &registry.GapError{Reason: registry.OtherEpoch}
	}
	if p.Seq == 0 {
		return 0, nil
	}
	for _, e := range l.ends {
		if e.Position.Seq == p.Seq {
			return e.End, nil
		}
	}
	return 0, &registry.GapError{Reason: registry.Ahead}
}

func (l *complexLog) Ends(_, epoch string, end uint64, limit int) ([]registry.RoundEnd, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.gone:
		return nil, registry.ErrNotFound
	case epoch != l.epoch:
		return nil, &registry.GapError{Reason: registry.OtherEpoch}
	case end+1 < l.first:
		return nil, &registry.GapError{Reason: registry.TooOld}
	}
	end = min(end, uint64(len(l.ends)))
	return l.ends[end:min(int(end)+limit, len(l.ends))], nil
}

// add records the end of a round.
func (l *complexLog) add(captured bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := registry.RoundEnd{End: uint64(len(l.ends) + 1)}
	if n := len(l.ends); n > 0 {
		e.Captured, e.Expired = l.ends[n-1].Captured, l.ends[n-1].Expired
	}
	at := time.Unix(1_790_000_000, 0).UTC()
	e.Round = registry.Round{Profile: "p_1", Number: e.End, State: registry.RoundExpired, OpenedAt: at, EndedAt: at, EndedSlot: 9,
		Reason:    "q: late",
		Intervals: []registry.Interval{{Query: "q_1", Reason: "late"}, {Query: "q_2"}}}
	if e.Expired++; captured {
		e.Expired--
		e.Captured++
		e.State, e.Reason, e.Position = registry.RoundCaptured, "", registry.Position{Epoch: l.epoch, Seq: e.Captured}
		for i := range e.Intervals {
			e.Intervals[i].Reason = ""
			e.Intervals[i].Done = &registry.Execution{Position: registry.Position{Epoch: "q", Seq: e.End}, At: at, Slot: 9, Why: "interval"}
		}
	}
	l.ends = append(l.ends, e)
}

func newComplexRig(t *testing.T) (*rig, *complexLog) {
	l := &complexLog{epoch: "e"}
	resolve := func(_ registry.Caller, ref string) (registry.Profile, error) {
		if ref != "p_1" && ref != "board" {
			return registry.Profile{}, registry.ErrNotFound
		}
		return registry.Profile{ID: "p_1", Endpoint: "city"}, nil
	}
	r := newRig(t, func(o *notify.Options) { o.Captures, o.ResolveProfile = l, resolve })
	r.http.Config.Handler.(*http.ServeMux).HandleFunc("/v1/profiles/p_1/captures", func(w http.ResponseWriter, q *http.Request) {
		r.srv.ProfileCaptures(w, q, registry.Anonymous, registry.Profile{ID: "p_1", Endpoint: "city"})
	})
	return r, l
}

func (l *complexLog) happen(r *rig, captured ...bool) {
	for _, c := range captured {
		l.add(c)
	}
	r.waker.Wake("p_1")
}

// message reads the next frame that is not alive, undecoded.
func (p *peer) message() (m map[string]any) {
	p.t.Helper()
	for {
		_, b, err := p.conn.ReadMessage()
		if err != nil {
			p.t.Fatalf("read: %v", err)
		}
		m = nil
		if err := json.Unmarshal(b, &m); err != nil {
			p.t.Fatal(err)
		}
		if m["type"] != "alive" {
			return m
		}
	}
}

func (p *peer) says(want ...string) map[string]any {
	p.t.Helper()
	m := p.message()
	for _, w := range want {
		name, value, _ := strings.Cut(w, "=")
		if fmt.Sprint(m[name]) != value {
			p.t.Errorf("%v: want %s", m, w)
		}
	}
	return m
}

func TestFollowProfile(t *testing.T) {
	r, l := newComplexRig(t)
	l.add(true)
	l.add(false)
	p := r.hello()
	p.send(`{"type":"subscribe","id":"s","profile":"board"}`)
	p.says("type=subscribed", "profile=p_1", "epoch=e", "seq=1", "resumed=false")
	if list := r.srv.Subscriptions("", 10); len(list) != 1 || list[0].Profile != "p_1" || list[0].Query != "" || list[0].Cursor.Seq != 1 {
		t.Errorf("listed: %+v", list)
	}
	l.happen(r, true, false, true)
	m := p.says("type=captured", "id=s", "profile=p_1", "prev=1", "seq=2", "round=3", "slot=9", "expired_count=1")
	results := m["results"].([]any)
	if first := results[0].(map[string]any); len(results) != 2 || first["query"] != "q_1" || first["seq"] != 3.0 || first["epoch"] != "q" {
		t.Errorf("results: %v", results)
	}
	p.says("type=status", "state=expired", "round=4", "error=q: late", "expired_count=2")
	p.says("type=captured", "seq=3", "round=5", "expired_count=2")

	// A client that comes back goes on where it was: what expired since is sent again.
	q := r.hello()
	q.send(`{"type":"subscribe","id":"s","profile":"p_1","resume":{"epoch":"e","seq":2}}`)
	q.says("type=subscribed", "seq=2", "resumed=true")
	q.says("type=status", "round=4")
	q.says("type=captured", "seq=3")
	q.send(`{"type":"subscribe","id":"t","profile":"p_1","resume":{"epoch":"other","seq":2}}`)
	q.says("type=subscribed", "id=t", "seq=3", "resumed=false", "reason=other_epoch")
	q.send(`{"type":"unsubscribe","id":"t"}`)
	q.says("type=complete", "id=t")

	for ask, code := range map[string]string{`"profile":"none"`: "unknown_query", `"profile":7`: "bad_params",
		`"profile":"p_1","query":"q"`: "bad_params", `"profile":"p_1","rate":"5s"`: "bad_params"} {
		q.send(`{"type":"subscribe","id":"x",` + ask + `}`)
		q.says("type=error", "id=x", "code="+code)
	}
	l.mu.Lock()
	l.gone = true
	l.mu.Unlock()
	r.waker.Wake("p_1")
	q.says("type=complete", "id=s", "reason=released")
}

// A client that acknowledges has at most a window of unacknowledged captures.
func TestAcknowledgeCaptures(t *testing.T) {
	r, l := newComplexRig(t)
	p := r.hello()
	p.send(`{"type":"subscribe","id":"s","profile":"p_1"}`)
	p.says("type=subscribed", "seq=0")
	p.send(`{"type":"ack","id":"s","seq":0}`)
	p.send(`{"type":"ping","payload":1}`)
	p.says("type=pong")
	for range 40 {
		l.add(true)
	}
	r.waker.Wake("p_1")
	for i := range 16 {
		p.says("type=captured", fmt.Sprint("seq=", i+1))
	}
	p.send(`{"type":"ping","payload":2}`)
	p.says("type=pong")
	p.send(`{"type":"ack","id":"s","seq":16}`)
	for i := range 16 {
		p.says("type=captured", fmt.Sprint("seq=", i+17))
	}
}

func TestCaptureStream(t *testing.T) {
	r, l := newComplexRig(t)
	const path = "/v1/profiles/p_1/captures"
	l.add(true)
	s := r.stream(t, path+"?after=e:0")
	if e := s.next(); e.kind != "captured" || e.id != "e:1" || e.Seq != 1 {
		t.Errorf("%+v", e)
	}
	l.happen(r, false, true)
	if e := s.next(); e.kind != "expired" || e.id != "" || e.Error != "q: late" {
		t.Errorf("%+v", e)
	}
	if e := s.next(); e.kind != "captured" || e.id != "e:2" {
		t.Errorf("%+v", e)
	}
	late := r.stream(t, path) // begins with what comes
	again := r.stream(t, path, "Last-Event-ID", "e:1")
	if e := again.next(); e.kind != "expired" {
		t.Errorf("%+v", e)
	}
	if e := again.next(); e.kind != "captured" || e.id != "e:2" {
		t.Errorf("%+v", e)
	}
	gap := r.stream(t, path, "Last-Event-ID", "old:7")
	if e := gap.next(); e.kind != "gap" || e.id != "e:2" || e.Reason != "other_epoch" {
		t.Errorf("%+v", e)
	}
	l.happen(r, true)
	for _, x := range []*stream{late, gap} {
		if e := x.next(); e.kind != "captured" || e.id != "e:3" {
			t.Errorf("%+v", e)
		}
	}
	if resp := r.get(t, path, "Last-Event-ID", "nonsense"); resp.StatusCode != 400 {
		t.Errorf("%s", resp.Status)
	}
	l.mu.Lock()
	l.gone = true
	l.mu.Unlock()
	r.waker.Wake("p_1")
	if e := late.next(); e.kind != "complete" || e.Reason != "released" {
		t.Errorf("%+v", e)
	}
}
