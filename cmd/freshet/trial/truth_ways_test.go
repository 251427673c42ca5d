package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// This test runs all protocols except the WebSocket, which has its own tests, against one server:
// followers that are disconnected at random moments and read slowly, receivers that fail at random,
// and a server that is killed. In the end each of them must have the query's result, and must have
// received nothing out of order and nothing twice in effect.

// wayQueries are the queries that are followed. Every step changes at least "rows".
var wayQueries = map[string]struct{ form, text string }{
	"rows":  {"SELECT", "SELECT ?s ?n { ?s <http://x/n> ?n }"},
	"twice": {"SELECT", "SELECT ?k { ?s <http://x/k> ?k }"},
	"blank": {"SELECT", "SELECT ?b ?v { ?s <http://x/b> ?b . ?b <http://x/v> ?v }"},
	"ask":   {"ASK", "ASK { ?s <http://x/k> 3 }"},
	"graph": {"CONSTRUCT", "CONSTRUCT { ?s <http://x/has> ?k } WHERE { ?s <http://x/k> ?k }"},
}

// wayOptions are a filter with an independent implementation of its effect on a result.
type wayOptions struct {
	params, json string
	leaves       func(row string) (string, bool)
	less         int // the result may differ by fewer than this many rows
}

var allWayOptions = map[string]wayOptions{
	"plain": {},
	"where": {params: "where=n:contains:1", json: `{"where":[{"var":"n","op":"contains","value":"1"}]}`,
		leaves: func(row string) (string, bool) { return row, strings.Contains(cell(row, "n"), "1") }},
	"vars":   {params: "vars=s", json: `{"vars":["s"]}`, leaves: func(row string) (string, bool) { return onlyCell(row, "s"), true }},
	"amount": {params: "min_rows=4", json: `{"min_rows":4}`, less: 4},
	"rate":   {params: "rate=300ms"},
	"both":   {params: "rate=200ms&min_rows=3", less: 3},
}

func cell(row, name string) string {
	var b map[string]struct{ Value string }
	_ = json.Unmarshal([]byte(row), &b) // cannot fail: the test wrote the row
	return b[name].Value
}

func onlyCell(row, name string) string {
	var b map[string]json.RawMessage
	_ = json.Unmarshal([]byte(row), &b) // cannot fail either
	one, _ := json.Marshal(map[string]json.RawMessage{name: b[name]})
	return string(one)
}

// bag returns the sorted texts of a result's rows.
func (w *wireRows) bag() []string {
	if w.Boolean != nil {
		return []string{fmt.Sprint(*w.Boolean)}
	}
	rows := []string{}
	for _, r := range w.rows() {
		var v any
		if json.Unmarshal([]byte(r), &v) == nil {
			b, _ := json.Marshal(v) // with sorted names
			r = string(b)
		}
		rows = append(rows, r)
	}
	slices.Sort(rows)
	return rows
}

// A mirror is a follower's copy of one query.
type mirror struct {
	epoch   string
	seq     uint64
	known   bool
	rows    []string
	repeats int
	changes int
	folded  int
}

// A wayFollower follows one or more queries by one protocol.
type wayFollower struct {
	name    string
	options wayOptions
	rng     *rand.Rand

	mu     sync.Mutex
	has    map[string]*mirror // by query id
	prior  map[string]*mirror // copies before the last event
	wrong  []string
	cuts   int
	anyOne bool // snapshots may arrive at any time
}

func (f *wayFollower) object(format string, args ...any) {
	f.wrong = append(f.wrong, fmt.Sprintf(format, args...))
}

func (f *wayFollower) mirror(id string) *mirror {
	if f.has[id] == nil {
		f.has[id] = &mirror{}
	}
	return f.has[id]
}

// A payload is any message about a query's result.
type payload struct {
	Query, Epoch, Form, Reason string
	Prev, Seq                  uint64
	Truncated                  bool
	Boolean                    *bool
	Added, Removed, Results    wireRows
	raw                        []byte // of an entry of a feed
}

func (f *wayFollower) snapshot(t *payload) {
	m := f.mirror(t.Query)
	if m.known && t.Epoch == m.epoch && t.Seq <= m.seq {
		m.repeats++
		return
	}
	if m.known && !f.anyOne {
		f.object("a snapshot of %s at %d in the middle, at %d: %s", t.Query, t.Seq, m.seq, t.Reason)
	}
	m.epoch, m.seq, m.known, m.rows = t.Epoch, t.Seq, true, t.Results.bag()
}

func (f *wayFollower) moved(t *payload) {
	m := f.mirror(t.Query)
	if m.known && (t.Epoch != m.epoch || t.Seq < m.seq) {
		f.object("%s moves from %d to %d", t.Query, m.seq, t.Seq)
	}
	m.epoch, m.seq, m.known = t.Epoch, t.Seq, true
}

func (f *wayFollower) change(t *payload) {
	m := f.mirror(t.Query)
	switch {
	case m.known && t.Epoch == m.epoch && t.Seq <= m.seq:
		m.repeats++
		return
	case t.Truncated || m.known && t.Epoch != m.epoch || t.Prev != m.seq || t.Seq <= t.Prev:
		f.object("the change (%d, %d] of %s after %d", t.Prev, t.Seq, t.Query, m.seq)
		return
	}
	if m.changes++; t.Seq > t.Prev+1 {
		m.folded++
	}
	m.epoch, m.seq, m.known = t.Epoch, t.Seq, true
	if t.Form == "ASK" {
		m.rows = []string{fmt.Sprint(*t.Boolean)}
		return
	}
	f.replace(m, t.Removed.bag(), t.Added.bag())
}

func (f *wayFollower) replace(m *mirror, removed, added []string) {
	rest := without(m.rows, removed)
	if len(rest) != len(m.rows)-len(removed) {
		f.object("at %d rows are removed that are not there", m.seq)
	}
	m.rows = append(rest, added...)
	slices.Sort(m.rows)
}

// remember stores the current copies for a later forget.
func (f *wayFollower) remember() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.prior = f.copied(f.has)
}

func (f *wayFollower) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.has = f.copied(f.prior)
}

func (f *wayFollower) copied(has map[string]*mirror) map[string]*mirror {
	all := map[string]*mirror{}
	for id, m := range has {
		one := *m
		all[id] = &one
	}
	return all
}

// receive applies one event of an event stream.
func (f *wayFollower) receive(e event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var t payload
	if err := json.Unmarshal([]byte(e.data), &t); err != nil {
		f.object("%s: %v", e.data, err)
		return
	}
	switch e.kind {
	case "change":
		f.change(&t)
	case "snapshot":
		f.snapshot(&t)
	case "alive":
		f.moved(&t)
	default:
		f.object("event %s: %.300s", e.kind, e.data)
	}
}

// stream follows an event stream until ctx ends. It disconnects at random and resumes from the last
// event id or the one before it.
func (f *wayFollower) stream(ctx context.Context, url string, first string) {
	last, before := first, first
	for ctx.Err() == nil {
		life, cancel := context.WithTimeout(ctx, time.Duration(100+f.rng.IntN(2500))*time.Millisecond)
		r, err := http.NewRequestWithContext(life, "GET", url, nil)
		if err == nil {
			if f.rng.IntN(6) == 0 { // like a client that dies before it has stored the last event
				last = before
				f.forget()
			}
			r.Header.Set("Accept", "text/event-stream")
			if last != "" {
				r.Header.Set("Last-Event-ID", last)
			}
			f.read(r, &last, &before)
		}
		cancel()
		f.mu.Lock()
		f.cuts++
		f.mu.Unlock()
	}
}

func (f *wayFollower) read(r *http.Request, last, before *string) {
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		time.Sleep(50 * time.Millisecond) // the server is down
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		time.Sleep(50 * time.Millisecond) // the server is starting
		return
	}
	readEvents(resp.Body, func(e event) bool {
		if e.id != "" {
			*before, *last = *last, e.id
			f.remember()
		}
		if e.kind == "" {
			return true
		}
		f.receive(e)
		if f.rng.IntN(10) == 0 {
			time.Sleep(time.Duration(f.rng.IntN(60)) * time.Millisecond)
		}
		return true
	})
}

// A flaky is a receiver that fails at random.
type flaky struct {
	http *httptest.Server

	mu     sync.Mutex
	rng    *rand.Rand
	well   bool
	takes  map[string]func(header http.Header, body []byte) // by path
	failed int
}

func newFlaky(t *testing.T, seed uint64) *flaky {
	x := &flaky{rng: rand.New(rand.NewPCG(seed, 11)), takes: map[string]func(http.Header, []byte){}}
	x.http = httptest.NewServer(x)
	t.Cleanup(x.http.Close)
	return x
}

func (x *flaky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		io.WriteString(w, r.URL.Query().Get("hub.challenge"))
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // ended by a crash
	}
	x.mu.Lock()
	fault, take, pause := x.rng.IntN(20), x.takes[r.URL.Path], time.Duration(x.rng.IntN(80))*time.Millisecond
	if x.well {
		fault = 19
	}
	if fault < 7 {
		x.failed++
	}
	x.mu.Unlock()
	switch {
	case fault < 2: // refuse the message
		w.WriteHeader(503)
	case fault < 4: // close the connection without an answer
		panic(http.ErrAbortHandler)
	case fault < 6: // accept the message, but lose the answer
		take(r.Header, body)
		panic(http.ErrAbortHandler)
	case fault < 7:
		take(r.Header, body)
		w.WriteHeader(500)
	case fault < 9:
		time.Sleep(pause)
		fallthrough
	default:
		take(r.Header, body)
	}
}

// takeWebhook acts like a receiver of Standard Webhooks: it drops a message whose id it knows.
func (f *wayFollower) takeWebhook(header http.Header, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var m struct {
		Type string
		Data payload
	}
	if err := json.Unmarshal(body, &m); err != nil {
		f.object("%v: %.300s", err, body)
		return
	}
	switch m.Type {
	case "webhook.verify":
	case "query.changed":
		f.change(&m.Data)
	case "query.snapshot":
		f.snapshot(&m.Data)
	case "query.moved":
		f.moved(&m.Data)
	default:
		f.object("%s: %.300s", m.Type, body)
	}
}

// A topicFollower receives a topic by WebSub and knows all versions that the topic had.
type topicFollower struct {
	name string
	mu   sync.Mutex
	got  []string
}

func (f *topicFollower) take(_ http.Header, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.got = append(f.got, string(body))
}

// A feedFollower follows the feed of an Atom reader.
type feedFollower struct {
	*wayFollower
	feed feedReader
}

func newFeedFollower(f *wayFollower) *feedFollower {
	x := &feedFollower{wayFollower: f}
	x.feed = feedReader{client: http.DefaultClient, knows: x.knows}
	return x
}

func (f *feedFollower) poll(ctx context.Context, url string) {
	news, err := f.feed.poll(ctx, url)
	f.mu.Lock()
	defer f.mu.Unlock()
	if errors.Is(err, errFeed) {
		f.object("%v", err)
	}
	for i := range news {
		f.change(&news[i])
	}
}

// knows reports whether the reader has a change of any query. Entries are in the order of the
// store.
func (f *feedFollower) knows(t *payload) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.mirror(t.Query)
	return m.known && t.Seq <= m.seq
}

// A feedReader polls an Atom feed and follows its archives back to an entry that it knows.
type feedReader struct {
	client *http.Client
	knows  func(*payload) bool
	etag   string
	pages  int
	idle   int // number of 304 answers
}

// errFeed is wrapped by errors about documents that are no feeds.
var errFeed = errors.New("no feed")

// poll returns the entries of the feed and of the archives that were read, the oldest first. It
// returns none after an error.
func (f *feedReader) poll(ctx context.Context, url string) (news []payload, err error) {
	tag := ""
	for at, first := url, true; at != ""; first = false {
		r, err := http.NewRequestWithContext(ctx, "GET", at, nil)
		if err != nil {
			return nil, err
		}
		if first && f.etag != "" {
			r.Header.Set("If-None-Match", f.etag)
		}
		resp, err := f.client.Do(r)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusNotModified {
			f.idle++
			return nil, nil
		}
		if resp.StatusCode != 200 {
			return nil, fmt.Errorf("%s: %s", at, resp.Status)
		}
		page, prev, err := readFeed(body)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errFeed, at, err)
		}
		if first {
			tag, f.etag = resp.Header.Get("ETag"), "" // unless the whole feed arrives
		}
		f.pages++
		news = append(news, page...)
		if at = prev; len(page) > 0 && f.knows(&page[len(page)-1]) {
			break
		}
	}
	f.etag = tag
	slices.Reverse(news)
	return news, nil
}
