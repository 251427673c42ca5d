package websub_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/notify/websub"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/schedulertest/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// patience limits how long a test waits for an expected event.
const patience = time.Minute

type gate map[string]registry.Caller

func (g gate) Authenticate(from, token string) (registry.Caller, error) {
	if token == "guess" && from != "" {
		return registry.Caller{}, registry.ErrGuessing
	}
	if token == "unsure" { // at a node that is cut off
		return registry.Caller{}, fmt.Errorf("token: %w", &registry.Problem{Kind: registry.KindUnavailable, Detail: "ask another node",
			RetryAfter: 7 * time.Second})
	}
	c, ok := g[token]
	if !ok {
		return c, fmt.Errorf("token: %w", notify.ErrUnauthorized)
	}
	return c, nil
}

// A rig is a hub over a log in memory, with its topics.
type rig struct {
	t        *testing.T
	log      *notifytest.Log
	waker    *notify.Waker
	store    deliver.Store
	engine   *deliver.Engine
	way      *websub.Hub
	http     *httptest.Server
	query    string // a registered query without result
	form     string // representation of the topic, srj unless said
	gate     gate
	public   bool
	logged   *logBuffer
	tick     int
	retryNow atomic.Pointer[func()] // called once when a topic is read for a delivery

	withdrawn sync.Map // callers whose tokens were withdrawn
	setup     setup
	stop      func()
}

// A setup holds the non-default settings of a rig.
type setup struct {
	allow    []string        // nil: loopback
	schedule []time.Duration // pauses after failures
	lease    websub.Lease
	caps     websub.Caps
	limits   deliver.Limits
	timing   deliver.Timing
	patience time.Duration
	gate     gate
}

func newRig(t *testing.T, edit ...func(*setup)) *rig {
	t.Helper()
	r := &rig{t: t, log: notifytest.NewLog("store"), waker: notify.NewWaker(), store: notifytest.NewSubscriptions(),
		logged: &logBuffer{}, form: "srj"}
	r.setup = setup{allow: []string{"127.0.0.0/8"}, gate: gate{"": {Name: registry.Anonymous, Role: registry.RoleAdmin}},
		schedule: []time.Duration{10 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond}}
	for _, e := range edit {
		e(&r.setup)
	}
	r.gate = r.setup.gate
	r.query = r.log.Add("q", diff.Select, false)
	mux := http.NewServeMux()
	r.http = httptest.NewServer(mux)
	t.Cleanup(r.http.Close)
	mux.HandleFunc("/v1/queries/", func(w http.ResponseWriter, q *http.Request) {
		c, err := r.read(q.Context(), q.URL.Path)
		if err != nil {
			http.NotFound(w, q)
			return
		}
		w.Header().Set("Content-Type", c.Type)
		w.Write(c.Body)
	})
	r.start()
	t.Cleanup(func() { r.stop() })
	mux.HandleFunc("/v1/hub", func(w http.ResponseWriter, q *http.Request) {
		guard, err := deliver.NewGuard(r.setup.allow)
		if err != nil {
			t.Error(err)
		}
		r.handler(guard).ServeHTTP(w, q)
	})
	return r
}

var handlers sync.Map // of *deliver.Engine: a handler's rate limits must outlive a request

func (r *rig) handler(g *deliver.Guard) http.Handler {
	h, _ := handlers.LoadOrStore(r.engine, websub.NewHandler(r.way, r.engine, g, r.gate, r.setup.caps, r.logger()))
	return h.(http.Handler)
}

func (r *rig) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(r.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// A logBuffer is written by the engine and by handlers at once.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *logBuffer) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *logBuffer) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// start starts deliveries for the subscriptions in the store; stop ends them.
func (r *rig) start() {
	r.t.Helper()
	guard, err := deliver.NewGuard(r.setup.allow)
	if err != nil {
		r.t.Fatal(err)
	}
	r.way = websub.New(websub.Options{
		Log: r.log, Contents: &deliver.Contents{Read: r.readLate}, Find: r.find, PublicURL: r.http.URL,
		Query: func(id string) (registry.Query, error) { return r.log.Resolve(registry.Caller{}, id) },
		Caller: func(name string) (registry.Caller, error) {
			if _, gone := r.withdrawn.Load(name); gone {
				return registry.Caller{Name: name}, nil
			}
			return registry.Caller{Name: name, Role: registry.RoleRead}, nil
		},
		Lease: r.setup.lease, Now: time.Now, Nodes: func() []string { return nil }, Calls: func(string) bool { return true },
	})
	r.engine, err = deliver.New(notifytest.Delivering(deliver.Options{Store: r.store, Waker: r.waker, Guard: guard,
		Targets:   map[registry.Way]deliver.Target{registry.WebSub: r.way},
		Schedule:  deliver.Schedule{Pauses: r.setup.schedule, Patience: r.setup.patience},
		UserAgent: "freshet/test", Limits: r.setup.limits, Timing: r.setup.timing, Logger: r.logger()}))
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.engine.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("the engine ended with %v", err)
		}
	})
}

func (r *rig) find(path string, stranger bool) (registry.Query, error) {
	id, ok := strings.CutPrefix(path, "/v1/queries/")
	id, _, found := strings.Cut(id, "/results.")
	if !ok || !found {
		return registry.Query{}, registry.ErrNotFound
	}
	q, err := r.log.Resolve(registry.Caller{}, id)
	if q.Holders != nil {
		q.Holders[0].Public = r.public
	}
	if stranger && err == nil && !q.Public() {
		return registry.Query{}, registry.ErrNotFound
	}
	return q, err
}

func (r *rig) readLate(ctx context.Context, path string) (deliver.Content, error) {
	if do := r.retryNow.Swap(nil); do != nil {
		(*do)()
	}
	return r.read(ctx, path)
}

func (r *rig) read(_ context.Context, path string) (deliver.Content, error) {
	q, err := r.find(path, false)
	if err != nil {
		return deliver.Content{}, deliver.ErrNoContent
	}
	st, res, err := r.log.Current(q.ID, true)
	if err != nil || res == nil {
		return deliver.Content{}, deliver.ErrNoContent
	}
	typ := "application/sparql-results+json"
	body := res.Document()
	if strings.HasSuffix(path, ".csv") {
		typ, body = "text/csv; charset=utf-8", []byte(strings.Join(strings.Split(string(body), ","), "\r\n"))
	}
	return deliver.Content{At: st.Position, Version: fmt.Sprintf("%q", fmt.Sprint(st.Position, path)), Type: typ, Body: body}, nil
}

func (r *rig) topic() string { return r.http.URL + "/v1/queries/" + r.query + "/results." + r.form }

// change sets a result that never occurred before.
func (r *rig) change() {
	r.tick++
	r.log.Record(r.query, notifytest.Rows(fmt.Sprint("v", r.tick)), time.Unix(1_790_000_000+int64(r.tick), 0))
	r.waker.Wake(r.query)
}

// content returns what GET answers for the topic.
func (r *rig) content() string {
	r.t.Helper()
	resp, err := http.Get(r.topic())
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		r.t.Fatalf("GET %s: %s, %v", r.topic(), resp.Status, err)
	}
	return string(b)
}

// An answer is the hub's answer to a request.
type answer struct {
	status int
	header http.Header
	text   string
}

// ask sends a form to the hub; pairs are names and values, without "hub.".
func (r *rig) ask(pairs ...string) answer {
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add("hub."+pairs[i], pairs[i+1])
	}
	return r.raw("application/x-www-form-urlencoded", form.Encode(), "")
}

func (r *rig) raw(typ, body, token string) answer {
	r.t.Helper()
	return r.forwarded("", typ, body, token)
}

// forwarded sends a request as a proxy on this machine does for a client, or for none.
func (r *rig) forwarded(client, typ, body, token string) answer {
	r.t.Helper()
	req, err := http.NewRequest("POST", r.http.URL+"/v1/hub", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", typ)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if client != "" {
		req.Header.Set("X-Forwarded-For", client)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(b)}
}

func (a answer) want(t *testing.T, status int) {
	t.Helper()
	if a.status != status {
		t.Fatalf("the hub answers %d (%s), want %d", a.status, strings.TrimSpace(a.text), status)
	}
}

// A subscriber is a callback that records what it receives. Its answers can be changed at
// any time.
type subscriber struct {
	t    *testing.T
	http *httptest.Server

	mu       sync.Mutex
	verify   func(q url.Values) (int, string)
	accept   func(n int) int // status of the nth delivery, from 1
	got      []delivery
	asked    []url.Values
	paths    []string
	raws     []string // query strings of verifications
	released chan struct{}
}

type delivery struct {
	header http.Header
	body   string
	query  string
	method string
}

func confirm(q url.Values) (int, string) { return 200, q.Get("hub.challenge") }

func newSubscriber(t *testing.T) *subscriber {
	s := &subscriber{t: t, verify: confirm, accept: func(int) int { return 204 }, released: make(chan struct{})}
	s.http = httptest.NewServer(s)
	t.Cleanup(s.http.Close)
	t.Cleanup(s.release)
	return s
}

// release ends hanging answers.
func (s *subscriber) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.released:
	default:
		close(s.released)
	}
}

const hang = -1 // a status that never comes

func (s *subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.paths = append(s.paths, r.URL.Path)
	if r.Method == "GET" {
		s.asked, s.raws = append(s.asked, r.URL.Query()), append(s.raws, r.URL.RawQuery)
		verify := s.verify
		s.mu.Unlock()
		status, text := verify(r.URL.Query())
		w.WriteHeader(status)
		io.WriteString(w, text)
		return
	}
	s.got = append(s.got, delivery{r.Header.Clone(), string(body), r.URL.RawQuery, r.Method})
	status := s.accept(len(s.got))
	s.mu.Unlock()
	if status == hang {
		select {
		case <-s.released:
		case <-r.Context().Done():
		}
		return
	}
	if status/100 == 3 {
		w.Header().Set("Location", s.http.URL+"/elsewhere")
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, "answer %d", status)
}

func (s *subscriber) set(verify func(url.Values) (int, string), accept func(int) int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if verify != nil {
		s.verify = verify
	}
	if accept != nil {
		s.accept = accept
	}
}

func (s *subscriber) deliveries() []delivery {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]delivery(nil), s.got...)
}

func (s *subscriber) questions() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]url.Values(nil), s.asked...)
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not come: %s", what)
		}
	}
}

// last waits for the nth delivery and returns it.
func (s *subscriber) last(n int) delivery {
	s.t.Helper()
	until(s.t, fmt.Sprintf("delivery %d", n), func() bool { return len(s.deliveries()) >= n })
	return s.deliveries()[n-1]
}

// settled waits until no delivery is in progress or queued.
func (r *rig) settled() {
	r.t.Helper()
	quiet := 0
	until(r.t, "quiet", func() bool {
		s := r.engine.Stats()
		if s.Running+s.Queued == 0 {
			quiet++
		} else {
			quiet = 0
		}
		return quiet > 5
	})
}

// subscription returns the only stored subscription, nil if there is none.
func (r *rig) subscription() *registry.Subscription {
	r.t.Helper()
	list, err := r.store.Subscriptions("", 10)
	if err != nil {
		r.t.Fatal(err)
	}
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// subscribe creates an active subscription to the topic.
func (r *rig) subscribe(s *subscriber, pairs ...string) {
	r.t.Helper()
	before := len(s.questions())
	r.ask(append([]string{"mode", "subscribe", "topic", r.topic(), "callback", s.http.URL + "/cb"}, pairs...)...).want(r.t, 202)
	until(r.t, "the question", func() bool { return len(s.questions()) > before })
	until(r.t, "an active subscription", func() bool {
		list, _ := r.store.Subscriptions("", 1000)
		for _, x := range list {
			if strings.HasPrefix(x.Callback, s.http.URL) {
				return x.State == registry.Active && x.Intent == nil
			}
		}
		return false
	})
}
