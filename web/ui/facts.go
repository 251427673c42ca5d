package ui

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// Facts are the key figures, each with a reference value and its trend.
type facts struct {
	Label          string
	Big            bool
	List           []fact
	fresh, results int
	states         tallied
}

type fact struct {
	Label string
	Value template.HTML
	Sub   template.HTML
	Mono  bool
	Spark *spark
}

const (
	trendSlots = 240 // slots of each endpoint used for trends
	trendBins  = 24
)

// facts summarises all queries and the last slots of all endpoints.
func (v overviewHandler) facts(all [][]scheduler.Slot) (facts, error) {
	snap, err := v.catalogue.look()
	if err != nil {
		return facts{}, err
	}
	n := snap.states
	f := facts{Label: "Numbers that matter", Big: true, fresh: n[registry.Live], results: len(snap.digests), states: n}
	past := v.trends.points()
	f.List = []fact{v.freshFact(n, len(snap.digests), past), changesFact(snap), v.ageFact(snap.digests, past)}
	f.List = append(f.List, slotFacts(all)...)
	if v.Subscriptions != nil && v.caller.Role.Includes(registry.RoleAdmin) {
		followers, err := v.followersFact(past)
		if err != nil {
			return facts{}, err
		}
		f.List = append(f.List, followers)
	}
	return f, nil
}

func (v overviewHandler) freshFact(n tallied, all int, past []point) fact {
	f := fact{Label: "Fresh now", Value: none, Sub: "no result yet"}
	if all == 0 {
		return f
	}
	f.Value = share(float64(n[registry.Live]) / float64(all)).HTML()
	f.Sub = "of the results"
	var others []string
	for _, x := range []struct {
		state registry.State
		word  string
	}{{registry.Failing, "failing"}, {registry.Stale, "stale"}, {registry.Paused, "paused"}, {registry.Idle, "idle"}, {registry.New, "not run yet"}} {
		if n[x.state] > 0 && len(others) < 2 {
			others = append(others, count(n[x.state])+" "+x.word)
		}
	}
	if len(others) > 0 {
		f.Sub = template.HTML(strings.Join(others, ", "))
	}
	f.Spark = trendLine(past, func(p point) float64 { return p.fresh }, "Share of fresh results", func(x float64) string { return share(x).String() })
	return f
}

func changesFact(snap *snapshot) fact {
	total, values := 0, make([]float64, hours)
	for i, c := range snap.byHour {
		total += int(c)
		values[i] = float64(c)
	}
	f := fact{Label: "Changes, 24 h", Value: template.HTML(count(total)), Sub: template.HTML(count(uint64(snap.byHour[hours-1])) + " in this hour")}
	if total > 0 {
		low, high := slices.Min(values), slices.Max(values)
		f.Spark = sparkline(values, fmt.Sprintf("Changes found an hour, last 24 hours: %s to %s", figures(low), figures(high)), func(i int, x float64) string {
			if back := hours - 1 - i; back > 0 {
				return plural(int(x), "change", "changes") + ", " + plural(back, "hour", "hours") + " ago"
			}
			return plural(int(x), "change", "changes") + ", this hour"
		})
	}
	return f
}

// ageFact shows how long ago the results were last confirmed.
func (v overviewHandler) ageFact(digests []registry.QueryDigest, past []point) fact {
	median, most := ages(digests, v.now)
	f := fact{Label: "Checked, median", Value: none, Sub: "nothing checked yet"}
	if median < 0 {
		return f
	}
	f.Value = lengthOf(median)
	f.Sub = template.HTML("ago, 95 % in " + unit(most))
	f.Spark = trendLine(past, func(p point) float64 { return p.age.Seconds() }, "Median age of results", func(x float64) string { return span(time.Duration(x) * time.Second) })
	return f
}

// lengthOf formats a duration as a number in its largest unit.
func lengthOf(d time.Duration) template.HTML {
	u := unit(max(0, d))
	for i, r := range u {
		if r == '\u202f' {
			return measure{u[:i], u[i+len(thin):]}.HTML()
		}
	}
	return template.HTML(u)
}

// A bin aggregates the slots of a time interval.
type bin struct {
	complete, changed int
	used, budget      float64
}

// slotFacts reports the yield of executions and the use of the budgets.
func slotFacts(all [][]scheduler.Slot) []fact {
	bins, total, covered := binned(all)
	worth := fact{Label: "Worth running", Value: none, Sub: "of runs had changed"}
	if total.complete > 0 {
		worth.Value = share(float64(total.changed) / float64(total.complete)).HTML()
		worth.Spark = binLine(bins, func(b bin) (float64, bool) { return ratio(float64(b.changed), float64(b.complete)) }, "Share of executions that found a change, last "+covered)
	}
	used := fact{Label: "Endpoint time", Value: none, Sub: "of the budgets used"}
	if total.budget > 0 {
		used.Value = share(total.used / total.budget).HTML()
		used.Spark = binLine(bins, func(b bin) (float64, bool) { return ratio(b.used, b.budget) }, "Share of budgets used, last "+covered)
	}
	return []fact{worth, used}
}

func ratio(a, b float64) (float64, bool) {
	if b <= 0 {
		return 0, false
	}
	return a / b, true
}

// binned divides the time covered by the slots of all endpoints into equal bins.
func binned(all [][]scheduler.Slot) (bins [trendBins]bin, total bin, covered string) {
	var first, last time.Time
	for _, slots := range all {
		for _, s := range slots {
			if first.IsZero() || s.Started.Before(first) {
				first = s.Started
			}
			if s.Started.After(last) {
				last = s.Started
			}
		}
	}
	width := last.Sub(first)/trendBins + 1
	for _, slots := range all {
		for _, s := range slots {
			for _, b := range []*bin{&bins[min(trendBins-1, int(s.Started.Sub(first)/width))], &total} {
				b.complete += s.Complete
				b.changed += s.Found()
				b.used += s.Used
				b.budget += s.Budget
			}
		}
	}
	return bins, total, span(last.Sub(first).Round(time.Second))
}

func binLine(bins [trendBins]bin, of func(bin) (float64, bool), about string) *spark {
	var values []float64
	for _, b := range bins {
		if x, ok := of(b); ok {
			values = append(values, x)
		}
	}
	if len(values) < 2 {
		return nil
	}
	return sparkline(values, fmt.Sprintf("%s: %s to %s", about, share(slices.Min(values)), share(slices.Max(values))), func(_ int, x float64) string { return share(x).String() })
}

func (v overviewHandler) followersFact(past []point) (fact, error) {
	n, failing, err := v.followers()
	if err != nil {
		return fact{}, err
	}
	f := fact{Label: "Followers", Value: template.HTML(count(n)), Sub: "all are served"}
	if n == 0 {
		f.Sub = "no followers yet"
	}
	if failing > 0 {
		f.Sub = template.HTML(count(failing) + " fail")
		if v.Has("deliveries") {
			f.Sub = `<a href="/deliveries">` + f.Sub + `</a>`
		}
	}
	f.Spark = trendLine(past, func(p point) float64 { return float64(p.followers) }, "Followers", figures)
	return f, nil
}
