package merge

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/freshet/freshet/registry/sparql"
)

// How many real queries can be merged.
func TestRealQueries(t *testing.T) {
	dir := os.Getenv("FRESHET_TEST_DATA")
	if dir == "" {
		t.Skip("SKIP-PART data: FRESHET_TEST_DATA is not set")
	}
	f, err := os.Open(filepath.Join(dir, "dbpedia-queries", "dbpedia-queries.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	byNormal := map[string]string{}
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var q struct{ Query string }
		if err := json.Unmarshal(s.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		if a, err := sparql.Analyse(q.Query); err == nil {
			byNormal[a.Normal] = q.Query
		}
	}
	var texts []string
	for _, text := range byNormal {
		texts = append(texts, text)
	}
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
