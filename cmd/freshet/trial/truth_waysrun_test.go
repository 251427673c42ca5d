package trial

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/freshet/freshet/cmd/internal/clitest"
	"github.com/freshet/freshet/diff"
)

// readFeed parses a feed document, newest entry first.
func readFeed(body []byte) (entries []payload, prev string, err error) {
	var doc struct {
		Link  []struct{ Rel, Href string }
		Entry []struct {
			ID      string `xml:"id"`
			Content string `xml:"change"`
		} `xml:"entry"`
	}
	var raw struct {
		XMLName xml.Name `xml:"http://www.w3.org/2005/Atom feed"`
		Link    []struct {
			Rel  string `xml:"rel,attr"`
			Href string `xml:"href,attr"`
		} `xml:"link"`
	}
	if err := xml.Unmarshal(body, &raw); err != nil {
		return nil, "", err
	}
	if err := xml.Unmarshal(body, &doc); err != nil {
		return nil, "", err
	}
	for _, l := range raw.Link {
		if l.Rel == "prev-archive" {
			prev = l.Href
		}
	}
	for _, e := range doc.Entry {
		t := payload{raw: []byte(e.Content)}
		if err := json.Unmarshal(t.raw, &t); err != nil {
			return nil, "", err
		}
		if !strings.HasSuffix(e.ID, fmt.Sprintf("%s/%s:%d", t.Query, t.Epoch, t.Seq)) {
			return nil, "", fmt.Errorf("the entry of %s:%d has the id %s", t.Epoch, t.Seq, e.ID)
		}
		entries = append(entries, t)
	}
	return entries, prev, nil
}

// followSEPA subscribes, is disconnected, and subscribes again. Every subscription starts with the
// whole result.
func (f *wayFollower) followSEPA(ctx context.Context, addr, id, text string) {
	for ctx.Err() == nil {
		f.oneSEPA(ctx, addr, id, text, time.Duration(200+f.rng.IntN(2500))*time.Millisecond)
		f.mu.Lock()
		f.cuts++
		f.mu.Unlock()
	}
}

func (f *wayFollower) oneSEPA(ctx context.Context, addr, id, text string, life time.Duration) {
	c, _, err := websocket.DefaultDialer.DialContext(ctx, "ws://"+addr+"/sepa/subscribe?"+f.options.params, nil)
	if err != nil {
		time.Sleep(50 * time.Millisecond)
		return
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	cut := time.AfterFunc(life, func() { c.Close() })
	defer cut.Stop()
	next := 0
	err = readSEPA(c, text, func(n *sepaNotification) bool {
		f.mu.Lock()
		x := f.mirror(id)
		if *n.Sequence != next {
			f.object("sequence %d in the place of %d", *n.Sequence, next)
		}
		switch {
		case next == 0 || n.AddedResults.Boolean != nil:
			x.rows, x.known = n.AddedResults.bag(), true
		default:
			x.changes++
			f.replace(x, n.RemovedResults.bag(), n.AddedResults.bag())
		}
		f.mu.Unlock()
		next++
		if f.rng.IntN(10) == 0 {
			time.Sleep(time.Duration(f.rng.IntN(80)) * time.Millisecond)
		}
		return true
	})
	if err != nil {
		f.mu.Lock()
		f.object("%v", err)
		f.mu.Unlock()
	}
}

// A sepaNotification is what a SEPA subscription receives.
type sepaNotification struct {
	Sequence                     *int
	AddedResults, RemovedResults wireRows
}

// errSEPAFull says that a server refuses a subscription because its disk is full.
var errSEPAFull = errors.New("the disk is full")

// readSEPA subscribes and calls fn for each notification, until the connection ends or fn returns
// false. It returns an error if the server answers one other than 503.
func readSEPA(c *websocket.Conn, text string, fn func(n *sepaNotification) bool) error {
	if c.WriteJSON(map[string]any{"subscribe": map[string]string{"sparql": text, "alias": "a"}}) != nil {
		return nil // the next connection tries again
	}
	for {
		var m struct {
			Error        string
			Status       int `json:"status_code"`
			Notification sepaNotification
		}
		if c.ReadJSON(&m) != nil {
			return nil
		}
		if m.Error != "" || m.Notification.Sequence == nil {
			switch m.Status {
			case http.StatusServiceUnavailable:
			case http.StatusInsufficientStorage:
				return errSEPAFull
			default:
				return fmt.Errorf("answered %s %d", m.Error, m.Status)
			}
			return nil
		}
		if !fn(&m.Notification) {
			return nil
		}
	}
}

// A wayRun is the running test.
type wayRun struct {
	t         *testing.T
	s         *testServer
	rng       *rand.Rand
	seed      uint64
	ids       map[string]string // by name
	followers []*wayFollower
	feeds     []*feedFollower
	topics    []*topicFollower
	versions  map[string][]string // versions of topics, as GET answered
	running   sync.WaitGroup
}

func (r *wayRun) follower(name string, options string) *wayFollower {
	f := &wayFollower{name: name, options: allWayOptions[options], rng: rand.New(rand.NewPCG(r.seed, uint64(100+len(r.followers)))),
		has: map[string]*mirror{}}
	r.followers = append(r.followers, f)
	return f
}

func TestTruthWays(t *testing.T) {
	clitest.NeedEngine(t)
	t.Parallel()
	seed := truthSeed(t)
	r := &wayRun{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 5)), ids: map[string]string{}, versions: map[string][]string{}}
	r.s = newTestServer(t, allowLoopback)
	for _, name := range slices.Sorted(maps.Keys(wayQueries)) {
		q := wayQueries[name]
		r.ids[name] = strings.TrimSpace(r.s.must(t, q.text, "query", "add", "--name", name, "--tag", "t", "-"))
	}
	receiver := newFlaky(t, seed)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.startFollowers(ctx, receiver)
	crashes := 0
	steps := atLength(110, 60)
	for step := range steps {
		r.s.Update(t, fmt.Sprintf(`DELETE WHERE { <http://x/clock> <http://x/n> ?n } ; INSERT DATA { <http://x/clock> <http://x/n> %d }`, step))
		for range r.rng.IntN(3) {
			r.s.Update(t, randomUpdate(r.rng))
		}
		if r.rng.IntN(18) == 0 {
			r.crashInSlot(ctx)
			crashes++
		}
		r.s.must(t, "", "endpoint", "tick", "city")
		r.noteVersions()
		if step%10 == 0 {
			r.retryDeliveries()
		}
	}
	receiver.mu.Lock()
	receiver.well = true
	failed := receiver.failed
	receiver.mu.Unlock()
	r.converge()
	cancel()
	r.running.Wait()
	http.DefaultClient.CloseIdleConnections()
	r.verdict()
	if crashes == 0 || failed == 0 {
		t.Errorf("nothing was tried: %d crashes, %d failures of the receiver", crashes, failed)
	}
	t.Logf("seed %d: %d steps, %d crashes, %d failures of the receiver", seed, steps, crashes, failed)
	for _, f := range r.followers {
		n := mirror{}
		for _, m := range f.has {
			n.changes, n.folded, n.repeats = n.changes+m.changes, n.folded+m.folded, n.repeats+m.repeats
		}
		t.Logf("%-22s %4d changes (%d of them folded), %d repeats dropped, %d cuts", f.name, n.changes, n.folded, n.repeats, f.cuts)
	}
	if err := r.s.srv.Stop(); err != nil {
		t.Errorf("the server ended with %v\n%s", err, r.s.srv.Stderr)
	}
	checkStore(t, binary(t), r.s.data)
}

// crashInSlot kills the server at some point in a slot.
func (r *wayRun) crashInSlot(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		req, err := http.NewRequestWithContext(ctx, "POST", r.s.srv.Url+"/v1/endpoints/city/tick", nil)
		if err != nil {
			return
		}
		if resp, err := http.DefaultClient.Do(req); err == nil { // usually the kill interrupts it
			resp.Body.Close()
		}
	}()
	time.Sleep(time.Duration(r.rng.IntN(30)) * time.Millisecond)
	r.s.crash()
	<-done
}

// startFollowers starts all followers before the first result.
func (r *wayRun) startFollowers(ctx context.Context, receiver *flaky) {
	base, rows := "http://"+r.s.addr, r.ids["rows"]
	for _, options := range []string{"where", "vars", "amount", "rate", "both"} {
		f := r.follower("sse "+options, options)
		f.anyOne = true // for a follower that started without a position
		r.running.Go(func() { f.stream(ctx, base+"/v1/queries/"+rows+"/changes?"+f.options.params, "") })
	}
	var head struct{ Next string }
	_, text := r.s.get("GET", "/v1/changes")
	if err := json.Unmarshal([]byte(text), &head); err != nil {
		r.t.Fatal(err)
	}
	for _, options := range []string{"plain", "rate", "amount", "both"} {
		f := r.follower("sse all "+options, options)
		r.running.Go(func() { f.stream(ctx, base+"/v1/changes?tag=t&"+f.options.params, head.Next) })
	}
	for _, options := range []string{"plain", "where", "amount", "rate"} {
		f := r.follower("webhook "+options, options)
		f.anyOne = true // a snapshot comes first, and replaces changes that are too large
		path := "/hook/" + options
		receiver.takes[path] = f.takeWebhook
		args := []string{"webhook", "add", "--query", "rows", receiver.http.URL + path}
		if f.options.json != "" {
			args = append(args, "--filter", f.options.json)
		} else if f.options.params != "" {
			args = append(args, "--rate", "300ms")
		}
		r.s.must(r.t, "", args...)
	}
	for _, options := range []string{"plain", "amount", "rate"} {
		args := map[string][]string{"amount": {"--filter", `{"min_rows":4}`}, "rate": {"--rate", "300ms"}}[options]
		f, path := r.follower("webhook all "+options, options), "/hook/all/"+options
		receiver.takes[path] = f.takeWebhook
		r.s.must(r.t, "", append([]string{"webhook", "add", "--tag", "t", receiver.http.URL + path}, args...)...)
	}
	for _, name := range []string{"rows", "twice", "blank", "ask"} {
		f := r.follower("sepa "+name, "plain")
		r.running.Go(func() { f.followSEPA(ctx, r.s.addr, r.ids[name], wayQueries[name].text) })
	}
	picky := r.follower("sepa where", "where")
	r.running.Go(func() { picky.followSEPA(ctx, r.s.addr, rows, wayQueries["rows"].text) })
	for _, path := range []string{"/v1/queries/" + rows + "/changes.atom", "/v1/changes.atom?tag=t"} {
		f := newFeedFollower(r.follower("atom "+path[:11], "plain"))
		r.feeds = append(r.feeds, f)
		r.running.Go(func() {
			for ctx.Err() == nil {
				life, cut := context.WithTimeout(ctx, time.Duration(5+f.rng.IntN(800))*time.Millisecond)
				f.poll(life, base+path) // after an error it polls again
				cut()
				time.Sleep(time.Duration(f.rng.IntN(1500)) * time.Millisecond)
			}
		})
	}
	r.s.must(r.t, "", "endpoint", "tick", "city") // topics must exist before a callback subscribes
	r.noteVersions()
	for _, topic := range []string{"results.srj", "results.csv", "changes/latest", "changes.atom"} {
		resp, _ := r.s.get("HEAD", "/v1/queries/rows/"+topic)
		f := &topicFollower{name: topic}
		r.topics = append(r.topics, f)
		path := "/hub/" + topic
		receiver.takes[path] = f.take
		form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {links(resp)["self"][0]}, "hub.callback": {receiver.http.URL + path}}
		if resp, err := http.PostForm(base+"/v1/hub", form); err != nil || resp.StatusCode != 202 {
			r.t.Fatal(resp, err)
		}
	}
	clitest.Eventually(r.t, "active subscriptions", func() bool {
		_, b := r.s.get("GET", "/v1/subscriptions?way=websub&state=active")
		return strings.Count(b, `"way":"websub"`) == len(r.topics)
	})
}

// noteVersions records the current versions of the topics. It sees each version, because only the
// test's own ticks change them.
func (r *wayRun) noteVersions() {
	for _, topic := range []string{"results.srj", "results.csv", "changes/latest", "changes.atom"} {
		_, body := r.s.get("GET", "/v1/queries/rows/"+topic)
		if v := r.versions[topic]; len(v) == 0 || v[len(v)-1] != body {
			r.versions[topic] = append(v, body)
		}
	}
}

// retryDeliveries retries failed deliveries at once, because the schedules last days.
func (r *wayRun) retryDeliveries() {
	_, b := r.s.get("GET", "/v1/subscriptions?limit=500")
	var list struct {
		Subscriptions []struct {
			ID       string
			Failures int
		}
	}
	if err := json.Unmarshal([]byte(b), &list); err != nil {
		r.t.Fatal(err)
	}
	for _, x := range list.Subscriptions {
		if x.Failures > 0 {
			r.s.get("POST", "/v1/subscriptions/"+x.ID+"/resume")
		}
	}
}

// truth returns a query's result at the server, with filters applied.
func (r *wayRun) truth(name string, options wayOptions) []string {
	if wayQueries[name].form == "CONSTRUCT" {
		_, b := r.s.get("GET", "/v1/queries/"+name+"/results.nt")
		rows := strings.Split(strings.TrimSpace(b), "\n")
		if b == "" {
			rows = []string{}
		}
		slices.Sort(rows)
		return rows
	}
	_, b := r.s.get("GET", "/v1/queries/"+name+"/results.srj")
	if _, err := diff.Decode([]byte(b), diff.Form(wayQueries[name].form), false); err != nil {
		r.t.Fatal(err)
	}
	var w wireRows
	if err := json.Unmarshal([]byte(b), &w); err != nil {
		r.t.Fatal(err)
	}
	rows := []string{}
	for _, row := range w.bag() {
		if options.leaves != nil {
			var ok bool
			if row, ok = options.leaves(row); !ok {
				continue
			}
		}
		rows = append(rows, row)
	}
	slices.Sort(rows)
	return rows
}

// missing describes what a follower does not have yet.
func (r *wayRun) missing(f *wayFollower) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	byID := map[string]string{}
	for name, id := range r.ids {
		byID[id] = name
	}
	if strings.Contains(f.name, "all") || strings.HasPrefix(f.name, "atom /v1/change") {
		for name, id := range r.ids {
			if f.has[id] == nil && (f.options.less == 0 || name == "rows") {
				return "nothing of " + name
			}
		}
	}
	if len(f.has) == 0 {
		return "nothing at all"
	}
	for id, m := range f.has {
		want := r.truth(byID[id], f.options)
		if off := len(without(m.rows, want)) + len(without(want, m.rows)); off > 0 && off >= f.options.less {
			return fmt.Sprintf("%s at %d: it holds\n%.1500q\nthe truth is\n%.1500q", byID[id], m.seq, m.rows, want)
		}
	}
	return ""
}

// converge waits until all followers have the truth.
func (r *wayRun) converge() {
	end := time.Now().Add(time.Minute)
	for _, f := range r.followers {
		for missing := r.missing(f); missing != ""; missing = r.missing(f) {
			f.mu.Lock()
			broken := len(f.wrong) > 0
			f.mu.Unlock()
			if broken || time.Now().After(end) {
				r.t.Errorf("%s does not arrive: %s", f.name, missing)
				break
			}
			r.retryDeliveries()
			time.Sleep(50 * time.Millisecond)
		}
	}
	for _, f := range r.topics {
		v := r.versions[f.name]
		arrived := func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return len(f.got) > 0 && f.got[len(f.got)-1] == v[len(v)-1]
		}
		for !arrived() {
			if time.Now().After(end) {
				r.t.Errorf("the subscriber of %s does not get the newest version", f.name)
				break
			}
			r.retryDeliveries()
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func (r *wayRun) verdict() {
	for _, f := range r.followers {
		for _, w := range f.wrong[:min(len(f.wrong), 5)] {
			r.t.Errorf("%s: %s", f.name, w)
		}
	}
	for _, f := range r.feeds {
		if f.feed.pages < 3 || f.cuts+f.feed.idle == 0 {
			r.t.Logf("%s: %d documents read, %d times nothing new", f.name, f.feed.pages, f.feed.idle)
		}
	}
	for _, f := range r.topics {
		at, repeats := -1, 0
		for i, body := range f.got {
			now := slices.Index(r.versions[f.name], body)
			switch {
			case now < 0:
				r.t.Errorf("%s: delivery %d is no version of the topic: %.300s", f.name, i, body)
			case now < at:
				r.t.Errorf("%s: version %d after version %d", f.name, now, at)
			case now == at:
				repeats++
			}
			at = max(at, now)
		}
		r.t.Logf("websub %-15s %d versions, %d deliveries taken, %d of them repeats", f.name, len(r.versions[f.name]), len(f.got), repeats)
	}
}
