package trial

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// With a feed, queries share requests as without one: each result has all values that were true, in their order, and
// what no event reached is not asked. The endpoint applies an event and tells its position at once, and the feed
// comes later or earlier.
func TestTruthMergedWithAFeed(t *testing.T) {
	clitest.NeedEngine(t)
	t.Parallel()
	const things, seed = 40, 20261128
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	engine := clitest.Start(t, binary(t), "sparql", "--listen", "127.0.0.1:0").Url
	update := func(text string) {
		t.Helper()
		if _, err := ask(t.Context(), http.DefaultClient, engine, url.Values{"update": {text}}, ""); err != nil {
			t.Fatal(err)
		}
	}
	update("INSERT DATA { <http://x/log> <http://x/next> 2 }")
	log := &patchFeed{values: map[string]int{}, reads: map[string]int{}}
	log.publish(-1, 0, 0)
	at := httptest.NewServer(log)
	defer at.Close()
	srv := clitest.Serve(t, binary(t), clitest.FreeAddr(t), t.TempDir(), fmt.Sprintf(`
feeds: [{name: log, kind: rdf-patch, url: %q, every: 100ms}]
endpoints: [{name: city, url: %q, slot: "@every 1s", budget: 500ms, policy: rr, merge: auto, feed: log, lag: 5s,
  position: "SELECT ?n { <http://x/log> <http://x/next> ?n }"}]
`, at.URL, engine))
	get := func(path string, to any) bool { return getJSON(srv.Url+path, to) }
	var ids []string
	for i := range things {
		text := fmt.Sprintf("SELECT ?n { <http://x/%d> <http://x/p0> ?n }", i)
		ids = append(ids, registerText(t, srv.Url, text))
	}
	type slot struct{ Asks, Run, Proved int }
	slots := func() (sum slot) {
		var page struct{ Slots []slot }
		get("/v1/endpoints/city/slots?limit=500", &page)
		for _, s := range page.Slots {
			sum.Asks, sum.Run, sum.Proved = sum.Asks+s.Asks, sum.Run+s.Run, sum.Proved+s.Proved
		}
		return sum
	}
	// The values of a thing are those at which an answer may have seen it, one after the other.
	version, want := 1, make([]int, things)
	change := func(thing int) {
		version++
		data := fmt.Sprintf("DELETE { ?s <http://x/next> ?o } INSERT { ?s <http://x/next> %d } WHERE { ?s <http://x/next> ?o }", version+1)
		if thing >= 0 {
			data = fmt.Sprintf("DELETE WHERE { <http://x/%d> <http://x/p0> ?o }; INSERT DATA { <http://x/%[1]d> <http://x/p0> %d }; ",
				thing, version) + data
			want[thing] = version
		}
		update(data)
		log.publish(thing, 0, version)
	}
	clitest.Eventually(t, "results are proved", func() bool {
		change(-1)
		time.Sleep(100 * time.Millisecond)
		return slots().Proved > 5*things
	})
	for range 40 {
		thing := random.IntN(things)
		if random.IntN(3) == 0 {
			thing = random.IntN(2) // a hot one
		}
		change(thing)
		time.Sleep(time.Duration(random.IntN(250)) * time.Millisecond)
	}
	values := func(id string) []int { return numbersAdded(t, srv.Url, id) }
	for i, id := range ids {
		clitest.Eventually(t, "the last value of "+id, func() bool {
			list := values(id)
			return want[i] == 0 || len(list) > 0 && list[len(list)-1] == want[i]
		})
		was := 0
		for _, v := range values(id) {
			if v <= was {
				t.Errorf("%s has the values %v", id, values(id))
				break
			}
			was = v
		}
	}
	sum := slots()
	t.Logf("%d requests for %d executions, %d were saved", sum.Asks, sum.Run, sum.Proved)
	if sum.Asks >= sum.Run {
		t.Errorf("%d requests for %d executions: they were not merged", sum.Asks, sum.Run)
	}
	if said := srv.Stderr.String(); strings.Contains(said, "a proof was wrong") {
		t.Error(said)
	}
}
