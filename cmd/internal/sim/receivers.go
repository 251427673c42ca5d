package main

// This file judges what receivers got that does not name the number of a change: it must follow from the
// history in some way.

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
	serverclock "github.com/freshet/freshet/registry/clock"
)

// states returns the results of a query in the order of its history.
func (j *judge) states(q int) (list [][]int) {
	for _, e := range j.history[q] {
		list = append(list, e.Rows[0])
	}
	return list
}

// contents checks a follower that receives whole results: each is a state, and they are in order. The last
// one is the last state.
func (j *judge) contents(who int) {
	f := j.Plan.Followers[who]
	states := j.states(f.Query)
	at, hooked, last := 0, time.Duration(-1), []int(nil)
	var before *plan.Event
	for i, e := range j.Events {
		if e.Who != who || e.Query != f.Query || e.At < j.restored {
			continue
		}
		switch e.Kind {
		case plan.Hooked:
			hooked, before = e.At, nil
		case plan.Content:
			last = e.Rows[0]
			if f.Way == plan.WebSub && before != nil && at == len(states)-1 && !j.trims() && // else there may be states that are not known
				slices.Equal(before.Rows[0], last) && !j.repeats(f, before.At) {
				j.say(e.At, "follower %d (%s) receives %v again, which it took at %s", who, f.Way, last, clock(before.At))
			}
			before = &j.Events[i]
			if at == 0 && j.backedUp(f.Query, last) { // the log does not have the result of the backup
				continue
			}
			// The state at which the follower is may come again, after a lost answer.
			n := slices.IndexFunc(states[at:], func(rows []int) bool { return slices.Equal(rows, last) })
			if n < 0 {
				if !j.trims() || !answeredBefore(j, f.Query, last, e.At) {
					j.say(e.At, "follower %d (%s) receives %v, which is no state after %d of the history", who, f.Way, last, at)
					return
				}
				n = 0
			}
			at += n
		}
	}
	// A hub ends subscriptions after ten days, of which a step of the clock may be a part.
	lapsed := f.Way == plan.WebSub && (j.restored > 0 || slices.ContainsFunc(j.Plan.Steps,
		func(s plan.Step) bool { return s.By > 9*24*time.Hour }))
	end := j.Plan.Span + j.Plan.Settle
	switch {
	case lapsed || len(states) == 0 || j.restored > 0 && last == nil: // a backup may lack the subscription
	case last == nil && hooked < 0:
		j.say(end, "follower %d (%s) has not begun", who, f.Way)
	case last == nil && answered(j.answers(f.Query), states, hooked): // there is nothing to tell
	case !slices.Equal(last, states[len(states)-1]):
		j.say(end, "follower %d (%s) ends with %v, the history with %v", who, f.Way, last, states[len(states)-1])
	}
}

// backedUp reports whether a query had a result before the backup was restored, so that it may be the result there.
func (j *judge) backedUp(q int, rows []int) bool { return answeredBefore(j, q, rows, j.restored) }

// answeredBefore reports whether the endpoint told a result of a query before a time.
func answeredBefore(j *judge, q int, rows []int, before time.Duration) bool {
	return slices.ContainsFunc(j.requests, func(r *request) bool {
		k := slices.Index(r.members, q)
		return k >= 0 && r.complete() && r.end < before && slices.Equal(r.rows[k], rows)
	})
}

// words checks a follower that is told what came and went: that its messages lead from the state at which it began to the
// last one, over states of the history. A message whose answer was lost may come again.
func (j *judge) words(who int) {
	f := j.Plan.Followers[who]
	states := append([][]int{nil}, j.states(f.Query)...) // by seq
	// Changes that were dropped are not known, and a backup may make it miss some.
	if len(states) == 1 || j.history[f.Query][0].Seq > 1 || j.restored > 0 {
		return
	}
	var at map[int]bool
	var before *plan.Event
	for i, e := range j.Events {
		if e.Who != who || e.Query != f.Query {
			continue
		}
		switch e.Kind {
		case plan.Hooked:
			if at == nil {
				at = map[int]bool{int(e.Seq): true}
			}
		case plan.Words:
			next := map[int]bool{}
			for from := range at {
				for to := from; to < len(states); to++ {
					if said(&e, states, from, to) {
						next[to] = true
					}
				}
			}
			if before != nil && slices.EqualFunc(before.Rows, e.Rows, slices.Equal[[]int]) && before.N == e.N &&
				fromAny(before.Text) == fromAny(e.Text) && j.repeats(f, before.At) {
				for n := range at {
					next[n] = true
				}
			}
			if len(next) == 0 {
				j.say(e.At, "follower %d (people) at %v is told %v %s, which no change says", who, at, e.Rows, e.Text)
				return
			}
			at, before = next, &j.Events[i]
		}
	}
	if at == nil {
		j.say(j.Plan.Span+j.Plan.Settle, "follower %d (people) has not begun", who)
		return
	}
	if wait, _ := time.ParseDuration(f.Digest); wait > 0 && j.Plan.Span+j.Plan.Settle-j.changed(f.Query) < wait+time.Minute {
		return // its digest may still come
	}
	for n := range at {
		if slices.Equal(states[n], states[len(states)-1]) && (n > 0 || len(states) == 1) {
			return
		}
	}
	j.say(j.Plan.Span+j.Plan.Settle, "follower %d (people) ends at %v of %d states", who, at, len(states)-1)
}

// fromAny is a text without the address of the node that sends it. Another one may repeat it.
func fromAny(text string) string { return ofNode.ReplaceAllString(text, "") }

var ofNode = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)

// said reports whether a message says what differs between two states.
func said(e *plan.Event, states [][]int, from, to int) bool {
	if from == 0 { // it tells only that there is something
		return to > 0 && e.Text != ""
	}
	if e.N > 0 {
		return to > from
	}
	return to > from && e.Text == "" && slices.Equal(sorted(e.Rows[0]), without(states[to], states[from])) &&
		slices.Equal(sorted(e.Rows[1]), without(states[from], states[to]))
}

func sorted(list []int) []int { return slices.Sorted(slices.Values(list)) }

func without(rows, others []int) []int {
	return slices.DeleteFunc(slices.Clone(rows), func(n int) bool { return slices.Contains(others, n) })
}

// repeats reports whether a message at a time may have been sent again: its answer was lost, or the server ended.
func (j *judge) repeats(f plan.Follower, at time.Duration) bool {
	return slices.ContainsFunc(f.Away, func(w plan.Window) bool { return w.Holds(at) }) ||
		slices.ContainsFunc(j.ends, func(end time.Duration) bool { return at <= end && end < at+2*time.Second }) || j.broken(at) ||
		j.unsettled(at)
}

// rule checks the alerts of a rule: each fires once and is resolved once, for the reason that it names, and what is met
// at the end is what fires.
func (j *judge) rule(who int) {
	x := &j.Plan.Rules[who]
	h := j.history[x.Query]
	met := func(at *plan.Event) ([]int, bool) {
		for _, e := range h {
			if e.Seq == at.Seq && (e.Epoch == at.Epoch || at.Epoch == "") {
				return x.Met(e.Rows[0]), true
			}
		}
		return nil, false
	}
	firing, known := map[int]bool{}, map[int]bool{}
	ids := map[string]bool{}
	var ruled bool
	for _, e := range j.Events {
		if e.Who != who || e.At < j.restored {
			continue
		}
		switch e.Kind {
		case plan.Ruled:
			ruled = true
		case plan.Fires, plan.Resolved:
			if ids[e.Text] {
				j.say(e.At, "rule %d: two messages have the id %s", who, e.Text)
			}
			ids[e.Text] = true
			if firing[e.Value] == (e.Kind == plan.Fires) && (j.restored == 0 || known[e.Value]) {
				j.say(e.At, "rule %d: alert %d %s again", who, e.Value, e.Kind)
			}
			firing[e.Value], known[e.Value] = e.Kind == plan.Fires, true
			j.waited(x, &e)
			if list, kept := met(&e); kept && slices.Contains(list, e.Value) != (e.Kind == plan.Fires) {
				j.say(e.At, "rule %d: alert %d %s at change %d, which has %v", who, e.Value, e.Kind, e.Seq, list)
			}
		}
	}
	if !ruled || len(h) == 0 {
		return
	}
	want := x.Met(h[len(h)-1].Rows[0])
	end := j.Plan.Span + j.Plan.Settle
	if since := j.changed(x.Query); end-since < max(x.For, x.Keep)+time.Minute || j.leftAlone(end) {
		return // it may be pending, or wait for answers
	}
	got := []int{}
	for v, on := range firing {
		if on {
			got = append(got, v)
		}
	}
	if got = sorted(got); !x.Manager && j.restored == 0 && !slices.Equal(got, want) {
		j.say(j.Plan.Span+j.Plan.Settle, "rule %d: the receiver ends with alerts for %v, want %v", who, got, want)
	}
	for _, e := range j.Events {
		if e.Who == who && (e.Kind == plan.Alerts && j.restored == 0 || e.Kind == plan.Firing) && !slices.Equal(sorted(e.Rows[0]), want) {
			j.say(e.At, "rule %d: %s ends with alerts for %v, want %v", who, e.Kind, e.Rows[0], want)
		}
	}
}

// waited checks that an alert fires after the rule's For at the earliest, and is resolved after its Keep. Only answers count.
func (j *judge) waited(x *plan.Rule, e *plan.Event) {
	// While no server runs the clock counts, and a message may have waited for its receiver.
	const lately = 2 * time.Minute
	if j.broken(e.At) || j.unsettled(e.At) ||
		slices.ContainsFunc(x.Away, func(w plan.Window) bool { return w.From <= e.At && e.At <= w.Until+lately }) ||
		slices.ContainsFunc(j.ends, func(end time.Duration) bool { return end <= e.At && e.At <= end+lately }) {
		return
	}
	wait := x.For
	if e.Kind == plan.Resolved {
		wait = x.Keep
	}
	since := e.At // of the answers that say the same as the message
	for _, a := range slices.Backward(j.answers(x.Query)) {
		if a.at > e.At {
			continue
		}
		if slices.Contains(x.Met(a.rows), e.Value) != (e.Kind == plan.Fires) {
			if !a.must {
				return
			}
			break
		}
		since = a.at
	}
	short := time.Second
	if slices.ContainsFunc(j.Plan.Steps, func(s plan.Step) bool { // another clock was believed since
		believed := s.At + serverclock.Patience
		return since < believed+time.Second && believed < e.At
	}) {
		short = 10 * time.Second // about how long answers waited for their evaluation
	}
	if e.At-since < wait-short {
		j.say(e.At, "an alert of rule %d %s after %s, which is less than %s", e.Who, e.Kind, e.At-since, wait)
	}
}

// hints checks that each query for which a hint came is asked after it within two slots, or at once in what the last slot has
// left of its budget, where nothing prevents that.
func (j *judge) hints() {
	p := j.Plan
	for _, e := range j.Events {
		if e.Kind != plan.Hinted || len(e.Members) == 0 || len(p.Steps) > 0 {
			continue
		}
		until, is, cost := e.At+2*p.Slot+time.Second, j.in(e.At), time.Duration(0)
		for _, q := range e.Members {
			cost += p.Queries[q].Cost + is.MinGap
		}
		if j.idles(e.At, cost) {
			until = e.At + cost + 2*time.Second
		}
		calm := plan.Window{From: e.At - time.Minute, Until: until}
		troubled := slices.ContainsFunc(p.Faults, func(f plan.Fault) bool {
			return f.From-time.Minute < calm.Until &&
				calm.From < f.Until+time.Minute
		}) ||
			slices.ContainsFunc(j.begins, func(at time.Duration) bool { return at > 0 && calm.Holds(at) }) || j.broken(e.At) ||
			j.unsettled(e.At) || j.unsettled(until) || until > p.Span ||
			slices.ContainsFunc(p.Disk, func(f plan.DiskFault) bool { return f.From < until && e.At < f.Until })
		if troubled || cost > is.Budget/4 {
			continue
		}
		for _, q := range e.Members {
			if x := p.Queries[q]; x.Registered+time.Minute > e.At || x.Paused.From < until && calm.From < x.Paused.Until {
				continue
			}
			if !slices.ContainsFunc(j.requests, func(r *request) bool {
				return r.begin >= e.At-slack && r.begin < until && slices.Contains(r.members, q)
			}) {
				j.say(e.At, "query %d is not asked within %s of a hint", q, until-e.At)
			}
		}
	}
}

// idles reports whether the slot of a time has ended early, and has left much more of its budget than a cost.
func (j *judge) idles(at, cost time.Duration) bool {
	begin, is := at-at%j.Plan.Slot, j.in(at)
	if at < 3*j.Plan.Slot || begin+j.Plan.Slot < at+cost+4*time.Second || j.Plan.Feed != nil || len(j.Plan.Profiles) > 0 {
		return false
	}
	used, some := time.Duration(0), false
	for _, r := range j.requests {
		switch {
		case r.begin > at:
		case r.end > at-time.Second:
			return false
		case r.begin >= begin-slack:
			used, some = used+r.end-r.begin, true
		case r.begin >= begin-j.Plan.Slot && r.end > begin:
			return false
		}
	}
	return some && used+4*cost+time.Second/2 < is.Budget
}

// repeated checks that a message comes again only if its receiver was in trouble, or the server ended, since.
func (j *judge) repeated() {
	for _, e := range j.Events {
		if e.Kind != plan.Again {
			continue
		}
		away := []plan.Window(nil)
		if e.Value == 1 {
			away = j.Plan.Followers[e.Who].Away
		} else {
			away = j.Plan.Rules[e.Who].Away
		}
		first := time.Duration(e.Wall)
		if !slices.ContainsFunc(away, func(w plan.Window) bool { return w.From <= e.At && first <= w.Until }) &&
			!slices.ContainsFunc(j.ends, func(end time.Duration) bool { return first <= end && end <= e.At }) && !j.broken(e.At) &&
			!j.broken(first) && !j.unsettled(e.At) && !j.unsettled(first) {
			j.say(e.At, "receiver %d gets the message %s again, which it took at %s", e.Who, e.Text, clock(first))
		}
	}
}

// changed is when the last change of a query was answered.
func (j *judge) changed(q int) (at time.Duration) {
	last := []int(nil)
	for _, a := range j.answers(q) {
		if !slices.Equal(a.rows, last) {
			at, last = a.at, a.rows
		}
	}
	return at
}

// answered reports whether the states of a query may all be from answers that came before a time.
func answered(answers []answer, states [][]int, before time.Duration) bool {
	for _, a := range answers {
		if a.at < before && len(states) > 0 && slices.Equal(a.rows, states[0]) {
			states = states[1:]
		}
	}
	return len(states) == 0
}

// past checks what the server said about the past while it ran.
func (j *judge) past() {
	for _, e := range j.Events {
		if e.Kind != plan.Past && e.Kind != plan.Net || e.At < max(j.restored, j.removed[e.Query]) {
			continue
		}
		h := j.history[e.Query]
		state := func(seq uint64) []int {
			if i := slices.IndexFunc(h, func(s plan.Event) bool { return s.Seq == seq }); i >= 0 {
				return h[i].Rows[0]
			}
			return nil
		}
		switch {
		case e.Kind == plan.Net:
			from, to := state(e.Prev), state(e.Seq)
			if from != nil && to != nil && (!slices.Equal(e.Rows[0], without(to, from)) || !slices.Equal(e.Rows[1], without(from, to))) {
				j.say(e.At, "query %d: the server says that from %d to %d %v came and %v went; the history has %v and %v", e.Query, e.Prev,
					e.Seq, e.Rows[0], e.Rows[1], from, to)
			}
		case e.Seq > 0:
			if want := state(e.Seq); want != nil && !slices.Equal(e.Rows[0], want) {
				j.say(e.At, "query %d: the server says that the result at %d was %v; the history has %v", e.Query, e.Seq, e.Rows[0], want)
			}
		case len(j.Plan.Steps) == 0:
			var want []int
			for _, s := range h {
				if s.Wall <= e.Wall {
					want = s.Rows[0]
				}
			}
			// A node whose clock is behind may record a change for that time later.
			lately := j.Plan.Nodes > 0 && e.At-time.Duration(e.Wall-epoch.UnixNano()) < slices.Max(j.Plan.Behind)+time.Second
			if want != nil && !lately && !slices.Equal(e.Rows[0], want) {
				j.say(e.At, "query %d: the server says that the result at %d ns was %v; the history has %v", e.Query, e.Wall, e.Rows[0], want)
			}
		}
	}
}

// What a server may use at the end of a world, when all is quiet. The nodes of a cluster are in one process, which also keeps what
// those that were stopped have used.
const (
	mostGoroutines = 100 // of a node
	mostHeap       = 48 << 20
)

func (j *judge) use() {
	if !slices.ContainsFunc(j.Events, func(e plan.Event) bool { return e.Kind == plan.Used }) {
		j.say(0, "it is not known what the process uses")
	}
	for _, e := range j.Events {
		if e.Kind == plan.Used && (e.N > mostGoroutines*max(j.Plan.Nodes, 1) || e.Seq > uint64(mostHeap*max(j.Plan.Nodes, 1))) {
			j.say(e.At, "the process has %d goroutines and %d MiB of heap", e.N, e.Seq>>20)
		}
	}
}

// proofs checks that each result that the server says to be proved is that of the version up to which it is, and that
// three minutes after the last fault each one is proved.
func (j *judge) proofs() {
	if j.Plan.Feed == nil {
		return
	}
	versions := j.Plan.Versions()
	for q := range j.Plan.Queries {
		if !tells(j, q, plan.Proved, plan.Unproved) {
			j.say(j.Plan.Span+j.Plan.Settle, "it is not known at the end whether the result of query %d is proved", q)
		}
	}
	for _, e := range j.Events {
		switch e.Kind {
		case plan.Proved:
			k := slices.IndexFunc(j.history[e.Query], func(s plan.Event) bool { return s.Seq == e.Seq && s.Epoch == e.Epoch })
			if k < 0 {
				continue
			}
			got := j.history[e.Query][k].Rows[0]
			want := rowsAt(versions, e.N, e.Query)
			// The log has not told anybody about lost changes, until it has the next one.
			is := slices.Equal(got, want)
			for n := e.N; !is && n < len(versions) && versions[n].Lost; n++ {
				is = slices.Equal(got, rowsAt(versions, n+1, e.Query))
			}
			if !is {
				j.say(e.At, "query %d: the result %v at %d is said to be proved for version %d, which has %v", e.Query, got, e.Seq, e.N, want)
			}
		case plan.Unproved:
			// An endpoint whose position went back may have several servers: then nothing is proved for the time of its lag.
			several := j.Plan.Feed.Position && len(j.Plan.Feed.Lies) > 0
			unnoticed := len(j.Plan.Feed.Lost) > 0 && strings.Contains(e.Text, "a proof was wrong") // until the log had the next change
			if len(j.Plan.Steps) == 0 && !several && !unnoticed && !j.starves(e.Query, e.At) && !j.untold(&e) && !j.leftAlone(e.At) &&
				!((strings.Contains(e.Text, "the feed began again") || strings.Contains(e.Text, "events are missing")) && j.rests(e.Query, e.At)) {
				j.say(e.At, "query %d is not proved %s after the last fault: %s", e.Query, j.Plan.Settle, e.Text)
			}
		}
	}
}

// tells reports whether the server says something of a query at the end, if it has a result.
func tells(j *judge, q int, kinds ...string) bool {
	h := j.history[q]
	return len(h) == 0 || slices.ContainsFunc(j.Events, func(e plan.Event) bool {
		return slices.Contains(kinds, e.Kind) && e.Query == q && e.At >= h[0].At
	})
}

// rowsAt are the rows of a query at a version of the data.
func rowsAt(versions []plan.Version, n, query int) (rows []int) {
	for _, v := range versions[:min(n, len(versions))] {
		if v.Query == query {
			rows = v.Rows
		}
	}
	return rows
}

// untold reports whether a result is not proved because its answer came so late that the log is not read again yet.
func (j *judge) untold(e *plan.Event) bool {
	lately := 20*time.Second + j.Plan.Feed.Delay
	return strings.Contains(e.Text, "has not yet told") &&
		slices.ContainsFunc(j.answers(e.Query), func(a answer) bool { return a.at > e.At-lately })
}

// gauges checks what the metrics say of results, and the number of rounds of profiles.
func (j *judge) gauges() {
	for q := range j.Plan.Queries {
		if !tells(j, q, plan.Gauge) {
			j.say(j.Plan.Span+j.Plan.Settle, "the metrics do not say how many rows query %d has", q)
		}
	}
	for _, e := range j.Events {
		switch h := j.history[e.Query]; {
		case e.Kind == plan.Gauge && len(h) > 0 && len(h[len(h)-1].Rows[0]) != e.N:
			j.say(e.At, "the metrics say that query %d has %d rows; they are %v", e.Query, e.N, h[len(h)-1].Rows[0])
		case e.Kind == plan.Captures:
			x := j.Plan.Profiles[e.Who]
			if most := int((e.At-x.From)/x.Every) + 1; e.N+e.Value > most && len(j.Plan.Steps) == 0 {
				j.say(e.At, "profile %d has had %d rounds; in that time there are %d", e.Who, e.N+e.Value, most)
			}
			if e.N+e.Value == 0 && len(j.Plan.Steps) == 0 {
				j.say(e.At, "profile %d has had no round", e.Who)
			}
		}
	}
}
