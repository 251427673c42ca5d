package merge

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/registry/watch"
)

// testData is the directory of real data, or skips the test.
func testData(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("FRESHET_TEST_DATA")
	if dir == "" {
		t.Skip("SKIP-PART data: FRESHET_TEST_DATA is not set")
	}
	return filepath.Join(dir, name)
}

// realQueries reads the distinct queries of a file of JSON lines that can be
// analysed.
func realQueries(t *testing.T, path string) (texts []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	seen := map[string]bool{}
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var q struct{ Query string }
		if err := json.Unmarshal(s.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		if a, err := sparql.Analyse(q.Query); err == nil && !seen[a.Normal] {
			seen[a.Normal] = true
			texts = append(texts, q.Query)
		}
	}
	return texts
}

func unzipped(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// real compares all cohorts of several queries.
func (n *tally) real(t *testing.T, ask asker, texts []string) {
	t.Helper()
	list, _ := cohorts(t, texts, "")
	r := rand.New(rand.NewPCG(*seed, 0))
	for _, c := range list {
		for from := 0; from < len(c.members); from += 100 {
			to := min(from+100, len(c.members))
			part := &cohort{c.template, c.texts[from:to], c.members[from:to]}
			if to-from > 1 {
				part.compare(ask, r, n)
			}
		}
	}
}

// watchQueries returns the queries of watches of entities, classes and categories that the
// queries of a list mention.
func watchQueries(t *testing.T, texts []string) (list []string) {
	t.Helper()
	entities := map[string]bool{}
	queries, _ := cohorts(t, texts, "")
	for _, c := range queries {
		for _, args := range c.members {
			if args[0][0] == '<' && len(entities) < 200 {
				entities[args[0][1:len(args[0])-1]] = true
			}
		}
	}
	for _, iri := range slices.Sorted(maps.Keys(entities)) {
		for _, w := range []watch.Watch{
			{Kind: watch.Entity, Direction: watch.Outgoing},
			{Kind: watch.Entity, Direction: watch.Incoming, Within: "http://www.w3.org/2004/02/skos/core#"},
			{Kind: watch.Entity, Direction: watch.Both},
			{Kind: watch.Entity, Direction: watch.Both, Properties: []string{
				"http://www.w3.org/2004/02/skos/core#broader", "http://www.w3.org/2004/02/skos/core#exactMatch"}},
			{Kind: watch.Instances, Properties: []string{"http://www.w3.org/2004/02/skos/core#broader"}},
			{Kind: watch.Members, Properties: []string{"http://purl.org/dc/terms/isPartOf"}},
		} {
			w.IRI = iri
			list = append(list, w.Query())
		}
	}
	return list
}

// matching returns triples that match the patterns of the queries: each variable
// has one of two values.
func matching(t *testing.T, texts []string) string {
	t.Helper()
	r := rand.New(rand.NewPCG(*seed, 0))
	triples := map[string]bool{}
	list, _ := cohorts(t, texts, "")
	for _, c := range list {
		for _, text := range c.texts {
			a, err := sparql.Analyse(text)
			if err != nil {
				continue
			}
			for range 2 {
				instantiate(sparql.Parse(a.Normal).Tokens, r, triples)
			}
		}
	}
	lines := make([]string, 0, len(triples))
	for l := range triples {
		lines = append(lines, l)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// instantiate adds triples for the plain triple patterns among tokens.
func instantiate(tokens []sparql.Token, r *rand.Rand, triples map[string]bool) {
	values := map[string]string{}
	ground := func(x sparql.Token, object bool) string {
		switch token := x.Text; {
		case x.Kind == sparql.Variable:
			if values[token] == "" {
				values[token] = fmt.Sprintf("<http://x/%s%d>", token[1:], r.IntN(2))
			}
			if object && r.IntN(4) == 0 {
				return fmt.Sprintf("\"%s %d\"@en", token[1:], r.IntN(2))
			}
			return values[token]
		case x.Kind == sparql.IRI && isAbsolute(token), object && x.Kind == sparql.String:
			return token
		}
		return ""
	}
	var subject sparql.Token
	for i := 0; i+2 < len(tokens); i++ {
		first := tokens[i].Text == "{" || tokens[i].Text == "."
		if first {
			subject = tokens[i+1]
		}
		if !first && tokens[i].Text != ";" || tokens[i].Text == ";" && subject.Text == "" {
			continue
		}
		at := i + 1
		if first {
			at++
		}
		if at+1 >= len(tokens) {
			return
		}
		verb := tokens[at]
		if verb.Text == "a" {
			verb.Kind, verb.Text = sparql.IRI, rdfType
		}
		s, p, o := ground(subject, false), ground(verb, false), ground(tokens[at+1], true)
		if s != "" && p != "" && o != "" {
			triples[s+" "+p+" "+o+" ."] = true
		}
	}
}

// Real queries over the data that they were written for have the same answers
// merged and alone.
func TestLongExactNomisma(t *testing.T) {
	dir := testData(t, "nomisma")
	e := engine(t, unzipped(t, filepath.Join(dir, "base.nt.gz")))
	texts, n := realQueries(t, filepath.Join(dir, "queries.jsonl")), &tally{}
	n.real(t, ask(e), append(watchQueries(t, texts), texts...))
	n.report(t)
	if n.compared == 0 {
		t.Error("no answers were compared")
	}
}

// Queries of a log over data that matches them have the same answers merged and
// alone.
func TestLongExactLog(t *testing.T) {
	texts := realQueries(t, filepath.Join(testData(t, "dbpedia-queries"), "dbpedia-queries.jsonl"))
	e := engine(t, matching(t, texts))
	n := &tally{}
	n.real(t, ask(e), texts)
	n.report(t)
	if n.compared == 0 {
		t.Error("no answers were compared")
	}
}
