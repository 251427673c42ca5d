package feed_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/freshet/freshet/endpoint/feed"
	"github.com/freshet/freshet/registry"
	. "github.com/freshet/freshet/registry/feed"
	"github.com/freshet/freshet/scheduler/proof"
)

// A cache may answer with what was there before. It is asked not to, and the age that it tells counts, save that of a page
// that never changes.
func TestAnswersOfCachesAreOld(t *testing.T) {
	log := []string{aPatch(1, ""), aPatch(2, "")}
	for _, kind := range []Kind{LDES, RDFPatch, Changesets} {
		s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Cache-Control"); got != "no-cache" {
				t.Errorf("%s: a request with Cache-Control: %q", kind, got)
			}
			w.Header().Set("Age", "100")
			v, _ := strconv.Atoi(r.URL.Query().Get("version"))
			switch {
			case r.URL.Path == "/full":
				w.Header().Set("Content-Type", "text/turtle")
				w.Header().Set("Age", "10000")
				w.Header().Set("Cache-Control", "immutable")
				fmt.Fprint(w, "<http://x/c> <https://w3id.org/tree#member> <http://x/n> . <http://x/n> <http://x/of> <http://x/f> .")
			case kind == LDES:
				w.Header().Set("Content-Type", "text/turtle")
				fmt.Fprintf(w, aStream+"<%s> tree:relation [ tree:node <%s> ] .", 0, 0, "http://"+r.Host+"/a", "http://"+r.Host+"/full")
			case kind == RDFPatch && 0 < v && v <= len(log):
				w.Header().Set("Age", "10000")
				fmt.Fprint(w, log[v-1])
			case r.URL.Path == "/a/lastPublishedFile.txt":
				fmt.Fprint(w, "2026-01-02-03-000000")
			default:
				http.NotFound(w, r)
			}
		})
		var f proof.Feed
		d := Definition{Kind: kind, URL: s.URL + "/a", Every: registry.Duration(10 * time.Millisecond)}
		takeAll(t, d, &f, 2)
		if age := time.Since(f.Complete()); age < 99*time.Second || age > 110*time.Second {
			t.Errorf("%s: it is complete until %v ago", kind, age)
		}
	}
}

// A cache may have kept where an address leads, and another page is there now.
func TestRedirectsOfCachesAreOld(t *testing.T) {
	s := serve(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/s":
			w.Header().Set("Age", "100")
			http.Redirect(w, r, "/between", http.StatusFound)
		case "/between":
			http.Redirect(w, r, "/page", http.StatusFound)
		default:
			w.Header().Set("Age", "3")
			w.Header().Set("Content-Type", "text/turtle")
			fmt.Fprintf(w, aStream, 0, 0)
		}
	})
	var f proof.Feed
	takeAll(t, Definition{Kind: LDES, URL: s.URL + "/s", Every: registry.Duration(10 * time.Millisecond)}, &f, 2)
	if age := time.Since(f.Complete()); age < 99*time.Second || age > 110*time.Second {
		t.Errorf("it is complete until %v ago", age)
	}
}

// Events without a time of their own, and the end of what was read, have the time of the clock that a source is given.
func TestTimesAreOfTheGivenClock(t *testing.T) {
	const ahead = 90 * time.Minute
	dir := t.TempDir()
	for name, text := range map[string]string{
		"lastPublishedFile.txt": "2026-01-02-03-000000", "2026/01/02/03/000000.added.nt": "<http://a> <http://p> 'x' .\n",
	} {
		name = filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	log := []string{aPatch(1, ""), aPatch(2, "")}
	stream := serve(t, func(n int, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/turtle")
		fmt.Fprintf(w, aStream, n, n)
	})
	for _, c := range []struct {
		kind        Kind
		url, cursor string
	}{
		{LDES, stream.URL, ""}, {RDFPatch, patches(t, &log).URL, `{"version": 1, "id": "<uuid:1>"}`}, {Changesets, dir, "2026-01-02-03-000000"},
	} {
		d := Definition{Kind: c.kind, URL: c.url, Every: registry.Duration(10 * time.Millisecond)}
		source, err := feed.Open(d, feed.Options{Now: func() time.Time { return time.Now().Add(ahead) }})
		if err != nil {
			t.Fatal(err)
		}
		end, events, heads := errors.New("end"), 0, 0
		check := func(p Place) {
			if off := time.Until(p.Time) - ahead; off.Abs() > time.Minute {
				t.Errorf("%s: a time is off by %v", c.kind, off)
			}
		}
		err = source.Follow(t.Context(), c.cursor, func(b Batch) error {
			for i := range b.Events {
				events++
				check(b.Events[i].Place)
			}
			if !b.Head.Time.IsZero() {
				heads++
				check(b.Head)
			}
			if events > 0 && heads > 1 {
				return end
			}
			return nil
		})
		if !errors.Is(err, end) {
			t.Errorf("%s: %v", c.kind, err)
		}
	}
}
