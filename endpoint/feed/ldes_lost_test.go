package feed_test

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	. "github.com/freshet/freshet/registry/feed"
)

// A page that cannot be read, or that leads to another server, does not count as read: once it is mended, its members are told.
func TestBadPageIsNotRead(t *testing.T) {
	for name, bad := range map[string]string{
		"syntax":         " <http://x/bad> <oops",
		"another server": " </t> tree:relation [ tree:node <http://elsewhere.example/c> ] .",
	} {
		text := map[string]string{"/s": "</s> tree:relation [ tree:node </t> ] .\n", "/t": member(1, "")}
		p := &pages{gone: map[string]bool{}, text: text}
		d := Definition{Kind: LDES, URL: p.serve(t).URL + "/s", Every: registry.Duration(time.Millisecond)}
		b, err := caughtUp(t, d, "")
		if err != nil {
			t.Fatal(err)
		}
		text["/t"], text["/s"] = member(1, "")+member(2, "")+bad, text["/s"]+member(3, "") // with news on a page that can be read
		for range 2 {
			if b, err = caughtUp(t, d, b.Cursor); err == nil {
				t.Errorf("%s: no error, members %v", name, texts(b))
			}
		}
		text["/t"] = strings.TrimSuffix(text["/t"], bad)
		if b, err = caughtUp(t, d, b.Cursor); err != nil || strings.Join(texts(b), " ") != "m2" {
			t.Errorf("%s, mended: members %v, %v", name, texts(b), err)
		}
	}
}
