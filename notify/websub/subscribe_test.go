package websub_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/websub"
	"github.com/freshet/freshet/registry"
)

// A request with callback, mode and topic gets 202. The hub asks the callback at once and
// then sends it changes.
func TestH1H24H25H31Subscribe(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	r.change()
	a := r.ask("mode", "subscribe", "topic", r.topic(), "callback", s.http.URL+"/cb")
	a.want(t, 202)
	until(t, "the question", func() bool { return len(s.questions()) == 1 })
	until(t, "active", func() bool { return r.subscription().State == registry.Active })
	r.change()
	if got, want := s.last(1).body, r.content(); got != want {
		t.Errorf("delivered %s, want %s", got, want)
	}
}

// A form that stops in the middle gets an answer with the reason.
func TestFormTooSlow(t *testing.T) {
	r := newRig(t)
	q := httptest.NewRequest("POST", "/v1/hub", iotest.ErrReader(os.ErrDeadlineExceeded))
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	a := httptest.NewRecorder()
	guard, err := deliver.NewGuard(nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.handler(guard).ServeHTTP(a, q); a.Code != http.StatusRequestTimeout {
		t.Errorf("%d %s", a.Code, a.Body)
	}
}

func TestH2H8H16H60Secret(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	r.subscribe(s, "secret", "geheim ü")
	r.change()
	d := s.last(1)
	if got, want := d.header.Get("X-Hub-Signature"), websub.Sign("geheim ü", []byte(d.body)); got != want {
		t.Errorf("signature %q, want %q", got, want)
	}
	r.subscribe(s, "secret", "another") // H16
	r.change()
	d = s.last(2)
	if got, want := d.header.Get("X-Hub-Signature"), websub.Sign("another", []byte(d.body)); got != want {
		t.Errorf("after a renewal: signature %q, want %q", got, want)
	}
	r.subscribe(s) // H16, H60: none
	r.change()
	if d = s.last(3); d.header.Values("X-Hub-Signature") != nil {
		t.Errorf("signed without a secret: %q", d.header.Get("X-Hub-Signature"))
	}
}

func TestH3H11H55LeaseAsked(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	for i, c := range []struct{ asked, given string }{
		{"", "864000"}, {"3600", "3600"}, {"1", "60"}, {"99999999999999999999999", "2592000"}, {"000120", "120"},
	} {
		pairs := []string{"mode", "subscribe", "topic", r.topic(), "callback", s.http.URL + "/cb"}
		if c.asked != "" {
			pairs = append(pairs, "lease_seconds", c.asked)
		}
		r.ask(pairs...).want(t, 202)
		until(t, "the question", func() bool { return len(s.questions()) == i+1 })
		if got := s.questions()[i].Get("hub.lease_seconds"); got != c.given {
			t.Errorf("lease_seconds %q: given %q, want %q", c.asked, got, c.given)
		}
		r.settled()
	}
	for _, wrong := range []string{"0", "-5", "1.5", "1e3", "+7", "ten", " 9"} {
		r.ask("mode", "subscribe", "topic", r.topic(), "callback", s.http.URL+"/cb", "lease_seconds", wrong).want(t, 400)
	}
	r.ask("mode", "unsubscribe", "topic", r.topic(), "callback", s.http.URL+"/cb", "lease_seconds", "ten").want(t, 202) // ignored
}

func TestH4H14Renew(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	r.subscribe(s, "lease_seconds", "100")
	first := *r.subscription().ExpiresAt
	r.subscribe(s, "lease_seconds", "5000", "secret", "k")
	x := r.subscription()
	if !x.ExpiresAt.After(first.Add(time.Hour)) || len(x.Secrets) != 1 || x.Secrets[0].Key != "k" {
		t.Errorf("after the renewal it ends at %v (before: %v) with secrets %v", x.ExpiresAt, first, x.Secrets)
	}
}

func TestH5H59Unsubscribe(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	r.subscribe(s)
	r.ask("mode", "unsubscribe", "topic", r.topic(), "callback", s.http.URL+"/cb").want(t, 202)
	until(t, "the end", func() bool { return r.subscription() == nil })
	q := s.questions()[1]
	if q.Get("hub.mode") != "unsubscribe" || q.Has("hub.lease_seconds") {
		t.Errorf("asked %v", q)
	}
	r.change()
	r.settled()
	if n := len(s.deliveries()); n != 0 {
		t.Errorf("%d deliveries after the end", n)
	}
	r.ask("mode", "unsubscribe", "topic", r.topic(), "callback", s.http.URL+"/cb").want(t, 404)
}

func TestH9Form(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	body := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {r.topic()}, "hub.callback": {s.http.URL + "/cb"}}.Encode()
	for _, typ := range []string{"application/x-www-form-urlencoded", "application/x-www-form-urlencoded; charset=utf-8",
		"Application/X-WWW-Form-Urlencoded;charset=\"UTF-8\""} {
		r.raw(typ, body, "").want(t, 202)
	}
	for _, typ := range []string{"", "application/json", "text/plain", "multipart/form-data; boundary=x",
		"application/x-www-form-urlencoded; charset=latin1"} {
		r.raw(typ, body, "").want(t, 415)
	}
	for _, wrong := range []string{"%zz", body + "&hub.secret=%ff%fe", body + "&hub.topic=" + url.QueryEscape(r.topic())} {
		r.raw("application/x-www-form-urlencoded", wrong, "").want(t, 400)
	}
}

func TestH10Mode(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	for _, mode := range []string{"", "Subscribe", "SUBSCRIBE", "subscribe ", "publish", "denied", "x"} {
		r.ask("mode", mode, "topic", r.topic(), "callback", s.http.URL+"/cb").want(t, 400)
	}
}

func TestH12SecretLength(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	r.subscribe(s, "secret", strings.Repeat("x", 199))
	for _, secret := range []string{strings.Repeat("x", 200), strings.Repeat("ü", 100)} { // bytes, not characters
		r.ask("mode", "subscribe", "topic", r.topic(), "callback", s.http.URL+"/cb", "secret", secret).want(t, 400)
	}
}

func TestH13UnknownParameters(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	r.subscribe(s, "verify", "sync", "verify_token", "x", "foo", "bar")
	if q := s.questions()[0]; q.Has("hub.verify_token") || q.Has("hub.foo") {
		t.Errorf("asked %v", q)
	}
}

// An unconfirmed request changes nothing, however it was refused.
func TestH14H15H36H37VerificationFails(t *testing.T) {
	for name, no := range map[string]func(url.Values) (int, string){
		"404":            func(q url.Values) (int, string) { return 404, q.Get("hub.challenge") },
		"500":            func(q url.Values) (int, string) { return 500, q.Get("hub.challenge") },
		"302":            func(q url.Values) (int, string) { return 302, q.Get("hub.challenge") },
		"307":            func(q url.Values) (int, string) { return 307, "" },
		"nothing":        func(url.Values) (int, string) { return 200, "" },
		"another":        func(q url.Values) (int, string) { return 200, strings.ToLower(q.Get("hub.challenge")) + "x" },
		"with newline":   func(q url.Values) (int, string) { return 200, q.Get("hub.challenge") + "\n" },
		"a page with it": func(q url.Values) (int, string) { return 200, "<p>" + q.Get("hub.challenge") },
	} {
		t.Run(name, func(t *testing.T) {
			r, s := newRig(t), newSubscriber(t)
			s.set(no, nil)
			r.ask("mode", "subscribe", "topic", r.topic(), "callback", s.http.URL+"/cb").want(t, 202)
			until(t, "the end of what was never confirmed", func() bool { return len(s.questions()) == 1 && r.subscription() == nil })

			s.set(confirm, nil)
			r.subscribe(s, "secret", "old", "lease_seconds", "500")
			before := *r.subscription()
			s.set(no, nil)
			for i, mode := range []string{"subscribe", "unsubscribe"} {
				r.ask("mode", mode, "topic", r.topic(), "callback", s.http.URL+"/cb", "secret", "new", "lease_seconds", "9000").want(t, 202)
				until(t, "the question", func() bool { return len(s.questions()) >= 3+i && r.subscription().Intent == nil })
				after := r.subscription()
				if after.Secrets[0].Key != "old" || !after.ExpiresAt.Equal(*before.ExpiresAt) || after.State != registry.Active {
					t.Fatalf("%s refused by %s left secret %q, end %v, state %s", mode, name, after.Secrets[0].Key, after.ExpiresAt, after.State)
				}
			}
			r.change()
			d := s.last(1)
			if want := websub.Sign("old", []byte(d.body)); d.header.Get("X-Hub-Signature") != want {
				t.Error("the delivery is not signed with the old secret")
			}
		})
	}
}

func TestH17KeyIsTopicAndCallback(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	csv := strings.TrimSuffix(r.topic(), "srj") + "csv"
	for _, c := range [][2]string{{r.topic(), "/a"}, {r.topic(), "/b"}, {csv, "/a"}, {r.topic(), "/a"}, {r.topic(), "/a?x=1"}} {
		r.ask("mode", "subscribe", "topic", c[0], "callback", s.http.URL+c[1]).want(t, 202)
		r.settled()
	}
	list, err := r.store.Subscriptions("", 10)
	if err != nil || len(list) != 4 {
		t.Fatalf("%d subscriptions, want 4: %v", len(list), err)
	}
}

// Unnecessary percent-encoding does not make another topic or another callback.
func TestH18Decode(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	topic := strings.Replace(r.topic(), "/results.srj", "/%72esults%2Esrj", 1)
	topic = strings.Replace(topic, "q_", "q%5f", 1)
	r.ask("mode", "subscribe", "topic", topic, "callback", s.http.URL+"/%63b%7e").want(t, 202)
	until(t, "active", func() bool { x := r.subscription(); return x != nil && x.State == registry.Active })
	if got := s.questions()[0].Get("hub.topic"); got != topic {
		t.Errorf("asked about %s, want it as given: %s", got, topic)
	}
	r.ask("mode", "subscribe", "topic", r.topic(), "callback", s.http.URL+"/cb~").want(t, 202)
	r.settled()
	if list, _ := r.store.Subscriptions("", 10); len(list) != 1 {
		t.Errorf("%d subscriptions, want 1", len(list))
	}
	r.change()
	if got, want := s.last(1).header.Get("Link"), "<"+r.topic()+`>; rel="self"`; !strings.Contains(got, want) {
		t.Errorf("Link %s does not hold %s", got, want)
	}
}

// Only the URLs that the publisher advertises as self are topics.
func TestH19H26H27H28Refused(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	cb := s.http.URL + "/cb"
	for name, c := range map[string]struct {
		topic, callback string
		status          int
	}{
		"negotiated":       {strings.TrimSuffix(r.topic(), ".srj"), cb, 404},
		"somebody else's":  {"http://example.org/feed", cb, 404},
		"no such query":    {r.http.URL + "/v1/queries/q_x/results.srj", cb, 404},
		"host only":        {r.http.URL, cb, 404},
		"like ours":        {r.http.URL + ".example.org/v1/queries/" + r.query + "/results.srj", cb, 404},
		"no topic":         {"", cb, 400},
		"no callback":      {r.topic(), "", 400},
		"ftp":              {r.topic(), "ftp://127.0.0.1/cb", 400},
		"relative":         {r.topic(), "/cb", 400},
		"user":             {r.topic(), "http://u:p@127.0.0.1/cb", 400},
		"fragment":         {r.topic(), cb + "#x", 400},
		"line break":       {r.topic(), cb + "\r\nX: y", 400},
		"private":          {r.topic(), "http://10.0.0.1/cb", 400},
		"port of no web":   {r.topic(), "http://93.184.216.34:25/cb", 400},
		"very long":        {r.topic(), cb + "?" + strings.Repeat("x", 3000), 400},
		"very long topic":  {r.topic() + strings.Repeat("x", 3000), cb, 404},
		"callback not URL": {r.topic(), "http://[::1/cb", 400},
	} {
		a := r.ask("mode", "subscribe", "topic", c.topic, "callback", c.callback)
		if a.status != c.status {
			t.Errorf("%s: %d (%s), want %d", name, a.status, a.text, c.status)
		}
		if a.header.Get("Content-Type") != "text/plain; charset=utf-8" || len(a.text) < 10 {
			t.Errorf("%s: the error is %s %q, want a sentence in plain text", name, a.header.Get("Content-Type"), a.text)
		}
		if strings.Contains(a.text, "X: y") {
			t.Errorf("%s: the answer repeats the request", name)
		}
	}
	if n := len(s.questions()); n != 0 {
		t.Errorf("%d callbacks were asked", n)
	}
}

func TestH20GuessableCallbacksAreTheSubscribersAffair(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	r.ask("mode", "subscribe", "topic", r.topic(), "callback", s.http.URL).want(t, 202)
	until(t, "active", func() bool { x := r.subscription(); return x != nil && x.State == registry.Active })
}

// The callback's own query string does not change. Our parameters come after it and
// overwrite nothing. Deliveries keep it in the URL.
func TestH21H22H23H57CallbackAsGiven(t *testing.T) {
	for _, own := range []string{"a=1&hub.mode=mine&b=%20+%2F", "a=1&", "k", "hub.challenge=x"} {
		r, s := newRig(t), newSubscriber(t)
		r.ask("mode", "subscribe", "topic", r.topic(), "callback", s.http.URL+"/p%61th?"+own).want(t, 202)
		until(t, "the question", func() bool { return len(s.questions()) == 1 })
		s.mu.Lock()
		raw := s.raws[0]
		s.mu.Unlock()
		want := strings.TrimSuffix(own, "&") + "&hub.mode=subscribe&hub.topic=" + url.QueryEscape(r.topic()) + "&hub.challenge="
		if !strings.HasPrefix(raw, want) {
			t.Errorf("asked with %s, want it to begin with %s", raw, want)
		}
		r.settled()
		if strings.Contains(own, "hub.challenge") {
			continue // confirm answers with the first one, which is not ours
		}
		r.change()
		if d := s.last(1); d.query != own || d.method != "POST" || strings.Contains(d.body, "hub.mode") {
			t.Errorf("delivered by %s to ?%s, want ?%s", d.method, d.query, own)
		}
	}
}

// The answer does not wait for the verification and does not depend on it.
func TestH29Asynchronous(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	answered := make(chan struct{})
	s.set(func(q url.Values) (int, string) {
		<-answered // the hub has answered already
		return confirm(q)
	}, nil)
	a := r.ask("mode", "subscribe", "topic", r.topic(), "callback", s.http.URL+"/cb")
	close(answered)
	a.want(t, 202)
	b := r.ask("mode", "subscribe", "topic", r.topic(), "callback", "http://127.0.0.1:1/missing")
	if b.status != a.status || b.text != a.text {
		t.Errorf("a callback that missing answers makes another answer: %d %q", b.status, b.text)
	}
	r.settled()
}

// There is one hub: no request is redirected.
func TestH30NoRedirect(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	a := r.ask("mode", "subscribe", "topic", r.topic(), "callback", s.http.URL+"/cb")
	if a.status != 202 || a.header.Get("Location") != "" {
		t.Errorf("%d, Location %q", a.status, a.header.Get("Location"))
	}
	r.settled()
}

// A subscriber gets a denial when the query or its right to read ends.
func TestH32H33Denied(t *testing.T) {
	for name, lose := range map[string]func(r *rig){
		"query ends": func(r *rig) { r.log.Remove(r.query); r.waker.Wake(r.query) },
		"right ends": func(r *rig) { r.withdrawn.Store(registry.Anonymous, true); r.change() },
		"dropped": func(r *rig) {
			if err := r.engine.Drop(r.subscription().ID, func(s *registry.Subscription) { r.way.Deny(s, "dropped by the operator") }); err != nil {
				r.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, s := newRig(t), newSubscriber(t)
			r.subscribe(s)
			lose(r)
			until(t, "the denial", func() bool { return len(s.questions()) == 2 })
			q := s.questions()[1]
			if q.Get("hub.mode") != "denied" || q.Get("hub.topic") != r.topic() || q.Get("hub.reason") == "" || q.Has("hub.challenge") {
				t.Errorf("sent %v", q)
			}
			until(t, "the end", func() bool { return r.subscription() == nil })
			if n := len(s.deliveries()); n != 0 {
				t.Errorf("%d deliveries", n)
			}
		})
	}
}

func TestH34H35H56Question(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	before := time.Now()
	r.subscribe(s, "lease_seconds", "300")
	r.subscribe(s, "lease_seconds", "300")
	a, b := s.questions()[0], s.questions()[1]
	for _, q := range []url.Values{a, b} {
		if q.Get("hub.mode") != "subscribe" || q.Get("hub.topic") != r.topic() || q.Get("hub.lease_seconds") != "300" || len(q) != 4 {
			t.Errorf("asked %v", q)
		}
	}
	if len(a.Get("hub.challenge")) < 22 || a.Get("hub.challenge") == b.Get("hub.challenge") {
		t.Errorf("challenges %q and %q", a.Get("hub.challenge"), b.Get("hub.challenge"))
	}
	if got := r.subscription().ExpiresAt.Sub(before); got < 299*time.Second || got > 300*time.Second+patience {
		t.Errorf("the lease ends after %v", got)
	}
}

// A lease ends without a message, even if nothing changes.
func TestH38LeaseEnds(t *testing.T) {
	r := newRig(t, func(s *setup) {
		s.lease = websub.Lease{Min: 50 * time.Millisecond, Default: 2 * time.Second, Max: 2 * time.Second}
	})
	s := newSubscriber(t)
	r.ask("mode", "subscribe", "topic", r.topic(), "callback", s.http.URL+"/cb").want(t, 202)
	until(t, "the question", func() bool { return len(s.questions()) > 0 })
	until(t, "the end of the lease", func() bool { return r.subscription() == nil })
	r.change()
	r.settled()
	if len(s.deliveries()) != 0 || len(s.questions()) != 1 {
		t.Errorf("%d deliveries, %d questions", len(s.deliveries()), len(s.questions()))
	}
	if n := r.engine.Stats().Subscriptions; n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// A request that arrives while another one is being verified replaces it.
func TestH14LaterRequestWins(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	first := make(chan struct{})
	asked := make(chan struct{}, 10)
	s.set(func(q url.Values) (int, string) {
		asked <- struct{}{}
		if q.Get("hub.mode") == "subscribe" {
			<-first
		}
		return confirm(q)
	}, nil)
	r.ask("mode", "subscribe", "topic", r.topic(), "callback", s.http.URL+"/cb").want(t, 202)
	<-asked
	r.ask("mode", "unsubscribe", "topic", r.topic(), "callback", s.http.URL+"/cb").want(t, 202)
	close(first)
	until(t, "the end", func() bool { return r.subscription() == nil })
	if n := len(s.questions()); n != 2 {
		t.Errorf("%d questions, want one for each request", n)
	}
}

// A node that is cut off says that another one is to be asked, and logs no error for each request.
func TestHubOfANodeThatIsCutOff(t *testing.T) {
	r := newRig(t)
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {r.topic()}, "hub.callback": {"http://127.0.0.1:9/"}}
	a := r.raw("application/x-www-form-urlencoded", form.Encode(), "unsure")
	if a.status != 503 || a.header.Get("Retry-After") != "7" || !strings.Contains(a.text, "ask another node") {
		t.Errorf("%d, Retry-After %q: %s", a.status, a.header.Get("Retry-After"), a.text)
	}
	if strings.Contains(r.logged.String(), "level=ERROR") {
		t.Errorf("logged: %s", r.logged)
	}
}

// With tokens, topics need one unless their query is public.
func TestTokens(t *testing.T) {
	r := newRig(t, func(s *setup) {
		s.gate = gate{"r": {Name: "reader", Role: registry.RoleRead}, "x": {Name: "missing", Role: "none"}}
	})
	s := newSubscriber(t)
	form := func(topic string) string {
		return url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {s.http.URL + "/cb"}}.Encode()
	}
	const typ = "application/x-www-form-urlencoded"
	for _, c := range []struct { // the order matters: a token's subscription cannot be renewed by others
		name, topic, token string
		public             bool
		want               int
	}{

		{"none", r.topic(), "", false, 401},
		{"wrong", r.topic(), "w", false, 401},
		{"guessing", r.topic(), "guess", true, 429},
		{"wrong, public", r.topic(), "w", true, 401},
		{"no role", r.topic(), "x", false, 403},
		{"public", r.topic(), "", true, 202},
		{"unknown, none", r.http.URL + "/v1/queries/q_x/results.srj", "", false, 401}, // does not reveal whether it exists
		{"unknown, right", r.http.URL + "/v1/queries/q_x/results.srj", "r", false, 404},
		{"right", r.topic(), "r", false, 202},
	} {
		r.public = c.public
		a := r.raw(typ, form(c.topic), c.token)
		if a.status != c.want || (a.status == 401) != (a.header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s: %d, want %d: %s", c.name, a.status, c.want, a.text)
		}
		r.settled()
	}
	if got := fmt.Sprint(r.subscription().Caller); got != "reader" && got != registry.Anonymous {
		t.Errorf("held by %s", got)
	}
}
