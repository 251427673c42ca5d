//go:build virtuoso

package merge

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/virtuosotest"
)

// askVirtuoso asks with the graph as the dataset.
func askVirtuoso(s *virtuosotest.Server) asker {
	return func(text string, form diff.Form, o diff.Options) (*diff.Result, error) {
		accept := "application/sparql-results+json"
		if form.Graph() {
			accept = "text/plain"
		}
		r, err := http.PostForm(s.URL, url.Values{"query": {text}, "default-graph-uri": {graphName}, "named-graph-uri": {graphName},
			"format": {accept}})
		if err != nil {
			return nil, failed(s, err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, failed(s, err)
		}
		partial := r.Header.Get("X-SQL-State") + r.Trailer.Get("X-SQL-State")
		if r.StatusCode != http.StatusOK || partial != "" {
			return nil, fmt.Errorf("%w with %s: %s", errRefused, r.Status, body)
		}
		if form.Graph() {
			return graph(string(body), o)
		}
		return diff.DecodeJSON(body, form, o)
	}
}

// failed is the error of a request without an answer: it says nothing if the server has crashed
// and serves again.
func failed(s *virtuosotest.Server, err error) error {
	if s.Revive() {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}

// blanks are blank nodes, which Virtuoso does not accept in INSERT DATA.
var blanks = regexp.MustCompile(`_:b(\d)`)

// replace replaces the data of the graph.
func replace(s *virtuosotest.Server) func(data string) {
	return func(data string) {
		s.Update("CLEAR GRAPH <" + graphName + ">")
		s.Insert(graphName, strings.Split(blanks.ReplaceAllString(data, "<http://x/b$1>"), "\n")...)
	}
}

// Random queries over random data have the same answers merged and alone, also
// at Virtuoso.
func TestLongVirtuosoExact(t *testing.T) {
	s := virtuosotest.Start(t, virtuosotest.Options{})
	n, answers := &tally{}, *goal/2 // it is slower than the embedded engine
	n.random(t, askVirtuoso(s), replace(s), answers)
	n.report(t)
	if n.compared < answers || n.refused > n.merged/20 {
		t.Errorf("%d answers compared; %d of %d merged requests refused", n.compared, n.refused, n.merged)
	}
}

// Virtuoso writes the boolean true as 1 in rows and as true in triples. Members with one
// are left undecided, the others are exact.
func TestVirtuosoBooleans(t *testing.T) {
	s := virtuosotest.Start(t, virtuosotest.Options{})
	s.Update(prefix + "INSERT DATA { GRAPH <" + graphName + "> { :a :p true , 1 . :b :p 1.5 . :c :p false } }")
	var texts []string
	for _, c := range []string{"a", "b", "c"} {
		texts = append(texts, prefix+"CONSTRUCT WHERE { :"+c+" :p ?o }")
	}
	list, _ := cohorts(t, texts, "")
	n := &tally{}
	list[0].compare(askVirtuoso(s), rand.New(rand.NewPCG(1, 1)), n)
	if len(n.found) > 0 || n.compared == 0 || n.undecided == 0 {
		t.Error(n, n.found)
	}
}

// The salt of a probe holds at Virtuoso, too.
func TestVirtuosoSaltSeparatesPreparedValues(t *testing.T) {
	s := virtuosotest.Start(t, virtuosotest.Options{})
	replace(s)(twinData)
	separates(t, askVirtuoso(s))
}

// Without these rules, Virtuoso answers some queries otherwise when they are merged, though
// SPARQL defines the same answer.
func TestVirtuosoRulesAreNeeded(t *testing.T) {
	s := virtuosotest.Start(t, virtuosotest.Options{})
	needed(t, askVirtuoso(s), func(data string) {
		s.Update("CLEAR GRAPH <" + graphName + ">")
		s.Update(prefix + "INSERT DATA { GRAPH <" + graphName + "> { " + data + " } }")
	}, []ruleCase{
		{Path, "ASK { C :p ?s . ?s ^:r \"b\" ; a :n OPTIONAL { ?s ?k :n . [ :r/:q ?k ] :q ?i } }",
			":a :p :s . :x :q :n ; a :n . :y :q :z . :z :r :q"},
		{Repeated, "SELECT ?o ?x { ?o ^:q ?o . C :p ?x OPTIONAL { ?x :r ?o } }",
			":a :p :o . :b :p :o . :o :q :o . :o :q :e . :e :q :a . :o :r :e , :a"},
	})
}
