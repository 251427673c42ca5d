package merge

import (
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry/sparql"
)

// twins are two values whose digests are equal if the hash has no salt.
var twins = [2]string{"Anna 03ce5ed4", "Anna 0b3f9297"}

// probeTwins asks for the digests of queries for the two values, and compares them with those of their
// results.
func probeTwins(t *testing.T, ask asker, salt string) (list []Digest) {
	t.Helper()
	var members [][]string
	var x *Template
	for _, s := range []string{"a", "b"} {
		a, err := sparql.Analyse("SELECT ?o { <" + prefixed + s + "> <" + prefixed + "name> ?o }")
		if err != nil {
			t.Fatal(err)
		}
		tpl, args, err := Parse(a)
		if err != nil {
			t.Fatal(err)
		}
		x, members = tpl, append(members, args)
	}
	answer, err := ask(x.Probe(members, salt), diff.Select, diff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	list, known, err := x.Digests(answer, 2)
	if err != nil || !known[0] || !known[1] {
		t.Fatal(known, err)
	}
	for i, value := range twins {
		b := diff.NewBuilder(diff.Select, diff.Options{})
		if err := b.SetVars([]string{"o"}); err != nil {
			t.Fatal(err)
		}
		if err := b.Row(diff.Term{Kind: diff.Literal, Value: value}); err != nil {
			t.Fatal(err)
		}
		r, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if d, ok := x.Digest(r, salt); !ok || d != list[i] {
			t.Errorf("salt %q: the digest of %q is %v, the probe says %v", salt, value, d, list[i])
		}
	}
	return list
}

const (
	prefixed = "http://example.org/"
	twinData = "<" + prefixed + "a> <" + prefixed + "name> \"Anna 03ce5ed4\" .\n<" + prefixed + "b> <" + prefixed +
		"name> \"Anna 0b3f9297\" .\n"
)

// Values that were prepared to have the same digest have different ones in a probe, because
// its salt is random.
func TestSaltSeparatesPreparedValues(t *testing.T) { separates(t, ask(engine(t, twinData))) }

func separates(t *testing.T, ask asker) {
	t.Helper()
	if d := probeTwins(t, ask, ""); d[0] != d[1] {
		t.Fatalf("the values have the digests %v without a salt, so they test nothing", d)
	}
	first, second := probeTwins(t, ask, "SALT1"), probeTwins(t, ask, "SALT2")
	if first[0] == first[1] || second[0] == second[1] || first[0] == second[0] {
		t.Errorf("digests %v with a salt, %v with another", first, second)
	}
}
