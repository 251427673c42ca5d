package server

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
)

// A reload adds feeds, edits them while they are read, and refuses to remove one that an endpoint needs.
func TestFeedsAreReloaded(t *testing.T) {
	for _, name := range []string{"", "n"} {
		t.Run(name, func(t *testing.T) { reloadFeeds(t, name) })
	}
}

func reloadFeeds(t *testing.T, name string) {
	var keys [2]atomic.Pointer[string] // as the log was asked last, by its address
	patches := &patchServer{}
	patches.change("other")
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Key")
		keys[strings.Count(r.URL.Path, "b")].Store(&key)
		patches.ServeHTTP(w, r)
	}))
	defer at.Close()
	_, nodes := startNodes(t, 1, name, func(n *node) {})
	n := nodes[0]
	reload := func(feeds ...feed.Definition) error {
		c := *n.Server.conf
		c.Feeds = feeds
		return n.Reload(&c)
	}
	asked := func(i int, key string) {
		t.Helper()
		keys[i].Store(nil)
		await(t, fmt.Sprintf("the log is asked at %d with the key %q", i, key), func() error {
			if k := keys[i].Load(); k == nil || *k != key {
				return fmt.Errorf("it is %v", k)
			}
			return nil
		})
	}
	log := feed.Definition{Name: "log", Kind: feed.RDFPatch, URL: at.URL + "/a", Every: registry.Duration(50 * time.Millisecond)}
	if err := reload(log); err != nil {
		t.Fatal(err)
	}
	var city struct{ URL string }
	n.call("GET", "/v1/endpoints/city", nil, &city)
	n.call("POST", "/v1/endpoints", map[string]any{"name": "town", "url": city.URL, "slot": "@every 1s", "budget": "1s", "feed": "log"}, nil)
	asked(0, "")
	log.Headers = map[string]string{"X-Key": "hush"}
	if err := reload(log); err != nil {
		t.Fatal(err)
	}
	asked(0, "hush")
	var list struct{ Feeds []feed.Status }
	if n.call("GET", "/v1/feeds", nil, &list); len(list.Feeds) != 1 || list.Feeds[0].Headers["X-Key"] != "(set)" {
		t.Errorf("%+v", list)
	}
	log.URL = at.URL + "/b"
	if err := reload(log); err != nil {
		t.Fatal(err)
	}
	asked(1, "hush")
	bad := log
	bad.Kind = "kafka"
	for text, feeds := range map[string][]feed.Definition{
		"the endpoint town names the feed log, which is gone: name another one": nil,
		"is not known; use wikimedia":                                           {bad},
	} {
		if err := reload(feeds...); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	asked(1, "hush")
	n.call("PATCH", "/v1/endpoints/town", map[string]any{"feed": ""}, nil)
	if err := reload(); err != nil {
		t.Error(err)
	}
}
