package notify_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/registry"
)

// A stream is an open event stream.
type stream struct {
	t    *testing.T
	in   *bufio.Reader
	stop func()
}

// An event is one block of a stream; data is its JSON.
type event struct {
	kind, id, data string
	reply
}

func (r *rig) get(t *testing.T, path string, header ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", r.http.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func (r *rig) stream(t *testing.T, path string, header ...string) *stream {
	t.Helper()
	resp := r.get(t, path, header...)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s: %s %s", path, resp.Status, resp.Header)
	}
	return &stream{t, bufio.NewReader(resp.Body), func() { resp.Body.Close() }}
}

// next reads the next block that is an event.
func (s *stream) next() event {
	s.t.Helper()
	for {
		var e event
		for {
			text, err := s.in.ReadString('\n')
			if err != nil {
				s.t.Fatalf("stream ended: %v", err)
			}
			if text = strings.TrimSuffix(text, "\n"); text == "" {
				break
			}
			name, value, _ := strings.Cut(text, ": ")
			switch name {
			case "event":
				e.kind = value
			case "id":
				e.id = value
			case "data":
				e.data = value
			}
		}
		if e.kind == "" {
			continue
		}
		if err := json.Unmarshal([]byte(e.data), &e.reply); err != nil {
			s.t.Fatalf("data %s: %v", e.data, err)
		}
		return e
	}
}

func TestEventStream(t *testing.T) {
	r := newRig(t, func(o *notify.Options) {
		o.Proved = func(_ string, at registry.Position) (until time.Time) {
			if at.Seq == 1 {
				until = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
			}
			return until
		}
	})
	id := r.log.Add("q", "SELECT", false)
	path := "/v1/queries/" + id + "/changes"
	st, _, _ := r.log.Current(id, false)
	epoch := st.Position.Epoch
	s := r.stream(t, path+"?after="+epoch+":0") // without a position it could begin after the record that follows
	r.record(id, rows("a"))
	if e := s.next(); e.kind != "change" || e.id != epoch+":1" || !e.Baseline || e.Query != id {
		t.Errorf("baseline: %+v", e)
	}
	late := r.stream(t, path)
	if e := late.next(); e.kind != "snapshot" || e.id != epoch+":1" || string(e.Results) != string(rows("a").Document()) ||
		e.Hash != rows("a").Hash() || !strings.Contains(e.data, `"proved":"2026-11-20T09:00:00Z"`) {
		t.Errorf("snapshot: %+v", e)
	}
	r.record(id, rows("a", "b"))
	for _, s := range []*stream{s, late} {
		if e := s.next(); e.kind != "change" || e.id != epoch+":2" || e.Prev != 1 || e.Seq != 2 {
			t.Errorf("change: %+v", e)
		}
	}
	// Last-Event-ID goes before after.
	again := r.stream(t, path+"?after="+epoch+":0", "Last-Event-ID", epoch+":1")
	if e := again.next(); e.kind != "change" || e.id != epoch+":2" {
		t.Errorf("resumed: %+v", e)
	}
	if e := r.stream(t, path+"?after="+epoch+":0").next(); e.kind != "change" || e.Seq != 1 {
		t.Errorf("after: %+v", e)
	}
	for position, reason := range map[string]string{"other:1": "other_epoch", epoch + ":9": "ahead"} {
		s := r.stream(t, path, "Last-Event-ID", position)
		if e := s.next(); e.kind != "gap" || e.Reason != reason || e.id != "" {
			t.Errorf("gap from %s: %+v", position, e)
		}
		if e := s.next(); e.kind != "snapshot" || e.Seq != 2 || strings.Contains(e.data, "proved") {
			t.Errorf("after the gap: %+v", e)
		}
	}
	r.log.Remove(id)
	r.waker.Wake(id)
	if e := late.next(); e.kind != "complete" || e.Reason != "released" {
		t.Errorf("complete: %+v", e)
	}
}

func TestEventStreamRefusals(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Limits.Connections = 1 })
	id := r.log.Add("q", "SELECT", false)
	changes := "/v1/queries/" + id + "/changes"
	for path, want := range map[string]struct {
		kind    registry.Kind
		status  int
		pointer string
	}{
		"/v1/queries/missing/changes": {registry.KindNotFound, 404, ""},
		changes + "?after=x":          {registry.KindBadPosition, 400, "?after"},
		"/v1/changes?after=e:-1":      {registry.KindBadPosition, 400, "?after"},
		changes + "?rate=abc":         {registry.KindMalformed, 400, "?rate"},
		"/v1/changes?min_rows=x":      {registry.KindMalformed, 400, "?min_rows"},
		"/v1/changes?min_jaccard=3":   {registry.KindMalformed, 400, "?min_jaccard"},
		changes + "?where=temp:~:20":  {registry.KindMalformed, 400, "?where"},
	} {
		resp := r.get(t, path)
		body, err := io.ReadAll(resp.Body)
		var p struct {
			Type, Title string
			Status      int
			Errors      []registry.FieldError
		}
		if err == nil {
			err = json.Unmarshal(body, &p)
		}
		if err != nil || resp.StatusCode != want.status || p.Status != want.status || p.Type != "/problems/"+string(want.kind) ||
			p.Title != want.kind.Title() || resp.Header.Get("Content-Type") != "application/problem+json" || !bytes.HasSuffix(body, []byte("\n")) {
			t.Errorf("%s: %s %q %v, want %v", path, resp.Status, body, err, want)
		}
		pointer := ""
		if len(p.Errors) == 1 {
			pointer = p.Errors[0].Pointer
		}
		if pointer != want.pointer {
			t.Errorf("%s: %s, want the pointer %q", path, body, want.pointer)
		}
	}
	r.stream(t, "/v1/changes")
	if resp := r.get(t, "/v1/changes"); resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("above the limit: %s", resp.Status)
	}
}

func TestAllChanges(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Timing.Ping = 30 * time.Millisecond })
	a, b := r.log.Add("a", "SELECT", false), r.log.Add("b", "ASK", false)
	r.record(a, rows("before"))
	s := r.stream(t, "/v1/changes")
	r.record(b, ask(true))
	r.record(a, rows("x"))
	if e := s.next(); e.kind != "change" || e.id != "store:2" || e.Query != b {
		t.Errorf("first: %+v", e)
	}
	if e := s.next(); e.id != "store:3" || e.Query != a || e.Seq != 2 {
		t.Errorf("second: %+v", e)
	}
	all := r.stream(t, "/v1/changes?not="+b, "Last-Event-ID", "store:0")
	for _, want := range []string{"store:1", "store:3"} {
		if e := all.next(); e.id != want || e.Query != a {
			t.Errorf("filtered: %+v, want %s", e, want)
		}
	}
	// What a reader may not see moves it on all the same, by an id without data.
	r.record(b, ask(false))
	for {
		text, err := all.in.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if text == "id: store:4\n" {
			break
		}
	}
	r.log.TrimAll(1)
	gap := r.stream(t, "/v1/changes", "Last-Event-ID", "store:1")
	if e := gap.next(); e.kind != "gap" || e.Reason != "too_old" || e.id != "store:4" {
		t.Errorf("gap: %+v", e)
	}
	r.record(a, rows("y"))
	if e := gap.next(); e.id != "store:5" {
		t.Errorf("after the gap: %+v", e)
	}
}

func TestEventStreamTruncates(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Limits.Change = 500 })
	id := r.log.Add("q", "SELECT", false)
	r.record(id, rows("a"))
	s := r.stream(t, "/v1/queries/"+id+"/changes")
	s.next()
	r.record(id, wide(1, 2))
	if e := s.next(); !e.Truncated || !strings.Contains(e.data,
		`"added_count":2,"removed_count":1,"results":"http://fresh.example/v1/queries/`+id+`/results"`) || e.Added != nil {
		t.Errorf("change: %+v", e)
	}
	if e := r.stream(t, "/v1/queries/"+id+"/changes").next(); !e.Truncated || !strings.Contains(e.data, `"count":2,"results":"http`) {
		t.Errorf("snapshot: %+v", e)
	}
}

// A reader that does not read is disconnected.
func TestBlockedEventStream(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Timing.Write = 200 * time.Millisecond })
	id := r.log.Add("q", "SELECT", false)
	r.stream(t, "/v1/queries/"+id+"/changes")
	version := 0
	r.eventually("the reader that does not read is let go", func() bool {
		if version++; version%10 == 1 { // changes that are folded do not fill the buffers between us
			r.record(id, wide(version, 120))
		}
		return r.slow() == 1
	})
	r.empty()
}

// Waiting changes are folded for a reader that lags.
func TestLaggingEventStream(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Limits.Fold = 4 })
	id := r.log.Add("q", "SELECT", false)
	r.record(id, wide(0, 1))
	lagging := r.stream(t, "/v1/queries/"+id+"/changes")
	last := lagging.next().Seq
	const n = 60
	for i := 1; i <= n; i++ {
		r.record(id, wide(i, 120)) // 14 MB: more than the buffers between us hold
	}
	events := 0
	for last < n+1 {
		e := lagging.next()
		if e.Prev != last {
			t.Fatalf("(%d, %d] after %d", e.Prev, e.Seq, last)
		}
		last = e.Seq
		events++
	}
	if events > n/2 {
		t.Errorf("%d events for %d changes, want most of them folded", events, n)
	}
}

func TestDrainEndsStreams(t *testing.T) {
	r := newRig(t, nil)
	s := r.stream(t, "/v1/changes")
	ctx, cancel := contextFor(patience)
	defer cancel()
	if err := r.srv.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	rest, err := new(strings.Builder), error(nil)
	if _, err = s.in.WriteTo(rest); err != nil || !strings.HasSuffix(rest.String(), "retry: 1000\n") {
		t.Errorf("the stream ended with %q, %v", rest, err)
	}
	if resp := r.get(t, "/v1/changes"); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("after the end: %s", resp.Status)
	}
	if resp := r.get(t, "/v1/live"); resp.StatusCode != 503 {
		t.Errorf("live after the end: %s", resp.Status)
	}
}

// No block of a stream is an empty event: readers that do not keep to the standard
// hand one on when a block has fields and no data, as that of a retry alone.
func TestNoEmptyEvents(t *testing.T) {
	r := newRig(t, func(o *notify.Options) { o.Timing.Ping = 5 * time.Millisecond })
	id := r.log.Add("q", "SELECT", false)
	for _, path := range []string{"/v1/queries/" + id + "/changes", "/v1/changes"} {
		resp := r.get(t, path)
		time.Sleep(50 * time.Millisecond) // some heartbeats come before the first event
		r.record(id, rows(path))
		in, block, data := bufio.NewReader(resp.Body), "", false
		for blocks := 0; blocks < 1; {
			line, err := in.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if line != "\n" {
				block += line
				data = data || strings.HasPrefix(line, "data: ")
				continue
			}
			if moves := path == "/v1/changes" && strings.Contains(block, "id: "); !data && !moves {
				t.Errorf("%s: the block %q has no data", path, block)
			} else if data {
				blocks++
			}
			block, data = "", false
		}
		resp.Body.Close()
	}
}
