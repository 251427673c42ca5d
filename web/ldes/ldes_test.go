package ldes

import (
	"strings"
	"testing"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func table(t *testing.T, rows ...[2]string) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	if err := b.SetVars([]string{"s", "n"}); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if err := b.Row(diff.Term{Kind: diff.IRI, Value: "http://example.org/" + r[0]}, diff.Term{Kind: diff.Literal, Value: r[1]}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func log(results ...*diff.Result) (list []registry.Change) {
	var old *diff.Result
	for i, r := range results {
		list = append(list, registry.Change{Epoch: "E", Prev: uint64(i), Seq: uint64(i + 1),
			Time: noon.Add(time.Duration(i) * time.Minute), Baseline: i == 0, Delta: diff.Compare(old, r)})
		old = r
	}
	return list
}

func page(t *testing.T, s Stream, before *diff.Result, changes []registry.Change) string {
	t.Helper()
	var b strings.Builder
	p := Page{After: registry.Position{Epoch: "E", Seq: changes[0].Prev}}
	if err := s.WritePage(&b, p, before, noon, changes, true); err != nil {
		t.Fatal(err)
	}
	_, members, _ := strings.Cut(b.String(), "ldes:immutable true .\n")
	return members
}

// With a key, a member is all rows of an object after a change, and the object that lost its rows is deleted.
func TestMembersByKey(t *testing.T) {
	changes := log(table(t, [2]string{"a", "1"}, [2]string{"a", "2"}, [2]string{"b", "1"}), table(t, [2]string{"a", "1"}, [2]string{"a", "3"}))
	s := Stream{Address: "http://x/ldes", Key: []string{"s"}, Form: diff.Select}
	got := page(t, s, nil, changes)
	for _, want := range []string{
		"f:versionOf <http://example.org/a> ; f:time \"2026-11-27T12:00:00.000Z\"^^xsd:dateTime ; f:change 1 ; f:transaction \"E:1\" ;\n" +
			"  f:row [ f:times 1 ; <urn:freshet:var:s> <http://example.org/a> ; <urn:freshet:var:n> \"1\" ] ;\n  f:row [ f:times 1 ; " +
			"<urn:freshet:var:s> <http://example.org/a> ; <urn:freshet:var:n> \"2\" ] .",
		"f:versionOf <http://example.org/b> ; f:time \"2026-11-27T12:00:00.000Z\"^^xsd:dateTime ; f:change 1 ; f:transaction " +
			"\"E:1\" ; f:last true",
		"f:change 2 ; f:transaction \"E:2\" ;\n  f:row [ f:times 1 ; <urn:freshet:var:s> <http://example.org/a> ; " +
			"<urn:freshet:var:n> \"1\" ] ;\n  f:row [ f:times 1 ; <urn:freshet:var:s> <http://example.org/a> ; <urn:freshet:var:n> \"3\" ] .",
		"f:change 2 ; f:transaction \"E:2\" ; f:last true ; f:event as:Delete .",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no\n%s\nin\n%s", want, got)
		}
	}
	if n := strings.Count(got, "tree:member"); n != 4 {
		t.Errorf("%d members", n)
	}
	if later := page(t, s, table(t, [2]string{"a", "1"}, [2]string{"a", "2"}, [2]string{"b", "1"}),
		changes[1:]); !strings.HasSuffix(got, later) {
		t.Errorf("a page that begins later has other members:\n%s", later)
	}
}

// Without a key, a member is a row with its multiplicity.
func TestMultiplicity(t *testing.T) {
	a := [2]string{"a", "1"}
	got := page(t, Stream{Address: "http://x/ldes", Form: diff.Select}, nil, log(table(t, a), table(t, a, a), table(t, a), table(t)))
	for i, want := range []string{"f:change 1 ; f:transaction \"E:1\" ; f:last true ;\n  f:row [ f:times 1",
		"f:last true ;\n  f:row [ f:times 2", "f:change 3 ; f:transaction \"E:3\" ; f:last true ;\n  f:row [ f:times 1",
		"f:change 4 ; f:transaction \"E:4\" ; f:last true ; f:event as:Delete"} {
		if !strings.Contains(got, want) {
			t.Errorf("change %d: no %s in\n%s", i+1, want, got)
		}
	}
}

// A change of order alone has no members.
func TestOrder(t *testing.T) {
	result := func(values ...string) *diff.Result {
		b := diff.NewBuilder(diff.Select, diff.Options{Ordered: true})
		if err := b.SetVars([]string{"n"}); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if err := b.Row(diff.Term{Kind: diff.Literal, Value: v}); err != nil {
				t.Fatal(err)
			}
		}
		r, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	got := page(t, Stream{Address: "http://x/ldes", Form: diff.Select}, nil, log(result("a", "b"), result("b", "a")))
	if n := strings.Count(got, "tree:member"); n != 2 {
		t.Errorf("%d members in\n%s", n, got)
	}
}

// The triples of a graph are those of its subjects, with IRIs for blank nodes.
func TestSubjects(t *testing.T) {
	graph := func(lines ...string) *diff.Result {
		b := diff.NewBuilder(diff.Construct, diff.Options{KeepLabels: true})
		for _, text := range lines {
			line := diff.Line(text)
			x, err := line.Triple()
			if err == nil {
				err = b.Triple(x[0], x[1], x[2])
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		r, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const one, two = `<http://x/a> <http://x/p> "1" .`, `<http://x/a> <http://x/p> _:b .`
	changes := log(graph(one, two), graph(two, `_:b <http://x/p> <http://x/a> .`))
	got := page(t, Stream{Address: "http://x/ldes", Genid: "http://x/genid/", Form: diff.Construct}, nil, changes)
	for _, want := range []string{"f:versionOf <http://x/a>", "  <http://x/p> \"1\" ;\n  <http://x/p> <http://x/genid/b> .",
		"f:versionOf <http://x/genid/b>", "f:change 2 ; f:transaction \"E:2\" ;\n  <http://x/p> <http://x/genid/b> ."} {
		if !strings.Contains(got, want) {
			t.Errorf("no\n%s\nin\n%s", want, got)
		}
	}
	var b strings.Builder
	if err := WritePatch(&b, "http://x/c/", registry.Position{Epoch: "E"}, nil, changes); err != nil {
		t.Fatal(err)
	}
	want := "H id <http://x/c/E:2> .\nTX .\nA " + one + "\nA " + two + "\nTC .\nTX .\nD " + one + "\nA _:b <http://x/p> <http://x/a> .\nTC .\n"
	if b.String() != want {
		t.Errorf("the patch is\n%s\nwant\n%s", b.String(), want)
	}
}
