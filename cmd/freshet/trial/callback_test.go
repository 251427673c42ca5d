package trial

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

const allowLoopback = "websub: {allow_callback_networks: [\"127.0.0.0/8\"]}\n"

// A callback confirms requests and records what it receives.
type callback struct {
	t    *testing.T
	http *httptest.Server

	mu     sync.Mutex
	answer func(n int) int
	got    []sent
}

type sent struct {
	path   string
	header http.Header
	body   string
}

func newCallback(t *testing.T) *callback {
	c := &callback{t: t, answer: func(int) int { return 204 }}
	c.http = httptest.NewServer(c)
	t.Cleanup(c.http.Close)
	return c
}

func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		io.WriteString(w, r.URL.Query().Get("hub.challenge"))
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // ended by a crash
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, sent{r.URL.Path, r.Header.Clone(), string(body)})
	w.WriteHeader(c.answer(len(c.got)))
}

func (c *callback) on(answer func(n int) int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = answer
}

func (c *callback) all(path string) (list []sent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.got {
		if s.path == path {
			list = append(list, s)
		}
	}
	return list
}

// get sends a request to the server and returns the response with its body.
func (s *testServer) get(method, target string) (*http.Response, string) {
	s.t.Helper()
	if strings.HasPrefix(target, "/") {
		target = s.srv.Url + target
	}
	r, err := http.NewRequest(method, target, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp, string(b)
}

// links returns the targets of a response's Link headers by relation.
func links(resp *http.Response) map[string][]string {
	out := map[string][]string{}
	for _, h := range resp.Header.Values("Link") {
		for _, l := range strings.Split(h, ", <") {
			target, rel, ok := strings.Cut(strings.TrimPrefix(l, "<"), `>; rel="`)
			if ok {
				out[strings.TrimSuffix(rel, `"`)] = append(out[strings.TrimSuffix(rel, `"`)], target)
			}
		}
	}
	return out
}

func (s *testServer) subscribe(topic, callback string, more ...string) {
	s.t.Helper()
	form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {callback}}
	for i := 0; i < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	resp, err := http.PostForm(s.srv.Url+"/v1/hub", form)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusAccepted {
		s.t.Fatalf("the hub answers %s: %s", resp.Status, b)
	}
	clitest.Eventually(s.t, "a verified subscription", func() bool {
		_, b := s.get("GET", "/v1/subscriptions?way=websub&state=pending")
		return strings.HasPrefix(b, `{"subscriptions":[]`)
	})
}

var representations = []string{"/results.srj", "/results.srx", "/results.csv", "/results.tsv", "/changes/latest", "/changes.atom"}

// GET and HEAD of a topic return its hub and its canonical URL. For a negotiated topic that is
// the URL of the representation.
func TestP1P2P3P6P7Discovery(t *testing.T) {
	s := newTestServer(t, "")
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	for _, method := range []string{"GET", "HEAD"} {
		for _, rest := range append([]string{"/results"}, representations...) {
			resp, _ := s.get(method, "/v1/queries/rows"+rest)
			l := links(resp)
			if len(l["self"]) != 1 || len(l["hub"]) != 1 || l["hub"][0] != s.srv.Url+"/v1/hub" {
				t.Errorf("%s %s: %v", method, rest, l)
				continue
			}
			want := rest
			if rest == "/results" { // negotiated
				want = "/results.srj"
			}
			if !strings.HasSuffix(l["self"][0], want) {
				t.Errorf("%s %s: self is %s", method, rest, l["self"][0])
			}
			again, _ := s.get(method, l["self"][0])
			if again.StatusCode != 200 || links(again)["self"][0] != l["self"][0] || again.Header.Get("ETag") != resp.Header.Get("ETag") {
				t.Errorf("%s %s: self leads to %s with %v", method, rest, again.Status, links(again))
			}
		}
	}
}

// The feed also contains its links. HTML pages of this server are not topics.
func TestP4P5EmbeddedLinks(t *testing.T) {
	s := newTestServer(t, "")
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	resp, feed := s.get("GET", "/v1/queries/rows/changes.atom")
	for _, want := range []string{`rel="hub"`, `rel="self"`, s.srv.Url + "/v1/hub", links(resp)["self"][0]} {
		if !strings.Contains(feed, want) {
			t.Errorf("the feed does not hold %s:\n%.800s", want, feed)
		}
	}
	if page, _ := s.get("GET", "/"); links(page)["hub"] != nil {
		t.Error("the status page says that it has a hub")
	}
}

// A change of any topic is delivered as soon as it is committed, with the same content as GET.
// It is sent to the hub that is advertised.
func TestH40H41P8P9X6DeliveryIsTheTopic(t *testing.T) {
	s := newTestServer(t, allowLoopback)
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	cb := newCallback(t)
	topics := map[string]string{}
	for _, rest := range representations {
		resp, _ := s.get("HEAD", "/v1/queries/rows"+rest)
		topics[rest] = links(resp)["self"][0]
		s.subscribe(topics[rest], cb.http.URL+rest)
	}
	for n := 1; n <= 3; n++ {
		s.step(n)
		for rest, topic := range topics {
			clitest.Eventually(t, fmt.Sprintf("change %d of %s", n, rest), func() bool { return len(cb.all(rest)) == n })
			d := cb.all(rest)[n-1]
			resp, want := s.get("GET", topic)
			if d.body != want || d.header.Get("Content-Type") != resp.Header.Get("Content-Type") {
				t.Errorf("change %d of %s was delivered as %s\n%s\nGET answers %s\n%s", n, rest, d.header.Get("Content-Type"), d.body,
					resp.Header.Get("Content-Type"), want)
			}
			if rest == "/changes/latest" && (!strings.Contains(d.body, fmt.Sprintf(`"seq":%d`, n+1)) || !strings.Contains(d.body, `"epoch":"`)) {
				t.Errorf("the change does not say its position: %s", d.body)
			}
		}
	}
}

// A topic's URL contains the query's id. It does not change while the query exists, and the
// query's names lead to it.
func TestP10TopicsDoNotMove(t *testing.T) {
	s := newTestServer(t, "")
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	resp, _ := s.get("HEAD", "/v1/queries/rows/results.srj")
	was := links(resp)["self"][0]
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "renamed", "-")
	s.crash()
	resp, _ = s.get("HEAD", "/v1/queries/renamed/results.srj")
	if now := links(resp)["self"][0]; now != was {
		t.Errorf("the topic was %s and is %s", was, now)
	}
}

// Leases, secrets and undelivered changes survive kill -9 at any moment.
func TestCallbacksSurviveCrashes(t *testing.T) {
	t.Parallel()
	s := newTestServer(t, allowLoopback)
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	cb := newCallback(t)
	resp, _ := s.get("HEAD", "/v1/queries/rows/results.srj")
	topic := links(resp)["self"][0]
	s.subscribe(topic, cb.http.URL+"/sub", "hub.secret", "k", "hub.lease_seconds", "5000")
	hook := strings.TrimSpace(s.must(t, "", "webhook", "add", "--query", "rows", cb.http.URL+"/hook"))
	clitest.Eventually(t, "the first result", func() bool { return len(cb.all("/hook")) >= 2 })
	// One callback hangs, and one redirects to a host that is not a subscriber.
	release := make(chan struct{})
	rude := newCallback(t)
	hang := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			rude.ServeHTTP(w, r)
			return
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer hang.Close()
	defer close(release)
	rude.on(func(int) int { return http.StatusTemporaryRedirect })
	_, before := s.get("GET", "/v1/subscriptions?way=websub")
	s.subscribe(topic, hang.URL+"/hang")
	s.subscribe(topic, rude.http.URL+"/rude")
	cb.on(func(n int) int {
		if n == 4 { // only once: the second try comes seconds later, the third minutes later
			return 503
		}
		return 200
	})
	for n := 1; n <= 6; n++ {
		s.step(n)
		if n%2 == 0 {
			s.crash()
		}
	}
	_, want := s.get("GET", topic)
	clitest.Eventually(t, "the newest version", func() bool { d := cb.all("/sub"); return len(d) > 0 && d[len(d)-1].body == want })
	seq := 0
	clitest.Eventually(t, "the last change", func() bool {
		d := cb.all("/hook")
		return strings.Contains(d[len(d)-1].body, `"seq":7`)
	})
	for _, d := range cb.all("/sub") {
		if d.header.Get("X-Hub-Signature") == "" {
			t.Error("a delivery is not signed any more")
		}
	}
	for _, d := range cb.all("/hook") {
		var n int
		if _, after, ok := strings.Cut(d.body, `"seq":`); ok {
			fmt.Sscan(after, &n)
		}
		if n < seq {
			t.Errorf("change %d came after %d", n, seq)
		}
		seq = max(seq, n)
	}
	_, after := s.get("GET", "/v1/subscriptions?way=websub")
	lease := func(text string) string {
		_, rest, _ := strings.Cut(text, "/sub\"") // ours among the three
		_, rest, _ = strings.Cut(rest, `"expires_at":`)
		return rest[:min(len(rest), 25)]
	}
	if lease(before) != lease(after) || lease(after) == "" {
		t.Errorf("the lease was %s and is %s", lease(before), lease(after))
	}
	if list := s.must(t, "", "subscription", "list"); !strings.Contains(list, "websub") || !strings.Contains(list, hook) {
		t.Errorf("subscription list prints\n%s", list)
	}
}
