package trace_test

import (
	"compress/gzip"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/endpoint/local"
)

// A recipe makes base, changesets and queries from commits of RDF/XML: a new label with a blank node that stays, a file that is not
// well-formed and so changes nothing, and one that is removed, one of whose triples another file has, too.
func TestNomismaRecipe(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	repository, out := t.TempDir(), t.TempDir()
	git := func(args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "git", append([]string{"-C", repository, "-c", "user.name=a", "-c", "user.email=a@example.org",
			"-c", "commit.gpgsign=false"}, args...)...)
		c.Env = append(os.Environ(), "GIT_COMMITTER_DATE=2015-02-03T18:30:00Z", "GIT_AUTHOR_DATE=2015-02-03T18:30:00Z")
		b, err := c.CombinedOutput()
		if err != nil {
			t.Skipf("git %v: %v: %s", args, err, b)
		}
		return strings.TrimSpace(string(b))
	}
	commit := func(files map[string]string) string {
		t.Helper()
		for name, text := range files {
			path := filepath.Join(repository, "id", name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			if text == "" {
				git("rm", "-q", "-f", "id/"+name)
			}
		}
		git("add", "--all")
		git("commit", "-q", "--allow-empty", "-m", "nightly")
		return git("rev-parse", "HEAD")
	}
	rdf := func(body string) string {
		return `<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:skos="http://www.w3.org/2004/02/skos/core#"` +
			` xmlns:e="urn:e:">` + body + `</rdf:RDF>`
	}
	rome := func(label string) string {
		return rdf(`<e:Mint rdf:about="rome"><skos:prefLabel xml:lang="en">` + label + `</skos:prefLabel>` +
			`<e:place><e:Point><e:lat rdf:datatype="urn:d">41.9</e:lat></e:Point></e:place>` +
			`<e:in rdf:resource="http://nomisma.org/id/it aly"/></e:Mint>`)
	}
	git("init", "-q")
	first := commit(map[string]string{"rome.rdf": rome("Rome"), "x.txt": "x",
		"old.rdf": rdf(`<e:Mint rdf:about="http://nomisma.org/id/rome"><e:note>old "note"</e:note></e:Mint>`)})
	commit(map[string]string{"rome.rdf": rome("Roma")})
	commit(map[string]string{"rome.rdf": "<rdf:RDF"})
	commit(map[string]string{"old.rdf": ""})
	b, err := exec.CommandContext(t.Context(), python, "../recipes/nomisma.py", repository, out, "9", first).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(b), "7 triples and 2 changesets in ") {
		t.Fatalf("%v: %s", err, b)
	}
	lines := func(name string) []string {
		t.Helper()
		f, err := os.Open(filepath.Join(out, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	base := lines("base.nt.gz")
	blank := strings.Fields(base[slices.IndexFunc(base, func(l string) bool { return strings.Contains(l, "<urn:e:lat>") })])[0]
	const mint, hour = "<http://nomisma.org/id/rome> ", "changesets/2015/02/03/18/"
	want := []string{
		mint + `<http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <urn:e:Mint> .`,
		mint + `<http://www.w3.org/2004/02/skos/core#prefLabel> "Rome"@en .`,
		mint + `<urn:e:in> <http://nomisma.org/id/it%20aly> .`, mint + `<urn:e:note> "old \"note\"" .`, mint + `<urn:e:place> ` + blank + ` .`,
		blank + ` <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <urn:e:Point> .`, blank + ` <urn:e:lat> "41.9"^^<urn:d> .`,
	}
	slices.Sort(want)
	if !slices.Equal(base, want) {
		t.Errorf("the base is\n%s", strings.Join(base, "\n"))
	}
	for name, want := range map[string]string{
		"000000.removed": mint + `<http://www.w3.org/2004/02/skos/core#prefLabel> "Rome"@en .`,
		"000000.added":   mint + `<http://www.w3.org/2004/02/skos/core#prefLabel> "Roma"@en .`,
		"000001.removed": mint + `<urn:e:note> "old \"note\"" .`,
	} {
		if got := lines(hour + name + ".nt.gz"); !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q", name, got)
		}
	}
	if all, err := local.Changesets(filepath.Join(out, "changesets")); err != nil || len(all) != 2 {
		t.Errorf("changesets: %v, %v", all, err)
	}
	f, err := os.Open(filepath.Join(out, "queries.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	queries, err := trace.ReadQueries(f, "queries.jsonl")
	texts := map[string]bool{}
	for _, q := range queries {
		texts[q.Text] = true
	}
	if err != nil || !texts["SELECT ?p ?o WHERE { "+mint+"?p ?o }"] {
		t.Errorf("queries: %v, %v", slices.Sorted(maps.Keys(texts)), err)
	}
}
