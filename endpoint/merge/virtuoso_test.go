//go:build virtuoso

package merge

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/virtuosotest"
)

const graphName = "http://x/g"

// askVirtuoso asks with the graph as the dataset.
func askVirtuoso(s *virtuosotest.Server) asker {
	return func(text string, form diff.Form, o diff.Options) (*diff.Result, error) {
		accept := "application/sparql-results+json"
		if form.Graph() {
			accept = "text/plain"
		}
		r, err := http.PostForm(s.URL, url.Values{"query": {text}, "default-graph-uri": {graphName}, "format": {accept}})
		if err != nil {
			return nil, err
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("%s %v: %s", r.Status, err, body)
		}
		if form.Graph() {
			return graph(string(body), o)
		}
		return diff.DecodeJSON(body, form, o)
	}
}

// blanks are blank nodes, which Virtuoso does not accept in INSERT DATA.
var blanks = regexp.MustCompile(`_:b(\d)`)

// Random queries over random data have the same answers merged and alone, also
// at Virtuoso.
func TestVirtuosoExact(t *testing.T) {
	s := virtuosotest.Start(t, virtuosotest.Options{})
	r := rand.New(rand.NewPCG(*seed, 1))
	compared, several, wrong := 0, 0, 0
	for range 10 {
		s.Update("CLEAR GRAPH <" + graphName + ">")
		s.Insert(graphName, blanks.ReplaceAllString(randomData(r), "<http://x/b$1>"))
		for range 30 {
			list, _ := cohorts(t, randomQueries(r, 8), "")
			for _, c := range list {
				found, n := c.differences(t, askVirtuoso(s))
				compared += n
				if len(c.members) > 1 {
					several += n
				}
				if len(found) > 0 {
					wrong++
					t.Logf("%d of %d answers differ; the first:\n%s", len(found), len(c.members), found[0])
				}
			}
		}
	}
	t.Logf("seed %d: %d answers compared, %d of them in cohorts of several; %d cohorts differ", *seed, compared, several, wrong)
	if wrong > 0 {
		t.Fail()
	}
}
