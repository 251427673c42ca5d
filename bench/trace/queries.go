package trace

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	analysis "github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler"
)

// ReadQueries reads queries to record: JSON lines with the members id and query. Further
// members are ignored.
func ReadQueries(r io.Reader, name string) ([]registry.Query, error) {
	texts, ids, err := readLines(r)
	if err == nil && len(texts) == 0 {
		err = errors.New("there are no queries in it")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	out := make([]registry.Query, len(texts))
	for i, text := range texts {
		a, err := analysis.Analyse(text)
		if err != nil {
			return nil, fmt.Errorf("%s: query %s: %w", name, ids[i], err)
		}
		form := diff.Form(a.Form)
		out[i] = registry.Query{
			ID: ids[i], Text: text, Normal: a.Normal, Form: form, Ordered: a.Ordered && form == diff.Select,
			OrderKeys: a.OrderKeys, Limit: a.Limit, Constants: a.Constants,
		}
	}
	return out, nil
}

func readLines(r io.Reader) (texts, ids []string, err error) {
	seen := map[string]bool{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		if strings.TrimSpace(lines.Text()) == "" {
			continue
		}
		var q struct {
			ID    json.RawMessage `json:"id"`
			Query string          `json:"query"`
		}
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return nil, nil, fmt.Errorf("line %d: %w", n, err)
		}
		id := strings.Trim(string(q.ID), `"`)
		switch {
		case q.Query == "":
			return nil, nil, fmt.Errorf("line %d: there is no query", n)
		case id == "" || id == "null":
			id = fmt.Sprint(n)
		}
		if seen[id] {
			return nil, nil, fmt.Errorf("line %d: the id %s is there twice", n, id)
		}
		seen[id] = true
		texts, ids = append(texts, q.Query), append(ids, id)
	}
	return texts, ids, lines.Err()
}

// sharedConstants numbers the constants that several queries share. It leaves out
// constants of so many queries that they are no evidence of a relation.
func sharedConstants(queries []registry.Query) [][]int {
	const most = 60
	count := map[string]int{}
	for _, q := range queries {
		for _, c := range q.Constants {
			count[c]++
		}
	}
	number := map[string]int{}
	out := make([][]int, len(queries))
	for i, q := range queries {
		out[i] = []int{}
		for _, c := range q.Constants {
			if count[c] < 2 || count[c] > most {
				continue
			}
			if _, known := number[c]; !known {
				number[c] = len(number)
			}
			out[i] = append(out[i], number[c])
		}
	}
	return out
}

// templates numbers the templates of the queries that can be asked together with others.
func templates(queries []registry.Query) []int {
	number := map[string]int{}
	out := make([]int, len(queries))
	for i := range queries {
		id, _ := scheduler.Mergeable(&queries[i])
		if id == "" {
			continue
		}
		if _, known := number[id]; !known {
			number[id] = len(number) + 1
		}
		out[i] = number[id]
	}
	return out
}
