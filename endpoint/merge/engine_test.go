package merge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/knakk/rdf"
)

// engine returns an embedded engine with data, N-Triples.
func engine(t testing.TB, data string) *local.Engine {
	t.Helper()
	if _, err := local.FindEngine(""); err != nil {
		if slices.Contains(strings.Split(os.Getenv("FRESHET_REQUIRE"), ","), "engine") {
			t.Fatal("the part engine is required and missing")
		}
		t.Skip(`SKIP-PART engine: run "make deps"`)
	}
	e, err := local.Open(context.Background(), local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	if err := e.Load(context.Background(), strings.NewReader(data), "nt"); err != nil {
		t.Fatal(err)
	}
	return e
}

// asker runs queries and decodes their answers.
type asker func(text string, form diff.Form, o diff.Options) (*diff.Result, error)

func ask(e *local.Engine) asker {
	return func(text string, form diff.Form, o diff.Options) (*diff.Result, error) {
		format := "json"
		if form.Graph() {
			format = "nt"
		}
		body, err := e.Query(context.Background(), text, format, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errRefused, err)
		}
		if !form.Graph() {
			return diff.DecodeJSON(body, form, o)
		}
		return graph(string(body), o)
	}
}

func graph(text string, o diff.Options) (*diff.Result, error) {
	b := diff.NewBuilder(diff.Construct, o)
	d := rdf.NewTripleDecoder(strings.NewReader(text), rdf.NTriples)
	for {
		t, err := d.Decode()
		if err == io.EOF {
			return b.Finish()
		}
		if err == nil {
			err = b.Triple(termOf(t.Subj), termOf(t.Pred), termOf(t.Obj))
		}
		if err != nil {
			return nil, err
		}
	}
}

func termOf(t rdf.Term) diff.Term {
	switch t := t.(type) {
	case rdf.IRI:
		return diff.Term{Kind: diff.IRI, Value: t.String()}
	case rdf.Blank:
		return diff.Term{Kind: diff.Blank, Value: t.String()}
	case rdf.Literal:
		return diff.Term{Kind: diff.Literal, Value: t.String(), Datatype: t.DataType.String(), Lang: t.Lang()}
	}
	return diff.Term{}
}

// cohort is queries of one template.
type cohort struct {
	template *Template
	texts    []string
	members  [][]string
}

// cohorts groups the queries that can be merged by template.
func cohorts(t testing.TB, texts []string, ignored Reason) (list []*cohort, refused map[Reason]int) {
	t.Helper()
	byID := map[string]*cohort{}
	refused = map[Reason]int{}
	for _, text := range texts {
		a, err := sparql.Analyse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		tpl, args, err := parse(a, ignored)
		var r *Refusal
		if errors.As(err, &r) {
			refused[r.Reason]++
			continue
		}
		c := byID[tpl.ID]
		if c == nil {
			c = &cohort{template: tpl}
			byID[tpl.ID] = c
			list = append(list, c)
		}
		c.texts, c.members = append(c.texts, text), append(c.members, args)
	}
	return list, refused
}
