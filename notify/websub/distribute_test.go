package websub_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/registry"
)

// A delivery has the media type, the links and all bytes of the topic.
func TestH6H39H40H41H43H44H45Content(t *testing.T) {
	for form, typ := range map[string]string{"srj": "application/sparql-results+json", "csv": "text/csv; charset=utf-8"} {
		r, s := newRig(t), newSubscriber(t)
		r.form = form
		r.subscribe(s)
		r.change()
		d := s.last(1)
		if got := d.header.Get("Content-Type"); got != typ {
			t.Errorf("%s: type %q, want %q", form, got, typ)
		}
		want := "<" + r.http.URL + `/v1/hub>; rel="hub", <` + r.topic() + `>; rel="self"`
		if got := d.header.Values("Link"); len(got) != 1 || got[0] != want {
			t.Errorf("%s: Link %q, want one: %q", form, got, want)
		}
		if d.body != r.content() {
			t.Errorf("%s: delivered\n%s\nGET answers\n%s", form, d.body, r.content())
		}
	}
}

// Each delivery is the full topic, even if the subscriber already has most of it.
func TestH7H42NothingIsLeftOut(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	r.subscribe(s)
	for i := range 3 {
		r.log.Record(r.query, rowsUpTo(i+1), time.Unix(1_790_000_000+int64(i), 0))
		r.waker.Wake(r.query)
		if d := s.last(i + 1); strings.Count(d.body, `"value"`) != i+1 {
			t.Errorf("delivery %d holds %s", i+1, d.body)
		}
	}
}

// Every 2xx is success. Every other status is retried.
func TestH46H48H50Codes(t *testing.T) {
	for _, code := range []int{200, 201, 202, 204, 206, 226, 299} {
		r, s := newRig(t), newSubscriber(t)
		s.set(nil, func(int) int { return code })
		r.subscribe(s)
		r.change()
		s.last(1)
		until(t, fmt.Sprint(code, " entered"), func() bool { return r.subscription().Deliveries == 1 })
		r.settled()
		if n := len(s.deliveries()); n != 1 {
			t.Errorf("%d: %d attempts", code, n)
		}
	}
	for _, code := range []int{301, 302, 303, 307, 308, 304, 400, 401, 404, 429, 500, 503, 599} {
		r, s := newRig(t), newSubscriber(t)
		s.set(nil, func(n int) int {
			if n == 1 {
				return code
			}
			return 204
		})
		r.subscribe(s)
		r.change()
		s.last(2)
		until(t, fmt.Sprint(code, " entered"), func() bool { return r.subscription().Deliveries == 1 })
		if x := r.subscription(); x.Failures != 0 || x.LastError != "" {
			t.Errorf("%d: %d failures (%s) after success", code, x.Failures, x.LastError)
		}
		s.mu.Lock()
		for _, p := range s.paths {
			if p != "/cb" {
				t.Errorf("%d: %s was called", code, p)
			}
		}
		s.mu.Unlock()
	}
}

func TestH47Gone(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	s.set(nil, func(int) int { return 410 })
	r.subscribe(s)
	r.change()
	until(t, "the end", func() bool { return r.subscription() == nil })
	r.change()
	r.settled()
	if n := len(s.deliveries()); n != 1 {
		t.Errorf("%d deliveries after 410", n)
	}
}

// The body of the callback's answer is ignored, whatever its size.
func TestH49AnswerIgnored(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	endless := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == "GET" {
			s.ServeHTTP(w, q)
			return
		}
		chunk := []byte(strings.Repeat("x", 64<<10))
		for { // until the hub closes the connection
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	defer endless.Close()
	r.ask("mode", "subscribe", "topic", r.topic(), "callback", endless.URL+"/cb").want(t, 202)
	until(t, "active", func() bool { x := r.subscription(); return x != nil && x.State == registry.Active })
	r.change()
	until(t, "success", func() bool { return r.subscription().Deliveries == 1 })
}

// Retries end, but the subscription does not: the next version is tried.
func TestH50H51GivesUpAVersionNotTheSubscription(t *testing.T) {
	r, s := newRig(t, func(s *setup) { s.patience = 50 * time.Millisecond }), newSubscriber(t)
	s.set(nil, func(n int) int { return 500 })
	r.subscribe(s)
	r.change()
	until(t, "giving up", func() bool { return r.subscription().GaveUp == 1 })
	attempts := len(s.deliveries())
	time.Sleep(2 * r.setup.schedule[2])
	if n := len(s.deliveries()); n != attempts {
		t.Errorf("%d attempts after giving up", n-attempts)
	}
	x := r.subscription()
	if x.State != registry.Active || x.ExpiresAt == nil || x.LastError != "the callback answered 500" || x.FailingSince == nil {
		t.Errorf("after giving up: %+v", x)
	}
	s.set(nil, func(int) int { return 200 })
	r.change()
	s.last(attempts + 1)
	until(t, "recovery", func() bool { return r.subscription().Failures == 0 })
	if got := s.deliveries()[attempts].body; got != r.content() {
		t.Errorf("delivered %s, want the newest", got)
	}
}

func TestH50TimeLimit(t *testing.T) {
	r := newRig(t, func(s *setup) {
		s.patience, s.schedule = time.Nanosecond, []time.Duration{time.Millisecond, time.Hour}
	})
	s := newSubscriber(t)
	s.set(nil, func(int) int { return 500 })
	r.subscribe(s)
	r.change()
	until(t, "giving up", func() bool { return r.subscription().GaveUp == 1 })
	if n := len(s.deliveries()); n != 1 {
		t.Errorf("%d attempts within no time", n)
	}
}

// The signature is an HMAC of the body in lower-case hex, after the method's name.
func TestH52H53H58Signature(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	r.subscribe(s, "secret", "k&=%")
	r.change()
	d := s.last(1)
	m := hmac.New(sha256.New, []byte("k&=%"))
	m.Write([]byte(d.body))
	got := d.header.Get("X-Hub-Signature")
	if got != "sha256="+hex.EncodeToString(m.Sum(nil)) || !regexp.MustCompile(`^sha256=[0-9a-f]{64}$`).MatchString(got) {
		t.Errorf("X-Hub-Signature: %s", got)
	}
}

// Callbacks over HTTPS are called over HTTPS, and certificates are checked.
func TestH54H57X8HTTPS(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	unknown := httptest.NewUnstartedServer(s) // no authority signed its certificate
	unknown.Config.ErrorLog = nil
	unknown.StartTLS()
	defer unknown.Close()
	r.ask("mode", "subscribe", "topic", r.topic(), "callback", unknown.URL+"/cb").want(t, 202)
	until(t, "the end", func() bool { return r.subscription() == nil && r.engine.Stats().Failed == 1 })
	if n := len(s.questions()); n != 0 {
		t.Errorf("%d questions went to a host without a valid certificate", n)
	}
}

// A version is never delivered after a newer one. Waiting older versions are skipped.
func TestNeverOlderAfterNewer(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	s.set(nil, func(n int) int {
		if n%3 == 1 {
			return 503
		}
		return 200
	})
	r.subscribe(s)
	for range 40 {
		r.change()
		time.Sleep(time.Millisecond)
	}
	until(t, "the newest", func() bool {
		d := s.deliveries()
		return len(d) > 0 && d[len(d)-1].body == r.content() && r.subscription().Failures == 0
	})
	version := regexp.MustCompile(`"v(\d+)"`)
	last := 0
	for _, d := range s.deliveries() {
		var n int
		fmt.Sscan(version.FindStringSubmatch(d.body)[1], &n)
		if n < last {
			t.Errorf("version %d came after %d", n, last)
		}
		last = n
	}
}

// Thresholds and a rate decide when the topic is delivered, not what is delivered. They
// apply to the net change since the last delivery; a change that cancels out is none.
func TestThresholdAndRate(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	subscribe := func(callback, options string) answer {
		form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {r.topic()}, "hub.callback": {s.http.URL + callback}}
		return r.raw("application/x-www-form-urlencoded", form.Encode()+"&"+options, "")
	}
	for _, bad := range []string{"freshet.min_rows=x", "freshet.rate=soon", "freshet.min_jaccard=2", "freshet.vars=s",
		"freshet.where=s:contains:1"} {
		subscribe("/cb", bad).want(t, 400)
	}
	record := func(values ...string) {
		r.tick++
		r.log.Record(r.query, notifytest.Rows(values...), time.Unix(1_790_000_000+int64(r.tick), 0))
		r.waker.Wake(r.query)
	}
	record("a", "b")
	subscribe("/cb", "freshet.min_rows=3").want(t, 202)
	until(t, "an active subscription", func() bool { x := r.subscription(); return x != nil && x.State == registry.Active })
	if x := r.subscription(); string(x.Filter) != `{"min_rows":3}` {
		t.Errorf("kept as %s", x.Filter)
	}
	record("a", "b", "c")
	record("a", "b", "c", "d")
	r.settled()
	if n := len(s.deliveries()); n != 0 {
		t.Fatalf("%d deliveries below the threshold", n)
	}
	r.stop() // withheld changes survive the process
	r.start()
	record("a", "b", "c", "d", "e")
	if d := s.last(1); d.body != r.content() {
		t.Errorf("delivered %s, the topic is %s", d.body, r.content())
	}
	record("a", "b", "c", "d")
	record("a", "b", "c", "d", "e") // same as what was delivered
	r.settled()
	until(t, "a position past what cancelled out", func() bool {
		st, _, _ := r.log.Current(r.query, false)
		return r.subscription().Cursor == st.Position
	})
	record("1", "2")
	s.last(2)
	subscribe("/cb", "freshet.rate=400ms").want(t, 202)
	until(t, "the other options", func() bool { x := r.subscription(); return x.Rate > 0 && x.Filter == nil && x.Intent == nil })
	began := *r.subscription().LastDelivery
	for i := range 5 {
		record(fmt.Sprint("quick", i))
		time.Sleep(10 * time.Millisecond)
	}
	s.last(3)
	if got := time.Since(began); got < 400*time.Millisecond {
		t.Errorf("the next delivery came after %s", got)
	}
	until(t, "the newest version", func() bool { d := s.deliveries(); return d[len(d)-1].body == r.content() })
	r.settled()
	if n, most := len(s.deliveries()), 3+int(time.Since(began)/(400*time.Millisecond)); n > most {
		t.Errorf("five changes within the rate came as %d deliveries", n-2)
	}
	subscribe("/cb", "").want(t, 202)
	until(t, "no options", func() bool { x := r.subscription(); return x.Rate == 0 && x.Intent == nil })
}

// A delivery that seems to be in the future, because the clock was set back, holds nothing up.
func TestRateAfterClockWasSetBack(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	record := func(value string) {
		r.tick++
		r.log.Record(r.query, notifytest.Rows(value), time.Unix(1_790_000_000+int64(r.tick), 0))
		r.waker.Wake(r.query)
	}
	record("a")
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {r.topic()}, "hub.callback": {s.http.URL + "/cb"}, "freshet.rate": {"1h"}}
	r.raw("application/x-www-form-urlencoded", form.Encode(), "").want(t, 202)
	until(t, "an active subscription", func() bool { x := r.subscription(); return x != nil && x.State == registry.Active })
	r.settled()
	ahead := time.Now().Add(24 * time.Hour)
	_, err := r.store.EditSubscription(r.subscription().ID, func(s *registry.Subscription, _ bool) error {
		s.LastDelivery = &ahead
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	record("b")
	s.last(1)
}

// A delivery may include later changes than the one that caused it. Thresholds count from
// the delivered content.
func TestThresholdCountsFromWhatWasDelivered(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	record := func(values string) {
		r.tick++
		r.log.Record(r.query, notifytest.Rows(strings.Fields(values)...), time.Unix(1_790_000_000+int64(r.tick), 0))
		r.waker.Wake(r.query)
	}
	record("a b c")
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {r.topic()}, "hub.callback": {s.http.URL + "/cb"}, "freshet.min_rows": {"3"}}
	r.raw("application/x-www-form-urlencoded", form.Encode(), "").want(t, 202)
	until(t, "an active subscription", func() bool { x := r.subscription(); return x != nil && x.State == registry.Active })
	meanwhile := func() { record("a b c d e f g h") }
	r.retryNow.Store(&meanwhile)
	record("a b c d e f")
	if d := s.last(1); d.body != r.content() {
		t.Fatalf("delivered %s, the topic is %s", d.body, r.content())
	}
	record("a b c d e") // one row more than at the wake-up, three more than what was delivered
	if d := s.last(2); d.body != r.content() {
		t.Errorf("delivered %s, the topic is %s", d.body, r.content())
	}
}

// After a restart the hub continues with pending deliveries, leases, secrets and unasked
// questions.
func TestRestart(t *testing.T) {
	r, s := newRig(t), newSubscriber(t)
	r.subscribe(s, "secret", "k", "lease_seconds", "1000")
	lease := *r.subscription().ExpiresAt
	s.set(nil, func(int) int { return hang })
	r.change()
	s.last(1)
	r.ask("mode", "unsubscribe", "topic", r.topic(), "callback", s.http.URL+"/other").want(t, 404)
	s.set(func(url.Values) (int, string) { return 200, "no" }, nil)
	r.ask("mode", "subscribe", "topic", r.topic(), "callback", s.http.URL+"/cb", "secret", "later").want(t, 202)
	r.stop()
	if x := r.subscription(); x.Intent == nil {
		t.Fatal("the question that waits is not kept")
	}
	s.release()
	s.set(confirm, func(int) int { return 200 })
	r.start()
	until(t, "the question", func() bool { x := r.subscription(); return x.Intent == nil && x.Secrets[0].Key == "later" })
	d := s.last(2)
	if d.body != r.content() {
		t.Errorf("delivered %s, want %s", d.body, r.content())
	}
	if r.subscription().ExpiresAt.Before(lease) {
		t.Errorf("the lease is shorter after a restart")
	}
}

func rowsUpTo(n int) *diff.Result {
	b := diff.NewBuilder(diff.Select, diff.Options{})
	b.SetVars([]string{"s"})
	for i := range n {
		b.Row(diff.Term{Kind: diff.Literal, Value: fmt.Sprint(i)})
	}
	res, err := b.Finish()
	if err != nil {
		panic(err)
	}
	return res
}
