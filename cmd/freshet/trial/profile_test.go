package trial

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/endpoint/local/city"
)

// fetch reads a JSON document from the server.
func (s *testServer) fetch(path string, into any) {
	s.t.Helper()
	resp, err := http.Get(s.srv.Url + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", resp.Status)
	}
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", path, err, b)
	}
}

func (s *testServer) tick() { s.must(s.t, "", "endpoint", "tick", "city") }

// A captureList is the server's list of a profile's rounds.
type captureList struct {
	Epoch                  string
	Seq, Captured, Expired uint64
	Open                   int
	Rounds                 []shownRound
	Next                   string
}

type shownRound struct {
	Round     uint64
	State     string
	Slot, Seq uint64
	Ended     uint64 `json:"ended_slot"`
	Reason    string
	Trigger   *struct {
		Query string
		Seq   uint64
	}
	Intervals []struct {
		Query, Name, State, Epoch, Tier, Reason string
		Seq, Slot                               uint64
	}
}

// demoCity loads the demo's data, registers its queries, and sets the policy of the endpoint.
func demoCity(t *testing.T, policy string) (*testServer, *city.City) {
	t.Helper()
	s := newTestServer(t, "")
	town := city.New(1)
	s.Update(t, "INSERT DATA {\n"+string(town.Base())+"}")
	s.must(t, "", "endpoint", "set", "city", "policy="+policy, "fallback_policy=rr", "profile_share=0.5")
	for _, q := range city.SampleQueries() {
		s.must(t, q.Text, "query", "add", "--name", q.Name, "-")
	}
	for range 3 { // new queries may use only half the budget
		s.tick()
	}
	return s, town
}

func (s *testServer) move(town *city.City) {
	s.t.Helper()
	s.Update(s.t, city.Update(town.Next()))
}

// Over the demo's data, a profile of three queries with a condition is captured within its
// window, and another one expires. The API, the command line, the WebSocket and the event stream
// show both.
func TestProfilesOfTheDemo(t *testing.T) {
	s, town := demoCity(t, "mrsf:p")
	s.must(t, "", "query", "pause", "districts")
	storm := strings.TrimSpace(s.must(t, "", "profile", "add", "--name", "hurry", "--window", "2slots",
		"--item", "late-departures on late-departures where delay >= 5", "--item", "bikes-harbour on late-departures where delay >= 5",
		"--item", "departures-central on late-departures where delay >= 5 within 1slot"))
	s.must(t, "", "profile", "add", "--name", "still", "--item", "districts every 4slots slack 1slot")
	if !strings.HasPrefix(storm, "p_") {
		t.Fatalf("profile add prints %q", storm)
	}
	c := newContractChecker(t)
	conn := dial(t, s.srv.Url, "")
	go c.frames(conn)
	c.send(conn, `{"type":"subscribe","id":"a","profile":"hurry"}`)
	c.send(conn, `{"type":"subscribe","id":"b","profile":"still"}`)
	c.until("subscribed")
	c.events(s.srv.Url + "/v1/profiles/hurry/captures")
	c.events(s.srv.Url + "/v1/profiles/still/captures")

	var list, still captureList
	for i := 0; i < 40 && (list.Captured == 0 || still.Expired == 0); i++ {
		s.move(town)
		s.tick()
		s.fetch("/v1/profiles/hurry/captures", &list)
		s.fetch("/v1/profiles/still/captures", &still)
	}
	c.until("captured", "status", "sse.captured", "sse.expired")
	if list.Captured == 0 || list.Expired != 0 {
		t.Fatalf("captured in 40 slots: %+v", list)
	}
	for _, r := range list.Rounds {
		if r.State != "captured" || r.Trigger == nil || len(r.Intervals) != 3 || r.Ended > r.Slot+2 {
			t.Errorf("round %+v", r)
		}
		for i, x := range r.Intervals {
			if x.State != "captured" || x.Seq == 0 || x.Slot < r.Slot || x.Slot > r.Slot+[]uint64{2, 2, 1}[i] {
				t.Errorf("round %d, %s: %+v", r.Round, x.Name, x)
			}
		}
	}
	if r := still.Rounds[len(still.Rounds)-1]; r.State != "expired" || !strings.Contains(r.Reason, "it was paused") ||
		r.Intervals[0].State != "expired" {
		t.Errorf("the expired round: %+v", r)
	}
	if out := s.must(t, "", "profile", "captures", "hurry"); !strings.Contains(out, "round 1 captured") || !strings.Contains(out,
		"bikes-harbour") {
		t.Errorf("captures prints\n%s", out)
	}
	if out := s.must(t, "", "profile", "captures", "still", "--state", "expired"); !strings.Contains(out, "expired: it was paused") {
		t.Errorf("captures prints\n%s", out)
	}
	if out := s.must(t, "", "profile", "list"); !strings.Contains(out, "hurry") || !strings.Contains(out, "mrsf:p") {
		t.Errorf("list prints\n%s", out)
	}
	if code, _, stderr := runCLI(t, s.Env, "", "profile", "show", "nothing"); code != cli.ExitNotFound {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if code, _, stderr := runCLI(t, s.Env, "", "profile", "add", "--item", "districts on nothing"); code != cli.ExitNotFound ||
		!strings.Contains(stderr, "register it first") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	s.must(t, "", "profile", "set", "hurry", "--weight", "3", "--budget", "1s")
	s.must(t, "", "profile", "rm", "hurry", "still")
	c.until("complete", "sse.complete")
}

// slowly returns an endpoint that forwards to another one with a delay.
func slowly(t *testing.T, endpoint string, takes *atomic.Int64) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	behind := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host, r.Out.Host = u.Scheme, u.Host, u.Host
	}}
	behind.ErrorLog = log.New(io.Discard, "", 0) // it would report executions that were cut
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Duration(takes.Load()))
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL + u.Path
}

// With a budget too small for all queries, mrsf captures half as many rounds again as
// round robin over the same queries and profiles.
func TestProfilesUnderPressure(t *testing.T) {
	s := newTestServer(t, "")
	town := city.New(2)
	s.Update(t, "INSERT DATA {\n"+string(town.Base())+"}")
	var names []string
	for _, q := range city.Queries(36, 3) {
		s.must(t, q.Text, "query", "add", "--name", q.Name, "-")
		names = append(names, q.Name)
	}
	var takes atomic.Int64
	s.must(t, "", "endpoint", "set", "city", "url="+slowly(t, s.Endpoint, &takes))
	complete := func(policy string) float64 {
		s.must(t, "", "endpoint", "set", "city", "policy="+policy, "fallback_policy=rr")
		var all []string
		for k := range 6 {
			name := fmt.Sprint(strings.ReplaceAll(policy, ":", "-"), "-", k)
			s.must(t, "", "profile", "add", "--name", name, "--item", names[k*5]+" every 7slots slack 2slots",
				"--item", names[k*5+2]+" every 7slots slack 2slots", "--item", names[(k*5+17)%36]+" every 7slots slack 1slot")
			all = append(all, name)
		}
		captured, ended := 0.0, 0.0
		for range 42 {
			s.tick()
		}
		for _, name := range all {
			var list captureList
			s.fetch("/v1/profiles/"+name+"/captures", &list)
			captured, ended = captured+float64(list.Captured), ended+float64(list.Captured+list.Expired)
			s.must(t, "", "profile", "rm", name)
		}
		return captured / ended
	}
	// About seven of 36 queries run in a slot. If a busy machine takes much longer than the
	// endpoint's delay, then or later, the delay is increased.
	for pause, tries := 10*time.Millisecond, 0; pause <= time.Second && tries < 3; pause *= 2 {
		takes.Store(int64(pause))
		s.must(t, "", "endpoint", "set", "city", "policy=rr", "budget="+(8*pause).String())
		for range 7 {
			s.tick()
		}
		run := 0
		for range 8 {
			run += readEntry(t, s.must(t, "", "endpoint", "tick", "city", "--json")).Complete
		}
		if run < 4*8 {
			t.Logf("%d executions in eight slots of eight times %s", run, pause)
			continue
		}
		tries++
		rr, mrsf := complete("rr"), complete("mrsf:p")
		t.Logf("completeness: rr %.2f, mrsf:p %.2f, the endpoint takes %s", rr, mrsf, pause)
		if mrsf > 1.5*rr {
			return
		}
	}
	t.Error("mrsf:p does not capture half as many rounds again as rr")
}

// A captureFollower subscribes to a profile, reconnects after each cut, and records the captures
// that are new to it.
type captureFollower struct {
	t     *testing.T
	addr  string
	mu    sync.Mutex
	epoch string
	seq   uint64
	seen  []map[string]any
	twice int // messages at or below its position, which it drops
	lost  bool
}

func (f *captureFollower) run(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
			f.connect(stop)
			time.Sleep(20 * time.Millisecond)
		}
	}
}

func (f *captureFollower) connect(stop chan struct{}) {
	d := websocket.Dialer{Subprotocols: []string{"freshet.v1"}, HandshakeTimeout: 5 * time.Second}
	c, _, err := d.Dial("ws://"+f.addr+"/v1/live", nil)
	if err != nil {
		return
	}
	defer c.Close()
	over := make(chan struct{})
	defer close(over)
	go func() {
		select {
		case <-stop:
			c.Close()
		case <-over:
		}
	}()
	f.mu.Lock()
	ask := map[string]any{"type": "subscribe", "id": "s", "profile": "both"}
	if f.epoch != "" {
		ask["resume"] = map[string]any{"epoch": f.epoch, "seq": f.seq}
	}
	f.mu.Unlock()
	if c.WriteJSON(map[string]string{"type": "init"}) != nil || c.WriteJSON(ask) != nil {
		return
	}
	for {
		var m map[string]any
		if c.ReadJSON(&m) != nil {
			return
		}
		f.take(m)
	}
}

func (f *captureFollower) take(m map[string]any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	seq, _ := m["seq"].(float64)
	switch m["type"] {
	case "subscribed":
		if f.epoch != "" && m["resumed"] != true {
			f.lost = true
		}
		f.epoch, f.seq = m["epoch"].(string), uint64(seq)
	case "captured":
		if uint64(seq) <= f.seq {
			f.twice++
			return
		}
		f.seq = uint64(seq)
		f.seen = append(f.seen, m)
	}
}

// Kills of the server at any moment do not lose, renumber or repeat captures, and no capture is
// about a missing result.
func TestLongCapturesSurviveKills(t *testing.T) {
	t.Parallel()
	const seed, rounds = 20261120, 40
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	s := newTestServer(t, "")
	s.must(t, "", "endpoint", "set", "city", "policy=mrsf:p", "fallback_policy=rr")
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "SELECT (COUNT(*) AS ?n) { ?s <http://x/n> ?o }", "query", "add", "--name", "count", "-")
	s.must(t, "ASK { ?s <http://x/n> ?o }", "query", "add", "--name", "any", "-")
	s.tick()
	s.must(t, "", "profile", "add", "--name", "both", "--window", "3slots", "--item", "count on rows", "--item", "any on rows")
	f := &captureFollower{t: t, addr: s.addr}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { defer close(stopped); f.run(stop) }()
	clitest.Eventually(t, "the follower's subscription", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.epoch != ""
	})
	for n := 1; n <= rounds; n++ {
		s.Update(t, fmt.Sprintf(`INSERT DATA { <http://x/%d> <http://x/n> "%d" }`, n, n))
		if n%5 == 0 {
			go http.Post(s.srv.Url+"/v1/endpoints/city/tick", "", nil) // the kill usually prevents an answer
			time.Sleep(time.Duration(random.IntN(30_000)) * time.Microsecond)
			s.crash()
		}
		s.tick()
	}
	s.tick()
	var list captureList
	s.fetch("/v1/profiles/both/captures?limit=1000", &list)
	clitest.Eventually(t, "the last capture", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.seq == list.Seq
	})
	close(stop)
	<-stopped
	var rows struct {
		ID  string
		Seq uint64
	}
	s.fetch("/v1/queries/rows", &rows)
	if f.lost || uint64(len(f.seen)) != list.Captured || list.Captured != list.Seq {
		t.Errorf("the follower has %d captures and was sent again: %v; the server has %d, at seq %d", len(f.seen), f.lost,
			list.Captured, list.Seq)
	}
	for i, m := range f.seen {
		if m["seq"] != float64(i+1) || m["prev"] != float64(i) {
			t.Errorf("capture %d has seq %v after %v", i+1, m["seq"], m["prev"])
		}
	}
	// Every change of rows except the baseline opened exactly one round.
	var triggers []uint64
	for _, r := range list.Rounds {
		triggers = append(triggers, r.Trigger.Seq)
		if r.State == "expired" {
			t.Errorf("round %d expired: %s", r.Round, r.Reason)
		}
		for _, x := range r.Intervals {
			if r.State == "captured" && (x.Seq == 0 || x.Epoch == "") {
				t.Errorf("round %d: %+v", r.Round, x)
			}
		}
	}
	slices.Sort(triggers)
	for i, seq := range triggers {
		if seq != uint64(i+2) {
			t.Fatalf("rounds were opened by the changes %v of rows, which is at %d", triggers, rows.Seq)
		}
	}
	if n := uint64(len(triggers)); n+1 != rows.Seq || list.Captured+uint64(list.Open) != n {
		t.Errorf("%d rounds for %d changes, %d captured and %d open", n, rows.Seq-1, list.Captured, list.Open)
	}
	t.Logf("%d rounds, %d captured, %d messages were sent twice and dropped", len(triggers), list.Captured, f.twice)
}
