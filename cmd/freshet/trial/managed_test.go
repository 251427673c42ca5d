package trial

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/web/docs"
)

// receivedRows counts the changes and results that a follower received, and keeps the last message.
type receivedRows struct {
	mu      sync.Mutex
	n       int
	rows    map[string]bool // current values of ?n
	end     string
	started bool
}

func (h *receivedRows) take(added, removed json.RawMessage, whole bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	h.started = true
	if whole || h.rows == nil {
		h.rows = map[string]bool{}
	}
	for _, v := range values(removed) {
		delete(h.rows, v)
	}
	for _, v := range values(added) {
		h.rows[v] = true
	}
}

func (h *receivedRows) holds(want map[string]bool) func() bool {
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return maps.Equal(h.rows, want)
	}
}

func (h *receivedRows) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

func (h *receivedRows) ended(how string) func() bool {
	return func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return h.end == how
	}
}

func (h *receivedRows) ends(how string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.end = how
}

// values returns the values of the variable n in a results document.
func values(document json.RawMessage) (list []string) {
	var d struct {
		Results struct {
			Bindings []struct{ N struct{ Value string } }
		}
	}
	if json.Unmarshal(document, &d) == nil {
		for _, b := range d.Results.Bindings {
			list = append(list, b.N.Value)
		}
	}
	return list
}

// followWebSocket, followBySEPA and followEvents follow one query.
func followWebSocket(t *testing.T, s *testServer, h *receivedRows, query string) {
	c := dial(t, s.srv.Url, "")
	if err := c.WriteMessage(websocket.TextMessage, []byte(`{"type":"subscribe","id":"w","query":"`+query+`"}`)); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			var m struct {
				Type, Reason            string
				Added, Removed, Results json.RawMessage
			}
			if c.ReadJSON(&m) != nil {
				return
			}
			switch m.Type {
			case "snapshot":
				h.take(m.Results, nil, true)
			case "delta":
				h.take(m.Added, m.Removed, false)
			case "complete":
				h.ends(m.Reason)
			}
		}
	}()
}

func followBySEPA(t *testing.T, s *testServer, h *receivedRows, text string) {
	c, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.srv.Url, "http")+"/sepa/subscribe", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.WriteJSON(map[string]any{"subscribe": map[string]string{"sparql": text, "alias": "sepa"}}); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			var m struct {
				Error        string
				Notification struct {
					Sequence int
					Added    json.RawMessage `json:"addedResults"`
					Removed  json.RawMessage `json:"removedResults"`
				}
			}
			if c.ReadJSON(&m) != nil {
				return
			}
			if m.Error != "" {
				h.ends(m.Error)
			}
			if m.Notification.Added != nil {
				h.take(m.Notification.Added, m.Notification.Removed, m.Notification.Sequence == 0)
			}
		}
	}()
}

func followEvents(t *testing.T, s *testServer, h *receivedRows, path string) {
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.srv.Url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	go func() {
		defer resp.Body.Close()
		readEvents(bufio.NewReader(resp.Body), func(e event) bool {
			var m struct {
				Added, Removed, Results json.RawMessage
				Reason                  string
			}
			if json.Unmarshal([]byte(e.data), &m) != nil {
				return true
			}
			switch e.kind {
			case "snapshot":
				h.take(m.Results, nil, true)
			case "change":
				h.take(m.Added, m.Removed, false)
			case "complete":
				h.ends(m.Reason)
			}
			return true
		})
	}()
}

// receiveCallbacks returns a callback that records in h what it received.
func receiveCallbacks(cb *callback, h *receivedRows) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Query().Get("hub.mode") == "denied" {
			h.ends("denied")
		}
		rec := &statusOf{ResponseWriter: w, status: 200}
		cb.ServeHTTP(rec, r)
		if r.Method != http.MethodPost || rec.status/100 != 2 {
			return
		}
		got := cb.all(r.URL.Path)
		var m struct {
			Type string
			Data struct{ Added, Removed, Results json.RawMessage }
		}
		body := []byte(got[len(got)-1].body)
		_ = json.Unmarshal(body, &m)
		switch m.Type {
		case "": // the body is a topic
			h.take(body, nil, true)
		case "query.snapshot":
			h.take(m.Data.Results, nil, true)
		case "query.changed":
			h.take(m.Data.Added, m.Data.Removed, false)
		}
	})
}

type statusOf struct {
	http.ResponseWriter
	status int
}

func (s *statusOf) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// A subscriptionLine is one line of the output of "subscription list --json".
type subscriptionLine struct {
	ID, Way, Caller, Query, State, Tag string
	Seq, Deliveries                    int
	Lag                                struct {
		Changes int
		Behind  string
	}
	LastError string  `json:"last_error"`
	NextTry   *string `json:"next_try"`
	Failures  int
}

func (s *testServer) subscriptions(t *testing.T) map[string]subscriptionLine {
	t.Helper()
	list := map[string]subscriptionLine{}
	for line := range strings.Lines(s.must(t, "", "subscription", "list", "--json")) {
		var x subscriptionLine
		if err := json.Unmarshal([]byte(line), &x); err != nil {
			t.Fatal(err)
		}
		name := x.Way
		if x.Way == "sse" && x.Query == "" {
			name = "sse all"
		}
		list[name] = x
	}
	return list
}

// metrics returns the samples of /metrics.
func (s *testServer) metrics() map[string]float64 {
	_, text := s.get("GET", "/metrics")
	m := map[string]float64{}
	for line := range strings.Lines(text) {
		if name, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			m[name], _ = strconv.ParseFloat(v, 64)
		}
	}
	return m
}

// Subscriptions of every protocol are listed with owner, object and lag. A paused one waits and
// loses nothing; a dropped one ends as its protocol allows. The metrics agree with what the
// receivers got.
func TestEveryWayOutIsManaged(t *testing.T) {
	s := newTestServer(t, allowLoopback)
	const text = "SELECT ?s ?n { ?s <http://x/n> ?n }"
	query := strings.TrimSpace(s.must(t, text, "query", "add", "--name", "rows", "--tag", "t", "-"))
	s.must(t, "", "endpoint", "tick", "city")
	ways := []string{"websocket", "sse", "sse all", "sepa", "websub", "webhook"}
	for _, w := range registry.Ways {
		// see TestReceiversOfAlertsAreManaged, TestPeopleAreManaged
		if !slices.Contains(ways, string(w)) && w != registry.Alerts && w != registry.People {
			t.Errorf("%s is not tested", w)
		}
	}
	received := map[string]*receivedRows{}
	for _, w := range ways {
		received[w] = &receivedRows{}
	}
	followWebSocket(t, s, received["websocket"], "rows")
	followEvents(t, s, received["sse"], "/v1/queries/rows/changes")
	followEvents(t, s, received["sse all"], "/v1/changes?tag=t&min_rows=1")
	followBySEPA(t, s, received["sepa"], text)
	hub, hook := newCallback(t), newCallback(t)
	hub.http.Config.Handler, hook.http.Config.Handler = receiveCallbacks(hub, received["websub"]), receiveCallbacks(hook, received["webhook"])
	resp, _ := s.get("HEAD", "/v1/queries/rows/results.srj")
	s.subscribe(links(resp)["self"][0], hub.http.URL+"/hub")
	s.must(t, "", "webhook", "add", "--query", "rows", hook.http.URL+"/hook")
	clitest.Eventually(t, "everybody", func() bool { return len(s.subscriptions(t)) == len(ways) && received["webhook"].count() == 1 })

	truth := func() map[string]bool {
		want := map[string]bool{}
		_, document := s.get("GET", "/v1/queries/rows/results.srj")
		res, err := diff.Decode([]byte(document), diff.Select, false)
		if err != nil {
			t.Fatal(err)
		}
		for i := range res.Len() {
			want[res.Terms(i)[1].Value] = true
		}
		return want
	}
	s.step(1)
	all := truth()
	for _, w := range ways {
		want := maps.Clone(all)
		if w == "sse all" { // starts with the next change
			delete(want, "0")
		}
		clitest.Eventually(t, w+" receives the first change", received[w].holds(want))
	}
	for w, x := range s.subscriptions(t) {
		if x.Caller != "anonymous" || x.State != "active" || (x.Query == query) == (w == "sse all") || (x.Tag == "t") != (w == "sse all") {
			t.Errorf("%s is listed as %+v", w, x)
		}
	}

	list := s.subscriptions(t)
	for _, w := range ways {
		if out := s.must(t, "", "subscription", "pause", list[w].ID, "--json"); !strings.Contains(out, `"state":"paused"`) {
			t.Errorf("pausing %s prints %s", w, out)
		}
		if code, _, stderr := runCLI(t, s.Env, "", "subscription", "pause", list[w].ID); code != cli.ExitFailure ||
			!strings.Contains(stderr, "paused") {
			t.Errorf("pausing %s twice: %d %s", w, code, stderr)
		}
	}
	before := map[string]int{}
	for _, w := range ways {
		before[w] = received[w].count()
	}
	s.step(2)
	s.step(3)
	time.Sleep(200 * time.Millisecond)
	paused := s.subscriptions(t)
	m := s.metrics()
	for _, w := range ways {
		if n := received[w].count(); n != before[w] {
			t.Errorf("%s received %d messages while it was paused", w, n-before[w])
		}
		if x := paused[w]; x.State != "paused" || x.Lag.Changes != 2 || x.Lag.Behind == "0s" {
			t.Errorf("%s paused: %+v", w, x)
		}
	}
	for way, n := range map[string]float64{"websocket": 2, "sse": 4, "sepa": 2, "websub": 2, "webhook": 2} {
		if got := m[`freshet_waiting_changes{way="`+way+`"}`]; got != n {
			t.Errorf("%v changes wait for %s, want %v", got, way, n)
		}
		if lag, there := m[`freshet_delivery_lag_seconds{way="`+way+`"}`]; lag != 0 || !there {
			t.Errorf("%s has a lag of %v s while it is paused", way, lag)
		}
		if got := m[`freshet_subscriptions{state="paused",way="`+way+`"}`]; got != n/2 {
			t.Errorf("%v subscriptions of %s are paused", got, way)
		}
	}
	hook.on(func(int) int { return 500 })
	for _, w := range ways {
		s.must(t, "", "subscription", "resume", list[w].ID)
	}
	clitest.Eventually(t, "a failure of the webhook", func() bool {
		x := s.subscriptions(t)["webhook"]
		return x.Failures > 0 && x.NextTry != nil && x.LastError == "the callback answered 500"
	})
	wrong := regexp.MustCompile(`the callback answered 500 \((1 failure|2 failures), again in `)
	clitest.Eventually(t, "the list says what is wrong", func() bool { return wrong.MatchString(s.must(t, "", "subscription", "list")) })
	hook.on(func(int) int { return 200 })
	clitest.Eventually(t, "the webhook receives again", func() bool {
		x := s.subscriptions(t)["webhook"]
		if x.Failures > 1 { // it failed again before the hook was mended, and would be tried in minutes
			runCLI(t, s.Env, "", "subscription", "resume", x.ID)
		}
		return x.Failures == 0
	})
	all = truth()
	for _, w := range ways {
		want := maps.Clone(all)
		if w == "sse all" {
			delete(want, "0")
		}
		clitest.Eventually(t, w+" receives what waited", received[w].holds(want))
	}
	clitest.Eventually(t, "nothing waits", func() bool {
		m = s.metrics()
		for _, way := range []string{"websocket", "sse", "sepa", "websub", "webhook"} {
			if m[`freshet_waiting_changes{way="`+way+`"}`]+m[`freshet_delivery_lag_seconds{way="`+way+`"}`] > 0 {
				return false
			}
		}
		return true
	})
	taken := func() map[string]int {
		return map[string]int{"websocket": received["websocket"].count(), "sse": received["sse"].count() + received["sse all"].count(),
			"sepa":   received["sepa"].count(),
			"websub": received["websub"].count(), "webhook": received["webhook"].count()}
	}
	clitest.Eventually(t, "deliveries that are counted", func() bool { // they are counted slightly later
		m = s.metrics()
		for way, n := range taken() {
			if m[`freshet_deliveries_total{result="delivered",way="`+way+`"}`] < float64(n) {
				return false
			}
		}
		return true
	})
	for way, n := range taken() {
		if got := m[`freshet_deliveries_total{result="delivered",way="`+way+`"}`]; got != float64(n) {
			t.Errorf("%v messages were delivered by %s, its receivers took %d", got, way, n)
		}
		failed := 0.0
		if way == "webhook" {
			failed = 1
		}
		if f, r, d := m[`freshet_deliveries_total{result="failed",way="`+way+`"}`], m[`freshet_deliveries_total{result="retried",way="`+
			way+`"}`], m[`freshet_deliveries_total{result="dropped",way="`+way+`"}`]; f != failed || r != failed || d != 0 {
			t.Errorf("%s: %v failed, %v retried, %v dropped", way, f, r, d)
		}
	}
	for kind, n := range map[string]float64{"websocket": 1, "sse": 2, "sepa": 1} {
		if got := m[`freshet_connections{kind="`+kind+`"}`]; got != n {
			t.Errorf("%v connections by %s, want %v", got, kind, n)
		}
	}
	for name := range m {
		family, _, _ := strings.Cut(name, "{")
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			family = strings.TrimSuffix(family, part)
		}
		if strings.HasPrefix(family, "freshet_") && !strings.Contains(string(docs.OpenAPI), "`"+family+"{") &&
			!strings.Contains(string(docs.OpenAPI), "`"+family+"`") {
			t.Errorf("%s is not documented", family)
		}
		if strings.Contains(name, query) || strings.Contains(name, "127.0.0.1") {
			t.Errorf("a label that clients choose: %s", name)
		}
	}
	for _, w := range ways {
		s.must(t, "", "subscription", "drop", list[w].ID)
	}
	for w, how := range map[string]string{"websocket": "dropped", "sse": "dropped", "sse all": "dropped", "sepa": "dropped",
		"websub": "denied"} {
		clitest.Eventually(t, fmt.Sprint("the end of ", w), received[w].ended(how))
	}
	clitest.Eventually(t, "no subscription is left", func() bool { return len(s.subscriptions(t)) == 0 })
	if code, _, _ := runCLI(t, s.Env, "", "subscription", "show", list["sse"].ID); code != cli.ExitNotFound {
		t.Errorf("one that is dropped is shown: %d", code)
	}
}

// With tokens everybody sees and manages what is their own, whatever the way out.
func TestFollowersBelongToSomebody(t *testing.T) {
	s := newTestServer(t, "")
	s.Env["FRESHET_TOKEN"] = strings.TrimSpace(s.must(t, "", "token", "add", "boss", "--role", "admin"))
	tokens := map[string]string{}
	for _, name := range []string{"ann", "bob"} {
		tokens[name] = strings.TrimSpace(s.must(t, "", "token", "add", name, "--role", "app"))
	}
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	r, err := http.NewRequestWithContext(t.Context(), "GET", s.srv.Url+"/v1/changes?rate=5s", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+tokens["ann"])
	r.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	as := func(name string, args ...string) (int, string) {
		env := maps.Clone(s.Env)
		env["FRESHET_TOKEN"] = tokens[name]
		code, out, _ := runCLI(t, env, "", args...)
		return code, out
	}
	var id string
	clitest.Eventually(t, "the stream", func() bool {
		for _, x := range s.subscriptions(t) {
			if x.Caller == "ann" {
				id = x.ID
			}
		}
		return id != ""
	})
	if _, out := as("ann", "subscription", "list"); !strings.Contains(out, id) {
		t.Errorf("ann does not see her own: %s", out)
	}
	if _, out := as("bob", "subscription", "list"); strings.Contains(out, id) {
		t.Errorf("bob sees what is ann's: %s", out)
	}
	for _, verb := range []string{"show", "pause", "resume", "drop"} {
		if code, _ := as("bob", "subscription", verb, id); code != cli.ExitNotFound {
			t.Errorf("bob can %s what is ann's: %d", verb, code)
		}
	}
	if code, _ := as("ann", "subscription", "drop", id); code != 0 {
		t.Errorf("ann cannot drop her own: %d", code)
	}
}

// A receiver of alerts is listed, paused, resumed and dropped as other followers are. What waits
// while it is paused is sent afterwards.
func TestReceiversOfAlertsAreManaged(t *testing.T) {
	s := newTestServer(t, allowLoopback)
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	hook := newCallback(t)
	var got atomic.Int32
	hook.http.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got.Add(1) })
	s.must(t, "", "rule", "add", "changing", "--query", "rows", "--when", "changed", "--webhook", hook.http.URL+"/alerts")
	s.step(1)
	clitest.Eventually(t, "an alert", func() bool { return got.Load() > 0 && s.subscriptions(t)["alert"].Deliveries > 0 })
	x := s.subscriptions(t)["alert"]
	if x.Caller != "anonymous" || x.State != "active" {
		t.Errorf("it is listed as %+v", x)
	}
	s.must(t, "", "subscription", "pause", x.ID)
	before := got.Load()
	s.must(t, "", "rule", "pause", "changing")
	s.must(t, "", "rule", "resume", "changing")
	s.step(2)
	clitest.Eventually(t, "a message that waits", func() bool { return s.subscriptions(t)["alert"].Lag.Changes > 0 })
	if n := got.Load(); n != before {
		t.Errorf("%d messages while it was paused", n-before)
	}
	s.must(t, "", "subscription", "resume", x.ID)
	clitest.Eventually(t, "what waited", func() bool { return got.Load() > before && s.subscriptions(t)["alert"].Lag.Changes == 0 })
	s.must(t, "", "subscription", "pause", x.ID)
	s.must(t, "", "subscription", "drop", x.ID)
	if left := s.subscriptions(t); left["alert"].ID != "" {
		t.Errorf("after it was dropped: %+v", left)
	}
}
