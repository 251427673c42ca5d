package trial

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/cmd/internal/cli"
)

// A sseLine is the report of the npm eventsource driver on one event.
type sseLine struct {
	Kind, ID string
	Data     struct {
		Query, Epoch      string
		Prev, Seq, Offset int
		Filtered          bool
		Hash              string
		Added, Removed    struct{ Results struct{ Bindings []any } }
		Results           struct{ Results struct{ Bindings []any } }
	}
}

// follow starts npm eventsource on a path and returns its events after the opening one.
func follow(t *testing.T, url string) chan sseLine {
	t.Helper()
	cmd := exec.Command("node", "events.js", url)
	cmd.Dir, cmd.Stderr = testClients, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended already
		_ = cmd.Wait()         // killed
	})
	lines := make(chan sseLine, 10_000)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(out)
		for in.Buffer(nil, 1<<20); in.Scan(); {
			var l sseLine
			if json.Unmarshal(in.Bytes(), &l) == nil {
				lines <- l
			}
		}
	}()
	if l := sseEvent(t, lines); l.Kind != "open" {
		t.Fatalf("the stream begins with %+v", l)
	}
	return lines
}

func sseEvent(t *testing.T, lines chan sseLine) sseLine {
	t.Helper()
	select {
	case l, ok := <-lines:
		if !ok {
			t.Fatal("the client ended")
		}
		return l
	case <-time.After(time.Minute):
		t.Fatal("no event within a minute")
		return sseLine{}
	}
}

// npm eventsource follows all queries and one tag over a crash. It gets every change once, in the
// order of offsets, and for the tag only those of its queries.
func TestEventSourceForAll(t *testing.T) {
	needTestClients(t)
	t.Parallel()
	s := newTestServer(t, "")
	ids := map[string]string{}
	for name, text := range map[string]string{"n": "SELECT ?s ?n { ?s <http://x/n> ?n }", "k": "SELECT ?s ?k { ?s <http://x/k> ?k }"} {
		ids[name] = strings.TrimSpace(s.must(t, text, "query", "add", "--name", name, "--tag", "tag-"+name, "-"))
	}
	streams := map[string]chan sseLine{"": follow(t, s.srv.Url+"/v1/changes"), "k": follow(t, s.srv.Url+"/v1/changes?tag=tag-k"),
		"n": follow(t, s.srv.Url+"/v1/changes?tag=tag-n&endpoint=city")}
	const seed = 42
	random := rand.New(rand.NewPCG(seed, seed))
	for i := range 12 {
		s.Update(t, fmt.Sprintf(`INSERT DATA { <http://x/e%d> <http://x/n> %d }`, i, i))
		s.Update(t, randomUpdate(random))
		s.must(t, "", "endpoint", "tick", "city")
		if i == 6 {
			s.crash()
		}
	}
	last := map[string]int{} // seq of each query
	for name := range ids {
		var q struct{ Seq int }
		if err := json.Unmarshal([]byte(s.must(t, "", "query", "show", name, "--json")), &q); err != nil {
			t.Fatal(err)
		}
		last[ids[name]] = q.Seq
	}
	for name, lines := range streams {
		want := map[string]int{}
		for n, id := range ids {
			if name == "" || n == name {
				want[id] = last[id]
			}
		}
		seen, offset := map[string]int{}, 0
		for !cmp.Equal(seen, want) {
			l := sseEvent(t, lines)
			if l.Kind == "open" {
				continue
			}
			if d := l.Data; l.Kind != "change" || d.Offset <= offset || d.Seq != seen[d.Query]+1 || want[d.Query] == 0 ||
				!strings.HasSuffix(l.ID, fmt.Sprint(":", d.Offset)) {
				t.Fatalf("seed %d, stream %q: %+v after offset %d and %v", seed, name, l, offset, seen)
			}
			seen[l.Data.Query], offset = l.Data.Seq, l.Data.Offset
		}
	}
}

// The event stream of one query takes filter and rate from its URL.
func TestEventSourceFiltered(t *testing.T) {
	needTestClients(t)
	t.Parallel()
	s := newTestServer(t, "")
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "-")
	s.must(t, "", "endpoint", "tick", "city")
	at := s.srv.Url + "/v1/queries/rows/changes"
	picky := follow(t, at+"?min_rows=3")
	some := follow(t, at+"?vars=s&where="+url.QueryEscape("s:contains:/2"))
	slow := follow(t, at+"?rate=1s")
	for name, lines := range map[string]chan sseLine{"picky": picky, "some": some, "slow": slow} {
		if l := sseEvent(t, lines); l.Kind != "snapshot" || l.Data.Filtered != (name != "slow") || (l.Data.Hash == "") != l.Data.Filtered {
			t.Errorf("%s begins with %+v", name, l)
		}
	}
	began := time.Now()
	for n := 1; n <= 3; n++ {
		s.step(n)
	}
	most := 2 + int(time.Since(began)/time.Second) // one at once, then one per second
	if l := sseEvent(t, picky); l.Kind != "change" || l.Data.Prev != 1 || l.Data.Seq != 4 ||
		len(l.Data.Added.Results.Bindings) != 3 || !l.Data.Filtered {
		t.Errorf("picky: %+v", l)
	}
	if l := sseEvent(t, some); l.Kind != "change" || l.Data.Prev != 1 || l.Data.Seq != 3 || len(l.Data.Added.Results.Bindings) != 1 {
		t.Errorf("some: %+v", l)
	}
	seq, messages := 1, 0
	for ; seq < 4; messages++ {
		l := sseEvent(t, slow)
		if l.Kind != "change" || l.Data.Prev != seq {
			t.Fatalf("slow: %+v after %d", l, seq)
		}
		seq = l.Data.Seq
	}
	if messages > most {
		t.Errorf("three changes came as %d messages, want at most %d at one a second", messages, most)
	}
	resp, err := http.Get(at + "?where=nonsense")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a filter that cannot be read: %s", resp.Status)
	}
}

var regexpSelf = regexp.MustCompile(`<link rel="self" href="([^"]*)"/>`)

// A feed reader finds the changes with their positions, and transfers nothing if there is nothing
// new.
func TestFeedReader(t *testing.T) {
	needTestClients(t)
	s := newTestServer(t, "")
	id := strings.TrimSpace(s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "rows", "--tag", "t&t", "-"))
	s.must(t, "ASK { ?s <http://x/k> ?n }", "query", "add", "--name", "other", "-")
	s.must(t, "", "endpoint", "tick", "city")
	for n := 1; n <= 3; n++ {
		s.step(n)
	}
	for _, path := range []string{"/v1/queries/rows/changes.atom", "/v1/changes.atom?tag=" + url.QueryEscape("t&t")} {
		cmd := exec.Command("node", "feed.js", s.srv.Url+path)
		cmd.Dir, cmd.Stderr = testClients, os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		var feed struct {
			URL   string
			Items []struct {
				ID, Title, Link, Date, Content string
				Change                         struct {
					Query, Epoch string
					Seq          int
				}
			}
		}
		if err := json.Unmarshal(out, &feed); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if len(feed.Items) != 4 {
			t.Fatalf("%s: %d items, want 4\n%s", path, len(feed.Items), out)
		}
		for i, it := range feed.Items {
			want := fmt.Sprintf("tag:127.0.0.1,2026:freshet/%s/%s:%d", id, it.Change.Epoch, 4-i)
			if it.ID != want || it.Change.Seq != 4-i || it.Change.Query != id || it.Date == "" || !strings.ContainsAny(it.Title, "+:") ||
				!strings.HasPrefix(it.Content, "<") {
				t.Errorf("%s: item %d is %+v, want the id %s", path, i, it, want)
			}
		}
		resp, err := http.Get(s.srv.Url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		self := regexpSelf.FindStringSubmatch(string(body))
		if self == nil || !strings.Contains(strings.Join(resp.Header.Values("Link"), ","), "<"+strings.ReplaceAll(self[1], "&amp;",
			"&")+`>; rel="self"`) {
			t.Errorf("self of the document %q and of the header %q differ", self, resp.Header.Values("Link"))
		}
		req, _ := http.NewRequest("GET", s.srv.Url+path, nil)
		req.Header.Set("If-None-Match", resp.Header.Get("ETag"))
		again, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		again.Body.Close()
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s again: %s", path, again.Status)
		}
	}
}

// Hints are sent manually and by following a publication of changesets, as a directory and over
// HTTP, with a file that is truncated.
func TestHintCommand(t *testing.T) {
	s := newTestServer(t, "")
	s.must(t, "SELECT ?s ?n { ?s <http://x/n> ?n }", "query", "add", "--name", "n", "-")
	s.must(t, "SELECT ?s ?k { ?s <http://x/k> ?k }", "query", "add", "--name", "k", "-")
	s.must(t, "", "endpoint", "tick", "city")
	s.must(t, "", "endpoint", "tick", "city")
	if out := s.must(t, "", "hint", "city", "--touched", "http://x/k"); out != "1 of 2 queries may be affected\n" {
		t.Errorf("hint prints %q", out)
	}
	if out := s.must(t, "", "hint", "city"); out != "2 of 2 queries may be affected\n" {
		t.Errorf("hint about everything prints %q", out)
	}
	if out := s.must(t, "", "hint", "city", "--touched", "http://x/k", "--json"); !strings.Contains(out, `"affected":1`) {
		t.Errorf("hint prints %q", out)
	}
	s.must(t, "", "endpoint", "tick", "city")
	var x struct {
		LastRun struct{ Why string } `json:"last_run"`
	}
	resp, err := http.Get(s.srv.Url + "/v1/queries/k/explain")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&x); err != nil || x.LastRun.Why != "hinted" {
		t.Errorf("after the hint the query ran as %q (%v)", x.LastRun.Why, err)
	}
	if code, _, stderr := runCLI(t, s.Env, "", "hint", "nowhere"); code != cli.ExitNotFound {
		t.Errorf("hint to nowhere: exit code %d\n%s", code, stderr)
	}
	if code, _, _ := runCLI(t, s.Env, "", "hint", "city", "--changesets", "/nowhere"); code != cli.ExitUsage {
		t.Errorf("changesets nowhere: exit code %d", code)
	}

	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("2026/01/01/22/000000.added.nt", "# started\n<http://x/1> <http://x/k> \"1\" .\n# completed\n")
	write("2026/01/01/22/000001.removed.nt", "<http://x/1> <http://x/n> \"1\" .\n")
	write("2026/01/02/00/000000.clear.nt", "<http://x/1> <http://x/else> \"1\" .\n")
	want := "2026-01-01-22-000000: 1 triples changed, 1 of 2 queries may be affected\n" +
		"2026-01-01-22-000001: 1 triples changed, 1 of 2 queries may be affected\n" +
		"2026-01-02-00-000000: 1 triples changed, 0 of 2 queries may be affected\n"
	args := []string{"hint", "city", "--from", "2026-01-01-22-000000", "--once", "--changesets"}
	if out := s.must(t, "", append(args, dir)...); out != want {
		t.Errorf("a directory:\n%s, want\n%s", out, want)
	}
	write("lastPublishedFile.txt", "2026-01-01-22-000001")
	site := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer site.Close()
	if out := s.must(t, "", append(args, site.URL)...); out != strings.Join(strings.SplitAfter(want, "\n")[:2], "") {
		t.Errorf("over HTTP, as far as published:\n%s", out)
	}
	if data := os.Getenv("FRESHET_TEST_DATA"); data == "" {
		t.Log("FRESHET_TEST_DATA is not set: no genuine changeset")
	} else if out := s.must(t, "", "hint", "city", "--json", "--from", "2015-11-16-16-000011", "--once", "--changesets",
		filepath.Join(data, "dbpedia-live-sample", "changesets")); !strings.Contains(out, `"skipped":1,`) || !strings.Contains(out,
		`"changeset":"2015-11-16-16-000011"`) {
		t.Errorf("a genuine changeset, cut off: %s", out)
	}
}
