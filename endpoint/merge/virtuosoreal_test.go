//go:build virtuoso

package merge

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/freshet/freshet/endpoint/virtuosotest"
)

// Queries of a log have the same answers merged and alone, also at Virtuoso.
func TestLongVirtuosoLog(t *testing.T) {
	texts := realQueries(t, filepath.Join(testData(t, "dbpedia-queries"), "dbpedia-queries.jsonl"))
	s := virtuosotest.Start(t, virtuosotest.Options{})
	replace(s)(matching(t, texts))
	n := &tally{}
	n.real(t, askVirtuoso(s), texts)
	n.report(t)
}

// Real queries over the data that they were written for have the same answers
// merged and alone, also at Virtuoso. It refuses some typed literals of the data,
// so that they are left out.
func TestLongVirtuosoNomisma(t *testing.T) {
	dir := testData(t, "nomisma")
	s := virtuosotest.Start(t, virtuosotest.Options{})
	var lines []string
	for line := range strings.SplitSeq(unzipped(t, filepath.Join(dir, "base.nt.gz")), "\n") {
		if !strings.Contains(line, "^^<") {
			lines = append(lines, line)
		}
	}
	s.Insert(graphName, lines...)
	texts, n := realQueries(t, filepath.Join(dir, "queries.jsonl")), &tally{}
	n.real(t, askVirtuoso(s), append(watchQueries(t, texts), texts...))
	n.report(t)
}
