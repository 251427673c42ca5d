package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/clock"
	"github.com/freshet/freshet/registry/clock/clocktest"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/store"
)

// A patchServer serves a log of RDF patches.
type patchServer struct {
	mu  sync.Mutex
	log []string
}

func (p *patchServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, _ := strconv.Atoi(r.URL.Query().Get("version"))
	if v < 1 || v > len(p.log) {
		http.NotFound(w, r)
		return
	}
	fmt.Fprint(w, p.log[v-1])
}

// change publishes a change of an entity.
func (p *patchServer) change(entity string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, prev := len(p.log)+1, ""
	if n > 1 {
		prev = fmt.Sprintf("H prev <uuid:%d> .\n", n-1)
	}
	p.log = append(p.log, fmt.Sprintf("H id <uuid:%d> .\n%sTX .\nA <http://x/%s> <http://x/n> \"%d\" .\nTC .\n", n, prev, entity, n))
	return n
}

// A server reads a feed that an endpoint names, also after a restart, and in a cluster one node does,
// and another one once that is gone. The loop hears of it, wherever it runs.
func TestFeedsAreFollowed(t *testing.T) {
	for _, count := range []int{1, 3} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			patches := &patchServer{}
			at := httptest.NewServer(patches)
			defer at.Close()
			patches.change("other")
			name := "n"
			if count == 1 {
				name = ""
			}
			s, nodes := startNodes(t, count, name, func(n *node) {
				n.conf = func(c *config.Config) {
					c.Feeds = []feed.Definition{{Name: "log", Kind: feed.RDFPatch, URL: at.URL, Every: registry.Duration(100 * time.Millisecond)}}
				}
			})
			var city struct{ URL string }
			nodes[0].call("GET", "/v1/endpoints/city", nil, &city)
			s.value.Store(1)
			nodes[0].call("POST", "/v1/endpoints", map[string]any{"name": "town", "url": city.URL, "slot": "@every 1s", "budget": "1s",
				"feed": "log", "lag": "1s", "policy": "rr"}, nil)
			var q struct{ ID string }
			nodes[0].call("POST", "/v1/queries", map[string]string{"endpoint": "town", "query": "SELECT ?n { <http://x/a> <http://x/n> ?n }"}, &q)
			live := nodes
			touched := func(version int) {
				t.Helper()
				for _, n := range live {
					await(t, fmt.Sprintf("%s knows that version %d reached the query", n.name, version), func() error {
						x, err := n.Store.Ledger.Touch(q.ID)
						if err == nil && x.Matched.Offset < int64(version) {
							err = fmt.Errorf("it has %+v", x)
						}
						return err
					})
				}
			}
			proved := func() {
				t.Helper()
				patches.change("other") // later than the answer
				stored, err := live[0].Store.Queries.Query(q.ID)
				if err != nil {
					t.Fatal(err)
				}
				changed := time.Now()
				await(t, "the result is proved", func() error {
					p, err := changeFeeds{live[0].Server}.Proofs()(&stored)
					if err == nil && p.Until.IsZero() {
						if time.Since(changed) > 500*time.Millisecond { // not more than the feed is read in the same time
							patches.change("other")
							changed = time.Now()
						}
						err = errors.New(p.Unprovable)
					}
					return err
				})
			}
			proved()
			s.value.Store(2)
			touched(patches.change("a"))
			proved()
			await(t, "the change is found", func() error {
				var r struct{ Changes int }
				live[0].call("GET", "/v1/queries/"+q.ID, nil, &r)
				if r.Changes < 1 {
					return fmt.Errorf("%+v", r)
				}
				return nil
			})
			if count == 1 {
				nodes[0].stop()
				version := patches.change("a")
				nodes[0].start()
				touched(version)
				proved()
				return
			}
			reads, _ := nodes[0].member.Has(store.FeedLease("log"))
			live = nil
			for _, n := range nodes {
				if n.name == reads.Name {
					n.stop()
				} else {
					live = append(live, n)
				}
			}
			if len(live) != 2 {
				t.Fatalf("%q reads the feed", reads.Name)
			}
			touched(patches.change("a"))
			proved()
		})
	}
}

// What a feed tells has the time by which the server goes, which is not that of the machine for a while after its clock was set.
// By another clock, an event that is new would be earlier than answers from before it, and count as included in them.
func TestEventsHaveTheTimeOfTheServer(t *testing.T) {
	patches := &patchServer{}
	at := httptest.NewServer(patches)
	defer at.Close()
	patches.change("a")
	_, nodes := startNodes(t, 1, "", func(n *node) {
		n.machine.Set(time.Hour)
		n.conf = func(c *config.Config) {
			c.Feeds = []feed.Definition{{Name: "log", Kind: feed.RDFPatch, URL: at.URL, Every: registry.Duration(50 * time.Millisecond)}}
		}
	})
	s := nodes[0]
	var city struct{ URL string }
	s.call("GET", "/v1/endpoints/city", nil, &city)
	s.call("POST", "/v1/endpoints", map[string]any{"name": "town", "url": city.URL, "slot": "@every 1s", "budget": "1s", "feed": "log"}, nil)
	for range 2 {
		version := patches.change("a")
		await(t, "the feed is read", func() error {
			f, _, err := s.Store.Ledger.Feed("log")
			if behind := s.Server.clock.Now().Sub(f.Head.Time); err == nil && (f.Head.Offset < int64(version) || behind.Abs() > time.Minute) {
				err = fmt.Errorf("it ends with version %d of %v ago", f.Head.Offset, behind)
			}
			return err
		})
	}
}

// A feed that was never read says why, and so does each query of its endpoints.
func TestAFeedThatRefuses(t *testing.T) {
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "who are you?", http.StatusForbidden)
	}))
	defer at.Close()
	_, nodes := startNodes(t, 1, "", func(n *node) {
		n.conf = func(c *config.Config) { c.Feeds = []feed.Definition{{Name: "log", Kind: feed.RDFPatch, URL: at.URL}} }
	})
	var city struct{ URL string }
	nodes[0].call("GET", "/v1/endpoints/city", nil, &city)
	nodes[0].call("POST", "/v1/endpoints", map[string]any{"name": "town", "url": city.URL, "slot": "@every 1s", "budget": "1s",
		"feed": "log"}, nil)
	var q struct{ ID string }
	nodes[0].call("POST", "/v1/queries", map[string]string{"endpoint": "town", "query": "SELECT ?n { <http://x/a> <http://x/n> ?n }"}, &q)
	for _, path := range []string{"/v1/feeds/log", "/v1/queries/" + q.ID, "/v1/queries/" + q.ID + "/explain"} {
		await(t, path+" says why", func() error {
			var x struct{ State, Error, Unprovable string }
			nodes[0].call("GET", path, nil, &x)
			if !strings.Contains(x.Error+x.Unprovable, "403 Forbidden: who are you?") {
				return fmt.Errorf("%+v", x)
			}
			return nil
		})
	}
}

// A feed that is used again is followed once its earlier follower has ended, which may record a batch first.
func TestOneFollowerAtATime(t *testing.T) {
	var machine clocktest.Machine
	now := func() time.Time { // it is always time to look again
		machine.Pass(2 * lookForFeeds)
		return machine.Now()
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks := 0
	used := func() ([]string, error) {
		if looks++; looks%2 == 0 {
			return nil, nil
		}
		return []string{"log"}, nil
	}
	var begun, running atomic.Int32
	whileUsed(ctx, clock.New(now, clock.Patience, slog.New(slog.DiscardHandler)), used, func(ctx context.Context, _ string) {
		if n := running.Add(1); n > 1 {
			t.Errorf("%d follow the feed", n)
		}
		if begun.Add(1) == 3 {
			cancel()
		}
		<-ctx.Done()
		time.Sleep(10 * time.Millisecond)
		running.Add(-1)
	})
	if n := running.Load(); n != 0 {
		t.Errorf("%d follow the feed after its end", n)
	}
}
