package feed_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/endpoint/feed"
	"github.com/freshet/freshet/registry"
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
			{sparql.Pattern{Subject: "<http://a>", Object: `"x`}, Matched}, {sparql.Pattern{Subject: "<http://r>"}, Matched},
			{sparql.Pattern{Subject: "<http://c>", Object: "<http://old>"}, Matched},
			{sparql.Pattern{Subject: "<http://c>", Predicate: "<http://other>"}, Possible}, {sparql.Pattern{Subject: "<http://d>"}, None},
		} {
			if got := e.Reach([]sparql.Pattern{c.p}); got != c.want {
				t.Errorf("%+v: %d, want %d", c.p, got, c.want)
			}
		}
		if slices.ContainsFunc(e.Added, sparql.Pattern{Subject: "<http://r>"}.Matches) || slices.ContainsFunc(e.Removed,
			sparql.Pattern{Subject: "<http://a>"}.Matches) || e.Edit.Text != "changeset 2026-01-02-03-000001" {
			t.Errorf("%+v", e)
		}
		if !b.Events[1].All || !b.Events[2].All {
			t.Error("what a bad line or a damaged file changed is told")
		}
		put("lastPublishedFile.txt", "2027-01-02-04-000001")
		if b, err = caughtUp(t, d, b.Cursor); err != nil || !strings.Contains(b.Gap, "has nothing between") {
			t.Errorf("%+v, %v", b, err)
		}
		for _, name := range []string{"03/000001.clear.nt", "03/000001.removed.nt", "03/000001.added.nt", "04/000000.added.nt",
			"04/000001.removed.nt.gz"} {
			os.Remove(filepath.Join(dir, "2026/01/02", name))
		}
	}
}

// A triple that a changeset removes, or clears, and adds again is there afterwards. Where it was not there before, it is new.
func TestTripleThatIsRemovedAndAdded(t *testing.T) {
	for _, parts := range [][2]string{{"removed", "added"}, {"clear", "added"}, {"removed", "reinserted"}, {"clear", "reinserted"}} {
		dir := t.TempDir()
		for _, part := range parts {
			f := filepath.Join(dir, "2026/01/02/03/000001."+part+".nt")
			_ = os.MkdirAll(filepath.Dir(f), 0o755)
			if err := os.WriteFile(f, []byte("<http://a> <http://p> <http://o> .\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "lastPublishedFile.txt"), []byte("2026-01-02-03-000001"), 0o644); err != nil {
			t.Fatal(err)
		}
		b, err := caughtUp(t, Definition{Kind: Changesets, URL: dir}, "2026-01-02-03-000001")
		if err != nil || len(b.Events) != 1 {
			t.Fatalf("%v: %+v, %v", parts, b, err)
		}
		// What the rows of a result leave of a query: any subject can be added, and only <http://z> be removed.
		of := func(subject string) []sparql.Pattern {
			return []sparql.Pattern{{Subject: subject, Predicate: "<http://p>"}}
		}
		e := b.Events[0]
		if got := e.ReachNarrowed(of(""), of("<http://z>")); got != Matched {
			t.Errorf("%v: %d, want %d: %+v", parts, got, Matched, e)
		}
		if got := e.ReachNarrowed(of("<http://z>"), of("<http://a>")); got != Matched {
			t.Errorf("%v: it is not removed: %d, %+v", parts, got, e)
		}
	}
}

// Without the file that names the last changeset, one is read when all of its files are there.
func TestHalfOfAChangesetIsNotRead(t *testing.T) {
	dir := t.TempDir()
	put := func(name string) {
		f := filepath.Join(dir, "2026/01/02/03", name+".nt")
		_ = os.MkdirAll(filepath.Dir(f), 0o755)
		if err := os.WriteFile(f, []byte("<http://"+name+"> <http://p> <http://o> .\n"), 0o644); err != nil {
			t.Error(err)
		}
	}
	source, err := feed.Open(Definition{Kind: Changesets, URL: dir, Every: registry.Duration(time.Millisecond)},
		feed.Options{Pause: 150 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patien)
	defer cancel()
	put("000000.added")
	var seen []string
	end, polls := errors.New("end"), 0
	err = source.Follow(ctx, "", func(b Batch) error {
		for _, e := range b.Events {
			seen = append(seen, e.Edit.Text)
			for _, part := range [2]string{"removed", "added"} {
				id := strings.TrimPrefix(e.Edit.Text, "changeset 2026-01-02-03-")
				p := sparql.Pattern{Subject: "<http://" + id + "." + part + ">"}
				if e.Reach([]sparql.Pattern{p}) != Matched {
					t.Errorf("%s is read before its file %s is there", e.Edit.Text, part)
				}
			}
		}
		switch polls++; {
		case len(seen) == 2:
			return end
		case polls == 1: // it begins after what was there
			put("000001.removed")
			time.AfterFunc(60*time.Millisecond, func() { put("000001.added") })
		case len(seen) == 1 && len(b.Events) == 0 && b.Cursor == "2026-01-02-03-000002":
			put("000002.removed")
			put("000002.added")
			time.AfterFunc(60*time.Millisecond, func() { put("000003.added") })
		}
		return nil
	})
	if !errors.Is(err, end) {
		t.Errorf("read %v: %v", seen, err)
	}
}

// Changesets that are removed before they were read, and a publication that begins again, are gaps.
func TestLostChangesets(t *testing.T) {
	for name, c := range map[string]struct {
		cursor, files, last, gap, next string
	}{
		"nothing is missing": {"2026/01/02/03/000001", "03/000002 04/000000", "04/000000", "", "04-000001"},
		"one is left out":    {"2026/01/02/03/000001", "03/000003 04/000001", "04/000001", "", "04-000002"},
		"an hour":            {"2026/01/02/03/000001", "05/000000", "05/000000", "between 2026-01-02-04-", "05-000001"},
		"rest of an hour":    {"2026/01/02/03/000001", "03/000019 03/000020 04/000000", "04/000000", "between 2026-01-02-03-", "04-000001"},
		"in the last hour":   {"2026/01/02/03/000001", "03/000020", "03/000020", "numbers before 2026-01-02-03-000020", "03-000021"},
		"begins again":       {"2026/01/02/03/000009", "03/000002", "03/000002", "ends with 2026-01-02-03-000002", "03-000003"},
		"an hour before":     {"2026/01/02/03/000000", "02/000002", "02/000002", "ends with 2026-01-02-02-000002", "02-000003"},
	} {
		dir := t.TempDir()
		for _, f := range strings.Fields(c.files) {
			f = filepath.Join(dir, "2026/01/02", f+".added.nt")
			_ = os.MkdirAll(filepath.Dir(f), 0o755)
			if err := os.WriteFile(f, []byte("<http://a> <http://p> <http://o> .\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "lastPublishedFile.txt"), []byte("2026-01-02-"+strings.ReplaceAll(c.last, "/", "-")),
			0o644); err != nil {
			t.Fatal(err)
		}
		b, err := caughtUp(t, Definition{Kind: Changesets, URL: dir}, strings.ReplaceAll(c.cursor, "/", "-"))
		if err != nil || b.Cursor != "2026-01-02-"+c.next || !strings.Contains(b.Gap, c.gap) || (c.gap == "") != (b.Gap == "") {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
}
