package stream

import (
	"slices"
	"sync"
	"time"
)

// A Judge knows the result of each query at each position of an endpoint, and compares what a program says. Its
// methods may be called concurrently.
type Judge struct {
	mu      sync.Mutex
	queries []history
	index   index
	next    int64 // the position of the endpoint: events before it are in its data
	report  Report
	proofs  []claim
}

// A history is what was true of one query, and what the program said.
type history struct {
	truth    []truth
	received []receipt
	heard    string // hash
	seq      uint64
}

type truth struct {
	from, next int64 // the positions of the endpoint before and after it
	hash       string
	at         time.Time
}

type receipt struct {
	hash string
	at   time.Time
}

// A claim is that a result is true once all events up to a position are in the data.
type claim struct {
	query int
	hash  string
	until int64
}

// A Report has the figures of a run. Lost, False, Doubled and Unproved must be 0.
type Report struct {
	Queries  int `json:"queries"`
	Events   int `json:"events"`
	Changes  int `json:"changes"`  // of the true results, as the endpoint showed them
	Received int `json:"received"` // changes that the program told
	Lost     int `json:"lost"`     // results at the end that are not the true ones
	False    int `json:"false"`    // results that were never true
	Doubled  int `json:"doubled"`  // changes that were told twice, or that changed nothing
	Claims   int `json:"proofs_checked"`
	Unproved int `json:"wrongly_proved"`
	// DelayP50 and DelayP99 are from the change at the endpoint to the message.
	DelayP50 float64 `json:"delay_p50_seconds"`
	DelayP99 float64 `json:"delay_p99_seconds"`
}

// NewJudge returns a judge of queries.
func NewJudge(list []Query) *Judge {
	return &Judge{queries: make([]history, len(list)), index: newIndex(list)}
}

// Touched returns the queries whose results a change of the data may change.
func (j *Judge) Touched(triples []Triple) []int {
	found := map[int]bool{}
	for _, t := range triples {
		j.index.touched(t, found)
	}
	list := make([]int, 0, len(found))
	for q := range found {
		list = append(list, q)
	}
	slices.Sort(list)
	return list
}

// Applied says that the endpoint is at a position since a time, and how many events it applied for that.
func (j *Judge) Applied(next int64, events int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.next = next
	j.report.Events += events
}

// True sets the result of a query since the endpoint went from one position to the next.
func (j *Judge) True(query int, hash string, from, next int64, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	q := &j.queries[query]
	if n := len(q.truth); n > 0 && q.truth[n-1].hash == hash {
		return
	} else if n > 0 {
		j.report.Changes++
	}
	q.truth = append(q.truth, truth{from, next, hash, at})
}

// Receive records a change that the program tells at a time.
func (j *Judge) Receive(query int, hash, previous string, seq uint64, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	q := &j.queries[query]
	if q.seq > 0 {
		j.report.Received++
		if seq <= q.seq || hash == q.heard || previous != q.heard {
			j.report.Doubled++
		}
	}
	q.received = append(q.received, receipt{hash, at})
	q.heard, q.seq = hash, seq
}

// Claim records that the program says that a result is true once all events up to a position are in the data.
func (j *Judge) Claim(query int, hash string, until int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.proofs = append(j.proofs, claim{query, hash, until})
}

// Heard returns the hash of the last result that the program told.
func (j *Judge) Heard(query int) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.queries[query].heard
}

// Stale returns how many results differ from the true ones now.
func (j *Judge) Stale() (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, q := range j.queries {
		if n1 := len(q.truth); n1 > 0 && q.heard != q.truth[n1-1].hash {
			n++
		}
	}
	return n
}

// Report judges. The endpoint has applied all events.
func (j *Judge) Report() Report {
	lost := j.Stale()
	j.mu.Lock()
	defer j.mu.Unlock()
	r := j.report
	r.Queries, r.Lost, r.Claims = len(j.queries), lost, len(j.proofs)
	for _, c := range j.proofs {
		if c.until < j.next && !j.queries[c.query].holds(c) {
			r.Unproved++
		}
	}
	var delays []time.Duration
	for i := range j.queries {
		wrong, d := j.queries[i].delays()
		r.False, delays = r.False+wrong, append(delays, d...)
	}
	slices.Sort(delays)
	if n := len(delays); n > 0 {
		r.DelayP50, r.DelayP99 = delays[n/2].Seconds(), delays[n*99/100].Seconds()
	}
	return r
}

// delays returns how many messages told a result that was not true since the one before, and how late the others
// were, without the first.
func (h *history) delays() (wrong int, list []time.Duration) {
	last := -1 // of the truth that was told
	for n, m := range h.received {
		i := max(last, 0)
		for i < len(h.truth) && (h.truth[i].hash != m.hash || n > 0 && i == last) {
			i++
		}
		if i == len(h.truth) {
			wrong++
			continue
		}
		if last = i; n > 0 {
			list = append(list, max(m.at.Sub(h.truth[i].at), 0))
		}
	}
	return wrong, list
}

// holds reports whether a claim is right. Several events were applied at once: the position may be among
// them, and then either result is right.
func (h *history) holds(c claim) bool {
	i := len(h.truth) - 1
	for i > 0 && h.truth[i].next > c.until+1 {
		i--
	}
	return h.truth[i].hash == c.hash || i+1 < len(h.truth) && h.truth[i+1].from <= c.until && h.truth[i+1].hash == c.hash
}
