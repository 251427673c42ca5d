package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/merge"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
)

func TestEntityIRI(t *testing.T) {
	for in, want := range map[string]string{
		"https://www.wikidata.org/wiki/Q42":                     "http://www.wikidata.org/entity/Q42",
		"https://m.wikidata.org/wiki/Q42#P31":                   "http://www.wikidata.org/entity/Q42",
		"https://www.wikidata.org/entity/Q42":                   "http://www.wikidata.org/entity/Q42",
		"http://www.wikidata.org/entity/Q42":                    "http://www.wikidata.org/entity/Q42",
		"https://www.wikidata.org/wiki/Special:EntityPage/Q42":  "http://www.wikidata.org/entity/Q42",
		"https://www.wikidata.org/wiki/Property:P31?uselang=de": "http://www.wikidata.org/entity/P31",
		"https://www.wikidata.org/wiki/Lexeme:L7":               "http://www.wikidata.org/entity/L7",
		" Q42 ":  "http://www.wikidata.org/entity/Q42",
		"wd:Q42": "http://www.wikidata.org/entity/Q42",
		"wd:P31": "http://www.wikidata.org/entity/P31",
		"https://www.wikidata.org/wiki/Special:EntityData/Q42.json?flavor=dump": "http://www.wikidata.org/entity/Q42",
		"https://m.wikidata.org/wiki/Special:EntityData/Q42":                    "http://www.wikidata.org/entity/Q42",
		"https://www.wikidata.org/entity/L7-F1":                                 "http://www.wikidata.org/entity/L7-F1",
		"https://dbpedia.org/page/Z%C3%BCrich":                                  "http://dbpedia.org/resource/Zürich",
		"https://dbpedia.org/page/AC%2FDC":                                      "http://dbpedia.org/resource/AC%2FDC",
		"https://dbpedia.org/page/A%FF":                                         "http://dbpedia.org/resource/A%FF",
		"http://dbpedia.org/resource/Z%C3%BCrich":                               "http://dbpedia.org/resource/Z%C3%BCrich",
		"https://dbpedia.org/ontology/Volcano":                                  "http://dbpedia.org/ontology/Volcano",
		"http://dbpedia.org/resource/ASP.json":                                  "http://dbpedia.org/resource/ASP.json",
		"https://dbpedia.org/page/Neu-Ulm":                                      "http://dbpedia.org/resource/Neu-Ulm",
		"http://dbpedia.org/data/Ulm.ttl":                                       "http://dbpedia.org/resource/Ulm",
		"http://dbpedia.org/page/St._Louis":                                     "http://dbpedia.org/resource/St._Louis",
		"https://www.uniprot.org/uniprotkb/P05067/entry":                        "http://purl.uniprot.org/uniprot/P05067",
		"https://www.europeana.eu/en/item/15601/eDipRouen":                      "http://data.europeana.eu/item/15601/eDipRouen",
		"<http://x.example/a>":                                                  "http://x.example/a",
		"https://www.wikidata.org/wiki/Wikidata:Main_Page":                      "https://www.wikidata.org/wiki/Wikidata:Main_Page",
	} {
		if got := EntityIRI(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// examples are watches of all kinds.
var examples = []Watch{
	{IRI: "http://x.example/a"},
	{IRI: "http://x.example/a", Direction: Incoming},
	{IRI: "http://x.example/a", Direction: Both},
	{IRI: "http://x.example/a", Properties: []string{"http://x.example/q", "http://x.example/p"}},
	{IRI: "http://x.example/a", Direction: Incoming, Properties: []string{"http://x.example/p"}},
	{IRI: "http://x.example/a", Direction: Both, Properties: []string{"http://x.example/p"}, Labels: []string{"de", "en"}},
	{IRI: "Q42"},
	{IRI: "Q42", Direction: Both, Properties: []string{"P19", "https://www.wikidata.org/wiki/Property:P106"}},
	{IRI: "Q42", Direction: Incoming},
	{IRI: "urn:isbn:1", Within: "http://schema.org/"},
	{Kind: Instances, IRI: "Q5"},
	{Kind: Instances, IRI: "http://x.example/C"},
	{Kind: Members, IRI: "https://dbpedia.org/page/Category:Ulm"},
	{Kind: Members, IRI: "Q5", Properties: []string{"P361"}},
}

// A query holds everything about its watch, in its normal form and beside other holders.
func TestWatchFromQuery(t *testing.T) {
	seen := map[string]bool{}
	for _, x := range examples {
		w, err := x.Normalize()
		if err != nil {
			t.Errorf("%+v: %v", x, err)
			continue
		}
		again, err := w.Normalize()
		if err != nil || !cmp.Equal(again, w) {
			t.Errorf("%+v is not normal: %+v, %v", w, again, err)
		}
		reg := registry.Registration{Tags: []string{"mine"}}
		w.Apply(&reg)
		a, err := sparql.Analyse(reg.Text)
		if err != nil || seen[a.Normal] {
			t.Errorf("%s: known %v, %v", reg.Text, seen[a.Normal], err)
			continue
		}
		seen[a.Normal] = true
		if len(a.Warnings) > 0 {
			t.Errorf("%s: %v", reg.Text, a.Warnings)
		}
		q := registry.Query{Text: "as another holder wrote it", Normal: a.Normal,
			Holders: []registry.Holder{{Caller: "a", Tags: []string{"labels:fr+de", "watch"}}, {Caller: "b", Tags: reg.Tags}}}
		if got, ok := Of(&q, "b"); !ok || !cmp.Equal(got, w) {
			t.Errorf("%s\nis %+v, %v\nwant %+v", reg.Text, got, ok, w)
		}
		q.Holders = []registry.Holder{{Caller: "a"}}
		if _, ok := Of(&q, "a"); ok {
			t.Errorf("%s is a watch without the tag", reg.Text)
		}
	}
	q := registry.Query{Normal: "SELECT ?property ?value WHERE { <http://x/a> ?property ?value . ?value ?a ?b }",
		Holders: []registry.Holder{{Tags: []string{Tag}}}}
	if w, ok := Of(&q, ""); !ok || w.Kind != ByQuery {
		t.Errorf("another query is the watch %+v, %v", w, ok)
	}
}

func TestBadWatches(t *testing.T) {
	many := slices.Repeat([]string{""}, 60)
	for i := range many {
		many[i] = fmt.Sprintf("http://x.example/p%d", i)
	}
	for _, x := range []struct {
		w       Watch
		pointer string
	}{
		{Watch{}, "/iri"},
		{Watch{IRI: "Douglas Adams"}, "/iri"},
		{Watch{IRI: "/wiki/Q42"}, "/iri"},
		{Watch{IRI: "https://www.wikidata.org/wiki/Talk:Q42"}, "/iri"},
		{Watch{IRI: "http:"}, "/iri"},
		{Watch{IRI: "http://x.example/a> } DROP ALL #"}, "/iri"},
		{Watch{IRI: "http://x.example/\"a"}, "/iri"},
		{Watch{IRI: "http://x.example/" + strings.Repeat("a", 3000)}, "/iri"},
		{Watch{IRI: "http://x.example/a", Kind: "thing"}, "/kind"},
		{Watch{IRI: "http://x.example/a", Direction: "up"}, "/direction"},
		{Watch{IRI: "http://x.example/a", Properties: []string{"http://x.example/p", "p"}}, "/properties/1"},
		{Watch{IRI: "http://x.example/a", Properties: many}, "/properties"},
		{Watch{IRI: "http://x.example/a", Properties: []string{"http://x.example/p"}, Within: "http://x.example/"}, "/within"},
		{Watch{IRI: "http://x.example/a", Within: "x\""}, "/within"},
		{Watch{IRI: "http://x.example/a", Labels: []string{"en", "d\"e"}}, "/labels/1"},
		{Watch{IRI: "http://x.example/a", Labels: slices.Repeat([]string{"en"}, 9)}, "/labels"},
		{Watch{IRI: "http://x.example/a", Kind: Instances, Direction: Both}, "/direction"},
		{Watch{IRI: "http://x.example/a", Kind: Instances, Within: "http://x.example/"}, "/within"},
		{Watch{IRI: "http://x.example/a", Kind: Members, Properties: many[:2]}, "/properties"},
		{Watch{IRI: "Q5", Kind: Members}, "/properties"},
	} {
		_, err := x.w.Normalize()
		p, ok := errors.AsType[*registry.Problem](err)
		if !ok || p.Kind != registry.KindBadSetting || len(p.Errors) != 1 || p.Errors[0].Pointer != x.pointer {
			t.Errorf("%.200v: %v, want an error at %s", x.w, err, x.pointer)
		}
	}
}

// Watches that differ in the entity only have one template. Only rdf:type keeps its
// class.
func TestTemplates(t *testing.T) {
	templates := map[string]int{}
	alone := 0
	for i := range 1000 {
		iri := fmt.Sprintf("http://x.example/e%d", i)
		for _, w := range []Watch{{IRI: iri}, {IRI: iri, Direction: Incoming}, {IRI: iri, Direction: Both},
			{IRI: iri, Properties: []string{"http://x.example/p"}},
			{IRI: fmt.Sprintf("Q%d", i+1)}, {Kind: Instances, IRI: fmt.Sprintf("Q%d", i+1)}, {Kind: Members, IRI: iri},
			{Kind: Instances, IRI: iri}} {
			w, err := w.Normalize()
			if err != nil {
				t.Fatal(err)
			}
			a, err := sparql.Analyse(w.Query())
			if err != nil {
				t.Fatal(err)
			}
			template, _, err := merge.Parse(a)
			if err != nil {
				alone++
				continue
			}
			templates[template.ID]++
		}
	}
	if len(templates) != 7 || alone != 1000 {
		t.Errorf("%d templates of 7,000 watches, %d classes alone, want 7 and 1000", len(templates), alone)
	}
	for id, n := range templates {
		if n != 1000 {
			t.Errorf("template %s has %d members, want 1000", id, n)
		}
	}
}

// table builds a result. A term is an IRI if it contains a colon, unbound if it is "".
func table(t *testing.T, vars []string, rows ...[]string) *diff.Result {
	t.Helper()
	b := diff.NewBuilder(diff.Select, diff.Options{})
	b.SetVars(vars)
	for _, r := range rows {
		terms := make([]diff.Term, len(r))
		for i, v := range r {
			switch text, lang, tagged := strings.Cut(v, "@"); {
			case strings.Contains(v, ":"):
				terms[i] = diff.Term{Kind: diff.IRI, Value: v}
			case tagged:
				terms[i] = diff.Term{Kind: diff.Literal, Value: text, Lang: lang}
			case v != "":
				terms[i] = diff.Term{Kind: diff.Literal, Value: v}
			}
		}
		if err := b.Row(terms...); err != nil {
			t.Fatal(err)
		}
	}
	r, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSummarize(t *testing.T) {
	names := Namer(func(iri string) string {
		return map[string]string{"http://x/birthPlace": "birth place", "http://x/Ulm": "Ulm"}[iri]
	})
	const place, award = "http://x/birthPlace", "http://x/award"
	for _, x := range []struct {
		w        Watch
		vars     []string
		old, new [][]string
		want     []string
	}{
		{Watch{Kind: Entity}, []string{"property", "value"}, [][]string{{place, "http://x/Ulm"}, {award, "http://x/A"}},
			[][]string{{place, "http://x/Neu-Ulm"}, {award, "http://x/A"}}, []string{"birth place: Ulm → Neu-Ulm"}},
		{Watch{Kind: Entity}, []string{"property", "value"}, [][]string{{award, "http://x/A"}}, [][]string{{award, "http://x/B%20C"},
			{award, "two  words"}}, []string{"award: − A", "award: + B C", "award: + two words"}},
		{Watch{Kind: Entity}, []string{"property", "value"}, [][]string{{award, "gold@en"}, {award, "Gold@de"}},
			[][]string{{award, "silver@en"}, {award, "Silber@de"}}, []string{"award: gold (en) → silver (en)", "award: Gold (de) → Silber (de)"}},
		{Watch{Kind: Entity}, []string{"property", "value"}, [][]string{{award, "Gold@de"}}, [][]string{{award, "silver@en"}},
			[]string{"award: − Gold (de)", "award: + silver (en)"}},
		{Watch{Kind: Entity, Direction: Both}, []string{"property", "value", "subject"}, [][]string{{place, "", "http://x/p1"}},
			[][]string{{place, "", "http://x/p2"}, {place, "1", ""}}, []string{"− p1 (birth place)", "+ p2 (birth place)", "birth place: + 1"}},
		{Watch{Kind: Instances}, []string{"instance"}, [][]string{{"http://x/a#1"}}, [][]string{{"http://x/Ulm"}, {"urn:b"}},
			[]string{"− 1", "+ Ulm", "+ urn:b"}},
	} {
		d := diff.Compare(table(t, x.vars, x.old...), table(t, x.vars, x.new...))
		got := InWords(d, &x.w, names).All()
		slices.Sort(got)
		slices.Sort(x.want)
		if !cmp.Equal(got, x.want) {
			t.Errorf("%v → %v: %q, want %q", x.old, x.new, got, x.want)
		}
	}
	var many [][]string
	for i := range 2000 {
		many = append(many, []string{fmt.Sprintf("http://x/%04d", i)})
	}
	d := diff.Compare(table(t, []string{"instance"}), table(t, []string{"instance"}, many...))
	w := Watch{Kind: Instances}
	if lines := InWords(d, &w, names).All(); len(lines) != mostLines+1 || lines[mostLines] != "and 1950 more" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
	if n := len(w.IRIs(d)); n > mostLines+2 {
		t.Errorf("%d IRIs for %d lines", n, mostLines)
	}
}

func TestDescribe(t *testing.T) {
	names := Namer(func(iri string) string {
		return map[string]string{"http://www.wikidata.org/entity/Q42": "Douglas Adams"}[iri]
	})
	for want, w := range map[string]Watch{
		"all properties of Douglas Adams":                    {IRI: "Q42"},
		"P19, P20 of Douglas Adams":                          {IRI: "Q42", Properties: []string{"P20", "P19"}},
		"P19 of Q1, and everything that refers to Q1 by P19": {IRI: "Q1", Direction: Both, Properties: []string{"P19"}},
		"everything that refers to Douglas Adams":            {IRI: "Q42", Direction: Incoming},
		"the instances of Q5":                                {Kind: Instances, IRI: "Q5"},
		"the members of Category:Ulm":                        {Kind: Members, IRI: "http://dbpedia.org/page/Category:Ulm"},
	} {
		w, err := w.Normalize()
		if got := w.Describe(names); err != nil || got != want {
			t.Errorf("%q, want %q: %v", got, want, err)
		}
	}
}

// A lookup asks once for many IRIs, takes the best language, remembers what it found and
// what there is not, and leaves a failing endpoint alone.
func TestLabels(t *testing.T) {
	now := time.Unix(0, 0)
	var asked []string
	var fail error
	l := NewLabels(func(_ context.Context, endpoint, text string) (*diff.Result, error) {
		if asked = append(asked, text); fail != nil {
			return nil, fail
		}
		return table(t, []string{"label", "iri"}, []string{"Ulm@en", "http://x/Ulm"}, []string{"Ulm an der Donau@de", "http://x/Ulm"},
			[]string{"Geburtsort@mul", "http://www.wikidata.org/entity/P19"}), nil
	}, func() time.Time { return now })
	iris := []string{"http://x/Ulm", "http://x/none", direct + "P19", "http://x/none", "http://x/a b", "nothing"}
	for range 3 {
		n := l.Lookup(t.Context(), "e", []string{"de", "en"}, iris)
		if n.name("http://x/Ulm") != "Ulm an der Donau" || n.name(direct+"P19") != "Geburtsort" || n.name("http://x/none") != "none" {
			t.Errorf("labels: %q %q %q", n.name("http://x/Ulm"), n.name(direct+"P19"), n.name("http://x/none"))
		}
	}
	if len(asked) != 1 || strings.Count(asked[0], "none>") != 1 || !strings.Contains(asked[0], `("de", "en", "mul", "")`) {
		t.Fatalf("asked %q, want one request with each IRI once", asked)
	}
	if _, err := sparql.Analyse(asked[0]); err != nil {
		t.Error(err)
	}
	if n := l.Lookup(t.Context(), "e", []string{"EN"}, iris); n.name("http://x/Ulm") != "Ulm" || len(asked) != 2 {
		t.Errorf("English: %q after %d requests", n.name("http://x/Ulm"), len(asked))
	}
	now = now.Add(2 * time.Hour)
	fail = errors.New("down")
	for range 3 {
		if n := l.Lookup(t.Context(), "e", []string{"EN"}, iris); n.name("http://x/Ulm") != "Ulm" {
			t.Error("a failure removed a label")
		}
	}
	if len(asked) != 3 {
		t.Errorf("%d requests, want one more that failed", len(asked))
	}
	var many []string
	for i := range 250 {
		many = append(many, fmt.Sprintf("http://x/%d", i))
	}
	fail, now = nil, now.Add(2*time.Minute)
	l.Lookup(t.Context(), "e", nil, many)
	if got := strings.Count(asked[len(asked)-1], "<http://x/"); len(asked) != 4 || got != labelsAtOnce {
		t.Errorf("%d requests, the last with %d IRIs, want one with %d", len(asked), got, labelsAtOnce)
	}
}

// A reader who leaves does not waste the lookup: the answer is there for the next reader,
// and does not count as a failure.
func TestLabelsWithoutReader(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	requests := 0
	l := NewLabels(func(ctx context.Context, _, _ string) (*diff.Result, error) {
		requests++
		close(asked)
		select {
		case <-answer:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return table(t, []string{"iri", "label"}, []string{"http://x/Ulm", "Ulm@en"}), nil
	}, time.Now)
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-asked; leave() }()
	l.Lookup(ctx, "e", nil, []string{"http://x/Ulm"})
	close(answer)
	if n := l.Lookup(t.Context(), "e", nil, []string{"http://x/Ulm"}); n("http://x/Ulm") != "Ulm" || requests != 1 {
		t.Errorf("label %q after %d requests, want Ulm after one", n("http://x/Ulm"), requests)
	}
}

// A lookup that does not wait says whether labels are on their way. It asks once, and not while the endpoint rests.
func TestLabelsWithoutWaiting(t *testing.T) {
	answer, requests := make(chan error), 0
	l := NewLabels(func(context.Context, string, string) (*diff.Result, error) {
		requests++
		return table(t, []string{"iri", "label"}, []string{"http://x/Ulm", "Ulm@en"}), <-answer
	}, time.Now)
	ulm, bern := []string{"http://x/Ulm"}, []string{"http://x/Bern"}
	for _, iris := range [][]string{ulm, ulm, bern} {
		if n, coming := l.Begin("e", nil, iris); !coming || n(iris[0]) != "" {
			t.Errorf("%s: coming %v, label %q", iris, coming, n(iris[0]))
		}
	}
	answer <- nil
	l.Lookup(t.Context(), "e", nil, ulm) // waits for the end of the turn
	if n, coming := l.Begin("e", nil, ulm); coming || n("http://x/Ulm") != "Ulm" || requests != 1 {
		t.Errorf("coming %v, label %q after %d requests", coming, n("http://x/Ulm"), requests)
	}
	if _, coming := l.Begin("e", nil, bern); !coming {
		t.Error("the next IRI is not asked for")
	}
	answer <- errors.New("down")
	l.Lookup(t.Context(), "e", nil, bern)
	if _, coming := l.Begin("e", nil, bern); coming || requests != 2 {
		t.Errorf("coming %v after %d requests, although the endpoint rests", coming, requests)
	}
}

// An endpoint that fails again and again is asked ever more rarely for labels.
func TestLabelsRest(t *testing.T) {
	now, requests := time.Unix(0, 0), 0
	l := NewLabels(func(context.Context, string, string) (*diff.Result, error) {
		requests++
		return nil, errors.New("too slow")
	}, func() time.Time { return now })
	for range 24 * 60 {
		l.Lookup(t.Context(), "e", nil, []string{"http://x/Ulm"})
		now = now.Add(time.Minute)
	}
	if requests < 24 || requests > 40 {
		t.Errorf("%d requests that failed in a day", requests)
	}
}

// A long label is shortened, so that the kept labels have a bounded size.
func TestLongLabel(t *testing.T) {
	l := NewLabels(func(context.Context, string, string) (*diff.Result, error) {
		return table(t, []string{"iri", "label"}, []string{"http://x/Ulm", strings.Repeat("x", 1<<20) + "@en"}), nil
	}, time.Now)
	if n := l.Lookup(t.Context(), "e", nil, []string{"http://x/Ulm"}); len(n("http://x/Ulm")) > 2*mostText {
		t.Errorf("a label of %d bytes is kept", len(n("http://x/Ulm")))
	}
}

// A property may be given as people know it. It becomes the one that entities have.
func TestPropertyIRI(t *testing.T) {
	for _, text := range []string{"P19", "wdt:P19", "wd:P19", direct + "P19", "<" + direct + "P19>",
		"https://www.wikidata.org/wiki/Property:P19",
		"https://www.wikidata.org/wiki/Property:P19?uselang=de", "https://m.wikidata.org/wiki/Property:P19#P31",
		"https://www.wikidata.org/wiki/Special:EntityData/P19.ttl"} {
		if w, err := (Watch{IRI: "Q42", Properties: []string{text}}).Normalize(); err != nil || w.Properties[0] != direct+"P19" {
			t.Errorf("%s: %q, %v", text, w.Properties, err)
		}
	}
}

// Forms separate tags by commas, so no tag of a watch has one.
func TestTagsHaveNoComma(t *testing.T) {
	var reg registry.Registration
	Watch{Kind: Entity, IRI: "http://x.example/a", Labels: []string{"de", "en"}}.Apply(&reg)
	if strings.Contains(strings.Join(reg.Tags, ""), ",") {
		t.Errorf("tags %q", reg.Tags)
	}
}
