package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web"
)

// An event is a message to the script, see static/live.js.
type event struct {
	Type string `json:"-"`
	ID   string `json:"id,omitempty"`
	List string `json:"list,omitempty"`
	Key  string `json:"key,omitempty"`
	Text string `json:"text,omitempty"`
	HTML string `json:"html,omitempty"`
	Max  int    `json:"max,omitempty"`
}

// A live page is the state of one stream. It keeps only a hash of each part and a log
// position, so a slow reader uses no more memory.
type live struct {
	*visit
	page   page
	sent   map[string]uint64
	at     registry.Offset
	health map[string]string
	seed   maphash.Seed
}

// stream keeps a page current until the browser disconnects.
func (s *Server) stream(p page) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.visit(w, r)
		v.streaming = true
		if !v.checkRole("/ui/events", p.need, false) {
			return
		}
		leave, ok := v.streams.Take(v.caller.Name)
		if !ok {
			web.Answer(w, r, &registry.Problem{Kind: registry.KindBusy, Detail: "Other pages are live already."})
			return
		}
		defer leave()
		h := w.Header()
		h.Set("Content-Type", "text/event-stream")
		h.Set("Cache-Control", "no-store")
		l := &live{visit: v, page: p, sent: map[string]uint64{}, health: map[string]string{}, seed: maphash.MakeSeed()}
		if err := l.run(); err != nil {
			web.NoteError(w, err)
		}
	})
}

// run subscribes first and reads afterwards, so that it misses no change.
func (l *live) run() error {
	awake, stop := l.Follow()
	defer stop()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	again := l.Rechecked()
	checked, spoke, last, woken := time.Now(), time.Now(), "", true
	for first := true; ; first = false {
		if signs := l.signs(); woken || signs != last {
			if err := l.look(first); err != nil {
				return err
			}
			last, spoke = signs, time.Now()
		} else if time.Since(spoke) > heartbeat {
			if err := l.flush([]byte(":\n\n")); err != nil {
				return err
			}
			spoke = time.Now()
		}
		select { // at most one update per tick, however many changes there are
		case <-tick.C:
		case <-l.r.Context().Done():
			return nil
		case <-l.done:
			return nil
		}
		select {
		case <-awake:
			woken = true
		default:
			woken = false
		}
		due := time.Since(checked) > l.Limits.Recheck
		select {
		case <-again:
			again, due = l.Rechecked(), true
		default:
		}
		if due {
			checked = time.Now()
			if err := l.authenticate(); err != nil || !l.May(l.page.need) {
				return nil // the page's next request reports the error
			}
		}
	}
}

// signs summarises the state that changes a page without a commit: executions without
// changes, settings, health. It is cheap to compute.
func (l *live) signs() string {
	endpoints, err := l.Registry.Endpoints()
	if err != nil {
		return ""
	}
	var b strings.Builder
	for _, e := range endpoints {
		st, _ := l.Daemon.State(e.Name) // an endpoint that is not running has none
		fmt.Fprintln(&b, e.Name, e.Pause != nil, st.Last.Number, st.Last.OffGrid.Run, st.Next.Unix(), st.Health.State, st.Queries, st.Halted)
	}
	if o, err := l.Outlook(); err == nil {
		fmt.Fprintln(&b, o.Troubles(l.caller))
	}
	fmt.Fprintln(&b, menu{l.visit}.counts())
	if l.page.section == "cluster" {
		s, err := l.Cluster.Status()
		fmt.Fprintln(&b, s, err)
	}
	return b.String()
}

// look sends what has changed since the last call.
func (l *live) look(first bool) error {
	l.now = l.Now().UTC()
	c, err := l.page.build(l.visit)
	if err != nil {
		return l.ended(err)
	}
	var out bytes.Buffer
	if first {
		out.WriteString("retry: 3000\n")
		if c.Feed != nil {
			l.at = l.feedFrom(c.Feed)
		}
	}
	parts := append(c.Live, menu{l.visit}.parts(l.page.section)...)
	for _, p := range parts {
		if err := l.part(&out, p); err != nil {
			return err
		}
	}
	if c.Feed != nil {
		if err := l.grow(&out, c.Feed); err != nil {
			return err
		}
	}
	l.announceHealth(&out)
	if l.at.Epoch != "" && out.Len() > 0 { // the position from which a browser resumes after a reconnect
		out.WriteString("id: " + l.at.String() + "\ndata:\n\n")
	}
	out.WriteString(": as of " + l.now.Format(time.RFC3339) + "\n\n")
	return l.flush(out.Bytes())
}

// feedFrom returns the position of the end of the browser's list, from the stream's
// address.
func (l *live) feedFrom(f *feed) registry.Offset {
	for _, s := range []string{l.r.Header.Get("Last-Event-ID"), l.r.URL.Query().Get("at")} {
		if at, err := registry.ParsePosition(s); err == nil {
			return at
		}
	}
	return f.At
}

// running matches relative times, which the browser updates itself.
var running = regexp.MustCompile(`(<time[^>]*>)[^<]*</time>`)

// part sends a part if it differs from the last one sent.
func (l *live) part(out *bytes.Buffer, p part) error {
	var b bytes.Buffer
	if err := l.templates[l.page.look].ExecuteTemplate(&b, p.Template, p.Data); err != nil {
		return err
	}
	sum := maphash.Bytes(l.seed, running.ReplaceAll(b.Bytes(), []byte("$1")))
	if was, sent := l.sent[p.ID]; sent && was == sum {
		return nil
	}
	l.sent[p.ID] = sum
	put(out, event{Type: "swap", ID: p.ID, HTML: b.String()})
	return nil
}

// grow sends the newest entries of a list. After a gap in the log it continues from
// the end of the list.
func (l *live) grow(out *bytes.Buffer, f *feed) error {
	entries, at, err := f.After(l.at)
	if err != nil {
		l.at = f.At
		return nil
	}
	l.at = at
	for _, e := range entries[max(0, len(entries)-f.Most):] {
		var b bytes.Buffer
		if err := l.templates[l.page.look].ExecuteTemplate(&b, f.Template, e); err != nil {
			return err
		}
		put(out, event{Type: "add", List: f.List, HTML: b.String(), Max: f.Most})
	}
	return nil
}

// announceHealth announces to screen readers that an endpoint has failed or recovered.
func (l *live) announceHealth(out *bytes.Buffer) {
	endpoints, err := l.Registry.Endpoints()
	if err != nil {
		return
	}
	for _, e := range endpoints {
		st, err := l.Daemon.State(e.Name)
		if err != nil {
			continue
		}
		was, known := l.health[e.Name]
		if l.health[e.Name] = st.Health.State; !known || was == st.Health.State {
			continue
		}
		var b bytes.Buffer
		if l.templates[l.page.look].ExecuteTemplate(&b, "health-news", overviewEndpoint{Name: e.Name, Loop: st}) == nil && b.Len() > 0 {
			put(out, event{Type: "say", Text: b.String()})
		}
	}
}

// ended notifies the page that its subject no longer exists, and ends the stream.
func (l *live) ended(err error) error {
	p, told := web.ProblemOf(err)
	if !told {
		return err
	}
	var out bytes.Buffer
	put(&out, event{Type: "say", Text: p.Heading()})
	out.WriteString("event: end\ndata: {}\n\n")
	_ = l.flush(out.Bytes())
	return nil
}

func put(out *bytes.Buffer, e event) {
	b, _ := json.Marshal(e) // cannot fail: strings and a number only; line breaks are escaped
	out.WriteString("event: " + e.Type + "\ndata: ")
	out.Write(b)
	out.WriteString("\n\n")
}

// flush writes with a deadline and disconnects a browser that does not read.
func (l *live) flush(b []byte) error {
	rc := http.NewResponseController(l.w)
	_ = rc.SetWriteDeadline(time.Now().Add(slowestEvent))
	if _, err := l.w.Write(b); err != nil {
		panic(http.ErrAbortHandler) // the browser has disconnected
	}
	if err := rc.Flush(); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}
