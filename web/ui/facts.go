package ui

import (
	"context"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web"
)

// Facts are the key figures of the overview with their trends. Shares without a value are
// unknown.
type facts struct {
	Fresh, Results    int
	States            tallied
	Changes, ThisHour int           // in 24 hours
	Median, Most      time.Duration // since results were checked, the median and the 95th percentile; negative if unknown
	Worth, Used       measure       // the share of executions that found a change, and of the budgets
	Saved, Ran        int           // executions without a request of their own, of all in the last slots
	Followers         *counted      // nil if the visitor may not see them

	FreshLine, ChangeLine, AgeLine, WorthLine, UsedLine, FollowerLine *spark
}

const (
	trendSlots = 240 // slots of each endpoint used for trends
	trendBins  = 24
)

// FreshShare returns the share of the results that are fresh.
func (f facts) FreshShare() measure { return share(float64(f.Fresh) / float64(f.Results)) }

// Others returns the most urgent states of the other results, at most two.
func (f facts) Others() (out []registry.State) {
	for _, s := range []registry.State{registry.Failing, registry.Stale, registry.Paused, registry.Idle, registry.New} {
		if f.States[s] > 0 && len(out) < 2 {
			out = append(out, s)
		}
	}
	return out
}

// facts summarises all queries and the last slots of all endpoints.
func (v overviewHandler) facts(o web.Outlook, all [][]scheduler.Slot) (facts, error) {
	snap, err := v.catalogue.look()
	if err != nil {
		return facts{}, err
	}
	f := facts{States: o.States, Fresh: o.States[registry.Live], Results: o.Results, ThisHour: int(snap.byHour[hours-1])}
	f.Median, f.Most = ages(snap.digests, v.now)
	current, err := v.measure(o, snap)
	if err != nil {
		return facts{}, err
	}
	past := append(v.trends.points(), current)
	f.changes(snap)
	f.slots(all)
	f.Saved, f.Ran = executionsSaved(all)
	f.FreshLine = trendLine(past, 1, func(p point) float64 { return p.fresh }, func(x float64) string { return share(x).String() })
	f.AgeLine = trendLine(past, 0, func(p point) float64 { return p.age.Seconds() },
		func(x float64) string { return span(time.Duration(x) * time.Second) })
	if !v.May(registry.RoleAdmin) {
		return f, nil
	}
	followers, err := v.followers()
	f.Followers = &followers
	f.FollowerLine = trendLine(past, 0, func(p point) float64 { return float64(p.followers) }, figures)
	return f, err
}

func (f *facts) changes(snap *snapshot) {
	values := make([]float64, hours)
	for i, c := range snap.byHour {
		f.Changes += int(c)
		values[i] = float64(c)
	}
	if f.Changes > 0 {
		f.ChangeLine = sparkline(values, 0, figures)
	}
}

// A bin aggregates the slots of a time interval.
type bin struct {
	complete, changed int
	used, budget      float64
}

// slots reports the yield of executions and the use of the budgets.
func (f *facts) slots(all [][]scheduler.Slot) {
	bins, total, covered := binned(all)
	worth := func(b bin) (float64, bool) { return ratio(float64(b.changed), float64(b.complete)) }
	used := func(b bin) (float64, bool) { return ratio(b.used, b.budget) }
	if x, ok := worth(total); ok {
		f.Worth, f.WorthLine = share(x), binLine(bins, worth, covered)
	}
	if x, ok := used(total); ok {
		f.Used, f.UsedLine = share(x), binLine(bins, used, covered)
	}
}

func ratio(a, b float64) (float64, bool) {
	if b <= 0 {
		return 0, false
	}
	return a / b, true
}

// binned divides the time covered by the slots of all endpoints into equal bins.
func binned(all [][]scheduler.Slot) (bins [trendBins]bin, total bin, covered time.Duration) {
	var first, last time.Time
	for _, s := range slices.Concat(all...) {
		if first.IsZero() || s.Started.Before(first) {
			first = s.Started
		}
		last = later(last, s.Started)
	}
	width := last.Sub(first)/trendBins + 1
	for _, s := range slices.Concat(all...) {
		for _, b := range []*bin{&bins[min(trendBins-1, int(s.Started.Sub(first)/width))], &total} {
			b.complete += s.Complete
			b.changed += s.Changed
			b.used += s.Used
			b.budget += s.Budget
		}
	}
	return bins, total, last.Sub(first).Round(time.Second)
}

func binLine(bins [trendBins]bin, of func(bin) (float64, bool), covered time.Duration) *spark {
	var values []float64
	for _, b := range bins {
		if x, ok := of(b); ok {
			values = append(values, x)
		}
	}
	line := sparkline(values, 0, func(x float64) string { return share(x).String() })
	if line != nil {
		line.Covers = covered
	}
	return line
}

// Watch records the trends until ctx is done.
func (s *Server) Watch(ctx context.Context) {
	t := time.NewTicker(pointEvery)
	defer t.Stop()
	for {
		if err := s.record(); err != nil {
			s.Logger.Warn("a point of the trends is missing", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// record adds a point to the trends, unless there is no result.
func (s *Server) record() error {
	o, err := s.Outlook()
	if err != nil || o.Results == o.States[registry.New] {
		return err
	}
	snap, err := s.catalogue.look()
	if err != nil {
		return err
	}
	p, err := s.measure(o, snap)
	if err == nil {
		s.trends.add(p)
	}
	return err
}

// measure returns the present point of the trends.
func (s *Server) measure(o web.Outlook, snap *snapshot) (p point, err error) {
	p = point{at: s.Now(), fresh: float64(o.States[registry.Live]) / float64(max(1, o.Results))}
	age, _ := ages(snap.digests, p.at)
	p.age = max(0, age)
	c, err := s.followers()
	p.followers = c.N
	return p, err
}
