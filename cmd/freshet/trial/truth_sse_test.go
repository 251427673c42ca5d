package trial

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// An event is a complete event of an event stream: an empty line followed it.
type event struct{ kind, id, data string }

// readEvents calls fn for each event until the stream ends or fn returns false.
func readEvents(r io.Reader, fn func(event) bool) {
	b := bufio.NewReaderSize(r, 64<<10)
	var e event
	for {
		line, err := b.ReadString('\n')
		if err != nil {
			return // an incomplete event does not count
		}
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			e.kind = value
		case "id":
			e.id = value
		case "data":
			e.data += value
		case "":
			if line != "" { // a comment
				continue
			}
			if (e.data != "" || e.id != "") && !fn(e) {
				return
			}
			e = event{}
		}
	}
}

// An sseFollower follows one query by server-sent events.
type sseFollower struct {
	member
	transcript *transcript
	life       time.Duration
}

func (a *audience) sse(ctx context.Context, m member, life time.Duration, x *fact) {
	f := &sseFollower{m, m.transcript(x, m.from == 0), life}
	m.follow(ctx, f.connect)
}

func (f *sseFollower) connect(ctx context.Context, last bool) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := f.cutter(ctx, f.life, last, cancel)
	defer stop()
	s, after := f.transcript, ""
	if f.rng.IntN(10) == 0 {
		s.forget(f.rng)
	}
	if s.known {
		after = fmt.Sprintf("%s:%d", s.epoch, s.seq)
	}
	resp, err := f.getStream(ctx, "/v1/queries/"+s.fact.id+"/changes", after)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	if s.known {
		s.resumed++
	}
	delay := func() {
		if last && s.arrived() { // wait briefly for events that should not come
			time.AfterFunc(200*time.Millisecond, cancel)
		}
	}
	delay()
	readEvents(resp.Body, func(e event) bool {
		if e.kind == "" || e.kind == "status" && f.faults {
			return true
		}
		receiveEvent(s, e)
		delay()
		return len(s.wrong) == 0
	})
	return last && s.arrived() || len(s.wrong) > 0
}

// receiveEvent applies one event of a query's stream.
func receiveEvent(s *transcript, e event) {
	var n notice
	if err := json.Unmarshal([]byte(e.data), &n); err != nil {
		s.object("event %q: %v", e.data, err)
		return
	}
	if n.Query != s.fact.id && e.kind != "gap" {
		s.object("an event of %s in the stream of %s", n.Query, s.fact.id)
	}
	if want := fmt.Sprintf("%s:%d", n.Epoch, n.Seq); e.kind != "gap" && e.id != want {
		s.object("the event at %s has the id %s", want, e.id)
	}
	switch e.kind {
	case "snapshot":
		s.snapshot(n, []byte(e.data))
	case "change":
		s.change(n, []byte(e.data))
	case "alive":
		s.alive(n)
	default:
		s.object("event %s: %.300s", e.kind, e.data)
	}
}

// An allFollower follows the changes of all queries by one event stream.
type allFollower struct {
	member
	byQuery map[string]*transcript
	epoch   string
	offset  uint64
	life    time.Duration
}

// all follows all changes from the offset, which is before every change.
func (a *audience) all(ctx context.Context, m member, life time.Duration, epoch string, facts []*fact) {
	f := &allFollower{member: m, byQuery: map[string]*transcript{}, epoch: epoch, life: life}
	for _, x := range facts {
		f.byQuery[x.id] = m.transcript(x, true)
	}
	m.follow(ctx, f.connect)
}

func (f *allFollower) connect(ctx context.Context, last bool) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := f.cutter(ctx, f.life, last, cancel)
	defer stop()
	resp, err := f.getStream(ctx, "/v1/changes", fmt.Sprintf("%s:%d", f.epoch, f.offset))
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	delay := func() {
		if last && f.arrived() {
			time.AfterFunc(200*time.Millisecond, cancel)
		}
	}
	delay()
	good := true
	readEvents(resp.Body, func(e event) bool {
		if e.kind == "" {
			return true
		}
		good = f.receive(e)
		delay()
		return good
	})
	return last && f.arrived() || !good
}

func (f *allFollower) receive(e event) bool {
	var n struct {
		notice
		Offset uint64
	}
	if err := json.Unmarshal([]byte(e.data), &n); err != nil || e.kind != "change" {
		f.object("event %s %.300s: %v", e.kind, e.data, err)
		return false
	}
	s := f.byQuery[n.Query]
	if s == nil || n.Offset != f.offset+1 || e.id != fmt.Sprintf("%s:%d", f.epoch, n.Offset) {
		f.object("after offset %d came %s: %.300s", f.offset, e.id, e.data)
		return false
	}
	f.offset = n.Offset
	s.change(n.notice, []byte(e.data))
	return len(s.wrong) == 0
}

func (f *allFollower) arrived() bool {
	for _, s := range f.byQuery {
		if !s.arrived() {
			return false
		}
	}
	return true
}

// A stableFollower receives all changes and never disconnects by itself. It receives
// each change because the change was announced, not because it reconnected.
type stableFollower struct {
	member
	epoch  string
	offset atomic.Uint64
	idle   atomic.Int64 // heartbeats without any change
}

func (a *audience) stableFollower(ctx context.Context, m member, epoch string) *stableFollower {
	s := &stableFollower{member: m, epoch: epoch}
	a.members.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer m.cutter(ctx, 1000*time.Hour, false, cancel)()
		for s.listen(ctx); ctx.Err() == nil && !m.isOver(); s.listen(ctx) {
			time.Sleep(20 * time.Millisecond) // the server is down
		}
	})
	return s
}

func (s *stableFollower) listen(ctx context.Context) {
	resp, err := s.getStream(ctx, "/v1/changes", fmt.Sprintf("%s:%d", s.epoch, s.offset.Load()))
	if err != nil {
		return
	}
	defer resp.Body.Close()
	readEvents(resp.Body, func(e event) bool {
		if e.kind == "" {
			s.idle.Add(1)
			return true
		}
		_, at, _ := strings.Cut(e.id, ":")
		n, err := strconv.ParseUint(at, 10, 64)
		s.offset.Store(n)
		return err == nil
	})
}

// waitFor waits until the follower has received everything up to an offset. A change that arrives
// only after an idle period was not announced. One heartbeat does not prove an idle period,
// because it may have been due when the change was committed.
func (s *stableFollower) waitFor(ctx context.Context, offset uint64) error {
	for idle := s.idle.Load(); s.offset.Load() < offset; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil || s.idle.Load() > idle+1 {
			return fmt.Errorf("%d changes are committed, %d were announced: %v", offset, s.offset.Load(), ctx.Err())
		}
	}
	return nil
}
