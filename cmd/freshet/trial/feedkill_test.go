package trial

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/clitest"
)

// A patchedCity is a log of RDF patches and an endpoint that applies it late. Each patch changes the
// value of one thing to its version.
type patchedCity struct {
	mu      sync.Mutex
	things  []int       // of the patches
	applied []time.Time // when the endpoint has them
}

func (c *patchedCity) publish(thing int, lag time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := time.Now().Add(lag)
	if n := len(c.applied); n > 0 && at.Before(c.applied[n-1]) {
		at = c.applied[n-1]
	}
	c.things, c.applied = append(c.things, thing), append(c.applied, at)
}

// value returns the value of a thing before a version.
func (c *patchedCity) value(thing, before int) int {
	for v := before - 1; v > 0; v-- {
		if c.things[v-1] == thing {
			return v
		}
	}
	return 0
}

func (c *patchedCity) patches(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, _ := strconv.Atoi(r.URL.Query().Get("version"))
	if v < 1 || v > len(c.things) {
		http.NotFound(w, r)
		return
	}
	prev := ""
	if v > 1 {
		prev = fmt.Sprintf("H prev <uuid:%d> .\n", v-1)
	}
	fmt.Fprintf(w, "H id <uuid:%d> .\n%sTX .\nA <http://x/%d> <http://x/n> \"%d\" .\nTC .\n", v, prev, c.things[v-1], v)
}

var thingOf = regexp.MustCompile(`<http://x/(\d+)>`)

func (c *patchedCity) answer(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := 1
	for next <= len(c.applied) && !c.applied[next-1].After(time.Now()) {
		next++
	}
	value := next // the position
	if m := thingOf.FindStringSubmatch(r.FormValue("query")); m != nil {
		thing, _ := strconv.Atoi(m[1])
		value = c.value(thing, next)
	}
	w.Header().Set("Content-Type", "application/sparql-results+json")
	fmt.Fprintf(w, `{"head":{"vars":["n"]},"results":{"bindings":[{"n":{"type":"literal","value":"%d",`+
		`"datatype":"http://www.w3.org/2001/XMLSchema#integer"}}]}}`, value)
}

// A server that follows a feed and is killed again and again loses no change, and repeats none. It
// asks only what the feed says.
func TestKillsWithAFeed(t *testing.T) {
	t.Parallel()
	const things, kills, seed = 12, 8, 20261127
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	city := &patchedCity{}
	city.publish(-1, 0)
	log := httptest.NewServer(http.HandlerFunc(city.patches))
	defer log.Close()
	ep := httptest.NewServer(http.HandlerFunc(city.answer))
	defer ep.Close()
	yaml := fmt.Sprintf(`feeds: [{name: log, kind: rdf-patch, url: %q, every: 100ms}]
endpoints: [{name: city, url: %q, slot: "@every 1s", budget: 1s, policy: rr, feed: log, lag: 3s, position: "SELECT ?n { `+
		`<http://x/log> <http://x/next> ?n }"}]
`, log.URL, ep.URL)
	addr, data := clitest.FreeAddr(t), t.TempDir()
	srv := clitest.Serve(t, binary(t), addr, data, yaml)
	var ids []string
	for i := range things {
		text := fmt.Sprintf("SELECT ?n { <http://x/%d> <http://x/n> ?n }", i)
		ids = append(ids, registerText(t, srv.Url, text))
	}
	get := func(path string, to any) bool { return getJSON(srv.Url+path, to) }
	proved := func() int {
		var page struct {
			Slots []struct{ Proved int }
		}
		if !get("/v1/endpoints/city/slots?limit=1", &page) || len(page.Slots) == 0 {
			return 0
		}
		return page.Slots[0].Proved
	}
	clitest.Eventually(t, "most results are proved", func() bool {
		city.publish(-1, 0)
		time.Sleep(100 * time.Millisecond)
		return proved() >= things-2
	})
	for range kills {
		for end := time.Now().Add(time.Duration(500+random.IntN(2500)) * time.Millisecond); time.Now().Before(end); {
			thing := -1
			if random.IntN(4) == 0 {
				thing = random.IntN(things)
			}
			city.publish(thing, time.Duration(random.IntN(1000))*time.Millisecond)
			time.Sleep(time.Duration(20+random.IntN(100)) * time.Millisecond)
		}
		srv.Kill()
		srv = clitest.Serve(t, binary(t), addr, data, yaml)
	}
	values := func(id string) []int { return numbersAdded(t, srv.Url, id) }
	for i, id := range ids {
		clitest.Eventually(t, "the last value of "+id, func() bool {
			list := values(id)
			city.mu.Lock()
			want := city.value(i, len(city.things)+1)
			city.mu.Unlock()
			return len(list) > 0 && list[len(list)-1] == want
		})
		was := -1
		for _, v := range values(id) {
			if v <= was {
				t.Errorf("%s has the values %v", id, values(id))
				break
			}
			was = v
		}
	}
	t.Cleanup(func() {
		if strings.Contains(srv.Stderr.String(), "a proof was wrong") || t.Failed() {
			t.Error(srv.Stderr)
		}
	})
	clitest.Eventually(t, "most results are proved again", func() bool {
		city.publish(-1, 0)
		time.Sleep(100 * time.Millisecond)
		return proved() >= things-2
	})
}

// registerText registers a query at the endpoint city, and returns its id.
func registerText(t *testing.T, server, text string) string {
	t.Helper()
	resp, err := http.Post(server+"/v1/queries?endpoint=city", "application/sparql-query", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var q struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&q); err != nil || q.ID == "" {
		t.Fatal(err, q)
	}
	return q.ID
}

// getJSON reads an answer, and reports whether there was one.
func getJSON(url string, to any) bool {
	resp, err := http.Get(url)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(to) == nil
}

// numbersAdded are the values of ?n that the changes of a query have added, in order.
func numbersAdded(t *testing.T, server, id string) (list []int) {
	t.Helper()
	var page struct {
		Changes []struct {
			Added struct {
				Results struct {
					Bindings []struct{ N struct{ Value string } }
				}
			}
		}
	}
	if !getJSON(server+"/v1/queries/"+id+"/changes?limit=1000", &page) {
		t.Fatal("no changes")
	}
	for _, c := range page.Changes {
		for _, b := range c.Added.Results.Bindings {
			n, _ := strconv.Atoi(b.N.Value)
			list = append(list, n)
		}
	}
	return list
}
