package main

// This file judges a run: from what the endpoint answered follows what the server may say.

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
	serverclock "github.com/freshet/freshet/registry/clock"
)

// slack is how long the end of a request may be known to one side only.
const slack = 5 * time.Millisecond

// commit is how long what is written may wait for a commit.
const commit = 50 * time.Millisecond

// A request is one that the endpoint received.
type request struct {
	begin, end time.Duration
	node       int
	members    []int
	rows       [][]int // by member; nil without an answer
	fault      string
	retry      time.Duration // of Retry-After
	cut        bool          // the server's process ended before the request did
	closed     bool          // its connection was closed at once, perhaps because its time had ended before the answer was read
}

// complete reports whether the answer is a complete one that the server may have received.
func (r *request) complete() bool {
	if r.rows == nil || r.cut {
		return false
	}
	// An answer without rows is below the cap that a short one names.
	empty := !slices.ContainsFunc(r.rows, func(rows []int) bool { return len(rows) > 0 })
	return r.fault == "" || r.fault == plan.Late || r.fault == plan.Old || r.fault == plan.Short && empty
}

// A judge collects what is wrong.
type judge struct {
	*Run
	wrong    []string
	requests []*request
	ends     []time.Duration // of lives
	kills    []time.Duration // ends that were not orderly
	begins   []time.Duration // of lives
	failed   []time.Duration // begins of lives in which the server did not start
	history  map[int][]plan.Event
	restored time.Duration         // when a backup was restored, 0 for never
	removed  map[int]time.Duration // when a query that was removed was registered again
}

// Judge returns what is wrong in a run.
func Judge(r *Run) []string {
	j := &judge{Run: r, history: map[int][]plan.Event{}, removed: map[int]time.Duration{}}
	j.read()
	j.politeness()
	j.budget()
	for q := range j.Plan.Queries {
		j.truth(q)
		j.times(q)
	}
	for f := range j.Plan.Followers {
		switch j.Plan.Followers[f].Way {
		case plan.WebSub, plan.SEPA:
			j.contents(f)
		case plan.People, plan.Mail:
			j.words(f)
		default:
			j.follower(f)
		}
	}
	for x := range j.Plan.Rules {
		j.rule(x)
	}
	j.past()
	j.proofs()
	j.gauges()
	j.hints()
	j.leases()
	held(j)
	j.repeated()
	j.use()
	if i := bytes.Index(j.Output, []byte("panic")); i >= 0 {
		j.say(0, "the server panics: %.300s", j.Output[i:])
	}
	return j.wrong
}

// in returns the settings in force at a time. On a full disk a server begins with those that the store has, and puts the new ones in
// force once there is room. One that fails while it starts puts none in force.
func (j *judge) in(at time.Duration) plan.Settings {
	begin := time.Duration(0)
	for _, b := range j.begins {
		if b <= at && inForce(j.Plan, b) <= at && !slices.Contains(j.failed, b) {
			begin = b
		}
	}
	return j.Plan.In(begin)
}

// applies is how long after there is room on the disk a server may still have put none of its new settings in force.
const applies = 5 * time.Second

// inForce returns when settings are in force that a server begins with at a time.
func inForce(p *plan.Plan, begin time.Duration) time.Duration {
	at := begin
	for more := true; more; {
		more = false
		for _, f := range p.Disk {
			if f.Kind == plan.Full && f.Until+applies > at && (f.Holds(at) || at > begin && f.From <= at && at < f.Until+applies) {
				at, more = f.Until+applies, true
			}
		}
	}
	return at
}

// applying reports whether at a time new settings may be in force already, or not yet.
func applying(j *judge, at time.Duration) bool {
	return slices.ContainsFunc(j.begins, func(b time.Duration) bool { return b <= at && at < inForce(j.Plan, b) })
}

func (j *judge) say(at time.Duration, format string, a ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf("%s %s", clock(at), fmt.Sprintf(format, a...)))
}

func clock(at time.Duration) string { return fmt.Sprintf("%8.3fs", at.Seconds()) }

// broken reports whether the disk was broken at a time, shortly before, or so soon after that what is written then waits for a commit.
func (j *judge) broken(at time.Duration) bool {
	return slices.ContainsFunc(j.Plan.Disk, func(f plan.DiskFault) bool {
		return f.From-commit <= at && at <= f.Until+10*time.Second
	})
}

// unsettled reports whether at a time a node of the cluster, or one of those that are named, was out, or had just been, so that what
// it did may be unknown to the others.
func (j *judge) unsettled(at time.Duration, nodes ...int) bool {
	if j.restored > 0 && j.restored-2*time.Second <= at && at <= j.restored+j.Plan.Slot {
		return true // the backup does not know what came after it
	}
	return slices.ContainsFunc(j.Plan.Outages, func(o plan.Outage) bool {
		return o.From-2*time.Second <= at && at <= o.Until+30*time.Second && (len(nodes) == 0 || slices.Contains(nodes, o.Node))
	})
}

// read collects requests and states, and checks what lives say of themselves.
func (j *judge) read() {
	open, last := map[int]*request{}, map[int]*request{}
	ids := map[int]string{}
	complete, flipped, before, gone := false, false, "", map[int]bool{}
	cut := func(at time.Duration) {
		for _, n := range slices.Sorted(maps.Keys(open)) {
			open[n].end, open[n].cut = at, true
		}
		clear(open)
		clear(last)
	}
	until := time.Duration(0)
	for _, e := range j.Events {
		if e.At < until {
			j.say(e.At, "time goes back")
		}
		if e.Kind == plan.Flipped || e.Kind == plan.Mended { // between two lives
			flipped = e.Kind == plan.Flipped
			continue
		}
		switch e.Kind {
		case plan.Start:
			if before != "" && before != plan.Stopped {
				j.ends, j.kills = append(j.ends, until), append(j.kills, until)
			}
			cut(until)
			j.begins = append(j.begins, e.At)
		case plan.Checked, plan.Failed:
			if e.Kind == plan.Failed && before == plan.Checked && len(j.begins) > 0 {
				j.failed = append(j.failed, j.begins[len(j.begins)-1])
			}
			if (e.Text != "" || e.Kind == plan.Failed) && !j.broken(e.At) && !flipped && !j.alone(&e) {
				j.say(e.At, "%s: %s", e.Kind, cmp.Or(e.Text, "without an error"))
			}
		case plan.Stopped:
			if e.Text != "" && !j.broken(e.At) {
				j.say(e.At, "the server stopped with an error: %s", e.Text)
			}
			j.ends = append(j.ends, e.At)
		case plan.Restored:
			j.restored = e.At
			clear(ids)
		case plan.Problem:
			starts := strings.Contains(e.Text, "/problems/no-result") && j.leftAlone(e.At)
			unwritten := strings.Contains(e.Text, ": 500 ") && !strings.HasPrefix(e.Text, "GET ") && j.broken(e.At)
			if !starts && !unwritten {
				j.say(e.At, "%s", e.Text)
			}
		case plan.Removed:
			j.removed[e.Query], gone[e.Query] = e.At, true
		case plan.Registered:
			if gone[e.Query] { // until then a slot may have run that had begun before
				j.removed[e.Query], gone[e.Query] = e.At, false
			}
			if id := ids[e.Query]; id != "" && id != e.Text {
				j.say(e.At, "query %d has another id: %s, then %s", e.Query, id, e.Text)
			}
			ids[e.Query] = e.Text
		case plan.Ask:
			r := &request{begin: e.At, end: e.At, node: e.Who, members: e.Members, cut: true}
			open[e.N], last[e.N] = r, r
			j.requests = append(j.requests, r)
		case plan.Answer:
			if r := open[e.N]; r != nil {
				r.end, r.rows, r.fault, r.retry, r.cut = e.At, e.Rows, e.Text, time.Duration(e.Prev), false
				delete(open, e.N)
			}
		case plan.Closed:
			if r := last[e.N]; r != nil && e.At < r.end+slack {
				r.closed = true
			}
		case plan.State:
			j.history[e.Query] = append(j.history[e.Query], e)
		case plan.End:
			complete = true
		}
		until, before = e.At, e.Kind
	}
	cut(until)
	if !complete {
		j.say(until, "the server did not come up again")
	}
}

// politeness checks the number of requests at a time, the pauses and Retry-After.
func (j *judge) politeness() {
	var told, quiet time.Duration // when the endpoint said that it wants no requests, and until when
	var ended time.Duration
	by := 0 // the node that was told
	for i, r := range j.requests {
		is := j.in(r.begin)
		most, onTheWay := is.Concurrency, slack // for how long another one may be sent after that
		if is.MinGap > 0 {
			most = 1
		}
		if is.Concurrency == 1 {
			onTheWay = 0
		}
		under := 1
		for _, o := range j.requests[:i] {
			if o.end > r.begin+slack {
				under++
			}
		}
		if under > most && !applying(j, r.begin) {
			j.say(r.begin, "%d requests at a time; allowed are %d", under, most)
		}
		if i > 0 && is.MinGap > 0 && r.begin-ended < is.MinGap-time.Millisecond && !applying(j, r.begin) {
			j.say(r.begin, "a request begins %s after the end of the one before; min_gap is %s", r.begin-ended, is.MinGap)
		}
		if r.begin < quiet-time.Millisecond && r.begin > told+onTheWay &&
			!j.unsettled(told, by) && !j.lost(told, r.begin) && !j.misdated(told, r.begin) {
			j.say(r.begin, "a request comes %s before the endpoint wants one", quiet-r.begin)
		}
		ended = max(ended, r.end)
		if r.fault == plan.Busy && r.end+r.retry > quiet {
			told, quiet, by = r.end, r.end+r.retry, r.node
		}
	}
}

// alone reports whether a node ended because it had been cut off from the journal for a minute since it started.
func (j *judge) alone(e *plan.Event) bool {
	off := 0
	for s := range 60 {
		if j.Plan.Out(e.N, plan.Off, e.At-time.Duration(s)*time.Second) {
			off++
		}
	}
	return off >= 58 && strings.Contains(e.Text, "nothing came from it in 1m")
}

// lost reports whether a server may have forgotten at a time what it was told before: it goes on from an older backup, or
// the disk did not take it.
func (j *judge) lost(told, now time.Duration) bool {
	return told < j.restored && j.restored <= now || slices.ContainsFunc(j.ends, func(end time.Duration) bool {
		return told <= end && end < told+2*time.Second && j.broken(told)
	})
}

// misdated reports whether a server that started since a time goes by another clock than the one before did then, because it was
// set in between or so shortly before that it was not believed. A wait that was to end at a time of that clock may seem to be over.
func (j *judge) misdated(then, now time.Duration) bool {
	return slices.ContainsFunc(j.begins, func(begun time.Duration) bool {
		return then < begun && begun <= now && slices.ContainsFunc(j.Plan.Steps, func(s plan.Step) bool {
			return then-serverclock.Patience-time.Second < s.At && s.At <= begun
		})
	})
}

// held checks that a query is not asked while it is paused, or after it was removed, but in a slot that runs already.
func held(j *judge) {
	for _, e := range j.Events {
		if e.Kind != plan.Paused && e.Kind != plan.Removed {
			continue
		}
		until := j.Plan.Span + j.Plan.Settle
		for _, o := range j.Events {
			ends := o.Kind == plan.Resuming || o.Kind == plan.Registered && e.Kind == plan.Removed
			if ends && o.Query == e.Query && e.At <= o.At && o.At < until {
				until = o.At
			}
		}
		for _, r := range j.requests {
			if slices.Contains(r.members, e.Query) && e.At+j.Plan.Slot <= r.begin && r.begin < until && !j.lost(e.At, r.begin) &&
				!j.unsettled(r.begin, r.node) {
				j.say(r.begin, "query %d is asked, although it is %s since %s", e.Query, e.Kind, clock(e.At))
			}
		}
	}
}

// leases checks that a gateway asks nothing, nor a node that is cut off from the journal once others may have its lease.
func (j *judge) leases() {
	for _, r := range j.requests {
		if j.Plan.Gateway && r.node == 0 {
			j.say(r.begin, "the gateway asks the endpoint")
		}
		for _, o := range j.Plan.Outages {
			if since := r.begin - o.From; o.Node == r.node && o.Kind == plan.Off && o.Holds(r.begin) && since > j.Plan.Lease {
				j.say(r.begin, "node %d asks the endpoint %s after it was cut off; its lease is %s", r.node, since, j.Plan.Lease)
			}
		}
	}
}

// budget checks the execution time in each slot, where slots begin at multiples of their
// length.
func (j *judge) budget() {
	if len(j.Plan.Steps) > 0 {
		return
	}
	used := map[int]time.Duration{}
	for _, r := range j.requests {
		used[int((r.begin+time.Millisecond)/j.Plan.Slot)] += r.end - r.begin
	}
	debt := time.Duration(0)
	for slot := range int((j.Plan.Span + j.Plan.Settle) / j.Plan.Slot) {
		at := time.Duration(slot) * j.Plan.Slot
		is := j.in(at)
		if end := j.in(at + j.Plan.Slot); end != is { // a server with other settings goes on
			is.Budget, debt = max(is.Budget, end.Budget), 0
			is.Rule = max(is.Rule, end.Rule)
		}
		nodes := asking(j.requests, at-j.Plan.Slot, at+j.Plan.Slot)
		if len(nodes) > 1 || j.unsettled(at, nodes...) || j.unsettled(at+j.Plan.Slot, nodes...) { // the next one may not know what was used
			is.Budget, debt = 2*is.Budget, 0
		}
		over := used[slot] - is.Budget
		if is.Rule == "strict" {
			if over > slack*time.Duration(len(j.requests)) || over > slack*10 {
				j.say(at, "a slot takes %s; its budget is %s", used[slot], is.Budget)
			}
			continue
		}
		j.repays(slot, debt, is)
		debt = max(0, debt+over)
		if debt > is.Timeout+10*slack && len(j.Plan.Edits) == 0 {
			j.say(at, "slots up to this one take %s more than their budgets; one timeout is %s", debt, is.Timeout)
			debt = 0
		}
	}
}

// asking lists the nodes that asked the endpoint in some time; without any, that is every node.
func asking(requests []*request, from, until time.Duration) (nodes []int) {
	for _, r := range requests {
		if from <= r.begin && r.begin < until && !slices.Contains(nodes, r.node) {
			nodes = append(nodes, r.node)
		}
	}
	return nodes
}

// repays checks that no request begins in a slot whose budget, less what it repays of the debt of the slots before, is used up. A
// slot repays half of its budget at most.
func (j *judge) repays(slot int, debt time.Duration, is plan.Settings) {
	from := time.Duration(slot) * j.Plan.Slot
	killed := func(at time.Duration) bool {
		return at <= from+j.Plan.Slot && from <= at+2*j.Plan.Slot+time.Minute && slices.ContainsFunc(j.requests, func(r *request) bool {
			return r.begin <= at && at <= r.end+2*time.Second
		})
	}
	if debt < 20*slack || len(j.Plan.Edits) > 0 || slices.ContainsFunc(j.kills, killed) {
		return // a server that was killed does not know what its last requests took
	}
	left := is.Budget - min(debt, is.Budget/2)
	share := left / 2     // for the first executions of queries; what they take beyond it is borrowed from later slots
	var before []*request // of the slot
	for _, r := range j.requests {
		if int((r.begin+time.Millisecond)/j.Plan.Slot) != slot {
			continue
		}
		var used, first time.Duration
		for _, o := range before {
			took := min(o.end, r.begin) - o.begin
			used += took
			if j.first(o) {
				first += took
			}
		}
		if used -= max(0, first-share); used > left+10*slack {
			j.say(r.begin, "a request begins after %s of a slot that has %s, as the debt is %s", used, left, debt)
			return
		}
		before = append(before, r)
	}
}

// first reports whether a request is about a query that had no complete answer before.
func (j *judge) first(r *request) bool {
	return slices.ContainsFunc(r.members, func(q int) bool {
		return !slices.ContainsFunc(j.requests, func(o *request) bool {
			return o.begin >= j.removed[q] && o.end <= r.begin && o.complete() && slices.Contains(o.members, q)
		})
	})
}

// An answer is one that a query got, alone or with others.
type answer struct {
	at   time.Duration
	rows []int
	must bool // the server must have recorded it
}

// answers lists the complete answers of a query.
func (j *judge) answers(q int) (list []answer) {
	for _, r := range j.requests {
		k := slices.Index(r.members, q)
		if k < 0 || !r.complete() || r.begin < max(j.restored, j.removed[q]) {
			continue
		}
		must := len(r.members) == 1 && !r.closed && r.end-r.begin < j.in(r.begin).Timeout-slack &&
			!j.again(r) && !j.charged(r) && !j.broken(r.end) && !j.unsettled(r.end, r.node) &&
			!slices.ContainsFunc(j.ends, func(end time.Duration) bool { return r.end <= end && end < r.end+2*time.Second })
		list = append(list, answer{r.end, r.rows[k], must})
	}
	slices.SortStableFunc(list, func(a, b answer) int { return int(a.at - b.at) })
	return list
}

// again reports whether a request may repeat one that was cut off. Both together may take all of the time that they were given, so
// that there is none left to record the answer.
func (j *judge) again(r *request) bool {
	return slices.ContainsFunc(j.requests, func(o *request) bool {
		return o.node == r.node && !o.complete() && slices.Equal(o.members, r.members) && o.end <= r.begin &&
			r.begin < o.end+j.in(o.end).MinGap+slack
	})
}

// charged reports whether a request is of the first slot of a later life. That slot may have to pay for all that the life before was
// lent, so that no time is left to record an answer.
func (j *judge) charged(r *request) bool {
	return slices.ContainsFunc(j.begins, func(b time.Duration) bool { return b > 0 && b <= r.begin && r.begin < b+j.Plan.Slot })
}

// truth checks that the history of a query is what its answers were, no more and no less.
func (j *judge) truth(q int) {
	h := j.history[q]
	for i, e := range h {
		if i > 0 && (e.Prev != h[i-1].Seq || e.Seq != e.Prev+1 || e.Epoch != h[i-1].Epoch) {
			j.say(e.At, "query %d: change %s:%d from %d follows %s:%d", q, e.Epoch, e.Seq, e.Prev, h[i-1].Epoch, h[i-1].Seq)
		}
		if i > 0 && slices.Equal(e.Rows[0], h[i-1].Rows[0]) {
			j.say(e.At, "query %d: change %d changes nothing", q, e.Seq)
		}
	}
	trimmed := len(h) > 0 && h[0].Seq > 1
	if j.restored > 0 {
		trimmed = true // the state of the backup may be the first one
	} else if trimmed && !j.trims() {
		j.say(h[0].At, "query %d: the history begins at change %d, and nothing may be dropped", q, h[0].Seq)
	}
	is := j.Plan.Settings
	if fewer := trimmed && is.Age > time.Hour && len(h) < is.Retention; j.restored == 0 && len(j.Plan.Edits) == 0 &&
		(fewer || len(h) > is.Retention) {
		j.say(h[0].At, "query %d: %d changes are kept; %d are to be kept", q, len(h), is.Retention)
	}
	// at are the numbers of states that may have been recorded so far.
	at := map[int]bool{0: true}
	for _, a := range j.answers(q) {
		next := map[int]bool{}
		for n := range at {
			switch {
			case n > 0 && slices.Equal(h[n-1].Rows[0], a.rows):
				next[n] = true
			case n < len(h) && slices.Equal(h[n].Rows[0], a.rows):
				next[n+1] = true
			}
			if !a.must || n == 0 && trimmed {
				next[n] = true
			}
		}
		if len(next) == 0 {
			j.say(a.at, "query %d: the answer %v is not in its place in the history", q, a.rows)
			return
		}
		at = next
	}
	if !at[len(h)] {
		j.say(0, "query %d: the history has %d states, of which the answers explain %d", q, len(h), slices.Max(slices.Collect(maps.Keys(at))))
	}
	nows := 0
	for _, e := range j.Events {
		if e.Kind != plan.Now || e.Query != q {
			continue
		}
		nows++
		if len(h) > 0 && !slices.Equal(e.Rows[0], h[len(h)-1].Rows[0]) {
			j.say(e.At, "query %d: the result is %v, the last state of the history %v", q, e.Rows[0], h[len(h)-1].Rows[0])
		}
		if want := j.Plan.Queries[q].Rows(j.Plan.Shown(e.At)); !slices.Equal(e.Rows[0], want) && !j.starves(q, e.At) && !j.leftAlone(e.At) &&
			!backsOff(j, q, e.At) && (j.Plan.Feed != nil || !j.rests(q, e.At)) {
			j.say(e.At, "query %d is not fresh %s after the last fault: %v, want %v", q, j.Plan.Settle, e.Rows[0], want)
		}
	}
	if want := max(j.Plan.Nodes, 1); nows != want && !j.leftAlone(j.Plan.Span+j.Plan.Settle) {
		j.say(0, "query %d: %d of %d nodes show a result at the end", q, nows, want)
	}
}

// times checks that each state of a query has the time of an answer that has its rows, by a clock that the server may go by:
// that of the machine as it was when the server started, or as it was set later and has been for clock.Patience.
func (j *judge) times(q int) {
	if j.restored > 0 || j.Plan.Nodes > 0 {
		return
	}
	const tolerance = 3 * time.Second
	answers := j.answers(q)
	for _, e := range j.history[q] {
		at := time.Duration(e.Wall - epoch.UnixNano())
		if slices.ContainsFunc(answers, func(a answer) bool {
			return slices.Equal(a.rows, e.Rows[0]) && slices.ContainsFunc(j.clocks(a.at), func(by time.Duration) bool {
				return (at - by - a.at).Abs() < tolerance
			})
		}) {
			continue
		}
		j.say(e.At, "query %d: change %d is said to be of %s, when no answer with its rows came", q, e.Seq,
			time.Unix(0, e.Wall).UTC().Format(time.DateTime))
	}
}

// clocks lists by how much the clock that the server goes by may be ahead at a time.
func (j *judge) clocks(at time.Duration) (list []time.Duration) {
	begun := time.Duration(0)
	for _, b := range j.begins {
		if b <= at {
			begun = b
		}
	}
	by, before := time.Duration(0), time.Duration(0)
	for _, s := range j.Plan.Steps {
		if by += s.By; s.At <= begun {
			before = by
		} else if s.At <= at-serverclock.Patience+time.Second {
			list = append(list, by)
		}
	}
	return append(list, before)
}

// leftAlone reports whether a server probes the endpoint later, because its last requests failed. It waits for twice as long after
// each failure from the fifth on, for five minutes at most.
func (j *judge) leftAlone(at time.Duration) bool {
	const first = 5 * time.Second / 32
	wait, last := first, time.Duration(0)
	for _, r := range j.requests {
		switch {
		case len(r.members) == 0 && r.fault == "": // a position says nothing about other queries
			continue
		case r.complete():
			wait = first
		default:
			wait = min(2*wait, 5*time.Minute)
		}
		last = r.end
	}
	return wait >= 5*time.Second && at < last+wait
}

// backsOff reports whether a query is left out after failures, as others were answered between them: it may fail by itself. The n-th
// failure in a row leaves it out until 2^(n−1) slots later.
func backsOff(j *judge, q int, at time.Duration) bool {
	var failures []*request
	for _, r := range j.requests {
		switch {
		case !slices.Contains(r.members, q) || r.fault == plan.Busy:
		case r.complete():
			failures = nil
		default:
			failures = append(failures, r)
		}
	}
	n := len(failures)
	if n == 0 || at >= failures[n-1].end+j.Plan.Slot<<min(n-1, 6)+j.Plan.Slot {
		return false
	}
	return slices.ContainsFunc(j.requests, func(r *request) bool {
		return len(r.members) > 0 && r.complete() && failures[0].end < r.begin && r.end < failures[n-1].begin
	})
}

// starves reports whether a query was not asked for a minute under a policy that may prefer
// others for ever, in slots that were full: requests and the gaps between them took four fifths of the
// budget and more, or as much as leaves no room for what the query took once. Hybrid lets a query wait for up to 256 slots that
// took more than the whole budget once.
func (j *judge) starves(q int, at time.Duration) bool {
	const lately = time.Minute
	is := j.in(at)
	if !slices.Contains([]string{"dj", "cr", "sjf", "ljf", "mrsf:p", "sedf:p", "medf:np", "hybrid"}, is.Policy) {
		return false
	}
	used, took := time.Duration(0), j.Plan.Queries[q].Cost
	for _, r := range j.requests {
		asks := slices.Contains(r.members, q)
		switch {
		case r.begin >= at-lately && asks:
			return false
		case r.begin >= at-lately:
			used += r.end - r.begin
		case asks:
			took = max(took, r.end-r.begin)
		}
	}
	slots := lately / j.Plan.Slot
	if is.Policy == "hybrid" {
		return took > is.Budget
	}
	return used/slots >= min(is.Budget*4/5, is.Budget-took)
}

// rests reports whether the policy ttl does not ask for a query yet, since answers that brought no change have doubled its
// time to live, which one that brought a change makes one slot. What a feed says is asked for all the same, unless it is that
// events are missing.
func (j *judge) rests(q int, at time.Duration) bool {
	if j.in(at).Policy != "ttl" {
		return false
	}
	const longest = 32 // slots
	live, last := time.Duration(0), answer{}
	for _, a := range j.answers(q) {
		if live = min(2*live, longest); live == 0 || !slices.Equal(a.rows, last.rows) {
			live = 1
		}
		last = a
	}
	if j.restored > 0 && last.at == 0 { // what it learned before the backup is not known
		live, last.at = longest, j.restored
	}
	until := last.at + live*j.Plan.Slot
	for _, s := range j.Plan.Stops { // no slot is counted while no server runs
		if s.At > last.at {
			until += s.Pause
		}
	}
	for _, b := range j.begins { // nor one that a start is too late for; one that failed is tried again after five seconds
		if b > last.at {
			until += j.Plan.Slot + 5*time.Second
		}
	}
	for _, s := range j.Plan.Steps { // nor that in which another clock is believed
		if s.At+serverclock.Patience > last.at {
			until += j.Plan.Slot
		}
	}
	return at < until
}

// follower checks what a follower received.
func (j *judge) follower(who int) {
	f := j.Plan.Followers[who]
	h := j.history[f.Query]
	state := func(seq uint64, epoch string) []int {
		for _, e := range h {
			if e.Seq == seq && e.Epoch == epoch {
				return e.Rows[0]
			}
		}
		return nil
	}
	var seq uint64
	var rows []int
	reason, epoch := "", ""
	for _, e := range j.Events {
		if e.Who != who || e.Query != f.Query {
			continue
		}
		switch e.Kind {
		case plan.Subscribed:
			reason = e.Text
			if e.Seq == 0 && j.restored > 0 && e.At >= j.restored { // it begins with nothing
				epoch, seq = "", 0
			}
		case plan.Moved:
			if want := state(e.Seq, epoch); e.Seq > seq && want != nil && !slices.Equal(rows, want) {
				j.say(e.At, "follower %d (%s) has %v and moves to change %d; the history has %v", who, f.Way, rows, e.Seq, want)
			}
			seq = max(seq, e.Seq)
		case plan.Snapshot, plan.Delta:
			if e.Epoch != epoch {
				if epoch != "" && (j.restored == 0 || e.Kind == plan.Delta) {
					j.say(e.At, "follower %d (%s) receives %s %d of epoch %s after %d of %s", who, f.Way, e.Kind, e.Seq, e.Epoch, seq, epoch)
				}
				epoch, seq = e.Epoch, 0
			}
			if e.Kind == plan.Delta && e.Prev != seq {
				j.say(e.At, "follower %d (%s) has change %d and receives %d, from %d", who, f.Way, seq, e.Seq, e.Prev)
			}
			if e.Kind == plan.Delta && e.Seq <= seq {
				j.say(e.At, "follower %d (%s) receives change %d again", who, f.Way, e.Seq)
			}
			if e.Kind == plan.Snapshot && seq > 0 && e.Seq < seq {
				j.say(e.At, "follower %d (%s) has change %d and receives the state at %d", who, f.Way, seq, e.Seq)
			}
			if e.Kind == plan.Snapshot && seq > 0 && len(h) > 0 && seq+1 >= h[0].Seq && f.Way != plan.Webhook {
				j.say(e.At, "follower %d (%s) at change %d receives a snapshot: %s%s", who, f.Way, seq, e.Text, reason)
			}
			seq, rows = e.Seq, e.Rows[0]
			if want := state(seq, epoch); want != nil && !slices.Equal(rows, want) {
				j.say(e.At, "follower %d (%s) has %v at change %d; the history has %v", who, f.Way, rows, seq, want)
			}
		}
	}
	if len(h) > 0 && seq != h[len(h)-1].Seq {
		j.say(j.Plan.Span+j.Plan.Settle, "follower %d (%s) ends at change %d of %d", who, f.Way, seq, h[len(h)-1].Seq)
	}
}

// trims reports whether the history may lose changes within the world's time.
func (j *judge) trims() bool {
	for _, s := range append([]plan.Edit{{Settings: j.Plan.Settings}}, j.Plan.Edits...) {
		if s.Retention < 100 || s.Age < time.Hour {
			return true
		}
	}
	return false
}
