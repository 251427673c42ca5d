package people_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/people"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/scheduler/schedulertest/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not come: %s", what)
		}
	}
}

var app = registry.Caller{Name: "app", Role: registry.RoleApp}

type rig struct {
	*people.Manager
	t         *testing.T
	log       *notifytest.Log
	waker     *notify.Waker
	store     *notifytest.Subscriptions
	clock     atomic.Int64 // what the clock is ahead, in nanoseconds
	withdrawn atomic.Bool
	schedule  deliver.Schedule
	mail      service.Mail
	public    atomic.Pointer[string] // the id of a public query
	edit      atomic.Pointer[func(*registry.Query)]
	lines     io.Writer              // of log lines; nil: none are written
	watched   atomic.Pointer[string] // the id of a query that is a watch
	names     func(endpoint string, languages, iris []string) (watch.Namer, bool)
	stop      func()
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, log: notifytest.NewLog("e1"), waker: notify.NewWaker(), store: notifytest.NewSubscriptions(), names: plain,
		schedule: deliver.Schedule{Pauses: []time.Duration{10 * time.Millisecond}, Probe: 20 * time.Millisecond}}
	r.start()
	t.Cleanup(func() { r.stop() })
	return r
}

func plain(string, []string, []string) (watch.Namer, bool) { return watch.Plain, false }

func (r *rig) now() time.Time { return time.Now().Add(time.Duration(r.clock.Load())) }

func (r *rig) start() {
	guard, err := deliver.NewGuard([]string{"127.0.0.0/8"})
	if err != nil {
		r.t.Fatal(err)
	}
	target := people.New(people.Options{Log: r.log, PublicURL: "http://fresh.example", Now: r.now, Mail: &r.mail, Names: r.names,
		Query: func(id string) (registry.Query, error) {
			q, err := r.log.Resolve(app, id)
			if p := r.public.Load(); p != nil && q.ID == *p {
				q.Holders = []registry.Holder{{Caller: "app", Name: "free spaces", Public: true}}
			}
			if p := r.watched.Load(); p != nil && q.ID == *p {
				q.Holders = []registry.Holder{{Caller: "app", Name: "physicists", Tags: []string{watch.Tag}}}
			}
			if edit := r.edit.Load(); edit != nil {
				(*edit)(&q)
			}
			return q, err
		},
		Caller: func(name string) (registry.Caller, error) {
			if r.withdrawn.Load() {
				return registry.Caller{Name: name}, nil
			}
			return registry.Caller{Name: name, Role: registry.RoleRead}, nil
		}})
	var logger *slog.Logger
	if r.lines != nil {
		logger = slog.New(slog.NewTextHandler(r.lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	engine, err := deliver.New(notifytest.Delivering(deliver.Options{
		Store: r.store, Waker: r.waker, Guard: guard, Now: r.now, Schedule: r.schedule, Logger: logger,
		Targets: map[registry.Way]deliver.Target{registry.People: target}}))
	if err != nil {
		r.t.Fatal(err)
	}
	r.Manager = &people.Manager{Engine: engine, Guard: guard, Target: target, Resolve: r.log.Resolve}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- engine.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
}

func (r *rig) record(id string, rows ...string) {
	r.log.Record(id, notifytest.Rows(rows...), r.now())
	r.waker.Wake(id)
}

func (r *rig) create(req registry.ReceiverRequest) registry.Subscription {
	r.t.Helper()
	s, err := r.Create(app, req)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) get(id string) registry.Subscription {
	r.t.Helper()
	s, err := r.store.Subscription(id)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// A room is a room of Matrix, in which each message has an id and appears once.
type room struct {
	*httptest.Server
	mu     sync.Mutex
	answer func(n int) (status int, body string)
	got    []string // bodies, in the order in which they came first
	ids    map[string]string
	calls  int
	lost   bool // messages arrive, but the answers do not
}

func newRoom(t *testing.T) *room {
	h := &room{ids: map[string]string{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var m struct{ Body string }
		_ = json.Unmarshal(raw, &m)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.calls++
		if h.answer != nil {
			if status, body := h.answer(h.calls); status != 200 {
				w.WriteHeader(status)
				io.WriteString(w, body)
				return
			}
		}
		id := path.Base(r.URL.Path)
		if was, ok := h.ids[id]; ok && was != m.Body && !strings.Contains(m.Body, missed) {
			t.Errorf("%s says\n%s\nand said\n%s", id, m.Body, was)
		} else if !ok {
			h.ids[id] = m.Body
			h.got = append(h.got, m.Body)
		}
		if h.lost {
			w.WriteHeader(http.StatusGatewayTimeout)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// missed is in messages about changes that the log does not have any more.
const missed = "Changes were missed"

func (h *room) address() string {
	return "matrix+http://tok@" + strings.TrimPrefix(h.URL, "http://") + "/!r:x"
}

func (h *room) messages() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]string(nil), h.got...)
}

// People are told what changes after they were added, in words, and what waits while their service fails
// comes in one message.
func TestMessages(t *testing.T) {
	r, h := newRig(t), newRoom(t)
	q := r.log.Add("free spaces", diff.Select, false)
	r.record(q, "a")
	s := r.create(registry.ReceiverRequest{Address: h.address(), Query: q})
	r.log.Explain(registry.DataEdit{Text: "revision 2145 of Q42"})
	r.record(q, "a", "b")
	until(t, "a message", func() bool { return len(h.messages()) == 1 })
	if got := h.messages()[0]; !strings.HasPrefix(got, "free spaces\n+ ") ||
		!strings.Contains(got, "\npossibly by revision 2145 of Q42") {
		t.Errorf("%q", got)
	}
	r.log.Explain()
	h.mu.Lock()
	h.answer = func(int) (int, string) { return 500, "" }
	h.mu.Unlock()
	r.record(q, "a")
	until(t, "a failure", func() bool { return r.get(s.ID).Failures > 1 })
	r.record(q, "c")
	r.record(q, "c", "d")
	h.mu.Lock()
	h.answer = nil
	h.mu.Unlock()
	until(t, "the rest", func() bool { return r.get(s.ID).Cursor.Seq == 5 })
	if got := h.messages(); len(got) != 3 || strings.Count(got[2], "\n") != 3 {
		t.Errorf("%q", got)
	}
	r.log.Remove(q)
	r.waker.Wake(q)
	until(t, "the end", func() bool { return !r.Engine.Has(s.ID) })
	if got := h.messages(); len(got) != 4 || !strings.Contains(got[3], "has ended") {
		t.Errorf("%q", got)
	}
}

// A service that asks for a pause is not called before, and one that is gone is called no more. Others go on.
func TestAnswers(t *testing.T) {
	r, good, busy, lost, wrong := newRig(t), newRoom(t), newRoom(t), newRoom(t), newRoom(t)
	busy.answer = func(int) (int, string) { return 429, `{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":3600000}` }
	lost.answer = func(int) (int, string) { return 410, "" }
	wrong.answer = func(n int) (int, string) { return map[bool]int{true: 401, false: 200}[n <= 2], "" }
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a")
	ids := map[*room]string{}
	for _, h := range []*room{good, busy, lost, wrong} {
		ids[h] = r.create(registry.ReceiverRequest{Address: h.address(), Query: q}).ID
	}
	r.record(q, "b")
	until(t, "the good one", func() bool { return len(good.messages()) == 1 })
	until(t, "the lost one is disabled", func() bool { return r.get(ids[lost]).State == registry.Disabled })
	until(t, "a dead letter", func() bool { return len(r.get(ids[wrong]).Dead) == 1 })
	until(t, "the busy one fails", func() bool { return r.get(ids[busy]).Failures == 1 })
	s := r.get(ids[busy])
	if wait := s.NextTry.Sub(*s.LastAttempt); wait < time.Hour || wait > 67*time.Minute || !s.Asked {
		t.Errorf("the pause is %v", wait)
	}
	if d := r.get(ids[wrong]).Dead[0]; !strings.Contains(d.Summary, "q: ") || strings.Contains(d.Error, "tok") ||
		!strings.Contains(d.Error, "secret in the address is wrong") {
		t.Errorf("%+v", d)
	}
	time.Sleep(5 * r.schedule.Probe) // no probe comes before
	r.stop()
	r.start() // it waits after a restart, too
	r.record(q, "c")
	until(t, "the good one goes on", func() bool { return len(good.messages()) == 2 })
	until(t, "the other goes on after its dead letter", func() bool { return len(wrong.messages()) == 1 })
	time.Sleep(5 * r.schedule.Probe)
	busy.mu.Lock()
	if busy.calls != 1 {
		t.Errorf("the busy service was called %d times", busy.calls)
	}
	busy.answer = nil
	busy.mu.Unlock()
	if _, err := r.Engine.Resend(ids[wrong], ""); err != nil {
		t.Fatal(err)
	}
	until(t, "the dead letter", func() bool { return len(wrong.messages()) == 2 && len(r.get(ids[wrong]).Dead) == 0 })
	r.withdrawn.Store(true)
	r.record(q, "d")
	until(t, "no token, no message", func() bool { return r.get(ids[good]).State == registry.Disabled })
}

// A receiver that hangs delays no other, whatever its kind.
func TestHanging(t *testing.T) {
	r, good, box := newRig(t), newRoom(t), notifytest.NewMailbox(t, nil)
	r.stop()
	r.mail = service.Mail{Server: box.Addr, From: "freshet@example.org", Security: service.NoTLS, Recipients: []string{"example.org"}}
	r.start()
	release := make(chan struct{})
	var hang sync.Map // the kinds that do
	hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		hang.Store(strings.Split(r.URL.Path, "/")[1], true)
		<-release
	}))
	box.Answer(func(notifytest.Letter) error {
		hang.Store("mail", true)
		<-release
		return nil
	})
	defer hanging.Close()
	defer close(release)
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a")
	for i := range 20 {
		for _, form := range []string{"text+%s/text/%d", "discord+%s/api/webhooks/%d/x", "gotify+%s/?token=%d"} {
			r.create(registry.ReceiverRequest{Address: fmt.Sprintf(form, hanging.URL, i), Query: q})
		}
		r.create(registry.ReceiverRequest{Address: fmt.Sprintf("mailto:ops%d@example.org", i), Query: q})
	}
	r.create(registry.ReceiverRequest{Address: good.address(), Query: q})
	for i := range 5 {
		r.record(q, fmt.Sprint("x", i))
		until(t, "a message", func() bool {
			return len(good.messages()) > 0 && strings.Contains(good.messages()[len(good.messages())-1], fmt.Sprint("x", i))
		})
	}
	for _, kind := range []string{"text", "api", "message", "mail"} {
		until(t, kind+" is called", func() bool { _, ok := hang.Load(kind); return ok })
	}
}

// What a caller cannot use is said without the address, and limits hold.
func TestCreate(t *testing.T) {
	r := newRig(t)
	r.MostEach = 2
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a")
	for _, x := range []struct {
		r    registry.ReceiverRequest
		want string
	}{
		{registry.ReceiverRequest{Address: "https://h.example/SECRET", Query: q}, "no service has such addresses"},
		{registry.ReceiverRequest{Address: "text+http://192.168.0.1/SECRET", Query: q}, "may not be called"},
		{registry.ReceiverRequest{Address: "text+http://h.example/SECRET", Query: "none"}, "no query"},
		{registry.ReceiverRequest{Address: "text+http://h.example/SECRET"}, "query is missing"},
		{registry.ReceiverRequest{Address: "text+http://h.example/SECRET", Query: q, Quiet: registry.Quiet{Digest: "25h"}}, "digest"},
		{registry.ReceiverRequest{Address: "text+http://h.example/SECRET", Query: q, Quiet: registry.Quiet{Zone: "../x"}}, "zone"},
		{registry.ReceiverRequest{Address: "text+http://h.example/SECRET", Query: q, Quiet: registry.Quiet{Hours: "22-7"}}, "quiet"},
		{registry.ReceiverRequest{Address: "text+http://h.example/SECRET", Query: q, Quiet: registry.Quiet{Most: "0"}}, "most"},
	} {
		if _, err := r.Create(app, x.r); err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%+v: %v", x.r, err)
		}
	}
	for i := range 3 {
		s, err := r.Create(app, registry.ReceiverRequest{Address: fmt.Sprintf("text+http://127.0.0.1:9/SECRET%d", i), Query: q})
		if (err != nil) != (i == 2) {
			t.Errorf("receiver %d: %v", i, err)
		}
		if err == nil && strings.Contains(s.Callback, "SECRET") {
			t.Errorf("it is shown as %s", s.Callback)
		}
	}
	// again: an edit
	s := r.create(registry.ReceiverRequest{Address: "text+http://127.0.0.1:9/SECRET1", Query: q, Quiet: registry.Quiet{Digest: "1h"}})
	if r.get(s.ID).To.Digest != "1h" {
		t.Errorf("%+v", r.get(s.ID).To)
	}
}

// Whatever becomes of messages, no line of the log has the secret of an address.
func TestLogHasNoSecrets(t *testing.T) {
	r, b := newRig(t), new(bytes.Buffer)
	r.stop()
	r.lines = b
	r.start()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(strings.Split(r.URL.Path, "/")[1])
		w.Header().Set("Location", "http://127.0.0.1:1/SESAME")
		w.WriteHeader(status)
		io.WriteString(w, "SESAME")
	}))
	q := r.log.Add("q", diff.Select, false)
	r.record(q, "a")
	var ids []string
	for _, at := range []string{h.URL + "/500/", h.URL + "/403/", h.URL + "/302/", h.URL + "/410/", "http://127.0.0.1:1/"} {
		for _, form := range []string{"text+%sSESAME?x=SESAME#SESAME", "discord+%sapi/webhooks/1/SESAME", "gotify+%s?token=SESAME"} {
			ids = append(ids, r.create(registry.ReceiverRequest{Address: fmt.Sprintf(form, at), Query: q}).ID)
		}
	}
	r.record(q, "b")
	for _, id := range ids {
		until(t, "an attempt", func() bool { s := r.get(id); return s.Failures > 0 || s.State == registry.Disabled || len(s.Dead) > 0 })
	}
	h.Close()
	r.stop()
	if said := b.String(); strings.Contains(said, "SESAME") || strings.Count(said, "did not take it") < len(ids) {
		t.Errorf("the log says\n%s", said)
	}
}

func TestTestMessage(t *testing.T) {
	r, h := newRig(t), newRoom(t)
	if kind, err := r.Test(t.Context(), app, h.address()); err != nil || kind != "matrix" || len(h.messages()) != 1 {
		t.Errorf("%q, %v, %q", kind, err, h.messages())
	}
	h.answer = func(int) (int, string) { return 401, "" }
	if _, err := r.Test(t.Context(), app, h.address()); err == nil || !strings.Contains(err.Error(), "secret in the address is wrong") {
		t.Errorf("%v", err)
	}
	if _, err := r.Test(t.Context(), app, "text+http://10.0.0.1/"); err == nil {
		t.Error("a private address is called")
	}
}

// A digest is exactly what changed since the one before, whatever history, and wherever the process is
// killed: what the messages say adds up to the result, in messages that come when they may.
func TestDigestsAddUp(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	h := newRoom(t)
	quiets := []registry.Quiet{{Digest: "1h"}, {Digest: "08:00", Zone: "Europe/Berlin"}, {Hours: "22:00-07:00", Most: "2"}, {Most: "1"}, {}}
	for n := range 200 {
		g := rand.New(rand.NewPCG(seed, uint64(n)))
		history(t, g, h, quiets[n%len(quiets)])
		if t.Failed() {
			t.Fatalf("history %d", n)
		}
	}
}

func history(t *testing.T, g *rand.Rand, h *room, quiet registry.Quiet) {
	h.mu.Lock()
	h.got, h.ids = nil, map[string]string{}
	h.answer = func(int) (int, string) {
		if g.IntN(6) == 0 {
			return 503, ""
		}
		return 200, ""
	}
	h.mu.Unlock()
	now := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	log, store := notifytest.NewLog("e1"), notifytest.NewSubscriptions()
	guard, _ := deliver.NewGuard([]string{"127.0.0.0/8"})
	target := people.New(people.Options{Log: log, Names: plain, Now: func() time.Time { return now }, Query: func(id string) (registry.Query,
		error) {
		return log.Resolve(app, id)
	},
		Caller: func(string) (registry.Caller, error) { return app, nil }})
	engine, err := deliver.New(notifytest.Delivering(deliver.Options{Store: store, Waker: notify.NewWaker(), Guard: guard,
		Targets: map[registry.Way]deliver.Target{registry.People: target}}))
	if err != nil {
		t.Fatal(err)
	}
	q := log.Add("q", diff.Select, false)
	rows := map[string]bool{"a": true}
	result := func() *diff.Result {
		var list []string
		for _, x := range "abcdefgh" {
			if rows[string(x)] {
				list = append(list, string(x))
			}
		}
		return notifytest.Rows(list...)
	}
	was := map[uint64]map[string]bool{} // the results
	record := func() {
		log.Record(q, result(), now)
		st, _, _ := log.Current(q, false)
		was[st.Position.Seq] = maps.Clone(rows)
	}
	record()
	st, _, _ := log.Current(q, false)
	s := registry.Subscription{ID: "nt_1", Way: registry.People, Caller: "app", Query: q, State: registry.Active, Cursor: st.Position,
		To: &registry.Receiver{Kind: "matrix", Address: h.address(), Quiet: quiet}}
	put := func(do func(*registry.Subscription)) {
		_, err := store.EditSubscription(s.ID, func(x *registry.Subscription, _ bool) error { do(x); return nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	put(func(x *registry.Subscription) { *x = s })
	told, seen, tries, epochs := map[string]bool{"a": true}, 0, 0, 1
	var sent []message
	turn := func() {
		for range 50 {
			x, err := store.Subscription(s.ID)
			if err != nil {
				t.Fatal(err)
			}
			step, err := target.Next(t.Context(), &x, now)
			killed := g.IntN(5) == 0
			switch {
			case err != nil:
				t.Fatal(err)
			case step.Edit != nil && !killed:
				put(step.Edit)
			case step.Edit != nil:
			case step.Call != nil:
				tries++
				r, err := engine.Try(t.Context(), fmt.Sprint("caller", tries), step.Call.Send)
				if err != nil {
					t.Fatal(err)
				}
				if list := h.messages(); len(list) > seen {
					seen = len(list)
					gap := strings.Contains(list[seen-1], missed)
					sent = append(sent, message{now, gap || x.Outbox.At.Before(now)})
					if gap {
						told = maps.Clone(was[x.Outbox.Until.Seq])
					} else {
						add(t, told, list[seen-1])
					}
				}
				if r.At = now; !killed && r.OK() {
					r.Verdict = deliver.Taken
					put(func(x *registry.Subscription) { step.Call.Done(x, r) })
				} else if g.IntN(3) == 0 { // it backs off
					return
				}
			default:
				return
			}
		}
	}
	for range 10 + g.IntN(30) {
		for range g.IntN(4) {
			x := string("abcdefgh"[g.IntN(8)])
			rows[x] = !rows[x]
			record()
		}
		switch g.IntN(30) {
		case 0:
			log.Trim(q, g.IntN(3))
		case 1:
			epochs++
			log.Renumber(q, fmt.Sprint("e", epochs))
		}
		turn()
		now = now.Add(time.Duration(1+g.IntN(150)) * time.Minute)
	}
	for range 8 { // a day and more passes, and at last everything is told
		now = now.Add(6 * time.Hour)
		turn()
	}
	for x := range map[string]bool{"a": true, "b": true, "c": true, "d": true, "e": true, "f": true, "g": true, "h": true} {
		if told[x] != rows[x] {
			t.Errorf("%+v: %s: told %v, is %v: %q", quiet, x, told[x], rows[x], h.messages())
		}
	}
	check(t, quiet, sent)
}

// add applies what a message says.
func add(t *testing.T, told map[string]bool, message string) {
	for _, line := range strings.Split(message, "\n")[1:] {
		sign, row, _ := strings.Cut(line, " ")
		row = row[len(row)-1:]
		if was := told[row]; sign == "+" && was || sign == "−" && !was || sign != "+" && sign != "−" {
			t.Errorf("%q, and %s was %v", message, row, was)
		}
		told[row] = sign == "+"
	}
}

// A message came at a time. One that changes were missed comes between digests, and so does one that failed before.
type message struct {
	time.Time
	between bool
}

// check checks that messages came when they may.
func check(t *testing.T, q registry.Quiet, sent []message) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range sent {
		hour := at.Hour()
		if q.Hours != "" && (hour >= 22 || hour < 7) {
			t.Errorf("a message at %v", at)
		}
		if i == 0 {
			continue
		}
		was := sent[i-1]
		due := !at.between && !was.between
		switch {
		case due && q.Digest == "1h" && was.Truncate(time.Hour).Equal(at.Truncate(time.Hour)),
			q.Most == "1" && at.Sub(was.Time) < time.Hour,
			q.Most == "2" && i > 1 && at.Sub(sent[i-2].Time) < time.Hour,
			due && q.Zone != "" && at.Sub(was.Time) < 20*time.Hour && at.In(berlin).Day() == was.In(berlin).Day():
			t.Errorf("%+v: messages at %v and %v", q, was, at)
		}
	}
}

// Changes go by e-mail where the operator allows it, and alone.
func TestMail(t *testing.T) {
	r, b := newRig(t), notifytest.NewMailbox(t, nil)
	q := r.log.Add("free spaces", diff.Select, false)
	r.record(q, "a")
	if _, err := r.Create(app, registry.ReceiverRequest{Address: "mailto:ops@example.org", Query: q}); err == nil ||
		!strings.Contains(err.Error(), "mail.server") {
		t.Errorf("%v", err)
	}
	r.stop()
	r.mail = service.Mail{Server: b.Addr, From: "freshet@example.org", Security: service.NoTLS, Recipients: []string{"example.org"}}
	r.start()
	for _, bad := range []string{"mailto:ops@example.com", "mailto:", "mailto:Ops <ops@example.org>"} {
		if _, err := r.Create(app, registry.ReceiverRequest{Address: bad, Query: q}); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
	s := r.create(registry.ReceiverRequest{Address: "mailto:ops@example.org", Query: q})
	if s.Callback != "mailto:ops@example.org" {
		t.Errorf("%+v", s)
	}
	r.record(q, "a", "b")
	until(t, "the e-mail", func() bool { return len(b.Letters()) == 1 })
	if m := b.Letters()[0]; m.To != "ops@example.org" || m.Header.Get("Subject") != "free spaces: + b" || !strings.HasPrefix(m.Body,
		"+ b\r\n") {
		t.Errorf("%+v", m)
	}
	if kind, err := r.Test(t.Context(), app, "mailto:ops@example.org"); kind != "email" || err != nil || len(b.Letters()) != 2 {
		t.Errorf("%s, %v", kind, err)
	}
}

var linkIn = regexp.MustCompile(`http://fresh\.example(/notify-me/\S+)`)

// A visitor gets the changes of a public query after a confirmation, and one click ends it. Nothing else is sent.
func TestVisitors(t *testing.T) {
	r, b := newRig(t), notifytest.NewMailbox(t, nil)
	r.stop()
	r.mail = service.Mail{Server: b.Addr, From: "freshet@example.org", Security: service.NoTLS}
	r.start()
	q, private := r.log.Add("free spaces", diff.Select, false), r.log.Add("secret", diff.Select, false)
	r.record(q, "a")
	r.record(private, "a")
	resolve := r.log.Resolve
	r.Resolve = func(c registry.Caller, ref string) (registry.Query, error) {
		x, err := resolve(c, ref)
		if x.ID == q {
			x.Holders = []registry.Holder{{Caller: "app", Name: "free spaces", Public: true}}
		}
		return x, err
	}
	r.public.Store(&q)
	desk := people.NewDesk(r.Manager, 2)
	call := func(method, path string, form url.Values) *httptest.ResponseRecorder {
		req := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		w.Header().Set("X-Frame-Options", "DENY")
		desk.ServeHTTP(w, req)
		if framed := w.Header().Get("X-Frame-Options") == ""; framed != (strings.Count(path, "/") == 1) || strings.Contains(req.URL.Path, "key") {
			t.Errorf("%s may be in a frame: %v", path, framed)
		}
		return w
	}
	if w := call("GET", "/notify-me?query="+q, nil); w.Code != 200 || !strings.Contains(w.Body.String(), `name="email"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for _, bad := range []struct {
		query, email string
		code         int
	}{{private, "you@example.net", 404}, {"nothing", "you@example.net", 404}, {q, "you", 422}, {q, "You <you@example.net>", 422},
		{q, "you@example.net\r\nBcc: x@example.net", 422}} {
		if w := call("POST", "/notify-me", url.Values{"query": {bad.query}, "email": {bad.email}}); w.Code != bad.code {
			t.Errorf("%+v: %d %s", bad, w.Code, w.Body)
		}
	}
	ask := url.Values{"query": {q}, "email": {"you@example.net"}}
	if w := call("POST", "/notify-me", ask); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	until(t, "the question", func() bool {
		list, err := r.store.Subscriptions("", 10)
		return len(b.Letters()) == 1 && err == nil && len(list) == 1 && list[0].Intent == nil // not before, as one question at a time is enough
	})
	call("POST", "/notify-me", ask) // again, as the question may be lost
	until(t, "the question again", func() bool { return len(b.Letters()) == 2 })
	r.record(q, "a", "b")
	m := b.Letters()[0]
	link := linkIn.FindStringSubmatch(m.Body)
	if m.To != "you@example.net" || link == nil || m.Header.Get("List-Unsubscribe-Post") != "List-Unsubscribe=One-Click" {
		t.Fatalf("%+v", m)
	}
	if w := call("GET", link[1], nil); w.Code != 200 || !strings.Contains(w.Body.String(), "Yes, tell me") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	list, err := r.store.Subscriptions("", 10)
	if err != nil || len(list) != 1 || list[0].State != registry.Pending || len(b.Letters()) != 2 ||
		strings.Contains(list[0].Callback, "you@") {
		t.Fatalf("%+v, %v, %d letters", list, err, len(b.Letters()))
	}
	if w := call("POST", link[1][:len(link[1])-1]+"0", url.Values{"do": {"confirm"}}); w.Code != 404 {
		t.Errorf("another secret: %d", w.Code)
	}
	call("POST", link[1], url.Values{"do": {"confirm"}})
	if s := r.get(list[0].ID); s.State != registry.Active {
		t.Fatalf("%+v", s)
	}
	r.record(q, "a", "c")
	r.clock.Store(int64(time.Hour))
	r.waker.Wake(q)
	if _, err := r.Engine.Resume(list[0].ID); err != nil { // looks again, at the new time
		t.Fatal(err)
	}
	until(t, "the change", func() bool { return len(b.Letters()) == 3 })
	m = b.Letters()[2]
	if !strings.Contains(m.Body, "+ c") || strings.Contains(m.Body, "+ b") || !strings.Contains(m.Header.Get("List-Unsubscribe"),
		link[1]) || !strings.Contains(m.Body, "To stop it: http://fresh.example"+link[1]) {
		t.Errorf("%+v", m)
	}
	w := call("POST", link[1], url.Values{"List-Unsubscribe": {"One-Click"}})
	if stored, err := json.Marshal(r.get(list[0].ID)); w.Code != 200 || err != nil || strings.Contains(string(stored), "example.net") {
		t.Errorf("%d %s\n%s, %v", w.Code, w.Body, stored, err)
	}
	codes := map[int]int{}
	for i := range 10 {
		codes[call("POST", "/notify-me", url.Values{"query": {q}, "email": {fmt.Sprintf("you%d@example.net", i)}}).Code]++
	}
	if codes[200] != 5 || codes[429] != 5 {
		t.Errorf("%v", codes)
	}
	r.clock.Store(int64(26 * time.Hour)) // no answer in a day
	r.stop()
	r.start()
	until(t, "they are forgotten", func() bool {
		list, err := r.store.Subscriptions("", 10)
		return err == nil && len(list) == 1 // that of who has stopped it
	})
	if w := httptest.NewRecorder(); true {
		people.NewDesk(r.Manager, 0).ServeHTTP(w, httptest.NewRequest("GET", "/notify-me?query="+q, nil))
		if w.Code != 404 {
			t.Errorf("a desk that is off: %d", w.Code)
		}
	}
}

// Addresses that mail services deliver to one person are asked as one.
func TestVisitorWithPlus(t *testing.T) {
	r, _, _ := bouncing(t)
	desk := people.NewDesk(r.Manager, 100)
	codes := ""
	for i, email := range []string{"mine+1@example.net", "Mine@example.net", "mine+2@example.net", "mine+3@example.net", "yours@example.net"} {
		req := httptest.NewRequest("POST", "/notify-me", strings.NewReader(url.Values{"query": {*r.public.Load()}, "email": {email}}.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.RemoteAddr = fmt.Sprintf("192.0.2.%d:5", i)
		w := httptest.NewRecorder()
		desk.ServeHTTP(w, req)
		codes += fmt.Sprint(w.Code, " ")
	}
	if codes != "200 200 200 429 200 " {
		t.Error(codes)
	}
}
