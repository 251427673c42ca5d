package diff

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// lines reads a gzipped file. It returns nil if there is none.
func lines(t *testing.T, path string) (out []string) {
	t.Helper()
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(z)
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		if line := s.Text(); line != "" && line[0] != '#' {
			out = append(out, line)
		}
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// The history of Nomisma.org is a published graph with published counts and hashes.
// Ours must equal them for each of its first revisions.
func TestLongRealHistory(t *testing.T) {
	const revisions = 25
	root := os.Getenv("FRESHET_TEST_DATA")
	if root == "" {
		t.Skip("FRESHET_TEST_DATA is not set")
	}
	root = filepath.Join(root, "nomisma")
	b := NewBuilder(Construct, Options{})
	present := map[string]bool{}
	for _, line := range lines(t, filepath.Join(root, "base.nt.gz")) {
		x, err := parseLine(line)
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		_ = b.Triple(x[0], x[1], x[2])
		present[line] = true
	}
	base, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Hash string `json:"base_sha256_sorted"`
		Len  int    `json:"base_triples"`
	}
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	if base.Hash() != "sha256:"+want.Hash || base.Len() != want.Len {
		t.Fatalf("%d triples, %s; want %d, %s", base.Len(), base.Hash(), want.Len, want.Hash)
	}
	table, err := os.ReadFile(filepath.Join(root, "revisions.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	last, all := base, (*Delta)(nil)
	for _, line := range strings.Split(string(table), "\n")[1 : revisions+1] {
		f := strings.Split(line, "\t") // path, time, commit, added, removed, after, …
		path := filepath.Join(root, "changesets", f[0])
		for _, l := range lines(t, path+".removed.nt.gz") {
			delete(present, l)
		}
		for _, l := range lines(t, path+".added.nt.gz") {
			present[l] = true
		}
		doc := strings.Join(slices.Sorted(maps.Keys(present)), "\n") + "\n"
		next, err := Decode([]byte(doc), Construct, false)
		if err != nil {
			t.Fatal(err)
		}
		d := Compare(last, next)
		if got := []string{strconv.Itoa(len(d.Added)), strconv.Itoa(len(d.Removed)), strconv.Itoa(next.Len())}; !slices.Equal(got, f[3:6]) {
			t.Fatalf("%s: added, removed, after: %v, want %v", f[0], got, f[3:6])
		}
		if all, err = Compose(all, d); err != nil {
			t.Fatal(err)
		}
		last = next
	}
	got, err := all.Apply(base)
	if err != nil || got.Hash() != last.Hash() {
		t.Fatalf("all steps at once: %v", err)
	}
}
