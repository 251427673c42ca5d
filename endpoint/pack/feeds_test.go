package pack

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry/feed"
)

// Every built-in feed can be read by a server with a contact, has a source, and is of use to a pack.
func TestFeeds(t *testing.T) {
	used := map[string]bool{}
	for _, p := range All() {
		e, err := p.Endpoint()
		if err != nil {
			t.Fatal(err)
		}
		if used[e.Feed] = true; e.Feed == "" {
			continue
		}
		if _, err := feed.Known(WithFeeds(nil), e.Feed); err != nil {
			t.Errorf("pack %s: %v", p.Name, err)
		}
	}
	for _, f := range Feeds() {
		if err := f.Check("mailto:ops@example.org", time.Now()); err != nil {
			t.Errorf("%s: %v", f.Name, err)
		}
		if err := f.Check("", time.Now()); err == nil || !strings.Contains(err.Error(), "contact") {
			t.Errorf("%s without a contact: %v", f.Name, err)
		}
		page, _, _ := strings.Cut(f.Source, " ")
		if u, err := url.Parse(page); err != nil || u.Host == "" || !used[f.Name] {
			t.Errorf("%s: source %q, used %v", f.Name, f.Source, used[f.Name])
		}
	}
	own := feed.Definition{Name: Feeds()[0].Name, URL: "http://127.0.0.1/"}
	if list := WithFeeds([]feed.Definition{own}); len(list) != len(Feeds()) || !reflect.DeepEqual(list[0], own) {
		t.Errorf("a defined feed does not replace the built-in one: %v", list)
	}
}
