// Tests of the WebSub hub and of the feeds of a cluster.

package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/freshet/freshet/registry"
)

// A callbackLog is a subscriber that confirms all requests.
type callbackLog struct {
	mu    sync.Mutex
	asked map[string][]string // hub.mode of questions, by path
	links map[string][]string // Link of deliveries, by path
}

func (l *callbackLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.Method == http.MethodPost {
		l.links[r.URL.Path] = append(l.links[r.URL.Path], r.Header.Get("Link"))
		return
	}
	l.asked[r.URL.Path] = append(l.asked[r.URL.Path], r.FormValue("hub.mode"))
	io.WriteString(w, r.FormValue("hub.challenge"))
}

// wait waits until the last entry of each path in a list is as wanted.
func (l *callbackLog) wait(t *testing.T, list map[string][]string, want map[string]string) {
	t.Helper()
	await(t, "the callback", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		for path, last := range want {
			if got := list[path]; len(got) == 0 || got[len(got)-1] != last {
				return fmt.Errorf("%s got %q, want %q; questions: %q", path, got, last, l.asked)
			}
		}
		return nil
	})
}

// The topics of all nodes are delivered, whichever node calls the callback and whichever took the
// request.
func TestTopicsOfAnotherNode(t *testing.T) {
	s, list := newMembers(t, 2)
	calls := &callbackLog{asked: map[string][]string{}, links: map[string][]string{}}
	callback := httptest.NewServer(calls)
	defer callback.Close()
	var q struct{ ID string }
	list[0].call("POST", "/v1/queries", map[string]string{"query": "SELECT ?n { ?s ?p ?n }"}, &q)
	s.value.Store(1)
	await(t, "a tick", func() error { return list[0].Call(t.Context(), "POST", "/v1/endpoints/city/tick", nil, nil) })
	confirmed, delivered := map[string]string{}, map[string]string{}
	for i, of := range list { // the node of the topic
		for j, by := range list { // the node that takes the request
			path := fmt.Sprintf("/%d%d", i, j)
			topic := of.URL() + "/v1/queries/" + q.ID + "/results.srj"
			await(t, "a request for "+topic, func() error { // until the nodes know each other
				a, err := http.PostForm(by.URL()+"/v1/hub", url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic},
					"hub.callback": {callback.URL + path}})
				if err != nil {
					return err
				}
				defer a.Body.Close()
				if text, _ := io.ReadAll(a.Body); a.StatusCode != http.StatusAccepted {
					return fmt.Errorf("%s: %s", a.Status, text)
				}
				return nil
			})
			confirmed[path] = "subscribe"
			delivered[path] = fmt.Sprintf(`<%s/v1/hub>; rel="hub", <%s>; rel="self"`, of.URL(), topic)
		}
	}
	calls.wait(t, calls.asked, confirmed)
	await(t, "confirmed subscriptions", func() error {
		var page struct{ Subscriptions []struct{ State string } }
		list[0].call("GET", "/v1/subscriptions?state=active", nil, &page)
		if len(page.Subscriptions) != len(confirmed) {
			return fmt.Errorf("%d are active", len(page.Subscriptions))
		}
		return nil
	})
	s.value.Store(2)
	list[1].call("POST", "/v1/endpoints/city/tick", nil, nil)
	calls.wait(t, calls.links, delivered)
	calls.wait(t, calls.asked, confirmed) // and none is denied
	for i, n := range list {
		if n.deliveries.websub.Pending() > 0 {
			t.Errorf("node %d waits for %d confirmations still", i, n.deliveries.websub.Pending())
		}
	}
	if text := fmt.Sprint(calls.asked); strings.Contains(text, "denied") {
		t.Error(text)
	}
}

// The feed of a public query does not show a name that another holder gave to it.
func TestFeedTitles(t *testing.T) {
	q := registry.Query{ID: "q_1", Holders: []registry.Holder{{Caller: "aaa", Name: "secret"}, {Caller: "ops", Name: "prices"}}}
	for public, want := range map[int]string{-1: "secret", 1: "prices"} {
		for i := range q.Holders {
			q.Holders[i].Public, q.Holders[i].MayPublish = i == public, i == public
		}
		if got := feedTitle(&q); got != want {
			t.Errorf("public %d: %q, want %q", public, got, want)
		}
	}
	q.Holders[1] = registry.Holder{Caller: "ops", Public: true, MayPublish: true}
	if got := feedTitle(&q); got != "q_1" {
		t.Errorf("without a public name: %q", got)
	}
}

// The entries of a feed have the same ids at nodes with different hosts, so that readers may move.
func TestFeedsOfAnotherNode(t *testing.T) {
	s, list := newMembers(t, 2, func(n *node) {
		if n.name == "n2" {
			n.public = "http://localhost:0"
		}
	})
	var q struct{ ID string }
	list[0].call("POST", "/v1/queries", map[string]string{"query": "SELECT ?n { ?s ?p ?n }"}, &q)
	s.value.Store(1)
	await(t, "a tick", func() error { return list[0].Call(t.Context(), "POST", "/v1/endpoints/city/tick", nil, nil) })
	ids := func(n *node) []string {
		text := n.ask("GET", "/v1/queries/"+q.ID+"/changes.atom", "").body
		return regexp.MustCompile(`<id>[^<]*`).FindAllString(text, -1)
	}
	want := ids(list[0])
	if len(want) != 2 || !strings.HasPrefix(want[0], "<id>tag:127.0.0.1,") {
		t.Fatalf("the ids are %q", want)
	}
	await(t, "the other node", func() error {
		if text := list[1].ask("GET", "/v1/queries/"+q.ID+"/results", "").status; text != 200 {
			return fmt.Errorf("the result is answered with %d", text)
		}
		return nil
	})
	if got := ids(list[1]); !slices.Equal(got, want) {
		t.Errorf("another node has the ids %q, want %q", got, want)
	}
}
