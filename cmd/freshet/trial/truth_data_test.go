package trial

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/endpoint/local/city"
)

// A history is a dataset that changes in steps, and questions about it.
type history struct {
	base      string // file
	steps     []local.Changeset
	questions []question
}

type question struct{ Name, Form, Text string }

func (q question) graph() bool { return q.Form == "CONSTRUCT" || q.Form == "DESCRIBE" }

// truthSeed is the seed of everything random in the truth tests.
func truthSeed(t testing.TB) uint64 {
	seed := uint64(1)
	if text := os.Getenv("FRESHET_TRUTH_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("FRESHET_TRUTH_SEED: %v", err)
		}
	}
	t.Logf("seed %d (FRESHET_TRUTH_SEED sets another)", seed)
	return seed
}

func cityHistory(t testing.TB, seed uint64, questions, steps int) history {
	t.Helper()
	dir := t.TempDir()
	if err := city.New(seed).WriteDir(dir, steps); err != nil {
		t.Fatal(err)
	}
	h := history{base: filepath.Join(dir, "base.nt.gz"), steps: changesetsOf(t, dir, steps)}
	for _, q := range city.Queries(questions, seed) {
		h.questions = append(h.questions, question{q.Name, q.Form, q.Text})
	}
	return h
}

// nomismaHistory returns the history of the Nomisma.org concepts. It skips the test without the
// data.
func nomismaHistory(t testing.TB, steps int) history {
	t.Helper()
	root := os.Getenv("FRESHET_TEST_DATA")
	if root == "" {
		t.Skip("FRESHET_TEST_DATA does not say where the test data is")
	}
	dir := filepath.Join(root, "nomisma")
	f, err := os.Open(filepath.Join(dir, "queries.jsonl"))
	if err != nil {
		t.Skipf("no nomisma in FRESHET_TEST_DATA: %v", err)
	}
	defer f.Close()
	h := history{base: filepath.Join(dir, "base.nt.gz"), steps: changesetsOf(t, dir, steps)}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var q struct{ ID, Form, Query string }
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		h.questions = append(h.questions, question{q.ID, q.Form, q.Query})
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return h
}

func changesetsOf(t testing.TB, dir string, most int) []local.Changeset {
	t.Helper()
	list, err := local.Changesets(filepath.Join(dir, "changesets"))
	if err != nil {
		t.Fatal(err)
	}
	if len(list) < most {
		t.Fatalf("%d changesets are wanted, %s has %d", most, dir, len(list))
	}
	return list[:most]
}

// applyChangeset sends a changeset to an endpoint by SPARQL Update.
func applyChangeset(ctx context.Context, endpoint string, c local.Changeset) error {
	requests, err := c.Updates("", 20_000)
	if err != nil {
		return err
	}
	for _, text := range requests {
		if _, err := ask(ctx, http.DefaultClient, endpoint, url.Values{"update": {text}}, ""); err != nil {
			return fmt.Errorf("changeset %s: %w", c.Name, err)
		}
	}
	return nil
}

// ask sends one operation of the SPARQL Protocol and returns the whole answer.
func ask(ctx context.Context, c *http.Client, endpoint string, form url.Values, accept string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewBufferString(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	resp, err := c.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %.300s", resp.Status, body)
	}
	return body, err
}
