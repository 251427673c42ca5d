package local

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestChangesetsAreListedInOrder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"2020/01/02/03/000010.added.nt.gz", "2020/01/02/03/000009.removed.nt.gz", "2020/01/02/03/000009.clear.nt.gz",
		"2019/12/31/23/003205.reinserted.nt", "2020/01/02/03/000009.added.nt.gz", "README.md", "2020/01/02/03/1.added.nt.gz",
		"2020/01/02/03/000011.added.nt.gz.tmp",
	} {
		write(t, filepath.Join(dir, filepath.FromSlash(name)), nil)
	}
	got, err := Changesets(dir)
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	want := []Changeset{
		{Name: "2019/12/31/23/003205", Files: map[string]string{"reinserted": at("2019/12/31/23/003205.reinserted.nt")}},
		{
			Name: "2020/01/02/03/000009", Files: map[string]string{"clear": at("2020/01/02/03/000009.clear.nt.gz"),
				"removed": at("2020/01/02/03/000009.removed.nt.gz"), "added": at("2020/01/02/03/000009.added.nt.gz")},
		},
		{Name: "2020/01/02/03/000010", Files: map[string]string{"added": at("2020/01/02/03/000010.added.nt.gz")}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if got, err := Changesets(link); err != nil || len(got) != len(want) {
		t.Errorf("%d changesets by way of a link to the folder (%v), want %d", len(got), err, len(want))
	}
	for _, bad := range []string{"absent", "README.md"} {
		if _, err := Changesets(filepath.Join(dir, bad)); err == nil {
			t.Errorf("%s is no error", bad)
		}
	}
}

// Another order of the parts would give another result.
func TestApplyOrderAndTolerance(t *testing.T) {
	e := loaded(t, `<http://x/a> <http://x/p> "1" .
<http://x/a> <http://x/p> "2" .
<http://x/b> <http://x/p> "1" .
<http://x/b> <http://x/p> "2" .
<http://x/c> <http://x/p> "1" .
`)
	dir := t.TempDir()
	base := filepath.Join(dir, "2020", "01", "02", "03", "000000")
	write(t, base+".clear.nt.gz", zipped(t, "# started\n<http://x/a> <http://x/any> \"thing\" .\n"))
	write(t, base+".removed.nt.gz", zipped(t, `<http://x/b> <http://x/p> "1" .
<http://x/b> <http://x/p> "never there" .
_:b <http://x/p> "blank" .
`))
	write(t, base+".added.nt.gz", zipped(t, `# started 2020-01-02T03:00:00Z
<http://x/a> <http://x/p> "3" .

<http://x/b> <http://x/p> "1" .
no triple at all
<http://x/d> <http://x/p> "x" . } ; CLEAR ALL ; INSERT DATA { <http://x/e> <http://x/p> "y" .
<relative> <http://x/p> "only the engine objects" .
<http://x/Rōmon_(Val%C3%A9rie)> <http://x/p> "q\u0022 . } ; CLEAR ALL # \n"@EN-gb . # comment
<http://x/f> <http://x/p> "\uD800" .
# completed`))
	write(t, base+".reinserted.nt", []byte("<http://x/b> <http://x/p> \"1\" .\r\n<http://x/g> <http://x/p> \"last, no line feed\" ."))
	list, err := Changesets(dir)
	if err != nil || len(list) != 1 {
		t.Fatalf("%d changesets, %v", len(list), err)
	}
	got, err := list[0].Apply(context.Background(), e)
	if err != nil {
		t.Fatal(err)
	}
	want := Applied{Added: 5, Removed: 2, Cleared: 1, Skipped: 5}
	if got != want {
		t.Errorf("applied %+v, want %+v", got, want)
	}
	if diff := cmp.Diff([]string{
		`<http://x/Rōmon_(Val%C3%A9rie)> <http://x/p> "q\" . } ; CLEAR ALL # \n"@en-gb .`,
		`<http://x/a> <http://x/p> "3" .`,
		`<http://x/b> <http://x/p> "1" .`,
		`<http://x/b> <http://x/p> "2" .`,
		`<http://x/c> <http://x/p> "1" .`,
		`<http://x/g> <http://x/p> "last, no line feed" .`,
	}, sortedQuads(t, e)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestCutOffFile(t *testing.T) {
	e := openEngine(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "2020", "01", "02", "03", "000000.added.nt.gz")
	whole := zipped(t, numbers(2000))
	write(t, path, whole[:len(whole)*2/3])
	list, err := Changesets(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := list[0].Apply(context.Background(), e)
	if err != nil || !got.Truncated || got.Skipped != 0 || got.Added < 100 || got.Added >= 2000 {
		t.Fatalf("applied %+v, %v", got, err)
	}
	if n, err := e.Size(context.Background()); n != got.Added || err != nil {
		t.Errorf("size %d, %v, want %d", n, err, got.Added)
	}
	write(t, path, nil)
	if got, err := list[0].Apply(context.Background(), e); err != nil || got != (Applied{Truncated: true}) {
		t.Errorf("empty file: %+v, %v", got, err)
	}
	whole[len(whole)/2] ^= 0xff
	write(t, path, whole)
	if _, err := list[0].Apply(context.Background(), e); err == nil {
		t.Error("a damaged file is no error")
	}
}

func TestUpdatesForOtherEndpoints(t *testing.T) {
	p := patch{
		cleared: []string{"<http://x/a>", "<http://x/b>"},
		added: []triple{{"<http://x/a>", "<http://x/p>", `"1"`}, {"<http://x/b>", "<http://x/p>", `"2"`},
			{"<http://x/c>", "<http://x/p>", `"3"`}},
	}
	want := []string{
		"DELETE WHERE { GRAPH <http://x/g> {<http://x/a> ?p ?o} } ;\nDELETE WHERE { GRAPH <http://x/g> {<http://x/b> ?p ?o} }",
		"INSERT DATA { GRAPH <http://x/g> {\n<http://x/a> <http://x/p> \"1\" .\n<http://x/b> <http://x/p> \"2\" .\n} }",
		"INSERT DATA { GRAPH <http://x/g> {\n<http://x/c> <http://x/p> \"3\" .\n} }",
	}
	if diff := cmp.Diff(want, p.updates("http://x/g", 2)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := (patch{}).updates("", 1); len(got) != 0 {
		t.Errorf("an empty patch makes %q", got)
	}
}

func TestGenuineChangeset(t *testing.T) {
	dir := testData(t, "dbpedia-live-sample")
	list, err := Changesets(filepath.Join(dir, "changesets"))
	if err != nil || len(list) != 1 || list[0].Name != "2015/11/16/16/000011" {
		t.Fatalf("%+v, %v", list, err)
	}
	p, err := list[0].read()
	if err != nil {
		t.Fatal(err)
	}
	subjects := map[string]bool{}
	for _, r := range p.removed {
		subjects[r.subject] = true
	}
	if len(subjects) != 522 {
		t.Errorf("%d subjects of removed triples, want 522", len(subjects))
	}
	e := openEngine(t)
	got, err := list[0].Apply(context.Background(), e)
	want := Applied{Added: 3997, Removed: 1667, Truncated: true}
	if err != nil || got != want {
		t.Errorf("applied %+v, %v, want %+v", got, err, want)
	}
	if n, err := e.Size(context.Background()); n != 3997 || err != nil {
		t.Errorf("size %d, %v", n, err)
	}
	triples, bad, truncated, err := readTriples(filepath.Join(dir, "sue", "added.nt"))
	if err != nil || truncated || len(bad) != 0 || len(triples) != 1618 {
		t.Errorf("sue: %d triples, %d bad, truncated %v, %v", len(triples), len(bad), truncated, err)
	}
}

func TestLongNomismaReplay(t *testing.T) {
	dir := testData(t, "nomisma")
	e := openEngine(t)
	ctx := context.Background()
	if err := e.LoadFile(ctx, filepath.Join(dir, "base.nt.gz")); err != nil {
		t.Fatal(err)
	}
	if n, err := e.Size(ctx); n != 92869 || err != nil {
		t.Fatalf("base has %d triples, %v", n, err)
	}
	table, err := os.ReadFile(filepath.Join(dir, "revisions.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	r := csv.NewReader(strings.NewReader(string(table)))
	r.Comma = '\t'
	revisions, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	list, err := Changesets(filepath.Join(dir, "changesets"))
	if err != nil || len(list) != len(revisions)-1 {
		t.Fatalf("%d changesets, %v, want %d", len(list), err, len(revisions)-1)
	}
	for n, revision := range revisions[1:31] {
		got, err := list[n].Apply(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		added, _ := strconv.Atoi(revision[3])
		removed, _ := strconv.Atoi(revision[4])
		if want := (Applied{Added: added, Removed: removed}); list[n].Name != revision[0] || got != want {
			t.Errorf("%s: %+v, want %s %+v", list[n].Name, got, revision[0], want)
		}
		if size, err := e.Size(ctx); err != nil || strconv.Itoa(size) != revision[5] {
			t.Fatalf("%s: %d triples, %v, want %s", list[n].Name, size, err, revision[5])
		}
	}
}
