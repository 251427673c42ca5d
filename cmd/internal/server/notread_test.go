package server

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
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

// An endpoint whose feed is not defined any more is named when the server starts, and has a note.
func TestFeedsThatAreGone(t *testing.T) {
	_, nodes := startNodes(t, 1, "", func(n *node) {
		n.conf = func(c *config.Config) { c.Feeds = []feed.Definition{{Name: "sent", Kind: feed.Deltas}} }
	})
	n := nodes[0]
	var city struct{ URL string }
	n.call("GET", "/v1/endpoints/city", nil, &city)
	n.call("POST", "/v1/endpoints", map[string]any{"name": "town", "url": city.URL + "/town", "slot": "never", "budget": "1s",
		"feed": "sent"}, nil)
	looks := func() (logged string, notes []string) {
		t.Helper()
		var out strings.Builder
		s := &Server{Store: n.Store, conf: n.Server.conf, gate: n.gate, fleet: n.fleet, listener: n.listener,
			log: slog.New(slog.NewTextHandler(&out, nil))}
		if err := s.LogStart(); err != nil {
			t.Fatal(err)
		}
		var town struct{ Notes []string }
		n.call("GET", "/v1/endpoints/town", nil, &town)
		return out.String(), town.Notes
	}
	if logged, notes := looks(); strings.Contains(logged, "level=WARN") || len(notes) > 0 {
		t.Errorf("a feed that is defined: %s, %q", logged, notes)
	}
	n.stop()
	n.conf = nil
	n.start()
	const gone = `there is no feed "sent"`
	logged, notes := looks()
	if want := strings.ReplaceAll(gone, `"`, `\"`); !strings.Contains(logged, "level=WARN") || !strings.Contains(logged, want) ||
		!strings.Contains(logged, "endpoint=town") {
		t.Errorf("the log says %s, want %q", logged, gone)
	}
	if len(notes) != 1 || !strings.HasPrefix(notes[0], "feed: "+gone) {
		t.Errorf("the notes are %q, want %q", notes, gone)
	}
}
