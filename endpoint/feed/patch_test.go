package feed_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/endpoint/feed"
	. "github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/registry/sparql"
)

// patches serves a log. Empty texts are versions that do not exist.
func patches(t *testing.T, log *[]string) *server {
	return serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		v, _ := strconv.Atoi(r.URL.Query().Get("version"))
		if v < 1 || v > len(*log) || (*log)[v-1] == "" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, (*log)[v-1])
	})
}

func aPatch(n int, rows string) string {
	prev := ""
	if n > 1 {
		prev = fmt.Sprintf("H prev <uuid:%d> .\n", n-1)
	}
	return fmt.Sprintf("H id <uuid:%d> .\n%sTX .\n%sTC .\n", n, prev, rows)
}

// caughtUp follows a feed that is asked until there is nothing new.
func caughtUp(t *testing.T, d Definition, cursor string) (Batch, error) {
	t.Helper()
	source, err := feed.Open(d, feed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patien)
	defer cancel()
	end, sum := errors.New("end"), Batch{Cursor: cursor}
	err = source.Follow(ctx, cursor, func(b Batch) error {
		sum.Events, sum.Cursor, sum.Head = append(sum.Events, b.Events...), b.Cursor, b.Head
		if b.Gap != "" {
			sum.Gap = b.Gap
		}
		if len(b.Events) == 0 && (b.Gap == "" || d.Kind != LDES) {
			return end
		}
		return nil
	})
	if errors.Is(err, end) {
		err = nil
	}
	return sum, err
}

func TestPatchLog(t *testing.T) {
	log := []string{aPatch(1, "A <http://s> <http://p> 'no' .\n")}
	for n := 2; n <= 9; n++ {
		log = append(log, aPatch(n, ""))
	}
	d := Definition{Kind: RDFPatch, URL: patches(t, &log).URL}
	log[0] = aPatch(1, "PA \"ex\" <http://example.org/> .\nA ex:s <http://p> \"x\"@en <http://g> .\nD _:b <http://p> <_:c> "+
		".\nTC .\nTX .\nA <http://gone> <http://p> <http://o> .\nTA .\nTX .\n")
	before := time.Now()
	b, err := caughtUp(t, d, "") // begins after the newest
	if err != nil || len(b.Events) > 0 || b.Head.Offset != 9 || b.Head.Time.Before(before.Add(-time.Second)) {
		t.Fatalf("%+v, %v", b, err)
	}
	d.Since = begin
	all, err := caughtUp(t, d, "")
	if err != nil || len(all.Events) != 9 || all.Gap != "" || all.Cursor != b.Cursor {
		t.Fatalf("%+v, %v", all, err)
	}
	e := all.Events[0]
	if len(e.Added) != 1 || e.Added[0] != (sparql.Pattern{Subject: "<http://example.org/s>", Predicate: "<http://p>", Object: `"x`,
		Graph: "<http://g>"}) ||
		len(e.Removed) != 1 || e.Removed[0] != (sparql.Pattern{Subject: "_", Predicate: "<http://p>", Object: "_"}) ||
		e.Edit.Text != "patch uuid:1" || e.Offset != 1 {
		t.Errorf("%+v", e)
	}
	// numbers are left out
	log = append(log, "", "", strings.Replace(aPatch(12, "A <http://s> <http://p> <http://o> .\n"), "uuid:11", "uuid:9", 1))
	if b, err = caughtUp(t, d, all.Cursor); err != nil || len(b.Events) != 1 || b.Events[0].Offset != 12 || b.Gap != "" {
		t.Errorf("%+v, %v", b, err)
	}
	log = append(log, aPatch(99, ""))
	if b, err = caughtUp(t, d, b.Cursor); err != nil || len(b.Events) != 1 || !strings.Contains(b.Gap, "<uuid:98>, and not <uuid:12>") {
		t.Errorf("a broken chain: %+v, %v", b, err)
	}
}

// A term is what the publisher means by it, however it is written.
func TestTermsOfPatches(t *testing.T) {
	log := []string{aPatch(1, "PA x: <http://x/\\u00e9/> .\n"+
		"A <http://s> <http://p> \"_:o\" .\nD <http://s> <http://p> <_:o> .\n"+
		"A x:s\t<http://p>\t<http://o>\t<http://g> .\nA x:a\\,b%2C x:p\"o\" .\n")}
	b, err := caughtUp(t, Definition{Kind: RDFPatch, URL: patches(t, &log).URL, Since: begin}, "")
	if err != nil || len(b.Events) != 1 {
		t.Fatalf("%+v, %v", b, err)
	}
	want := [2][]sparql.Pattern{{{Subject: "<http://s>", Predicate: "<http://p>", Object: `"_:o`},
		{Subject: "<http://x/é/s>", Predicate: "<http://p>", Object: "<http://o>", Graph: "<http://g>"},
		{Subject: "<http://x/é/a,b%2C>", Predicate: "<http://x/é/p>", Object: `"o`}},
		{{Subject: "<http://s>", Predicate: "<http://p>", Object: "_"}}}
	if d := cmp.Diff(want, [2][]sparql.Pattern{b.Events[0].Added, b.Events[0].Removed}); d != "" {
		t.Error(d)
	}
}

// A log that is not there, has lost patches or is another one is no log without news.
func TestLostPatches(t *testing.T) {
	many := func(from, to int) (list []string) {
		for n := 1; n <= to; n++ {
			if list = append(list, ""); n >= from {
				list[n-1] = aPatch(n, "")
			}
		}
		return list
	}
	var log []string
	d := Definition{Kind: RDFPatch, URL: patches(t, &log).URL}
	if b, err := caughtUp(t, d, ""); err == nil || !strings.Contains(err.Error(), "set url") {
		t.Errorf("no log: %+v, %v", b, err)
	}
	log = many(1, 10)
	read, err := caughtUp(t, d, "")
	if err != nil || read.Head.Offset != 10 {
		t.Fatalf("%+v, %v", read, err)
	}
	other := append(many(1, 9), strings.ReplaceAll(aPatch(10, ""), "uuid:10", "uuid:other"))
	for name, c := range map[string]struct {
		log  []string
		head int64
	}{"purged": {many(30, 60), 60}, "shorter": {many(1, 7), 7}, "another": {other, 10}} {
		log = c.log
		if b, err := caughtUp(t, d, read.Cursor); err != nil || b.Head.Offset != c.head || !strings.Contains(b.Gap, "which was read last") {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
	// more than is read
	log = append(many(1, 9), "# a comment\n\n"+aPatch(10, strings.Repeat("A <http://s> <http://p> <http://o> .\n", 300_000)))
	if b, err := caughtUp(t, d, read.Cursor); err != nil || b.Gap != "" || b.Head.Offset != 10 {
		t.Errorf("a large one: %+v, %v", b, err)
	}
	log = append(many(1, 10), many(18, 30)[10:]...)
	if b, err := caughtUp(t, d, read.Cursor); err != nil || b.Head.Offset != 30 || !strings.Contains(b.Gap, "versions after 10 are missing") {
		t.Errorf("lost in the middle: %+v, %v", b, err)
	}
	log = many(11, 12) // the last one is gone, but not the next one
	if b, err := caughtUp(t, d, read.Cursor); err != nil || b.Gap != "" || len(b.Events) != 2 {
		t.Errorf("%+v, %v", b, err)
	}
	log = nil
	if b, err := caughtUp(t, d, read.Cursor); err == nil || !strings.Contains(err.Error(), "check url") {
		t.Errorf("gone: %+v, %v", b, err)
	}
	log, d.Since = many(30, 60), begin
	if b, err := caughtUp(t, d, ""); err != nil || b.Head.Offset != 60 || !strings.Contains(b.Gap, "no first versions") ||
		!strings.Contains(b.Gap, "leave since out") {
		t.Errorf("without its first versions: %+v, %v", b, err)
	}
	log = many(3, 6)
	if b, err := caughtUp(t, d, ""); err != nil || len(b.Events) != 4 || !strings.Contains(b.Gap, "begins with version 3") ||
		!strings.Contains(b.Gap, "leave since out") {
		t.Errorf("without its first two versions: %+v, %v", b, err)
	}
}

// A patch that is too long to be read may have changed anything, and the log goes on.
func TestLongPatch(t *testing.T) {
	long := aPatch(2, strings.Repeat("A <http://s> <http://p> <http://o> .\n", 300_000))
	log := []string{aPatch(1, ""), long, aPatch(3, "")}
	d := Definition{Kind: RDFPatch, URL: patches(t, &log).URL, Since: begin}
	b, err := caughtUp(t, d, "")
	if err != nil || len(b.Events) != 3 || !b.Events[1].All || b.Events[2].All || b.Gap != "" {
		t.Errorf("%d events, gap %q, %v", len(b.Events), b.Gap, err)
	}
	log[1] = "TX .\n" + long
	if b, err = caughtUp(t, d, ""); err == nil || !strings.Contains(err.Error(), "the patch of version 2") {
		t.Errorf("%d events, %v", len(b.Events), err)
	}
}

// Nothing after a bad patch counts, and nothing of it.
func TestBadPatches(t *testing.T) {
	good := "A <http://s> <http://p> <http://o> .\n"
	for name, c := range map[string]struct{ text, want string }{
		"no triple":      {aPatch(2, good+"A <http://s> <http://p> .\n"), "line 5: no triple"},
		"no end":         {strings.Replace(aPatch(2, good), "TC .\n", "", 1), "line 4: it ends before the row TC"},
		"cut off":        {aPatch(2, good)[:60], "line 4"},
		"another row":    {aPatch(2, "X <http://s> .\n"), "line 4"},
		"nested":         {aPatch(2, "TX .\n"), "line 4"},
		"second id":      {"H id <uuid:1> .\n" + aPatch(2, good), "line 2"},
		"HTML":           {"<html>", "line 1"},
		"literal":        {aPatch(2, `A "s" <http://p> <http://o> .`+"\n"), "line 4"},
		"no end of line": {aPatch(2, "A <http://s> <http://p> <http://o>\n"), "line 4"},
		"five terms":     {aPatch(2, "A <http://s> <http://p> <http://o> <http://g> <http://h> .\n"), "line 4"},
	} {
		log := []string{aPatch(1, good), c.text, aPatch(3, good)}
		b, err := caughtUp(t, Definition{Kind: RDFPatch, URL: patches(t, &log).URL, Since: begin}, "")
		if err == nil || !strings.Contains(err.Error(), "the patch of version 2") || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "until the publisher mends it") ||
			len(b.Events) != 1 {
			t.Errorf("%s: %d events, %v", name, len(b.Events), err)
		}
	}
}

func TestRealPatches(t *testing.T) {
	one := func(name string) string { return string(testData(t, "rdf-patch/"+name)) }
	log := []string{one("patch1.rdfp"), one("patch2.rdfp"), one("patch3.rdfp"), one("patch-empty.rdfp")}
	s := patches(t, &log)
	b, err := caughtUp(t, Definition{Kind: RDFPatch, URL: s.URL, Since: begin}, "")
	if err != nil || len(b.Events) != 4 || len(b.Events[1].Added) != 1 || b.Events[1].Added[0].Graph != "<http://example/g>" ||
		len(b.Events[3].Added) != 0 || !strings.Contains(b.Gap, "version 4") {
		t.Errorf("%+v, %v", b, err)
	}
	for _, bad := range []string{"patch_bad_1.rdfp", "patch_bad_2.rdfp", "patch_bad_3.rdfp"} {
		log = []string{one("patch1.rdfp"), one(bad), one("patch2.rdfp")}
		if b, err := caughtUp(t, Definition{Kind: RDFPatch, URL: s.URL + "/x?version={version}", Since: begin}, ""); err == nil ||
			len(b.Events) != 1 || !strings.Contains(err.Error(), "line 4") && !strings.Contains(err.Error(), "line 5") &&
			!strings.Contains(err.Error(), "line 6") {
			t.Errorf("%s: %+v, %v", bad, b, err)
		}
	}
}
