package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// relevantAt, delayAt and longestAt are the indexes of the columns of the findings.
var (
	relevantAt = columnAt("relevant")
	delayAt    = columnAt("abs delay")
	longestAt  = columnAt("max delay")
)

func columnAt(name string) int {
	return slices.IndexFunc(tableColumns, func(m tableColumn) bool { return m.name == name })
}

// findings describes the tables in words.
func (s *Study) findings() (out []string) {
	all := 0.0
	for _, n := range s.totals {
		all += float64(n) / float64(len(s.totals))
	}
	for _, b := range s.budgets() {
		list := s.summaries(b)
		out = append(out, found(list, b, all, s.bound(b)), lateness(list, b))
		if s.Compare {
			out = append(out, order(list, b))
		}
	}
	return slices.DeleteFunc(out, func(text string) bool { return text == "" })
}

// bound returns the mean of the bounds of the traces, 0 if there are none.
func (s *Study) bound(budget time.Duration) float64 {
	sum := 0.0
	for _, rows := range s.Rows {
		for i := range rows {
			if rows[i].BudgetMS == budget.Milliseconds() {
				sum += float64(rows[i].Bound) / float64(len(s.Rows))
				break
			}
		}
	}
	return sum
}

// ranked lists the policies that can run by a column, the best first.
func ranked(list []summary, m int) []summary {
	out := slices.DeleteFunc(slices.Clone(list), func(s summary) bool { return yardstick(s.policy) })
	slices.SortStableFunc(out, func(a, b summary) int { return tableColumns[m].best * cmp.Compare(b.means[m], a.means[m]) })
	return out
}

// found names the policy that finds most and the rank of the default. all is the number of
// changes, and bound what no schedule exceeds, 0 if that is not known.
func found(list []summary, budget time.Duration, all, bound float64) string {
	order := ranked(list, relevantAt)
	if len(order) == 0 {
		return ""
	}
	of, reference := all, "them"
	text := fmt.Sprintf("Budget %s: there are %s changes", seconds(budget), decimal(all, 0))
	if bound > 0 {
		text += fmt.Sprintf(", of which no schedule finds more than %s", decimal(bound, 0))
	}
	text += ". "
	for _, s := range list {
		if s.policy == clairvoyant {
			of, reference = s.means[relevantAt], "what "+clairvoyant+" finds"
			text += fmt.Sprintf("The clairvoyant policy %s, which knows all results beforehand and runs what is stale longest first, "+
				"finds %s. ", clairvoyant, decimal(of, 0))
		}
	}
	share := func(s summary, what string) string {
		return fmt.Sprintf("%s (%.1f %%%s)", decimal(s.means[relevantAt], 0), 100*s.means[relevantAt]/max(1, of), what)
	}
	first := leaders(order, relevantAt)
	text += fmt.Sprintf("Of the policies that can run, %s most, %s", named(first, "finds", "find"), share(order[0], " of "+reference))
	is := func(s summary) bool { return s.policy == registry.DefaultPolicy }
	at := slices.IndexFunc(order, is)
	switch {
	case slices.ContainsFunc(first, is):
		text += "; the server's default is one of them"
		if len(first) == 1 {
			text = strings.Replace(text, "one of them", "this one", 1)
		}
	case at > 0:
		better := slices.IndexFunc(order, func(s summary) bool { return s.means[relevantAt] <= order[at].means[relevantAt] })
		text += fmt.Sprintf("; the server's default %s finds %s and is number %d of %d", registry.DefaultPolicy, share(order[at], ""),
			better+1, len(order))
	}
	return text + "."
}

// leaders returns the policies that share the best value of a ranked list.
func leaders(order []summary, m int) []summary {
	n := slices.IndexFunc(order, func(s summary) bool { return s.means[m] != order[0].means[m] })
	if n < 0 {
		n = len(order)
	}
	return order[:n]
}

// named writes the names of a few policies, or the number of many, with a verb.
func named(list []summary, one, several string) string {
	switch len(list) {
	case 1:
		return list[0].policy + " " + one
	case 2:
		return list[0].policy + " and " + list[1].policy + " " + several
	}
	return fmt.Sprintf("%d policies %s", len(list), several)
}

// lateness describes for how long results are stale.
func lateness(list []summary, budget time.Duration) string {
	sum, longest := ranked(list, delayAt), ranked(list, longestAt)
	if len(sum) == 0 {
		return ""
	}
	least, shortest := leaders(sum, delayAt), leaders(longest, longestAt)
	text := fmt.Sprintf("Budget %s: %s results stale for the shortest time in all, %s slots; %s them stale for %s slots at most.",
		seconds(budget), named(least, "leaves", "leave"), decimal(sum[0].means[delayAt], 0), named(shortest, "leaves", "leave"),
		decimal(longest[0].means[longestAt], 0))
	is := func(s summary) bool { return s.policy == registry.DefaultPolicy }
	if k := slices.IndexFunc(list, is); k >= 0 && !slices.ContainsFunc(least, is) {
		text += fmt.Sprintf(" Under %s it is %s slots, at most %s.", list[k].policy, decimal(list[k].means[delayAt], 0),
			decimal(list[k].means[longestAt], 0))
	}
	return text
}

// order compares the paper's order of policies by changes found with ours. Policies
// within one per cent of each other in the paper count as equal.
func order(list []summary, budget time.Duration) string {
	type pair struct {
		policy      string
		ours, paper float64
	}
	var both []pair
	var deviations []float64
	for _, s := range list {
		if r := find(Published(), s.policy, budget.Milliseconds()); r != nil {
			both = append(both, pair{s.policy, s.means[relevantAt], float64(r.Relevant)})
			deviations = append(deviations, 100*math.Abs(s.means[relevantAt]/float64(r.Relevant)-1))
		}
	}
	if len(both) < 2 {
		return ""
	}
	pairs, kept := 0, 0
	var swapped []string
	for i, a := range both {
		for _, b := range both[i+1:] {
			if math.Abs(a.paper-b.paper) <= 0.01*max(a.paper, b.paper) {
				continue
			}
			pairs++
			first, second := a, b
			if first.paper < second.paper {
				first, second = b, a
			}
			if first.ours >= second.ours {
				kept++
			} else {
				swapped = append(swapped, second.policy+" before "+first.policy)
			}
		}
	}
	slices.Sort(deviations)
	text := fmt.Sprintf("Budget %s: of the %d policies in the paper's table, the changes found differ from the paper's by %.1f "+
		"%% in the median and %.1f %% at most; ",
		seconds(budget), len(both), deviations[len(deviations)/2], deviations[len(deviations)-1])
	switch {
	case pairs == 0:
		return strings.TrimSuffix(text, "; ") + "."
	case kept == pairs:
		return text + "their order is the paper's."
	}
	return text + fmt.Sprintf("%d of %d pairs are in the paper's order, and these are not: %s.", kept, pairs, strings.Join(swapped, ", "))
}
