package bench

import (
	"cmp"
	"time"

	"github.com/freshet/freshet/bench/trace"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/plan"
)

// Metrics are the measures of Knuth, Hartig, Sack 2016, section 5.4, computed from
// the trace. A version is the result of a query in a revision. A change is a revision
// whose version differs from the one before. Delays are in slots.
type Metrics struct {
	Total            int     `json:"total"`       // complete executions
	Relevant         int     `json:"relevant"`    // those whose version differs from the one fetched before
	Irrelevant       int     `json:"irrelevant"`  // the others
	Effectivity      float64 `json:"effectivity"` // relevant / total, 0 if nothing ran
	AbsDelay         int     `json:"abs_delay"`   // from the moment a result becomes stale to its refresh, or to the end
	MaxDelay         int     `json:"max_delay"`
	AbsDelayDetected int     `json:"abs_delay_detected"` // without results that are stale at the end
	MaxDelayDetected int     `json:"max_delay_detected"`
	AbsMiss          int     `json:"abs_miss"`           // all changes minus the relevant executions
	MaxMiss          int     `json:"max_miss"`           // most changes of one query between two executions
	Distinct         int     `json:"distinct"`           // queries with a complete execution
	Cut              int     `json:"cut"`                // executions ended by the budget, in no other count
	Requests         int     `json:"requests,omitempty"` // if some were merged: all requests; else each execution is one
	Failed           int     `json:"failed,omitempty"`   // executions without a complete answer, in no other count
	Used             float64 `json:"used"`               // seconds of all executions after t0
	MaxOverrun       float64 `json:"max_overrun"`        // seconds beyond the budget in one slot
	MaxDebt          float64 `json:"max_debt,omitempty"` // seconds owed at the end of a slot, at most
	// Age is the age of information: the slots since a result was last fetched, the mean over all
	// results and slots. Fresh is the share of the slots in which a result is the current one, the
	// mean over the results that change at all.
	Age   float64 `json:"age"`
	Fresh float64 `json:"fresh"`
}

// PerChange returns the requests and the seconds that each change found took. A request that was cut or failed counts, too.
func (m *Metrics) PerChange() (requests, seconds float64) {
	found := float64(max(1, m.Relevant))
	return float64(cmp.Or(m.Requests, m.Total+m.Cut+m.Failed)) / found, m.Used / found
}

// A tally computes the metrics of a schedule.
type tally struct {
	w       *Simulator
	m       Metrics
	delays  []int // of each relevant execution and each result that is stale at the end
	fetched []int // by series: the version last fetched
	last    []int // by query: the slot of its last execution
	done    []bool
	noise   Signals
	reports [][]int // by slot, for yardsticks
	belief  *belief // for the yardstick "bayes"
	heard   []int   // by query: reports since its last execution
	ages    int     // sum of the ages of all results over the slots up to their last executions
	stale   int     // likewise, the slots in which they differed from the current ones
	used    time.Duration
	over    time.Duration
	debt    time.Duration
	slot    int
	inSlot  time.Duration
	budget  time.Duration
	merges  bool
}

func newTally(w *Simulator, budget time.Duration) *tally {
	return &tally{
		w: w, budget: budget, fetched: make([]int, len(w.t.Series)), last: make([]int, w.t.Queries), done: make([]bool, w.t.Queries),
	}
}

// begin opens the next slot.
func (y *tally) begin() {
	y.slot++
	y.inSlot = 0
	if y.reports != nil {
		for _, q := range y.reports[y.slot] {
			y.heard[q]++
		}
	}
}

// end closes a slot that leaves a debt.
func (y *tally) end(debt time.Duration) {
	y.debt = max(y.debt, debt)
	y.over = max(y.over, y.inSlot-y.budget)
	y.used += y.inSlot
}

// play counts one execution.
func (y *tally) play(x plan.Played) {
	y.inSlot += x.Elapsed
	if y.merges && !x.Rider {
		y.m.Requests++
	}
	switch {
	case x.Outcome == "": // asked again
	case x.Outcome.Complete():
		y.complete(x.Query)
	case x.Outcome == registry.Cut:
		y.m.Cut++
	default:
		y.m.Failed++
	}
}

func (y *tally) complete(q int) {
	y.m.Total++
	if !y.done[q] {
		y.done[q] = true
		y.m.Distinct++
	}
	y.renew(q)
}

// renew adds up a query's time since its last execution, and fetches its result.
func (y *tally) renew(q int) {
	past, found := y.slot-y.last[q], y.m.Relevant
	y.ages += past * (past - 1) / 2
	if i := y.w.series[q]; i >= 0 {
		y.stale += y.staleSlots(int(i), y.slot)
		y.fetch(int(i))
	}
	y.last[q] = y.slot
	if y.belief != nil {
		y.belief.learn(q, past, y.m.Relevant > found)
	}
	if y.heard != nil {
		y.heard[q] = 0
	}
}

// staleSlots counts the slots before end in which a series differs from what was fetched.
func (y *tally) staleSlots(i, end int) (n int) {
	s, was := &y.w.t.Series[i], y.fetched[i]
	for k := was + 1; k < len(s.Versions) && s.Versions[k].Rev < end; k++ {
		if s.Versions[was].Same(s.Versions[k]) {
			continue
		}
		next := end
		if k+1 < len(s.Versions) {
			next = min(end, s.Versions[k+1].Rev)
		}
		n += next - s.Versions[k].Rev
	}
	return n
}

// playAll counts the execution of all queries.
func (y *tally) playAll() {
	y.inSlot += y.w.totals[y.slot].cost
	y.m.Total += y.w.t.Queries
	if y.m.Distinct < y.w.t.Queries {
		y.m.Distinct = y.w.t.Queries
		for q := range y.done {
			y.done[q] = true
		}
	}
	for q := range y.last {
		y.renew(q)
	}
}

// fetch records that the version of the current slot is fetched.
func (y *tally) fetch(i int) {
	s := &y.w.t.Series[i]
	was, now := y.fetched[i], y.now(i)
	y.fetched[i] = now
	if now == was {
		return
	}
	passed := now - was
	if !s.Versions[was].Same(s.Versions[now]) {
		passed--
		y.m.Relevant++
		delay := y.slot - staleSince(s, was, now)
		y.m.AbsDelayDetected += delay
		y.m.MaxDelayDetected = max(y.m.MaxDelayDetected, delay)
		y.delays = append(y.delays, delay)
	}
	y.m.MaxMiss = max(y.m.MaxMiss, passed)
}

// now returns the version of a series in the current slot.
func (y *tally) now(i int) int {
	s, k := &y.w.t.Series[i], y.fetched[i]
	for k+1 < len(s.Versions) && s.Versions[k+1].Rev <= y.slot {
		k++
	}
	return k
}

// staleSince returns the revision in which the fetched version became stale, where
// now is the true one: the first change after the last version that equals the
// fetched one.
func staleSince(s *trace.Series, fetched, now int) int {
	for k := now; ; k-- {
		if s.Versions[k-1].Same(s.Versions[fetched]) {
			return s.Versions[k].Rev
		}
	}
}

// staleFrom reports whether a series is stale in the current slot, and since when.
func (y *tally) staleFrom(i int) (since int, stale bool) {
	s := &y.w.t.Series[i]
	was, now := y.fetched[i], y.now(i)
	if s.Versions[was].Same(s.Versions[now]) {
		return 0, false
	}
	return staleSince(s, was, now), true
}

// finish adds the results that are stale at the end.
func (y *tally) finish() Metrics {
	m := y.m
	y.slot = y.w.t.Revisions
	m.AbsDelay, m.MaxDelay = m.AbsDelayDetected, m.MaxDelayDetected
	end := y.slot + 1
	ages, behind, changing := y.ages, y.stale, 0
	for _, last := range y.last {
		ages += (end - last) * (end - last - 1) / 2
	}
	for i := range y.fetched {
		behind += y.staleSlots(i, end)
		if len(y.w.t.Series[i].Versions) > 1 {
			changing++
		}
		since, stale := y.staleFrom(i)
		if stale {
			delay := y.slot - since
			m.AbsDelay += delay
			m.MaxDelay = max(m.MaxDelay, delay)
			y.delays = append(y.delays, delay)
		}
		m.MaxMiss = max(m.MaxMiss, len(y.w.t.Series[i].Versions)-1-y.fetched[i])
	}
	m.Irrelevant = m.Total - m.Relevant
	if m.Total > 0 {
		m.Effectivity = float64(m.Relevant) / float64(m.Total)
	}
	m.AbsMiss = y.w.changes - m.Relevant
	m.Used, m.MaxOverrun, m.MaxDebt = y.used.Seconds(), max(0, y.over).Seconds(), y.debt.Seconds()
	m.Age = float64(ages) / float64(max(1, y.slot*y.w.t.Queries))
	m.Fresh = 1 - float64(behind)/float64(max(1, y.slot*changing))
	return m
}
