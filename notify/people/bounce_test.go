package people_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/people"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

// bouncing returns a rig with a mailbox, a function that subscribes a visitor to a query, and the query.
func bouncing(t *testing.T) (r *rig, b *notifytest.Mailbox, ask func() []registry.Subscription) {
	r, b = newRig(t), notifytest.NewMailbox(t, nil)
	r.stop()
	r.schedule = deliver.Schedule{Pauses: []time.Duration{time.Hour}, Probe: 20 * time.Millisecond}
	r.mail = service.Mail{Server: b.Addr, From: "freshet@example.org", Security: service.NoTLS}
	r.start()
	q := r.log.Add("free spaces", diff.Select, false)
	r.record(q, "a")
	resolve := r.log.Resolve
	r.Resolve = func(c registry.Caller, ref string) (registry.Query, error) {
		x, err := resolve(c, ref)
		x.Holders = []registry.Holder{{Caller: "app", Name: "free spaces", Public: true}}
		return x, err
	}
	r.public.Store(&q)
	desk := people.NewDesk(r.Manager, 2)
	return r, b, func() []registry.Subscription {
		form := url.Values{"query": {q}, "email": {"Øyvind@example.net"}}
		req := httptest.NewRequest("POST", "/notify-me", strings.NewReader(form.Encode()))
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		if desk.ServeHTTP(w, req); w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		list, err := r.store.Subscriptions("", 10)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
}

// An address that does not exist is asked once a day, and not kept.
func TestNoSuchAddress(t *testing.T) {
	r, b, ask := bouncing(t)
	var tries atomic.Int32
	b.Answer(func(l notifytest.Letter) error {
		tries.Add(1)
		return notifytest.Refuse(550, "no such user")(l)
	})
	ask()
	until(t, "the question", func() bool { return tries.Load() > 0 })
	stored := func() string { return fmt.Sprint(r.store.Subscriptions("", 10)) }
	until(t, "it is forgotten", func() bool { return !strings.Contains(stored(), "vind") })
	ask()
	r.idle()
	if n := tries.Load(); n != 1 || strings.Contains(stored(), "vind") {
		t.Errorf("%d attempts, %s", n, stored())
	}
	r.clock.Store(int64(25 * time.Hour))
	ask()
	until(t, "the question again", func() bool { return tries.Load() == 2 })
}

// A mailbox that refuses for now is not tried before its time, and its address is in no text.
func TestBusyMailbox(t *testing.T) {
	r, b, ask := bouncing(t)
	var tries atomic.Int32
	b.Answer(func(l notifytest.Letter) error {
		tries.Add(1)
		return notifytest.Refuse(450, "try later: "+l.To)(l)
	})
	ask()
	until(t, "a failure", func() bool {
		list, err := r.store.Subscriptions("", 10)
		return err == nil && len(list) == 1 && list[0].Failures > 0
	})
	time.Sleep(10 * r.schedule.Probe)
	list, err := r.store.Subscriptions("", 10)
	if n := tries.Load(); err != nil || n != 1 {
		t.Errorf("%d attempts, %v", n, err)
	}
	if s := list[0]; strings.Contains(s.LastError, "vind") || !strings.Contains(s.LastError, "450") || s.Callback != "mailto:Ø…@example.net" {
		t.Errorf("%q %q", s.LastError, s.Callback)
	}
}

// A visitor whose subscription was disabled can subscribe again, with another key.
func TestVisitorAgain(t *testing.T) {
	r, b, ask := bouncing(t)
	ask()
	until(t, "the question", func() bool { return len(b.Letters()) == 1 })
	list, err := r.store.Subscriptions("", 10)
	if err != nil {
		t.Fatal(err)
	}
	was := list[0]
	if _, err := r.Engine.Edit(was.ID, func(s *registry.Subscription, _ bool) error {
		s.Intent, s.ExpiresAt = nil, nil
		deliver.Disable(s, "the receiver failed for five days")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	ask()
	until(t, "the question again", func() bool { return len(b.Letters()) == 2 })
	if s := r.get(was.ID); s.State != registry.Pending || s.Secrets[0].Key == was.Secrets[0].Key {
		t.Errorf("%+v", s)
	}
}

// What becomes of a letter says nothing about a question that the visitor asked after it.
func TestVisitorAsksDuringTheLetter(t *testing.T) {
	r, b, ask := bouncing(t)
	begun, goOn := make(chan bool, 2), make(chan bool)
	b.Answer(func(notifytest.Letter) error {
		begun <- true
		<-goOn
		return nil
	})
	id := ask()[0].ID
	<-begun
	if _, err := r.Engine.Edit(id, func(s *registry.Subscription, _ bool) error {
		s.Intent, s.ExpiresAt = nil, nil
		deliver.Disable(s, "the receiver failed for five days")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	ask()
	close(goOn)
	until(t, "the question again", func() bool { return len(b.Letters()) == 2 })
}
