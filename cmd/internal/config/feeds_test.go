package config

import (
	"strings"
	"testing"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry/feed"
)

// A wrong feed is named, with its setting and what to do about it.
func TestFeedSettings(t *testing.T) {
	const good = "feeds:\n- name: main\n  kind: wikimedia\n  url: https://stream.example.org/v2\n  contact: " +
		"mailto:a@example.org\n  since: 2026-01-01T00:00:00Z\n  silence: 10m\n"
	c, err := loadConfig(t, good, nil)
	if err != nil || len(c.Feeds) != 1 || c.Feeds[0].Kind != feed.Wikimedia || c.Feeds[0].Since.IsZero() {
		t.Fatal(c, err)
	}
	if d, err := feed.Known(c.AllFeeds(), "wikidata"); err != nil || d.URL == "" {
		t.Errorf("the built-in feed: %v, %v", d, err)
	}
	for _, x := range []struct{ old, new, want string }{
		{"kind: wikimedia", "kind: kafka", `feeds[0].kind: main: "kafka" is not known; use wikimedia, ldes`},
		{"  contact: mailto:a@example.org\n", "", "feeds[0].contact: main: the operators of stream.example.org must be able to reach you"},
		{"2026-01-01", "2999-01-01", "feeds[0].since: main: 2999-01-01T00:00:00Z is in the future"},
		{"2026-01-01T00:00:00Z", "soon", `"soon" is not a time`},
		{"silence", "silent", `unknown field "silent", did you mean "silence"?`},
		{"silence: 10m\n", "silence: 10m\n- {name: main, kind: deltas}\n", "feeds[1].name: the name main is taken: give each feed " +
			"a name of its own"},
	} {
		text := strings.Replace(good, x.old, x.new, 1)
		_, err := loadConfig(t, text, nil)
		if text == good || err == nil || !strings.Contains(err.Error(), x.want) || cli.ExitCode(err) != cli.ExitUsage {
			t.Errorf("%s: error %v, want one with %q", x.new, err, x.want)
		}
	}
	c, err = loadConfig(t, strings.Replace(good, "/v2", "/v2?token=hush\n  headers: {X-Key: hush}", 1), nil)
	if err != nil || c.Feeds[0].Headers["X-Key"] != "hush" || strings.Contains(c.String(), "hush") || !strings.Contains(c.String(), "X-Key") {
		t.Error(c, err)
	}
	if _, err := loadConfig(t, strings.Replace("contact: mailto:a@example.org\n"+good, "  contact: mailto:a@example.org\n", "", 1),
		nil); err != nil {
		t.Errorf("the server's contact does not stand in: %v", err)
	}
}
