// The followers of the nemesis test that have no positions of their own: of the hub, of SEPA and of
// feeds. Each connection leads to another node, as behind a load balancer.

package trial

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// balanced returns a client whose connections lead from node to node, whatever address they are for.
func (a *audience) balanced() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network,
		_ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, a.addr())
	}}}
}

// patience is how long a follower waits for one answer. A node that is stopped does not answer.
const patience = 3 * time.Second

// feed polls the feed of a query, or of all queries, and follows its archives.
func (a *audience) feed(ctx context.Context, m member, public, path string, facts []*fact) {
	by := map[string]*transcript{}
	for _, x := range facts {
		by[x.id] = m.transcript(x, true)
	}
	f := &feedReader{client: a.balanced(), knows: func(t *payload) bool { return by[t.Query] != nil && t.Seq <= by[t.Query].seq }}
	m.follow(ctx, func(ctx context.Context, last bool) bool {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		news, err := f.poll(ctx, public+path)
		switch {
		case errors.Is(err, errFeed):
			m.object("%v", err)
			return true
		case err != nil:
			a.failed.Add(1)
			return false
		}
		arrived := true
		for i := range news {
			if !takeEntry(by, &news[i]) {
				m.object("an entry of another query: %.300s", news[i].raw)
				return true
			}
		}
		for _, s := range by {
			arrived = arrived && s.arrived()
		}
		return last && arrived
	})
}

// takeEntry applies one entry of a feed. The feed shows entries again, and they must not have changed.
func takeEntry(by map[string]*transcript, e *payload) (known bool) {
	s := by[e.Query]
	if s == nil {
		return false
	}
	if i := e.Seq - 1; e.Epoch == s.epoch && i < uint64(len(s.records)) {
		if was := s.records[i].raw[0]; string(was) != string(e.raw) {
			s.object("the change %d was %.300s and is %.300s", e.Seq, was, e.raw)
		}
		return true
	}
	if e.Seq != e.Prev+1 {
		s.object("the entry of (%d, %d] is not one change", e.Prev, e.Seq)
	}
	s.change(notice{Query: e.Query, Epoch: e.Epoch, Prev: e.Prev, Seq: e.Seq}, e.raw)
	return true
}

// A sepaFollower subscribes to one query again and again.
type sepaFollower struct {
	member
	fact  *fact
	life  time.Duration
	notes [][]sepaNote // by connection
}

func (a *audience) sepa(ctx context.Context, m member, life time.Duration, x *fact) *sepaFollower {
	f := &sepaFollower{member: m, fact: x, life: life}
	m.follow(ctx, f.connect)
	return f
}

func (f *sepaFollower) connect(ctx context.Context, last bool) bool {
	d := websocket.Dialer{HandshakeTimeout: patience}
	c, _, err := d.DialContext(ctx, "ws://"+f.addr()+"/sepa/subscribe", nil)
	if err != nil {
		f.failed.Add(1)
		return false
	}
	defer c.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := f.cutter(ctx, f.life, last, func() { c.Close() })
	defer stop()
	var notes []sepaNote
	arrived := false
	err = readSEPA(c, f.fact.Text, func(n *sepaNotification) bool {
		notes = append(notes, sepaNote{*n.Sequence, n.AddedResults.rows(), n.RemovedResults.rows()})
		if last {
			at, err := judgeSEPA(f.fact, notes)
			arrived = err != nil || at == f.fact.final
		}
		return !arrived
	})
	if err != nil && !errors.Is(err, errSEPAFull) {
		f.object("%v", err)
		return true
	}
	if err != nil {
		f.failed.Add(1)
	}
	if len(notes) > 0 {
		f.notes = append(f.notes, notes)
	}
	return arrived
}

// judge returns what is wrong with the notifications of all connections.
func (f *sepaFollower) judge() (notes int, wrong []string) {
	last := uint64(0)
	for _, c := range f.notes {
		at, err := judgeSEPA(f.fact, c)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("%s by %s: %v", f.fact.Name, f.name, err))
		}
		notes, last = notes+len(c), at
	}
	if last != f.fact.final {
		wrong = append(wrong, fmt.Sprintf("%s by %s: ends at %d of %d", f.fact.Name, f.name, last, f.fact.final))
	}
	return notes, wrong
}

// A hubCallback is a subscriber of topics, one by path. It renews its subscriptions at one node after
// the other.
type hubCallback struct {
	http   *httptest.Server
	client *http.Client
	secret string

	mu      sync.Mutex
	topics  map[string]string        // by path of the callback
	got     map[string][]hubDelivery // by path
	asked   map[string]int           // verifications, by path
	renewed int                      // requests that the hub accepted
	wrong   []string
}

func newHubCallback(t *testing.T, a *audience, topics map[string]string) *hubCallback {
	h := &hubCallback{client: a.balanced(), secret: "known to the subscriber", topics: topics, got: map[string][]hubDelivery{},
		asked: map[string]int{}}
	h.http = httptest.NewServer(h)
	t.Cleanup(h.http.Close)
	return h
}

func (h *hubCallback) object(format string, args ...any) {
	h.wrong = append(h.wrong, "websub: "+fmt.Sprintf(format, args...))
}

// ServeHTTP implements http.Handler.
func (h *hubCallback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the node was killed
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	path := r.URL.Path
	if r.Method == http.MethodGet {
		if p := r.URL.Query(); p.Get("hub.mode") != "subscribe" || p.Get("hub.topic") != h.topics[path] {
			h.object("asked about %s at %s", r.URL.RawQuery, path)
			w.WriteHeader(http.StatusNotFound)
			return
		}
		h.asked[path]++
		io.WriteString(w, r.URL.Query().Get("hub.challenge"))
		return
	}
	if want := signature(h.secret, body); r.Header.Get("X-Hub-Signature") != want {
		h.object("the signature is %s, not %s", r.Header.Get("X-Hub-Signature"), want)
	}
	if !strings.Contains(strings.Join(r.Header.Values("Link"), ","), "<"+h.topics[path]+`>; rel="self"`) {
		h.object("the links are %q", r.Header.Values("Link"))
	}
	node := "?"
	if m := nodeContact.FindStringSubmatch(r.UserAgent()); m != nil {
		node = m[1]
	}
	h.got[path] = append(h.got[path], hubDelivery{node, string(body)})
	w.WriteHeader(http.StatusNoContent)
}

func signature(secret string, body []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(body)
	return "sha256=" + hex.EncodeToString(m.Sum(nil))
}

// subscribe requests all subscriptions, or renews them. A node that is down or cut off cannot accept.
func (h *hubCallback) subscribe(ctx context.Context, hub string) {
	for path, topic := range h.topics {
		ctx, cancel := context.WithTimeout(ctx, patience)
		form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {h.http.URL + path}, "hub.secret": {h.secret}}
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, hub, strings.NewReader(form.Encode()))
		if err == nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			var resp *http.Response
			if resp, err = h.client.Do(r); err == nil {
				body, _ := io.ReadAll(resp.Body) // for the message below
				resp.Body.Close()
				h.mu.Lock()
				switch {
				case resp.StatusCode == http.StatusAccepted:
					h.renewed++
				case resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusInsufficientStorage: // a disk may be full
					h.object("the hub answers %s: %s", resp.Status, body)
				}
				h.mu.Unlock()
			}
		}
		cancel()
	}
}

// confirmed reports whether all subscriptions were verified.
func (h *hubCallback) confirmed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked) == len(h.topics)
}

// newest returns the last content that a callback has received.
func (h *hubCallback) newest(path string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.got[path]); n > 0 {
		return h.got[path][n-1].body
	}
	return ""
}

// renew renews the subscriptions until the changes are over.
func (h *hubCallback) renew(ctx context.Context, a *audience, hub string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 6))
	a.members.Go(func() {
		for ctx.Err() == nil && !a.isOver() {
			h.subscribe(ctx, hub)
			select {
			case <-ctx.Done():
			case <-a.over:
			case <-time.After(time.Second + time.Duration(r.ExpFloat64()*float64(2*time.Second))):
			}
		}
	})
}
