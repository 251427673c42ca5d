package ui

import (
	"testing"
	"time"

	"github.com/freshet/freshet/registry"
	changefeed "github.com/freshet/freshet/registry/feed"
)

// A fixedFeeds is the change feeds of a test.
type fixedFeeds struct {
	list  []changefeed.Status
	proof *changefeed.Proof
}

func (f *fixedFeeds) Feeds() ([]changefeed.Status, error)     { return f.list, nil }
func (f *fixedFeeds) Deltas(string, []changefeed.Event) error { return nil }

func (f *fixedFeeds) Proofs() func(*registry.Query) (*changefeed.Proof, error) {
	return func(*registry.Query) (*changefeed.Proof, error) { return f.proof, nil }
}

// The page of feeds says how they are, and why results are not proved.
func TestFeedsPage(t *testing.T) {
	f := &fixedFeeds{}
	r := newRigWith(t, func(_ *rig, c *Config) { c.ChangeFeeds = f })
	r.endpoint("city")
	q := r.register("city", "numbers", "SELECT ?n { ?s ?p ?n }")
	r.get("/feeds").status(200).has("No endpoint has a feed.")
	r.get("/endpoints").lacks(`href="/feeds"`)
	f.list = []changefeed.Status{{Definition: changefeed.Definition{Name: "wikidata", Kind: changefeed.Wikimedia,
		URL: "https://stream.example.org/?token=hush"}, State: changefeed.Gap, Error: "retention has passed",
		Position: changefeed.Place{Offset: 12345, Time: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}, Events: 7001, Matched: 3,
		Gaps: 1, Endpoints: []string{"city"}}}
	f.proof = &changefeed.Proof{Feed: "wikidata", Unprovable: "events are missing: retention has passed"}
	r.get("/endpoints").has(`href="/feeds"`)
	r.get("/feeds").status(200).has(`aria-current="page"`, "0 of 1 feed is live.", "/?token=…", "Retention has passed.", "numbers",
		"12345, 2026-11-27T12:00:00Z", "Events are missing: retention has passed.", `href="/endpoints/city"`)
	r.get("/feeds").lacks("Lag, from publication", "read at")
	f.list[0].LagSeconds = new(1.5)
	r.get("/feeds").has("Lag, from publication to here")
	f.list[0].Kind = changefeed.RDFPatch
	r.get("/feeds").has("12345, read at 2026-11-27T12:00:00Z")
	f.list[0].Kind = changefeed.Wikimedia
	f.list[0].EndpointLags = map[string]float64{"city": 12}
	r.get("/feeds").status(200).has("where half of the events show within 12")
	f.list[0].State, f.list[0].Error, f.proof = changefeed.Live, "", &changefeed.Proof{Feed: "wikidata",
		Until: time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)}
	r.get("/feeds").status(200).has("The feed is live.", "proved without a request").lacks("Not proved")
	f.list[0].Wrong = []changefeed.Wrong{{Endpoint: "city", Query: q.ID, Was: `removed: "a<b"`, Now: `added: "c"`,
		Until: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)}}
	r.get("/feeds").status(200).has("A proof was wrong at <a href=\"/endpoints/city\">city</a>", `removed: &#34;a&lt;b&#34;`,
		`added: &#34;c&#34;`)
	f.proof.Edits = []changefeed.Edit{{Text: "revision 2145 of Q42", Link: "https://x.example/2145"}}
	r.get("/queries/"+q.ID).status(200).has("Proved until", `href="/feeds#feed-wikidata"`,
		`possibly changed by <a href="https://x.example/2145">revision 2145 of Q42</a>`)
}
