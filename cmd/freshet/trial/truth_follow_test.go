package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet/freshet/notify/live"
	"github.com/gorilla/websocket"
)

// An audience is the set of followers of one server. Each is disconnected and reconnects at
// random moments. At the end all of them reconnect once more and receive the rest.
type audience struct {
	nodes    []string      // addresses at which followers connect, each time another one
	pace     time.Duration // approximate time between two revisions
	over     chan struct{} // closed after the last tick
	faults   bool          // nodes may be cut off for a while, and results late
	revision atomic.Int64
	members  sync.WaitGroup
	seed     uint64

	mu          sync.Mutex
	transcripts []*transcript
	wrong       []string
	cuts        atomic.Int64 // connections that were cut by the follower
	failed      atomic.Int64 // attempts to connect that failed
	connects    atomic.Uint64
}

// addr returns the address for the next connection.
func (a *audience) addr() string { return a.nodes[a.connects.Add(1)%uint64(len(a.nodes))] }

// A member holds the random generator and the start of one follower.
type member struct {
	*audience
	name string
	rng  *rand.Rand
	from int64 // revision before which it does not connect
}

func (a *audience) member(name string, from int64) member {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seed++
	return member{a, name, rand.New(rand.NewPCG(a.seed, 7)), from}
}

// transcript starts at the registration of the query if the member knows it, else at the state that
// the member first sees.
func (m member) transcript(f *fact, registered bool) *transcript {
	s := &transcript{fact: f, by: m.name}
	if registered {
		s.known, s.epoch = true, f.epoch
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.transcripts = append(m.transcripts, s)
	return s
}

func (m member) object(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wrong = append(m.wrong, m.name+": "+fmt.Sprintf(format, args...))
}

func (a *audience) isOver() bool {
	select {
	case <-a.over:
		return true
	default:
		return false
	}
}

// follow connects again and again. connect returns true when it has received everything.
func (m member) follow(ctx context.Context, connect func(ctx context.Context, last bool) bool) {
	m.members.Go(func() {
		for m.revision.Load() < m.from && !m.isOver() && m.sleep(ctx, 20*time.Millisecond) {
		}
		for ctx.Err() == nil {
			last := m.isOver()
			if connect(ctx, last) {
				return
			}
			wait := 100 * time.Millisecond
			if !m.isOver() {
				wait = m.pause()
			}
			m.sleep(ctx, wait)
		}
		m.object("the end of the changes did not arrive in time")
	})
}

// pause returns a random pause. Most are short; some span several revisions.
func (m member) pause() time.Duration {
	if m.rng.IntN(5) > 0 {
		return time.Duration(m.rng.Int64N(int64(m.pace)/2 + 1))
	}
	return time.Duration(m.rng.Int64N(25 * int64(m.pace)))
}

// sleep returns false if ctx ended. The end of the test wakes it up.
func (m member) sleep(ctx context.Context, d time.Duration) bool {
	over := m.over
	if m.isOver() {
		over = nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-over:
	case <-t.C:
	}
	return true
}

// cutter cuts a connection at a random moment, after about the given life, unless it is the last
// one.
func (m member) cutter(ctx context.Context, life time.Duration, last bool, cut func()) (stop func()) {
	done := make(chan struct{})
	var ended sync.WaitGroup
	over, after := m.over, time.Duration(m.rng.ExpFloat64()*float64(life))
	ended.Go(func() {
		var moment <-chan time.Time
		if last {
			over = nil
		} else {
			t := time.NewTimer(after)
			defer t.Stop()
			moment = t.C
		}
		select {
		case <-done:
			return
		case <-ctx.Done():
		case <-over:
		case <-moment:
			m.cuts.Add(1)
		}
		cut()
	})
	return func() { close(done); ended.Wait() }
}

// A wsFollower follows any number of queries over one WebSocket.
type wsFollower struct {
	member
	transcripts []*transcript
	ack         bool
	rate        string
	life        time.Duration
	known       bool // it starts at the registration
}

func (a *audience) websocket(ctx context.Context, f wsFollower, facts []*fact) {
	for _, x := range facts {
		f.transcripts = append(f.transcripts, f.transcript(x, f.known))
	}
	f.follow(ctx, f.connect)
}

func (f *wsFollower) connect(ctx context.Context, last bool) bool {
	d := websocket.Dialer{Subprotocols: []string{"freshet.v1"}, HandshakeTimeout: time.Minute}
	conn, _, err := d.DialContext(ctx, "ws://"+f.addr()+"/v1/live", nil)
	if err != nil {
		if ctx.Err() == nil {
			f.failed.Add(1)
		}
		return false
	}
	defer conn.Close()
	stop := f.cutter(ctx, f.life, last, func() { conn.Close() })
	defer stop()
	if !f.subscribe(conn) {
		return false
	}
	asked := false
	for {
		_, raw, err := conn.ReadMessage()
		if err != nil {
			var c *websocket.CloseError
			// A node that finds its journal damaged while it serves ends in order; one that is cut off sends followers away.
			allowed := []int{websocket.CloseAbnormalClosure}
			if f.faults {
				allowed = append(allowed, live.CloseDraining, live.CloseElsewhere)
			}
			if errors.As(err, &c) && !slices.Contains(allowed, c.Code) {
				f.object("closed with %v", c)
			}
			return false
		}
		var n notice
		if err := json.Unmarshal(raw, &n); err != nil {
			f.object("message %.200s: %v", raw, err)
			return true
		}
		if f.faults && n.Code == "unavailable" {
			return false
		}
		if n.Type == "pong" {
			return true
		}
		if good := f.receive(conn, n, raw); !good {
			return true
		}
		// All outstanding messages arrive before the answer to this request.
		if last && !asked && f.arrived() {
			asked = true
			time.Sleep(100 * time.Millisecond)
			if conn.WriteJSON(map[string]any{"type": "ping"}) != nil {
				return false
			}
		}
	}
}

func (f *wsFollower) subscribe(conn *websocket.Conn) bool {
	if conn.WriteJSON(map[string]any{"type": "init"}) != nil {
		return false
	}
	for _, n := range f.rng.Perm(len(f.transcripts)) {
		s := f.transcripts[n]
		if f.rng.IntN(10) == 0 {
			s.forget(f.rng)
		}
		m := map[string]any{"type": "subscribe", "id": strconv.Itoa(n), "query": s.fact.id}
		if s.known {
			m["resume"] = map[string]any{"epoch": s.epoch, "seq": s.seq}
		}
		if f.rate != "" {
			m["rate"] = f.rate
		}
		if conn.WriteJSON(m) != nil {
			return false
		}
	}
	return true
}

// receive applies one message. It returns false if the follower cannot continue.
func (f *wsFollower) receive(conn *websocket.Conn, n notice, raw []byte) bool {
	if n.Type == "ready" {
		return true
	}
	i, err := strconv.Atoi(n.ID)
	if err != nil || i >= len(f.transcripts) {
		f.object("unasked: %.300s", raw)
		return false
	}
	s := f.transcripts[i]
	before := len(s.records)
	switch n.Type {
	case "subscribed":
		s.begun(n)
	case "snapshot":
		s.snapshot(n, raw)
	case "delta":
		s.change(n, raw)
	case "alive":
		s.alive(n)
	case "large":
	case "status":
		if !f.faults {
			s.object("%.300s", raw)
		}
	default:
		s.object("%.300s", raw)
	}
	if f.ack && len(s.records) > before {
		_ = conn.WriteJSON(map[string]any{"type": "ack", "id": n.ID, "seq": n.Seq}) // the next read reports a broken connection
	}
	return len(s.wrong) == 0
}

func (f *wsFollower) arrived() bool {
	for _, s := range f.transcripts {
		if !s.arrived() {
			return false
		}
	}
	return true
}

// getStream opens an event stream, from a position if there is one.
func (a *audience) getStream(ctx context.Context, path, after string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.addr()+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	if after != "" {
		r.Header.Set("Last-Event-ID", after)
	}
	resp, err := streams.Do(r)
	if err != nil {
		if ctx.Err() == nil {
			a.failed.Add(1)
		}
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body.Close()
		return nil, fmt.Errorf("%s %s", resp.Status, resp.Header.Get("Content-Type"))
	}
	return resp, nil
}

// streams opens a separate connection for every event stream.
var streams = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
