package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/freshet/freshet/endpoint/merge"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/sparql"
	"github.com/freshet/freshet/scheduler/cohort"
)

// An asking is a template, a kind of request, and what those requests took.
type asking struct {
	Template string      `json:"template"` // its first query; empty for requests of no known template
	Queries  int         `json:"queries"`  // of the template
	Kind     cohort.Kind `json:"kind"`
	Requests int         `json:"requests"`
	CPU      float64     `json:"cpu_seconds"`
}

// askings finds the template and the kind of a request by its text.
type askings struct {
	singles map[string]string // templates by the texts of queries
	merged  map[string]asking // without requests, by the texts of merged queries without members
	queries map[string]int    // by template
}

func newAskings(list []registry.Query) *askings {
	s := &askings{singles: map[string]string{}, merged: map[string]asking{}, queries: map[string]int{}}
	first := map[string]string{}
	for i := range list {
		text := list[i].Text
		a, err := sparql.Analyse(text)
		if err != nil {
			continue
		}
		t, args, err := merge.Parse(a)
		if err != nil {
			continue
		}
		if first[t.ID] == "" {
			first[t.ID] = text
			s.addMerged(text, t, args)
		}
		s.singles[text] = first[t.ID]
		s.queries[first[t.ID]]++
	}
	return s
}

func (s *askings) addMerged(text string, t *merge.Template, args []string) {
	other := make([]string, len(args))
	for i := range other {
		other[i] = fmt.Sprintf("<u:%d>", i)
	}
	members := [][]string{args, other}
	s.merged[withoutMembers(t.Query(members))] = asking{Template: text, Kind: cohort.Values}
	s.merged[withoutMembers(t.Probe(members, "SALT"))] = asking{Template: text, Kind: cohort.Probe}
}

// salted is where a probe has its salt, which is another one in each request.
var salted = regexp.MustCompile(`MD5\( CONCAT\( "\w+"`)

// withoutMembers leaves the first VALUES block of a merged query and the salt of a probe out.
func withoutMembers(text string) string {
	text = salted.ReplaceAllString(text, "MD5")
	before, rest, _ := strings.Cut(text, " VALUES (")
	_, after, _ := strings.Cut(rest, " ) } ")
	return before + " " + after
}

// of returns the template and the kind of a request.
func (s *askings) of(text string) asking {
	if t, ok := s.singles[text]; ok {
		return asking{Template: t, Kind: cohort.Single}
	}
	return s.merged[withoutMembers(text)]
}

// sum adds up what was spent on each template and kind, the most expensive first.
func (s *askings) sum(texts map[string]spent) (list []asking) {
	sums := map[asking]spent{}
	for text, x := range texts {
		k := s.of(text)
		sums[k] = spent{sums[k].requests + x.requests, sums[k].seconds + x.seconds}
	}
	for k, x := range sums {
		k.Queries, k.Requests, k.CPU = s.queries[k.Template], x.requests, x.seconds
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b asking) int {
		return cmp.Or(cmp.Compare(b.CPU, a.CPU), strings.Compare(a.Template, b.Template), strings.Compare(string(a.Kind), string(b.Kind)))
	})
	return list
}

func writeAskings(w io.Writer, results []mergeResult) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for _, r := range results {
		fmt.Fprintf(t, "\nmerge %s, budget %.3g s\t\t\t\t\n", r.Merge, r.Budget)
		fmt.Fprintln(t, "CPU\tKIND\tREQUESTS\tQUERIES\tTEMPLATE OF")
		for _, k := range r.Askings {
			fmt.Fprintf(t, "%.3f s\t%s\t%d\t%d\t%s\n", k.CPU, cmp.Or(k.Kind, "other"), k.Requests, k.Queries, k.Template)
		}
	}
	return t.Flush()
}
