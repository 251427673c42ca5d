package feed_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	. "github.com/freshet/freshet/registry/feed"
)

// A since before what a publisher keeps is a gap that names the setting and the remedy.
func TestSinceBeforeRetention(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		name = filepath.Join(dir, filepath.FromSlash(name))
		_ = os.MkdirAll(filepath.Dir(name), 0o755)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("2026/01/02/03/000000.added.nt", "<http://a> <http://p> <http://o> .\n")
	put("lastPublishedFile.txt", "2026-01-02-03-000000")
	for hours, want := range map[time.Duration]string{0: "", 4: "since: the publication has nothing between"} {
		d := Definition{Kind: Changesets, URL: dir, Since: begin.Add(-hours * time.Hour)}
		b, err := caughtUp(t, d, "")
		if err != nil || len(b.Events) != 1 || !strings.HasPrefix(b.Gap, want) || (want == "") != (b.Gap == "") ||
			want != "" && !strings.HasSuffix(b.Gap, "set since to a later time, or leave it out to begin now") {
			t.Errorf("changesets since %d hours before: %d events, gap %q, %v", hours, len(b.Events), b.Gap, err)
		}
	}
	const policy = `</s> ldes:retentionPolicy [ a ldes:DurationAgoPolicy ] . `
	for name, c := range map[string]struct {
		text  string
		since time.Time
		want  string
	}{
		"all is kept":      {member(1, ""), begin.AddDate(-10, 0, 0), ""},
		"the last is kept": {policy + member(1, ""), begin.AddDate(-10, 0, 0), "since: the stream has nothing before 20"},
		"it goes farther":  {policy + member(1, ""), begin, ""},
	} {
		p := &pages{gone: map[string]bool{}, text: map[string]string{"/s": c.text}}
		b, err := caughtUp(t, Definition{Kind: LDES, URL: p.serve(t).URL + "/s", Since: c.since, Every: registry.Duration(time.Millisecond)}, "")
		if err != nil || !strings.HasPrefix(b.Gap, c.want) || (c.want == "") != (b.Gap == "") ||
			c.want != "" && !strings.HasSuffix(b.Gap, "set since to a later time, or leave it out") {
			t.Errorf("%s: %d events, gap %q, %v", name, len(b.Events), b.Gap, err)
		}
	}
	const linked = policy + "</s> tree:relation [ tree:node </b> ] .\n"
	p := &pages{gone: map[string]bool{}, text: map[string]string{"/s": linked + member(1, ""), "/b": "<bad"}}
	d := Definition{Kind: LDES, URL: p.serve(t).URL + "/s", Since: begin.AddDate(-10, 0, 0), Every: registry.Duration(time.Millisecond)}
	part, err := caughtUp(t, d, "")
	if err == nil || len(part.Events) != 1 || part.Gap != "" {
		t.Fatalf("a walk that is interrupted: %+v, %v", part, err)
	}
	p.text["/b"] = ""
	rest, err := caughtUp(t, d, part.Cursor)
	if err != nil || !strings.HasPrefix(rest.Gap, "since: the stream has nothing before 20") || len(rest.Events) > 0 {
		t.Errorf("the rest of the walk: %d events, gap %q, %v", len(rest.Events), rest.Gap, err)
	}
	if rest, err = caughtUp(t, d, rest.Cursor); err != nil || rest.Gap != "" {
		t.Errorf("the next walk: gap %q, %v", rest.Gap, err)
	}
	p = &pages{gone: map[string]bool{"/p": true}, text: map[string]string{"/s": "</s> tree:relation [ tree:node </p> ] .\n"}}
	b, err := caughtUp(t, Definition{Kind: LDES, URL: p.serve(t).URL + "/s", Since: begin, Every: registry.Duration(time.Millisecond)}, "")
	if err != nil || !strings.Contains(b.Gap, "/p was removed before it was read") {
		t.Errorf("a page that is gone: gap %q, %v", b.Gap, err)
	}
}

// Comments show that a connection lives, and not that the feed does.
func TestOnlyComments(t *testing.T) {
	s := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		added(1).write(w)
		for range 100 {
			fmt.Fprint(w, ":\n\n")
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	b, err := read(t, Definition{URL: s.URL, Silence: registry.Duration(300 * time.Millisecond)}, "")
	if err == nil || !strings.Contains(err.Error(), "no event came for 300ms, and only comments") || len(b.Events) != 1 {
		t.Errorf("%d events, %v", len(b.Events), err)
	}
}
