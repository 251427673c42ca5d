package people_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/people"
	"github.com/freshet/freshet/notify/service"
	"github.com/freshet/freshet/registry"
)

// A portal is a rig with a public query for visitors, and a mailbox for all of them.
type portal struct {
	*rig
	desk   *people.Desk
	box    *notifytest.Mailbox
	query  string
	hidden sync.Map // by id: queries that are not public any more
}

func newPortal(t *testing.T, most int) *portal {
	p := &portal{rig: newRig(t), box: notifytest.NewMailbox(t, nil)}
	p.stop()
	p.schedule = deliver.Schedule{Pauses: []time.Duration{time.Hour}, Probe: 20 * time.Millisecond}
	p.mail = service.Mail{Server: p.box.Addr, From: "freshet@example.org", Security: service.NoTLS, Recipients: []string{"team.example"}}
	p.start()
	p.query = p.log.Add("free spaces", diff.Select, false)
	edit := func(q *registry.Query) {
		_, hidden := p.hidden.Load(q.ID)
		q.Holders = []registry.Holder{{Caller: "app", Name: "free spaces", Public: !hidden}}
	}
	p.edit.Store(&edit)
	resolve := p.log.Resolve
	p.Resolve = func(c registry.Caller, ref string) (registry.Query, error) {
		q, err := resolve(c, ref)
		edit(&q)
		return q, err
	}
	p.record(p.query, "a")
	p.desk = people.NewDesk(p.Manager, most)
	return p
}

// hide makes the query private.
func (p *portal) hide() {
	p.hidden.Store(p.query, true)
	p.waker.Wake(p.query)
}

// call makes a request from an address of the network 192.0.2.0/24.
func (p *portal) call(method, path, client string, form url.Values) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.RemoteAddr = client + ":5"
	w := httptest.NewRecorder()
	p.desk.ServeHTTP(w, req)
	return w
}

func (p *portal) ask(client, email string) *httptest.ResponseRecorder {
	return p.call("POST", "/notify-me", client, url.Values{"query": {p.query}, "email": {email}})
}

// letters waits for so many letters to an address and returns the last one and its link.
func (p *portal) letters(email string, n int) (last notifytest.Letter, link string) {
	p.t.Helper()
	until(p.t, fmt.Sprint(n, " letters to ", email), func() bool {
		list := slices.DeleteFunc(slices.Clone(p.box.Letters()), func(l notifytest.Letter) bool { return l.To != email })
		if len(list) == n {
			last = list[n-1]
		}
		return len(list) == n
	})
	if m := linkIn.FindStringSubmatch(last.Body); m != nil {
		link = m[1]
	}
	return last, link
}

// subscribed asks for an address, confirms it and returns the link.
func (p *portal) subscribed(client, email string) string {
	p.t.Helper()
	if w := p.ask(client, email); w.Code != 200 {
		p.t.Fatalf("%d %s", w.Code, w.Body)
	}
	_, link := p.letters(email, 1)
	p.press(link, "confirm", 200, "Thank you")
	return link
}

// press presses a button of the page behind a link.
func (p *portal) press(link, do string, code int, says string) {
	p.t.Helper()
	if w := p.call("POST", link, "192.0.2.99", url.Values{"do": {do}}); w.Code != code || !strings.Contains(w.Body.String(), says) {
		p.t.Errorf("%s: %d %s", do, w.Code, w.Body)
	}
}

// Addresses that have not confirmed take no place of those that do.
func TestUnconfirmedTakeNoPlace(t *testing.T) {
	p := newPortal(t, 2)
	for i := range 20 {
		if w := p.ask(fmt.Sprint("192.0.2.", i), fmt.Sprintf("invented%d@example.net", i)); w.Code != 200 {
			t.Fatalf("%d: %d %s", i, w.Code, w.Body)
		}
	}
	p.subscribed("192.0.2.50", "ada@example.net")
	_, late := p.letters("invented3@example.net", 1)
	p.subscribed("192.0.2.51", "ben@example.net")
	p.press(late, "confirm", 503, "As many people as may get e-mail are told already.")
	if w := p.ask("192.0.2.52", "cem@example.net"); w.Code != 503 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A client that asks too often uses up what it has, and neither what all have nor what an address has.
func TestLimitsOfOthers(t *testing.T) {
	p := newPortal(t, 1000)
	for range 200 {
		p.ask("192.0.2.1", "mallory@example.net")
	}
	for i := range 120 { // more than all may ask at once
		p.ask(fmt.Sprint("192.0.2.", 2+i), fmt.Sprintf("x%d@example.net", i))
	}
	if w := p.ask("192.0.2.200", "x90@example.net"); w.Code != 429 || w.Header().Get("Retry-After") != "10" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	for i := range 3 {
		p.ask(fmt.Sprint("192.0.2.", 201+i), "ada@example.net") // refused, as all have asked too often
	}
	p.clock.Store(int64(time.Minute))
	if w := p.ask("192.0.2.210", "ada@example.net"); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	asked := 0
	for _, s := range p.list() {
		if strings.HasPrefix(s.To.Address, "x") {
			asked++
		}
	}
	if asked < 90 {
		t.Errorf("%d others could ask", asked)
	}
}

func (r *rig) list() []registry.Subscription {
	r.t.Helper()
	list, err := r.store.Subscriptions("", 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}

// An address whose owner has stopped it, or did not want it, is not asked again about the query before the owner allows it.
func TestStopLasts(t *testing.T) {
	p := newPortal(t, 10)
	link := p.subscribed("192.0.2.1", "ada@example.net")
	p.press(link, "stop", 200, "“free spaces” at http://fresh.example")
	if w := p.ask("192.0.2.2", "ben@example.net"); w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	m, unwanted := p.letters("ben@example.net", 1)
	if strings.Contains(m.Body, "no more e-mail") {
		t.Errorf("%q", m.Body)
	}
	p.press(unwanted, "stop", 200, "It is stopped")
	for i, email := range []string{"ada@example.net", "ben@example.net"} {
		if w := p.ask(fmt.Sprint("192.0.2.", 10+i), email); w.Code != 200 {
			t.Errorf("the answer shows who has stopped it: %d %s", w.Code, w.Body)
		}
		p.letters(email, 1)
	}
	p.record(p.query, "b")
	p.idle()
	if n := len(p.box.Letters()); n != 2 {
		t.Errorf("%d letters", n)
	}
	for _, s := range p.list() {
		if strings.Contains(fmt.Sprint(s.Callback, s.To), "example.net") {
			t.Errorf("%+v", s)
		}
	}
	p.press(unwanted, "confirm", 200, "These e-mails are stopped")
	p.press(link, "allow", 200, `name="email"`)
	if w := p.ask("192.0.2.20", "ada@example.net"); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	_, again := p.letters("ada@example.net", 2)
	p.press(again, "confirm", 200, "Thank you")
	// The link of the subscription before is not valid, which says nothing about this one.
	if w := p.call("GET", link, "192.0.2.1", nil); w.Code != 404 || strings.Contains(w.Body.String(), "nothing is sent") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	p.clock.Store(int64(181 * 24 * time.Hour))
	if w := p.ask("192.0.2.21", "ben@example.net"); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	p.letters("ben@example.net", 2)
}

// A query that is not public any more is neither asked about nor confirmed.
func TestPrivateMeanwhile(t *testing.T) {
	p := newPortal(t, 10)
	p.ask("192.0.2.1", "ada@example.net")
	_, link := p.letters("ada@example.net", 1)
	p.box.Answer(notifytest.Refuse(450, "later"))
	p.ask("192.0.2.2", "ben@example.net") // whose question does not arrive yet
	until(t, "a failure", func() bool { return slices.ContainsFunc(p.list(), fails) })
	p.hide()
	for _, method := range []string{"GET", "POST"} {
		if w := p.call(method, link, "192.0.2.1", url.Values{"do": {"confirm"}}); w.Code != 404 {
			t.Errorf("%s: %d %s", method, w.Code, w.Body)
		}
	}
	p.box.Answer(nil)
	p.clock.Store(int64(2 * time.Hour))
	p.stop()
	p.start()
	until(t, "the other one is asked or forgotten", func() bool { return !slices.ContainsFunc(p.list(), fails) })
	if n := len(p.box.Letters()); n != 1 || len(p.list()) != 1 || p.list()[0].State != registry.Pending {
		t.Errorf("%d letters, %+v", n, p.list())
	}
}

func fails(s registry.Subscription) bool { return s.Failures > 0 }

// Visitors hear by name that a query has ended, or that it is not public any more, without a link that is not valid from
// then on.
func TestVisitorsHearTheEnd(t *testing.T) {
	for name, end := range map[string]func(*portal){"removed": func(p *portal) {
		p.log.Remove(p.query)
		p.waker.Wake(p.query)
	}, "private": (*portal).hide} {
		t.Run(name, func(t *testing.T) {
			p := newPortal(t, 10)
			p.subscribed("192.0.2.1", "ada@example.net")
			if _, err := p.Create(app, registry.ReceiverRequest{Address: "mailto:ops@team.example", Query: p.query}); err != nil {
				t.Fatal(err)
			}
			end(p)
			m, link := p.letters("ada@example.net", 2)
			if !strings.HasPrefix(m.Header.Get("Subject"), "free spaces has ended") || !strings.Contains(m.Body, "http://fresh.example") ||
				link != "" || m.Header.Get("List-Unsubscribe") != "" {
				t.Errorf("%+v", m)
			}
			until(t, "it is gone", func() bool { return !slices.ContainsFunc(p.list(), visits) })
			if name == "removed" {
				if m, _ := p.letters("ops@team.example", 1); !strings.Contains(m.Header.Get("Subject")+m.Body, "free spaces has ended") {
					t.Errorf("%+v", m)
				}
			}
		})
	}
}

func visits(s registry.Subscription) bool { return s.Caller == people.Visitors }

// Each e-mail says from where it comes, and how to stop it.
func TestMailSaysHowToStopIt(t *testing.T) {
	p := newPortal(t, 10)
	s := p.create(registry.ReceiverRequest{Address: "mailto:ops@team.example", Query: p.query})
	p.record(p.query, "b")
	if m, _ := p.letters("ops@team.example", 1); !strings.Contains(m.Body, "This comes from http://fresh.example.") ||
		!strings.HasSuffix(strings.TrimSpace(m.Body), "http://fresh.example/deliveries?q="+s.ID) {
		t.Errorf("%s", m.Body)
	}
}

// The pages behind a link say what they are about.
func TestPagesSayWhatTheyAreAbout(t *testing.T) {
	p := newPortal(t, 10)
	p.ask("192.0.2.1", "ada@example.net")
	_, link := p.letters("ada@example.net", 1)
	for _, do := range []string{"confirm", "stop", "stop"} {
		for _, method := range []string{"GET", "POST"} {
			w := p.call(method, link, "192.0.2.1", url.Values{"do": {do}})
			if w.Code != 200 || !strings.Contains(w.Body.String(), "“free spaces” at http://fresh.example") {
				t.Errorf("%s %s: %d %s", method, do, w.Code, w.Body)
			}
		}
	}
}

// What is wrong with a request is told beside the form, with what was sent.
func TestFormAgain(t *testing.T) {
	p := newPortal(t, 10)
	check := func(w *httptest.ResponseRecorder, code int, want ...string) {
		t.Helper()
		for _, x := range append(want, `role="alert"`, `aria-describedby="wrong"`, `name="query" value="`+p.query, "free spaces") {
			if w.Code != code || !strings.Contains(w.Body.String(), x) {
				t.Errorf("%d, without %s: %s", w.Code, x, w.Body)
			}
		}
	}
	check(p.ask("192.0.2.1", `ada"example.net`), 422, `value="ada&#34;example.net"`, "This is not an address such as you@example.org.")
	for i := range 5 {
		p.ask("192.0.2.1", fmt.Sprintf("ada%d@example.net", i))
	}
	w := p.ask("192.0.2.1", "ada@example.net")
	if check(w, 429, `value="ada@example.net"`, "There were several requests"); w.Header().Get("Retry-After") != "600" {
		t.Errorf("%v", w.Header())
	}
	if w := p.call("PUT", "/notify-me", "192.0.2.1", nil); w.Code != 405 || w.Header().Get("Allow") != "GET, HEAD, POST" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
}
