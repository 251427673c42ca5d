package merge

import (
	"path/filepath"
	"testing"
)

// How many real queries can be merged.
func TestRealQueries(t *testing.T) {
	texts := realQueries(t, filepath.Join(testData(t, "dbpedia-queries"), "dbpedia-queries.jsonl"))
	list, refused := cohorts(t, texts, "")
	merged, several := 0, 0
	for _, c := range list {
		merged += len(c.members)
		if len(c.members) > 1 {
			several += len(c.members)
		}
	}
	t.Logf("%d queries: %d can be merged, %d of them with others, %d templates; refused %v", len(texts), merged, several, len(list), refused)
	if merged == 0 {
		t.Error("no query can be merged")
	}
}
