package feed_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
)

func TestChangesets(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("2026/01/02/03/000000.added.nt", "<http://a> <http://p> <http://o> .\n")
	put("lastPublishedFile.txt", "2026-01-02-03-000000")
	web := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer web.Close()
	for _, at := range []string{dir, web.URL} {
		d := Definition{Kind: Changesets, URL: at}
		put("lastPublishedFile.txt", "2026-01-02-03-000000")
		b, err := caughtUp(t, d, "")
		if err != nil || len(b.Events) > 0 || b.Cursor != "2026-01-02-03-000001" || b.Head.Time.IsZero() {
			t.Fatalf("%+v, %v", b, err)
		}
		put("2026/01/02/03/000001.clear.nt", "<http://c> <http://p> <http://old> .\n")
		put("2026/01/02/03/000001.removed.nt", "<http://r> <http://p> <http://o> .\n")
		put("2026/01/02/03/000001.added.nt", "# started\n<http://a> <http://p> \"x\"@en .\n")
		put("2026/01/02/04/000000.added.nt", "<http://a> <http://p> <http://o> .\nbad\n")
		put("2026/01/02/04/000001.removed.nt.gz", "no gzip")
		put("lastPublishedFile.txt", "2026-01-02-04-000001")
		if b, err = caughtUp(t, d, b.Cursor); err != nil || len(b.Events) != 3 || b.Gap != "" || b.Cursor != "2026-01-02-04-000002" {
			t.Fatalf("%+v, %v", b, err)
		}
		e := b.Events[0]
		for _, c := range []struct {
			p    sparql.Pattern
			want Reach
		}{
			{sparql.Pattern{Subject: "<http://a>", Object: `"x`}, Matched}, {sparql.Pattern{Subject: "<http://r>"}, Matched}, {sparql.Pattern{Subject: "<http://c>", Object: "<http://old>"}, Matched},
			{sparql.Pattern{Subject: "<http://c>", Predicate: "<http://other>"}, Possible}, {sparql.Pattern{Subject: "<http://d>"}, None},
		} {
			if got := e.Reach([]sparql.Pattern{c.p}); got != c.want {
				t.Errorf("%+v: %d, want %d", c.p, got, c.want)
			}
		}
		if slices.ContainsFunc(e.Added, sparql.Pattern{Subject: "<http://r>"}.Matches) || slices.ContainsFunc(e.Removed, sparql.Pattern{Subject: "<http://a>"}.Matches) || e.Edit.Text != "changeset 2026-01-02-03-000001" {
			t.Errorf("%+v", e)
		}
		if !b.Events[1].All || !b.Events[2].All {
			t.Error("what a bad line or a damaged file changed is told")
		}
		put("lastPublishedFile.txt", "2027-01-02-04-000001")
		if b, err = caughtUp(t, d, b.Cursor); err != nil || !strings.Contains(b.Gap, "has nothing between") {
			t.Errorf("%+v, %v", b, err)
		}
		for _, name := range []string{"03/000001.clear.nt", "03/000001.removed.nt", "03/000001.added.nt", "04/000000.added.nt", "04/000001.removed.nt.gz"} {
			os.Remove(filepath.Join(dir, "2026/01/02", name))
		}
	}
}
