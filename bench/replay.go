package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// ReplayCheck compares the results that subscribers of a running server receive with
// the true ones. Its methods may be called concurrently.
type ReplayCheck struct {
	mu      sync.Mutex
	queries []subscriber
	report  ReplayReport
}

type subscriber struct {
	truth string // hash of the true result, "" before the first
	heard string // hash of the result that the subscriber holds
	past  map[string]bool
	seq   uint64
}

// ReplayReport summarises a replay.
type ReplayReport struct {
	Policy    string  `json:"policy"`
	BudgetMS  int64   `json:"budget_ms"`
	Queries   int     `json:"queries"`
	Revisions int     `json:"revisions"`
	Changes   int     `json:"changes"`          // of the true results
	Received  int     `json:"received"`         // changes that subscribers received, without baselines
	Stale     int     `json:"stale"`            // stale results, summed over the revisions
	StaleEnd  int     `json:"stale_at_the_end"` // stale results at the end
	Wrong     int     `json:"wrong"`            // results received that were never true: must be 0
	Total     int     `json:"total"`            // complete executions
	Cut       int     `json:"cut"`
	Failed    int     `json:"failed"`
	Used      float64 `json:"used"` // seconds of all executions
}

// NewReplayCheck returns a check of n queries.
func NewReplayCheck(n int) *ReplayCheck {
	a := &ReplayCheck{queries: make([]subscriber, n)}
	for i := range a.queries {
		a.queries[i].past = map[string]bool{}
	}
	return a
}

// SetTruth sets the hash of a query's true result.
func (a *ReplayCheck) SetTruth(query int, hash string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := &a.queries[query]
	if q.truth != "" && q.truth != hash {
		a.report.Changes++
	}
	q.truth = hash
	q.past[hash] = true
}

// Receive records the result that a subscriber holds now. change reports whether it
// arrived as a change of an earlier result.
func (a *ReplayCheck) Receive(query int, hash string, seq uint64, change bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := &a.queries[query]
	if change {
		a.report.Received++
	}
	if !q.past[hash] {
		a.report.Wrong++
	}
	q.heard, q.seq = hash, max(q.seq, seq)
}

// ReceivedSeq returns the last seq that a query's subscriber has received.
func (a *ReplayCheck) ReceivedSeq(query int) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.queries[query].seq
}

// EndSlot adds the figures of a slot and ends its revision.
func (a *ReplayCheck) EndSlot(complete, cut, failed int, used float64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := &a.report
	r.Total, r.Cut, r.Failed, r.Used = r.Total+complete, r.Cut+cut, r.Failed+failed, r.Used+used
	r.Revisions++
	r.StaleEnd = 0
	for _, q := range a.queries {
		if q.truth != "" && q.heard != q.truth {
			r.StaleEnd++
		}
	}
	r.Stale += r.StaleEnd
}

// Report returns the summary so far.
func (a *ReplayCheck) Report() ReplayReport {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.report
	r.Queries = len(a.queries)
	return r
}

// Write prints the report as one JSON object or as text.
func (r ReplayReport) Write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	_, err := fmt.Fprintf(w, `%s, budget %g s: %d queries over %d revisions
changes      %d, of which subscribers heard %d
stale        %d results, summed over the revisions; %d at the end
wrong        %d results that were never true
executions   %d complete, %d cut, %d failed, %.1f s
`, r.Policy, float64(r.BudgetMS)/1000, r.Queries, r.Revisions, r.Changes, r.Received, r.Stale, r.StaleEnd,
		r.Wrong, r.Total, r.Cut, r.Failed, r.Used)
	return err
}
