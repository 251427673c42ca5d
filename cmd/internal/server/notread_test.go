package server

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/freshet/freshet/cmd/internal/config"
	"github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/store"
)

// A feed whose source cannot be opened says so, and one that is sent has no lease to read it.
func TestFeedsThatAreNotRead(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	_, nodes := startNodes(t, 1, "n", func(n *node) {
		n.conf = func(c *config.Config) {
			c.Feeds = []feed.Definition{{Name: "files", Kind: feed.Changesets, URL: gone}, {Name: "sent", Kind: feed.Deltas}}
		}
	})
	n := nodes[0]
	var city struct{ URL string }
	n.call("GET", "/v1/endpoints/city", nil, &city)
	for _, name := range []string{"files", "sent"} {
		n.call("POST", "/v1/endpoints", map[string]any{"name": "at-" + name, "url": city.URL, "slot": "@every 1s", "budget": "1s",
			"feed": name}, nil)
	}
	keys, err := n.member.keys(n.fleet.feeds.Load().all)
	if err != nil || !slices.Contains(keys, store.FeedLease("files")) || slices.Contains(keys, store.FeedLease("sent")) {
		t.Error(keys, err)
	}
	if keys, err := n.member.keys(nil); err != nil || slices.Contains(keys, store.FeedLease("files")) {
		t.Error("a lease of a feed that is not known here: ", keys, err)
	}
	await(t, "the feed fails", func() error {
		f, _, err := n.Store.Ledger.Feed("files")
		if err == nil && f.Failing == "" {
			err = errors.New("it does not")
		}
		return err
	})
}
