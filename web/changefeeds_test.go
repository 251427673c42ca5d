package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/feed"
)

// A feedMemory is ChangeFeeds.
type feedMemory struct {
	list   []feed.Status
	took   []feed.Event
	proof  *feed.Proof
	broken error
	asked  func() // when a proof is asked for
}

func (m *feedMemory) Feeds() ([]feed.Status, error) { return m.list, m.broken }

func (m *feedMemory) Deltas(_ string, events []feed.Event) error {
	m.took = append(m.took, events...)
	return nil
}

func (m *feedMemory) Proofs() func(*registry.Query) (*feed.Proof, error) {
	return func(*registry.Query) (*feed.Proof, error) {
		if m.asked != nil {
			m.asked()
		}
		return m.proof, m.broken
	}
}

func feedWorld(t *testing.T) (*world, *feedMemory) {
	m := &feedMemory{list: []feed.Status{
		{Definition: feed.Definition{Name: "store", Kind: feed.Deltas}, State: feed.Live, Endpoints: []string{"city"}},
		{Definition: feed.Definition{Name: "wikidata", Kind: feed.Wikimedia, URL: "https://stream.example.org/"}, State: feed.Gap,
			Error: "retention", Events: 7,
			Position: feed.Place{Topic: "main", Offset: 12, Time: morning}, Heard: morning, LagSeconds: new(1.5)},
	}}
	return newWorld(t, func(c *Config) { c.ChangeFeeds = m }), m
}

func TestFeedResources(t *testing.T) {
	w, m := feedWorld(t)
	a := w.get("/v1/feeds").status(200)
	if list := a.json()["feeds"].([]any); len(list) != 2 {
		t.Errorf("%s", a.body)
	}
	if a = w.get("/v1/feeds/wikidata").status(200); a.string("state") != feed.Gap || a.string("error") != "retention" ||
		a.json()["events"] != 7.0 {
		t.Errorf("%s", a.body)
	}
	m.list[0].Wrong = []feed.Wrong{{Endpoint: "city", Query: "q", At: morning, Was: "a", Now: "b", Until: morning}}
	if a = w.get("/v1/feeds/store").status(200); !strings.Contains(string(a.body), `"was":"a","now":"b"`) {
		t.Errorf("%s", a.body)
	}
	if a = w.get("/metrics").status(200); !strings.Contains(string(a.body), `freshet_feed_lag_seconds{feed="wikidata"} 1.5`) ||
		strings.Contains(string(a.body), `freshet_feed_lag_seconds{feed="store"}`) {
		t.Errorf("%s", a.body)
	}
	if a = w.get("/metrics").status(200); !strings.Contains(string(a.body), `freshet_feed_proof_was_wrong{endpoint="city",feed="store"} 1`) {
		t.Errorf("%s", a.body)
	}
	if a = w.get("/v1/feeds/other").problem(404, "not-found"); !strings.Contains(string(a.body), "the feeds are: store, wikidata") {
		t.Errorf("%s", a.body)
	}
	const message = `[{"inserts":[{"subject":{"type":"uri","value":"http://x/s"},"predicate":{"type":"uri","va` +
		`lue":"http://x/p"},"object":{"type":"literal","value":"v"}}],"deletes":[]}]`
	if a = w.post("/v1/feeds/store", message, "Content-Type: application/json").status(202); a.json()["events"] != 1.0 ||
		len(m.took) != 1 || len(m.took[0].Added) != 1 {
		t.Errorf("%s %v", a.body, m.took)
	}
	w.post("/v1/feeds/store", `{"inserts":[]}`, "Content-Type: application/json").problem(400, "malformed")
	if a = w.post("/v1/feeds/wikidata", message, "Content-Type: application/json").problem(422,
		"bad-setting"); !strings.Contains(string(a.body), "read from https://stream.example.org/") {
		t.Errorf("%s", a.body)
	}
	w.post("/v1/feeds/none", message, "Content-Type: application/json").problem(404, "not-found")
	w.post("/v1/feeds/store", message, "Content-Type: text/turtle").status(415)
	w.post("/v1/feeds/store", "["+strings.Repeat(" ", 2<<20)+"]", "Content-Type: application/json").status(413)
	if len(m.took) != 1 {
		t.Errorf("%d events were taken", len(m.took))
	}
}

// Only admins see the secrets of an address.
func TestFeedSecrets(t *testing.T) {
	m := &feedMemory{list: []feed.Status{{Definition: feed.Definition{Name: "wikidata", Kind: feed.Wikimedia,
		URL: "https://stream.example.org/?token=hush", Headers: map[string]string{"X-Key": "headerhush"}}, State: feed.Live}}}
	w, secrets := lockedWorld(t, func(c *Config) { c.ChangeFeeds = m })
	for role, secret := range secrets {
		w.token = secret
		for _, at := range []string{"/v1/feeds", "/v1/feeds/wikidata"} {
			if a := w.get(at).status(200); strings.Contains(string(a.body), "token=hush") != (role == registry.RoleAdmin) {
				t.Errorf("%s: %s", role, a.body)
			} else if strings.Contains(string(a.body), "headerhush") || !strings.Contains(string(a.body), "(set)") {
				t.Errorf("%s: %s", role, a.body)
			}
		}
	}
	w.token = secrets[registry.RoleAdmin]
	if a := w.post("/v1/feeds/wikidata", "[]", "Content-Type: application/json").problem(422,
		"bad-setting"); strings.Contains(string(a.body), "hush") {
		t.Errorf("%s", a.body)
	}
}

// A query says until when it is proved, or why it is not.
func TestProved(t *testing.T) {
	w, m := feedWorld(t)
	id := w.register(selectText)
	w.grow(id, 1)
	at := "/v1/queries/" + id
	if a := w.get(at); a.json()["proved"] != nil || a.json()["unprovable"] != nil {
		t.Errorf("without a feed: %s", a.body)
	}
	m.proof = &feed.Proof{Feed: "wikidata", Until: morning, Position: feed.Place{Offset: 12, Time: morning},
		Edits: []feed.Edit{{Text: "revision 2145 of Q42", Link: "https://x.example/"}}}
	a := w.get(at).status(200)
	p, _ := a.json()["proved"].(map[string]any)
	if p["feed"] != "wikidata" || p["until"] != morning.Format(time.RFC3339Nano) || a.json()["unprovable"] != nil {
		t.Errorf("%s", a.body)
	}
	if a := w.get(at + "/results"); a.Header.Get("Freshet-Proved-Until") != morning.Format(time.RFC3339Nano) {
		t.Errorf("%v", a.Header)
	}
	if a := w.get(at + "/explain").status(200).json(); a["proved"].(map[string]any)["until"] != morning.Format(time.RFC3339Nano) {
		t.Errorf("%v", a)
	}
	m.asked = func() { w.grow(id, 2) } // so the proof is of another result
	if a = w.get(at).status(200); a.json()["proved"] != nil || a.string("unprovable") == "" {
		t.Errorf("%s", a.body)
	}
	m.asked = nil
	tag := w.get(at + "/results").Header.Get("ETag")
	m.asked = func() { w.grow(id, 3) }
	if a := w.get(at+"/results", "If-None-Match: "+tag).status(304); a.Header.Get("Freshet-Proved-Until") != "" {
		t.Errorf("the proof of another result: %v", a.Header)
	}
	m.asked = nil
	m.proof = &feed.Proof{Feed: "wikidata", Unprovable: "events are missing"}
	if a := w.get(at + "/explain").status(200); a.string("unprovable") != "events are missing" {
		t.Errorf("%s", a.body)
	}
	if a = w.get(at).status(200); a.json()["proved"] != nil || a.string("unprovable") != "events are missing" {
		t.Errorf("%s", a.body)
	}
	if a := w.get(at + "/results"); a.Header.Get("Freshet-Proved-Until") != "" {
		t.Errorf("%v", a.Header)
	}
	m.broken = errors.New("broken")
	w.get(at).status(500)
}

// A client that has a page of a stream by its time gets it again once it has grown, and the root again
// once its endpoint is asked at other times.
func TestStreamGrows(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	at := "/v1/queries/" + id + "/ldes"
	rows := func(n int) {
		var list [][2]diff.Term
		for i := range n {
			list = append(list, [2]diff.Term{iri(fmt.Sprint(i)), lit("x")})
		}
		w.m.publish(id, table(t, list...))
	}
	rows(1)
	since := "If-Modified-Since: " + w.m.now.Format(http.TimeFormat)
	page := at + "?page=Zq81%3A0"
	w.get(page, since).status(304)
	w.m.now = w.m.now.Add(time.Minute)
	rows(2)
	w.get(page, since).status(200)
	root := w.get(at).status(200)
	w.do("PATCH", "/v1/endpoints/city", `{"slot":"@every 7m"}`, "Content-Type: application/json").status(200)
	if a := w.get(at, "If-None-Match: "+root.Header.Get("ETag")).status(200); !strings.Contains(string(a.body), "pollingInterval 420") {
		t.Errorf("%s", a.body)
	}
}

// Full pages of a stream are immutable, the last one is not, and what retention dropped is 410.
func TestStreamPages(t *testing.T) {
	w := newWorld(t)
	id := w.register(selectText)
	at := "/v1/queries/" + id + "/ldes"
	w.get(at).problem(404, "no-result")
	w.grow(id, 250)
	root := string(w.get(at).status(200).body)
	for page, caching := range map[string]string{"0": "immutable", "100": "immutable", "200": "no-cache"} {
		address := at + "?page=Zq81%3A" + page
		if !strings.Contains(root, address) {
			t.Errorf("the root does not lead to %s", address)
		}
		a := w.get(address).status(200)
		if !strings.Contains(a.Header.Get("Cache-Control"), caching) || strings.Contains(string(a.body),
			"ldes:immutable true") != (caching == "immutable") || strings.Contains(string(a.body), "pollingInterval") == (caching == "immutable") {
			t.Errorf("page %s: %v", page, a.Header)
		}
		w.get(address, "If-None-Match: "+a.Header.Get("ETag")).status(304)
	}
	w.get(at+"?page=Zq81%3A251").problem(410, "gap")
	w.get(at+"?page=old%3A0").problem(410, "gap")
	w.get(at+"?page=x").problem(400, "malformed")
	w.get(at+"?key=nothing").problem(400, "malformed")
	w.m.trimmed[id] = 130
	w.get(at+"?page=Zq81%3A0").problem(410, "gap")
	if root = string(w.get(at).status(200).body); !strings.Contains(root, at+"?state=Zq81%3A200") || strings.Contains(root,
		"page=Zq81%3A100") {
		t.Errorf("after retention the root is\n%s", root)
	}
	if a := w.get(at + "?state=Zq81%3A200").status(200); !strings.Contains(string(a.body), "f:change 200") ||
		!strings.Contains(a.Header.Get("Cache-Control"), "immutable") {
		t.Errorf("the state: %v\n%s", a.Header, a.body)
	}
	w.get("/v1/queries/"+id+"/changes.rdfp").problem(406, "not-acceptable")
	w.get("/v1/queries/none/changes.rdfp").problem(404, "not-found")
	w.get(at, `If-Match: "another"`).status(412)
	graph := w.register("CONSTRUCT WHERE { ?s ?p ?o }")
	b := diff.NewBuilder(diff.Construct, diff.Options{})
	if err := b.Triple(iri("s"), iri("p"), lit("v")); err != nil {
		t.Fatal(err)
	}
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	w.m.publish(graph, r)
	if a := w.get("/v1/queries/" + graph + "/changes.rdfp").status(200); !strings.Contains(string(a.body), "Zq81:1> .\nTX .\nA <") ||
		!strings.HasSuffix(string(a.body), " \"v\" .\nTC .\n") {
		t.Errorf("the patch is\n%s", a.body)
	}
}
