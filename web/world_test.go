package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/notify"
	"github.com/freshet/freshet/notify/alert"
	"github.com/freshet/freshet/notify/deliver"
	"github.com/freshet/freshet/notify/notifytest"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/registrytest"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/plan"
	"github.com/freshet/freshet/web/docs"
	"github.com/freshet/freshet/web/docs/docstest"
)

// A world is the API over a memory. It checks every answer against the OpenAPI document.
type world struct {
	rules   *alert.Engine
	complex *complexMemory
	t       *testing.T
	m       *memory
	h       http.Handler
	config  Config
	gate    *TokenGate
	log     *lockedBuffer
	token   string // sent with every request

	subs   *notifytest.Subscriptions
	wakes  *notify.Waker
	engine *deliver.Engine
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var morning = time.Date(2026, 11, 20, 9, 0, 0, 250_000_000, time.UTC)

var openDocument = sync.OnceValues(func() (*docstest.Document, error) { return docstest.Open(docs.OpenAPI) })

func newWorld(t *testing.T, edit ...func(*Config)) *world {
	t.Helper()
	w := &world{t: t, m: newMemory(morning), log: &lockedBuffer{}}
	clock := func() time.Time { return w.m.now }
	w.complex = &complexMemory{profiles: map[string]registry.Profile{}, rounds: map[string][]registry.Round{}}
	reg, err := registry.Open(registrytest.Twice(registry.Config{Queries: w.m, Endpoints: w.m, Now: clock, Profiles: w.complex,
		SlotInterval: scheduler.Gap}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reg.CreateEndpoint(registry.Caller{Name: "ops", Role: registry.RoleAdmin}, registry.Endpoint{Name: "city",
		URL: "http://127.0.0.1:3030/sparql", Headers: map[string]string{"X-Key": "hush"},
		Auth: registry.Auth{Basic: &registry.Password{Username: "u", Password: "hush"}}}); err != nil {
		t.Fatal(err)
	}
	if w.gate, err = NewTokenGate(nil, w.m, clock); err != nil {
		t.Fatal(err)
	}
	noHandshake := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no handshake", http.StatusBadRequest) })
	w.config = Config{Registry: reg, Gate: w.gate, Now: clock, Metrics: NewMetrics("0.0-test"),
		Logger:  slog.New(slog.NewJSONHandler(w.log, nil)),
		Queries: w.m, History: w.m, Backup: w.m.Backup,
		Daemon: w.m, Shadows: shadowsOf, Merging: merging{}, ChangeFeeds: &feedMemory{}, Local: func(string) bool { return true },
		Hint:     func(string, registry.Hint) (plan.Hinted, error) { return plan.Hinted{}, registry.ErrNotFound },
		Profiles: w.complex, NextRound: func(registry.Profile) time.Time { return time.Time{} },
		Following: func(string) int { return 0 },
		Followers: streams{}, Feed: feedOf, ChangeJSON: marshalChange, Rechecked: func() <-chan struct{} { return nil },
		Documents: unshared{}, Health: condition{starting: new(int), disk: &registry.Storage{Free: -1}},
		Labels: NewLabels(reg, w.m, clock),
		Live:   noHandshake, SEPA: noHandshake,
		Site: Site{PublicURL: "http://freshet.example.org:8080/", Listen: "10.1.2.3:8080", Version: "0.0-test"}}
	w.config.Check = func(_ context.Context, e registry.Endpoint) (registry.Report, error) {
		return registry.Report{URL: e.URL, Answers: true, Requests: 17, Findings: []registry.Finding{{Topic: "VALUES", OK: true}},
				Settings: []registry.Proposal{{Name: "max_rows", Value: 10, Why: "its row cap"}}},
			registry.CheckEndpoint(e.WithDefaults(), nil)
	}
	w.outbox(&w.config)
	w.alerting(&w.config)
	w.config.Cluster = newTwoNodes()
	for _, e := range edit {
		e(&w.config)
	}
	if w.h, err = New(w.config); err != nil {
		t.Fatal(err)
	}
	return w
}

// streams implement Followers for tests. Without a function they write the name of the
// stream.
type streams struct {
	query func(w http.ResponseWriter, r *http.Request, q registry.Query)
	all   func(w http.ResponseWriter, r *http.Request, keep func(*registry.Change) bool)
}

func (s streams) Changes(w http.ResponseWriter, r *http.Request, _ string, q registry.Query) {
	if s.query == nil {
		sse(w, "query "+q.ID)
		return
	}
	s.query(w, r, q)
}

func (s streams) All(w http.ResponseWriter, r *http.Request, _ string, keep func(*registry.Change) bool) {
	if s.all == nil {
		sse(w, "all")
		return
	}
	s.all(w, r, keep)
}

func (s streams) Updates(w http.ResponseWriter, _ *http.Request, _ string, u registry.Updates) {
	sse(w, string(u.First))
}

func (s streams) ProfileCaptures(w http.ResponseWriter, _ *http.Request, _ string, p registry.Profile) {
	sse(w, "profile "+p.ID)
}

// unshared gives each reader a document of its own.
type unshared struct{}

type held struct{ bytes.Buffer }

func (unshared) Open(_, _ string, write func(io.Writer) (any, error)) (Document, any, error) {
	var h held
	about, err := write(&h.Buffer)
	return &h, about, err
}

func (h *held) Size() int { return h.Len() }

func (h *held) Close() {}

// A condition is Health.
type condition struct {
	notReady error
	starting *int
	disk     *registry.Storage
}

func (c condition) Ready() error { return c.notReady }

func (c condition) Starting() int { return *c.starting }

func (c condition) Disk() registry.Storage { return *c.disk }

// feedOf writes feeds for tests.
func feedOf(q *registry.Query, w *watch.Watch, names watch.Namer, params url.Values) (Feed, error) {
	path, body := "/v1/changes.atom", "<feed/>"
	switch {
	case w != nil:
		path, body = "/v1/watches/"+q.ID+"/changes.atom", "<feed>"+w.Describe(names)+"</feed>"
	case q != nil:
		path = "/v1/queries/" + q.ID + "/changes.atom"
	}
	switch params.Get("archive") {
	case "bad":
		return Feed{}, &registry.Problem{Kind: registry.KindBadPosition}
	case "gone":
		return Feed{}, &registry.GapError{Reason: registry.TooOld}
	}
	return Feed{Body: []byte(body), Type: "application/atom+xml; charset=utf-8", ETag: `"1.atom"`, Modified: morning, Self: path,
		Topic: path != "/v1/changes.atom"}, nil
}

func sse(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: %s\n\n", text)
}

// marshalChange writes the members of a change that tests read.
func marshalChange(c registry.Change) ([]byte, error) {
	m := map[string]any{"query": c.Query, "epoch": c.Epoch, "prev": c.Prev, "seq": c.Seq, "offset": c.Offset, "time": c.Time.UTC(),
		"checked_at": c.CheckedAt.UTC(),
		"slot":       c.Slot, "form": c.Delta.Form, "jaccard": c.Delta.Jaccard, "hash": c.Delta.NewHash, "previous_hash": c.Delta.OldHash}
	if c.Baseline {
		m["baseline"], m["jaccard"], m["previous_hash"] = true, nil, nil
	}
	if c.Delta.Form == diff.Ask {
		m["boolean"], m["previous"] = c.Delta.Boolean, c.Delta.Previous
	} else {
		m["added"], m["removed"] = json.RawMessage(c.Delta.AddedJSON()), json.RawMessage(c.Delta.RemovedJSON())
	}
	return json.Marshal(m)
}

// An answer is a response with its body read.
type answer struct {
	*http.Response
	body []byte
	t    *testing.T
}

// do sends a request. Headers are given as "Name: value".
func (w *world) do(method, target, body string, headers ...string) *answer {
	w.t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+target, strings.NewReader(body))
	if w.token != "" {
		r.Header.Set("Authorization", "Bearer "+w.token)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	rec := httptest.NewRecorder()
	w.h.ServeHTTP(rec, r)
	a := &answer{rec.Result(), rec.Body.Bytes(), w.t}
	w.check(r, a)
	return a
}

func (w *world) get(target string, headers ...string) *answer {
	w.t.Helper()
	return w.do("GET", target, "", headers...)
}

func (w *world) post(target, body string, headers ...string) *answer {
	w.t.Helper()
	if body != "" {
		headers = append(headers, "Content-Type: application/json")
	}
	return w.do("POST", target, body, headers...)
}

// status fails the test when the answer has another one.
func (a *answer) status(want int) *answer {
	a.t.Helper()
	if a.StatusCode != want {
		a.t.Fatalf("status %d, want %d: %.500s", a.StatusCode, want, a.body)
	}
	return a
}

// problem fails the test when the answer is not that problem.
func (a *answer) problem(status int, slug string) *answer {
	a.t.Helper()
	a.status(status)
	if got := a.string("type"); got != "/problems/"+slug {
		a.t.Fatalf("problem %s, want %s: %s", got, slug, a.body)
	}
	return a
}

func (a *answer) json() map[string]any {
	a.t.Helper()
	var m map[string]any
	if err := json.Unmarshal(a.body, &m); err != nil {
		a.t.Fatalf("%v: %s", err, a.body)
	}
	return m
}

func (a *answer) string(key string) string {
	a.t.Helper()
	s, _ := a.json()[key].(string)
	return s
}

// register registers a query and returns its id.
func (w *world) register(text string, more ...string) string {
	w.t.Helper()
	b, _ := json.Marshal(text)
	a := w.post("/v1/queries", `{"endpoint":"city","query":`+string(b)+strings.Join(append([]string{""}, more...), ",")+`}`)
	if a.StatusCode != 200 {
		a.status(201)
	}
	return a.string("id")
}

const (
	selectText    = "SELECT ?s ?o WHERE { ?s <http://example.org/p> ?o }"
	askText       = "ASK { ?s <http://example.org/p> ?o }"
	constructText = "CONSTRUCT { ?s <http://example.org/p> ?o } WHERE { ?s <http://example.org/p> ?o }"
)

func iri(s string) diff.Term { return diff.Term{Kind: diff.IRI, Value: "http://example.org/" + s} }

func lit(s string) diff.Term { return diff.Term{Kind: diff.Literal, Value: s} }

// table is a SELECT result over ?s and ?o.
func table(t *testing.T, rows ...[2]diff.Term) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	b.SetVars([]string{"s", "o"})
	for _, r := range rows {
		b.Row(r[0], r[1])
	}
	return finish(t, b)
}

func graph(t *testing.T, triples ...[3]diff.Term) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Construct, diff.Options{})
	for _, x := range triples {
		b.Triple(x[0], x[1], x[2])
	}
	return finish(t, b)
}

func truthValue(t *testing.T, v bool) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Ask, diff.Options{})
	b.SetBoolean(v)
	return finish(t, b)
}

func finish(t *testing.T, b *diff.Builder) *diff.Result {
	t.Helper()
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return r
}
