package alert

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
)

// waitingAlerts are the messages that wait for one receiver, in memory.
type waitingAlerts struct {
	sub  registry.Subscription
	list []registry.AlertMessage
}

func (w *waitingAlerts) Subscription(string) (registry.Subscription, error) { return w.sub, nil }

func (w *waitingAlerts) Messages(_ string, after uint64, limit int) (list []registry.AlertMessage, err error) {
	for _, m := range w.list {
		if m.Seq > after && len(list) < limit {
			list = append(list, m)
		}
	}
	return list, nil
}

func (w *waitingAlerts) edit(do func(*registry.Subscription)) {
	s := w.sub
	do(&s)
	w.list = slices.DeleteFunc(w.list, func(m registry.AlertMessage) bool { return slices.Contains(s.Drop, m.Seq) })
	s.Drop = nil
	w.sub = s
}

// A chat shows each id once, and fails now and then.
type chat struct {
	*httptest.Server
	mu   sync.Mutex
	fail func() bool
	ids  map[string]bool
	got  []string
}

func newChat(t *testing.T) *chat {
	h := &chat{ids: map[string]bool{}}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		var m struct{ Body string }
		_ = json.Unmarshal(raw, &m)
		h.mu.Lock()
		defer h.mu.Unlock()
		id := path.Base(r.URL.Path)
		switch {
		case h.fail():
			w.WriteHeader(http.StatusServiceUnavailable)
		case !h.ids[id]:
			h.ids[id], h.got = true, append(h.got, m.Body)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

// Digests of alerts say in the end how each alert is, wherever the process is killed: between sending and recording, too. They come
// when they may, and say nothing that was not so.
func TestDigestsOfAlertsAddUp(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	h := newChat(t)
	quiets := []registry.Quiet{{Digest: "1h"}, {Digest: "08:00", Zone: "Europe/Berlin"}, {Hours: "22:00-07:00", Most: "2"}, {Most: "1"}, {}}
	for n := range 200 {
		if alertHistory(t, rand.New(rand.NewPCG(seed, uint64(n))), h, quiets[n%len(quiets)]); t.Failed() {
			t.Fatalf("history %d", n)
		}
	}
}

func alertHistory(t *testing.T, g *rand.Rand, h *chat, quiet registry.Quiet) {
	h.mu.Lock()
	h.ids, h.got, h.fail = map[string]bool{}, nil, func() bool { return g.IntN(6) == 0 }
	h.mu.Unlock()
	now := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	guard, err := deliver.NewGuard([]string{"127.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	w := &waitingAlerts{sub: registry.Subscription{ID: "al_1", Way: registry.Alerts, Caller: "app", State: registry.Active,
		To: &registry.Receiver{Kind: "matrix", Address: "matrix+http://tok@" + strings.TrimPrefix(h.URL, "http://") + "/!r:x", Quiet: quiet}}}
	target := Target{&Engine{opts: Options{Queue: w, Guard: guard, PublicURL: "http://fresh.example", Now: func() time.Time { return now },
		Names: func(string, []string) watch.Namer { return watch.Plain },
		Query: func(string) (registry.Query, error) { return registry.Query{}, registry.ErrNotFound },
		Caller: func(name string) (registry.Caller, error) {
			return registry.Caller{Name: name, Role: registry.RoleApp}, nil
		}}}}
	engine, err := deliver.New(notifytest.Delivering(deliver.Options{
		Store: notifytest.NewSubscriptions(), Waker: notify.NewWaker(), Guard: guard,
		Targets: map[registry.Way]deliver.Target{registry.Alerts: target}}))
	if err != nil {
		t.Fatal(err)
	}
	fires, told, tries := map[string]bool{}, map[string]bool{}, 0
	var sent []heardAt
	var recorded []time.Time
	again := false // the last attempt failed, or was not recorded
	turn := func() {
		for len(w.list) > 0 {
			s := w.sub
			step, err := target.Next(t.Context(), &s, now)
			if err != nil {
				t.Fatal(err)
			}
			if step.Edit != nil {
				w.edit(step.Edit)
				continue
			}
			if step.Call == nil {
				return
			}
			tries++
			seen, waiting := len(h.got), slices.Clone(w.list)
			r, err := engine.Try(t.Context(), fmt.Sprint("caller", tries), step.Call.Send)
			if err != nil {
				t.Fatal(err)
			}
			if len(h.got) > seen {
				sent = append(sent, heardAt{now, again})
				hear(t, told, h.got[seen], waiting)
			}
			switch r.At = now; {
			case r.OK() && g.IntN(4) == 0: // killed before it is recorded
				again = true
				return
			case r.OK():
				again, r.Verdict, recorded = false, deliver.Taken, append(recorded, now)
				w.edit(func(s *registry.Subscription) { step.Call.Done(s, r) })
			default:
				again, r.Verdict = true, deliver.Retry
				w.edit(func(s *registry.Subscription) { step.Call.Done(s, r) })
				return // it backs off
			}
		}
	}
	seq := uint64(0)
	for range 10 + g.IntN(30) {
		for range g.IntN(4) {
			x := string("abcdefgh"[g.IntN(8)])
			fires[x] = !fires[x]
			seq++
			m := registry.AlertMessage{Seq: seq, ID: fmt.Sprint("msg_", seq), Rule: "rule_1", Name: "late", Query: "q", Caller: "app", Alert: x,
				State: registry.AlertResolved, Summary: "line " + x, At: now, Labels: map[string]string{}}
			if fires[x] {
				m.State = registry.AlertFiring
			}
			w.list = append(w.list, m)
		}
		turn()
		now = now.Add(time.Duration(1+g.IntN(150)) * time.Minute)
	}
	for i := 0; i < 12 || i < 200 && len(w.list) > 0; i++ { // days pass, and at last everything is told
		now = now.Add(6 * time.Hour)
		turn()
	}
	maps.DeleteFunc(told, func(_ string, on bool) bool { return !on })
	maps.DeleteFunc(fires, func(_ string, on bool) bool { return !on })
	if !maps.Equal(told, fires) || len(w.list) > 0 {
		t.Errorf("%+v: told %v, fires %v, %d wait: %q", quiet, told, fires, len(w.list), h.got)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	fmt.Sscan(quiet.Most, &most)
	for i, at := range recorded {
		if most > 0 && i >= most && at.Sub(recorded[i-most]) < time.Hour {
			t.Errorf("%+v: %d messages from %v to %v", quiet, most+1, recorded[i-most], at)
		}
	}
	for i, at := range sent {
		if quiet.Hours != "" && (at.Hour() >= 22 || at.Hour() < 7) {
			t.Errorf("a message at %v", at)
		}
		if i == 0 || at.again || sent[i-1].again {
			continue
		}
		was := sent[i-1].In(berlin)
		if quiet.Digest == "1h" && was.Truncate(time.Hour).Equal(at.Truncate(time.Hour)) ||
			quiet.Zone != "" && at.Sub(was) < 20*time.Hour && at.In(berlin).Day() == was.Day() {
			t.Errorf("%+v: messages at %v and %v", quiet, was, at)
		}
	}
}

// A message was heard at a time, perhaps in an attempt after the first.
type heardAt struct {
	time.Time
	again bool
}

// hear applies what a message says. It must be the last word of messages that wait.
func hear(t *testing.T, told map[string]bool, said string, waiting []registry.AlertMessage) {
	t.Helper()
	last := map[string]registry.AlertState{}
	var states []map[string]registry.AlertState // after each message
	for _, m := range waiting {
		last[m.Alert] = m.State
		states = append(states, maps.Clone(last))
	}
	heard := map[string]registry.AlertState{}
	lines := strings.Split(said, "\n")
	if strings.Contains(lines[0], ":") { // several
		for _, line := range lines[1:] {
			state, rest, _ := strings.Cut(line, " late: line ")
			if rest != "" {
				heard[rest] = registry.AlertState(state)
			}
		}
	} else {
		state, _, _ := strings.Cut(strings.TrimPrefix(lines[0], "["), "]")
		heard[strings.TrimPrefix(lines[1], "line ")] = registry.AlertState(strings.ToLower(state))
	}
	if !slices.ContainsFunc(states, func(s map[string]registry.AlertState) bool { return maps.Equal(s, heard) }) {
		t.Errorf("%q is not what waits: %v", said, waiting)
	}
	for x, state := range heard {
		told[x] = state == registry.AlertFiring
	}
}
