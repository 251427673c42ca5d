package feed_test

import (
	"fmt"
	"net/http"
	"strconv"
	"testing"
	"time"

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
