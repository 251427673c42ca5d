package main

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// told is a world of one query with three states, at 10, 20 and 30 s, and what was received of them.
func told(p plan.Plan, received ...plan.Event) *Run {
	states := [][]int{{1}, {1, 2}, {2, 3}}
	p.Span, p.Settle, p.Slot = 2*time.Minute, 4*time.Minute, 10*time.Second
	p.Settings = plan.Settings{Budget: 2 * time.Second, Timeout: time.Second, Concurrency: 1, Rule: "strict", Retention: 1000,
		Age: 720 * time.Hour}
	q := plan.Query{}
	r := &Run{Plan: &p, Events: []plan.Event{{Kind: plan.Start}}}
	for i, rows := range states {
		at := time.Duration(i+1) * 10 * time.Second
		q.Updates = append(q.Updates, plan.Update{At: time.Duration(i) * 10 * time.Second, Rows: rows})
		r.Events = append(r.Events, plan.Event{At: at, Kind: plan.Ask, N: i, Members: []int{0}},
			plan.Event{At: at + time.Millisecond, Kind: plan.Answer, N: i, Members: []int{0}, Rows: [][]int{rows}})
		for len(received) > 0 && received[0].At < at+10*time.Second {
			r.Events, received = append(r.Events, received[0]), received[1:]
		}
	}
	r.Events = append(r.Events, received...)
	p.Queries = []plan.Query{q}
	slices.SortStableFunc(r.Events, func(a, b plan.Event) int { return cmp.Compare(a.At, b.At) })
	end := p.Span + p.Settle
	for i, rows := range states {
		r.Events = append(r.Events, plan.Event{At: end, Kind: plan.State, Epoch: "e", Prev: uint64(i), Seq: uint64(i + 1),
			Rows: [][]int{rows}, Wall: wallAt(10 * (i + 1))})
	}
	r.Events = append(r.Events, plan.Event{At: end, Kind: plan.Now, Rows: [][]int{states[2]}},
		plan.Event{At: end, Kind: plan.Used}, plan.Event{At: end, Kind: plan.End})
	has := func(kind string) bool {
		return slices.ContainsFunc(r.Events, func(e plan.Event) bool { return e.At == end && e.Kind == kind })
	}
	if !has(plan.Gauge) {
		r.Events = append(r.Events, plan.Event{At: end, Kind: plan.Gauge, N: 2})
	}
	if p.Feed != nil && !has(plan.Unproved) {
		r.Events = append(r.Events, plan.Event{At: end, Kind: plan.Proved, Epoch: "e", Seq: 3, N: 3})
	}
	return r
}

// wallAt is a time of the machine's clock, in seconds since the world began.
func wallAt(seconds int) int64 { return epoch.Add(time.Duration(seconds) * time.Second).UnixNano() }

func at(seconds int, e plan.Event) plan.Event {
	e.At = time.Duration(seconds) * time.Second
	return e
}

func TestJudgeOfReceivers(t *testing.T) {
	follower := func(way string) plan.Plan {
		return plan.Plan{Followers: []plan.Follower{{Way: way, Away: []plan.Window{{From: 11 * time.Second, Until: 12 * time.Second}}}}}
	}
	content := func(s int, rows ...int) plan.Event { return at(s, plan.Event{Kind: plan.Content, Rows: [][]int{rows}}) }
	forgets := follower(plan.People)
	forgets.Edits = []plan.Edit{{At: time.Second, Settings: plan.Settings{Retention: 5, Age: time.Hour}}}
	dropped := follower(plan.WebSub)
	dropped.Edits = forgets.Edits
	rarely := follower(plan.People)
	rarely.Followers[0].Digest = "10m"
	behind := plan.Plan{Nodes: 1, Behind: []time.Duration{time.Second}}
	const untold = "the feed has not yet told what happened until the last answer"
	hooked := at(5, plan.Event{Kind: plan.Hooked})
	began := at(11, plan.Event{Kind: plan.Hooked, Seq: 1})
	words := func(s int, added, removed []int) plan.Event {
		return at(s, plan.Event{Kind: plan.Words, Rows: [][]int{added, removed}})
	}
	first := at(11, plan.Event{Kind: plan.Words, Rows: [][]int{{}, {}}, Text: "There is a first result."})
	rule := plan.Plan{Rules: []plan.Rule{{Above: 1, Away: []plan.Window{{From: 21 * time.Second, Until: 23 * time.Second}}}}}
	waiting := plan.Plan{Rules: []plan.Rule{{Above: 1, For: 9 * time.Second, Keep: 9 * time.Second}}}
	managed := plan.Plan{Rules: []plan.Rule{{Above: 1, Manager: true}}}
	fed := plan.Plan{Feed: &plan.Feed{}}
	lossy := plan.Plan{Feed: &plan.Feed{Lost: []plan.Window{{From: 10 * time.Second, Until: 11 * time.Second}}}}
	lied := plan.Plan{Feed: &plan.Feed{Position: true, Lies: []plan.Window{{}}}}
	proved := func(seq uint64, version int) plan.Event {
		return at(40, plan.Event{Kind: plan.Proved, Epoch: "e", Seq: seq, N: version})
	}
	profiled := plan.Plan{Profiles: []plan.Profile{{Every: time.Minute}}}
	ruled := at(5, plan.Event{Kind: plan.Ruled})
	var fails []plan.Event // the endpoint, so that it is left alone at the end
	for i := range 8 {
		fails = append(fails, at(340+i, plan.Event{Kind: plan.Ask, N: 20 + i, Members: []int{0}}),
			at(340+i, plan.Event{Kind: plan.Answer, N: 20 + i, Members: []int{0}, Text: plan.Broken}))
	}
	fires := func(s, value int, seq uint64) plan.Event {
		return at(s, plan.Event{Kind: plan.Fires, Value: value, Seq: seq, Text: time.Duration(1000*s + value).String()})
	}
	resolved := func(s, value int, seq uint64) plan.Event {
		e := fires(s, value, seq)
		e.Kind = plan.Resolved
		return e
	}
	repeated := fires(22, 2, 2)
	repeated.Text = fires(21, 2, 2).Text
	again := func(s, first int) plan.Event {
		return at(s, plan.Event{Kind: plan.Again, Wall: int64(first) * int64(time.Second)})
	}
	ends := func(kind string, values ...int) plan.Event {
		return at(360, plan.Event{Kind: kind, Rows: [][]int{values}})
	}
	past := func(seq uint64, wall int, rows ...int) plan.Event {
		return at(40, plan.Event{Kind: plan.Past, Seq: seq, Wall: wallAt(wall), Rows: [][]int{rows}})
	}
	net := func(added, removed []int) plan.Event {
		return at(40, plan.Event{Kind: plan.Net, Prev: 1, Seq: 3, Rows: [][]int{added, removed}})
	}
	for _, c := range []struct {
		name  string
		plan  plan.Plan
		got   []plan.Event
		wrong bool
	}{
		{"whole results", follower(plan.WebSub), []plan.Event{hooked, content(11, 1), content(21, 1, 2), content(31, 2, 3)}, false},
		{"one of several", follower(plan.WebSub), []plan.Event{hooked, content(11, 1), content(31, 2, 3)}, false},
		{"the same again", follower(plan.SEPA), []plan.Event{content(11, 1), content(12, 1), content(31, 2, 3)}, false},
		{"another result", follower(plan.WebSub), []plan.Event{hooked, content(11, 4), content(31, 2, 3)}, true},
		{"an old result", follower(plan.SEPA), []plan.Event{content(21, 1, 2), content(22, 1), content(31, 2, 3)}, true},
		{"not the last one", follower(plan.WebSub), []plan.Event{hooked, content(11, 1)}, true},

		{"a result that never was, of a history that is not known", dropped,
			[]plan.Event{hooked, content(11, 1), content(21, 8), content(31, 2, 3)}, true},
		{"the last one again", follower(plan.WebSub), []plan.Event{hooked, content(31, 2, 3), content(41, 2, 3)}, true},
		{"the last one again, of a history that is not known", dropped, []plan.Event{hooked, content(31, 2, 3), content(41, 2, 3)}, false},
		{"the last one again after a renewal", follower(plan.WebSub), []plan.Event{hooked, content(31, 2, 3),
			at(40, plan.Event{Kind: plan.Hooked}), content(41, 2, 3)}, false},
		{"nothing comes", follower(plan.WebSub), []plan.Event{hooked}, true},
		{"nothing comes after the last change", follower(plan.WebSub), []plan.Event{at(40, plan.Event{Kind: plan.Hooked})}, false},
		{"it does not begin", follower(plan.SEPA), nil, true},
		{"people are told nothing", follower(plan.People), nil, true},
		{"changes are kept, though they need not be", forgets, []plan.Event{began, words(31, []int{3}, []int{1})}, true},

		{"each change in words", follower(plan.People), []plan.Event{began, words(21, []int{2}, nil), words(31, []int{3}, []int{1})}, false},
		{"a digest", follower(plan.People), []plan.Event{began, words(31, []int{2, 3}, []int{1})}, false},
		{"a first result", follower(plan.People), []plan.Event{hooked, first, words(31, []int{2, 3}, []int{1})}, false},
		{"a message again after a lost answer", follower(plan.People), []plan.Event{hooked, first, first,
			words(31, []int{2, 3}, []int{1})}, false},
		{"a message again", follower(plan.People), []plan.Event{began, words(21, []int{2}, nil), words(22, []int{2}, nil),
			words(31, []int{3}, []int{1})}, true},
		{"what came and went", follower(plan.People), []plan.Event{began, words(31, []int{2, 3, 4}, []int{1, 4})}, true},
		{"a change is left out", follower(plan.People), []plan.Event{began, words(31, []int{3}, []int{1})}, true},
		{"changes are missed", follower(plan.People), []plan.Event{began, at(31, plan.Event{Kind: plan.Words, Rows: [][]int{{}, {}},
			Text: "Changes were missed"})}, true},
		{"nothing is told", follower(plan.People), []plan.Event{began}, true},
		{"nothing is told yet", rarely, []plan.Event{began}, false},

		{"alerts", rule, []plan.Event{ruled, fires(21, 2, 2), fires(31, 3, 3), ends(plan.Firing, 2, 3)}, false},
		{"an alert is lost", rule, []plan.Event{ruled, fires(21, 2, 2), ends(plan.Firing, 2, 3)}, true},
		{"an alert waits for answers", rule, append([]plan.Event{ruled, fires(21, 2, 2), ends(plan.Firing, 2)}, fails...), false},
		{"an alert comes again", rule, []plan.Event{ruled, fires(21, 2, 2), fires(22, 2, 2), fires(31, 3, 3), ends(plan.Firing, 2, 3)}, true},
		{"two alerts have one id", rule, []plan.Event{ruled, fires(21, 2, 2), repeated, fires(31, 3, 3), ends(plan.Firing, 2, 3)}, true},
		{"an alert without a reason", rule, []plan.Event{ruled, fires(11, 2, 1), fires(31, 3, 3), ends(plan.Firing, 2, 3)}, true},
		{"an alert is resolved without a reason", rule, []plan.Event{ruled, fires(21, 2, 2), resolved(31, 2, 3), fires(31, 3, 3),
			ends(plan.Firing, 3)}, true},
		{"the server has fewer alerts", rule, []plan.Event{ruled, fires(21, 2, 2), fires(31, 3, 3), ends(plan.Firing, 3)}, true},
		{"Alertmanager has the alerts", managed, []plan.Event{ruled, ends(plan.Alerts, 3, 2)}, false},
		{"Alertmanager has others", managed, []plan.Event{ruled, ends(plan.Alerts, 2)}, true},
		{"an alert waits", waiting, []plan.Event{ruled, fires(31, 2, 3), fires(41, 3, 3)}, false},
		{"an alert does not wait", waiting, []plan.Event{ruled, fires(21, 2, 2), fires(41, 3, 3)}, true},
		{"a message again after a lost answer", rule, []plan.Event{ruled, fires(21, 2, 2), again(25, 21), fires(31, 3, 3)}, false},
		{"a message again without a reason", rule, []plan.Event{ruled, fires(21, 2, 2), fires(31, 3, 3), again(40, 31)}, true},

		{"the past", plan.Plan{}, []plan.Event{past(1, 0, 1), past(0, 25, 1, 2), past(0, 20, 1, 2), past(0, 5, 9),
			net([]int{2, 3}, []int{1})}, false},
		{"another result at a change", plan.Plan{}, []plan.Event{past(2, 0, 1)}, true},
		{"another result at a time", plan.Plan{}, []plan.Event{past(0, 25, 1)}, true},
		{"another result at a time by a clock that is behind", behind, []plan.Event{past(0, 25, 1)}, true},
		{"another result of a moment ago by a clock that is behind", behind, []plan.Event{past(0, 39, 1)}, false},
		{"another result of a moment ago", plan.Plan{}, []plan.Event{past(0, 39, 1)}, true},
		{"another difference", plan.Plan{}, []plan.Event{net([]int{3}, []int{1})}, true},
		{"proofs", fed, []plan.Event{proved(1, 1), proved(2, 2), proved(3, 3)}, false},
		{"a proof of what comes later", fed, []plan.Event{proved(3, 2)}, true},
		{"a proof of what is over", fed, []plan.Event{proved(2, 3)}, true},
		{"a proof of what the log lost", lossy, []plan.Event{proved(2, 1)}, false},
		{"a proof of what came after that", lossy, []plan.Event{proved(3, 1)}, true},
		{"a proof of what was before it", lossy, []plan.Event{proved(1, 2)}, true},
		{"nothing is proved at the end", fed, []plan.Event{at(360, plan.Event{Kind: plan.Unproved, Seq: 3, Text: "why"})}, true},
		{"the log does not tell for long", fed, []plan.Event{at(360, plan.Event{Kind: plan.Unproved, Seq: 3, Text: untold})}, true},
		{"the log has not told yet", fed, []plan.Event{at(349, plan.Event{Kind: plan.Ask, N: 9, Members: []int{0}}),
			at(350, plan.Event{Kind: plan.Answer, N: 9, Members: []int{0}, Rows: [][]int{{2, 3}}}),
			at(360, plan.Event{Kind: plan.Unproved, Seq: 3, Text: untold})}, false},
		{"a proof was wrong", fed, []plan.Event{at(360, plan.Event{Kind: plan.Unproved, Seq: 3, Text: "a proof was wrong"})}, true},
		{"a proof was wrong where the log lost a change", lossy,
			[]plan.Event{at(360, plan.Event{Kind: plan.Unproved, Seq: 3, Text: "a proof was wrong"})}, false},
		{"nothing is proved after a lie", lied, []plan.Event{at(360, plan.Event{Kind: plan.Unproved, Seq: 3, Text: "why"})}, false},
		{"the metrics", plan.Plan{}, []plan.Event{at(360, plan.Event{Kind: plan.Gauge, N: 2})}, false},
		{"other metrics", plan.Plan{}, []plan.Event{at(360, plan.Event{Kind: plan.Gauge, N: 1})}, true},
		{"rounds of a profile", profiled, []plan.Event{at(360, plan.Event{Kind: plan.Captures, N: 4, Value: 2})}, false},
		{"no round", profiled, []plan.Event{at(360, plan.Event{Kind: plan.Captures})}, true},
		{"too many rounds", profiled, []plan.Event{at(360, plan.Event{Kind: plan.Captures, N: 9, Value: 2})}, true},
		{"many goroutines", plan.Plan{}, []plan.Event{at(360, plan.Event{Kind: plan.Used, N: 5000})}, true},
	} {
		if wrong := Judge(told(c.plan, c.got...)); len(wrong) > 0 != c.wrong {
			t.Errorf("%s: %q", c.name, wrong)
		}
	}
}

// After a hint a query is asked within two slots, unless something prevents that.
func TestJudgeOfHints(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // from the hint to the request
		plan  plan.Plan
		wrong bool
	}{
		{"at once", time.Second, plan.Plan{}, false},
		{"late", 25 * time.Second, plan.Plan{}, true},
		{"a failing endpoint", 25 * time.Second, plan.Plan{Faults: []plan.Fault{{Window: plan.Window{From: 3 * time.Minute,
			Until: 4 * time.Minute}}}}, false},
		{"a fault long ago", 25 * time.Second, plan.Plan{Faults: []plan.Fault{{Window: plan.Window{From: 0, Until: time.Minute}}}}, true},
	} {
		c.plan.Span, c.plan.Slot, c.plan.Settings = 10*time.Minute, 10*time.Second, plan.Settings{Budget: 2 * time.Second, Concurrency: 1}
		c.plan.Queries = []plan.Query{{Cost: 10 * time.Millisecond}}
		hint := plan.Event{At: 4 * time.Minute, Kind: plan.Hinted, Members: []int{0}}
		j := &judge{Run: &Run{Plan: &c.plan, Events: []plan.Event{hint}}, requests: []*request{{begin: hint.At + c.after, members: []int{0}}}}
		j.hints()
		if wrong := len(j.wrong) > 0; wrong != c.wrong {
			t.Errorf("%s: %q", c.name, j.wrong)
		}
	}
}

// A hint brings a query into what the last slot has left of its budget, if that has ended early.
func TestJudgeOfHintsBetweenSlots(t *testing.T) {
	const at = 4*time.Minute + 3*time.Second
	for _, c := range []struct {
		name  string
		took  time.Duration // what the slot of the hint had used before it
		ended time.Duration // before the hint
		after time.Duration // from the hint to the request
		wrong bool
	}{
		{"at once", 100 * time.Millisecond, 2 * time.Second, time.Second, false},
		{"in the next slot", 100 * time.Millisecond, 2 * time.Second, 8 * time.Second, true},
		{"the budget is used up", 1900 * time.Millisecond, 1050 * time.Millisecond, 8 * time.Second, false},
		{"the slot has not ended", 100 * time.Millisecond, time.Second / 2, 8 * time.Second, false},
	} {
		p := &plan.Plan{Span: 10 * time.Minute, Slot: 10 * time.Second, Settings: plan.Settings{Budget: 2 * time.Second, Concurrency: 1},
			Queries: []plan.Query{{Cost: 10 * time.Millisecond}}}
		j := &judge{Run: &Run{Plan: p, Events: []plan.Event{{At: at, Kind: plan.Hinted, Members: []int{0}}}}, requests: []*request{
			{begin: at - c.ended - c.took, end: at - c.ended, members: []int{0}}, {begin: at + c.after, end: at + c.after, members: []int{0}}}}
		j.hints()
		if wrong := len(j.wrong) > 0; wrong != c.wrong {
			t.Errorf("%s: %q", c.name, j.wrong)
		}
	}
}
