package main

import (
	"slices"
	"testing"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// quiet is a world of one query and one follower in which all goes well.
func quiet() *Run {
	p := &plan.Plan{
		Span: 30 * time.Second, Settle: 30 * time.Second, Slot: 10 * time.Second,
		Settings: plan.Settings{Budget: 2 * time.Second, Timeout: time.Second, MinGap: 100 * time.Millisecond, Concurrency: 2,
			Rule: "strict", Retention: 1000, Age: 720 * time.Hour},
		Queries:   []plan.Query{{Updates: []plan.Update{{Rows: []int{1}}, {At: 15 * time.Second, Rows: []int{1, 2}}}}},
		Followers: []plan.Follower{{Way: plan.WebSocket}},
	}
	at := func(ms int, e plan.Event) plan.Event {
		e.At = time.Duration(ms) * time.Millisecond
		return e
	}
	one, two := [][]int{{1}}, [][]int{{1, 2}}
	members := []int{0}
	return &Run{Plan: p, Events: []plan.Event{
		at(0, plan.Event{Kind: plan.Start}),
		at(1, plan.Event{Kind: plan.Ready}),
		at(2, plan.Event{Kind: plan.Registered, Text: "q_1"}),
		at(10_000, plan.Event{Kind: plan.Ask, N: 1, Members: members}),
		at(10_050, plan.Event{Kind: plan.Answer, N: 1, Members: members, Rows: one}),
		at(10_060, plan.Event{Kind: plan.Snapshot, Seq: 1, Epoch: "e", Rows: one}),
		at(20_000, plan.Event{Kind: plan.Ask, N: 2, Members: members}),
		at(20_050, plan.Event{Kind: plan.Answer, N: 2, Members: members, Rows: two}),
		at(20_060, plan.Event{Kind: plan.Delta, Prev: 1, Seq: 2, Epoch: "e", Rows: two}),
		at(30_000, plan.Event{Kind: plan.Ask, N: 3, Members: members}),
		at(30_050, plan.Event{Kind: plan.Answer, N: 3, Members: members, Text: plan.Broken}),
		at(60_000, plan.Event{Kind: plan.State, Seq: 1, Epoch: "e", Rows: one, Wall: wallAt(10)}),
		at(60_000, plan.Event{Kind: plan.State, Prev: 1, Seq: 2, Epoch: "e", Rows: two, Wall: wallAt(20)}),
		at(60_000, plan.Event{Kind: plan.Now, Rows: two}),
		at(60_000, plan.Event{Kind: plan.Gauge, N: 2}),
		at(60_000, plan.Event{Kind: plan.Used}),
		at(60_000, plan.Event{Kind: plan.End}),
	}}
}

func TestJudge(t *testing.T) {
	if wrong := Judge(quiet()); len(wrong) > 0 {
		t.Fatalf("a quiet world is judged wrong: %q", wrong)
	}
	at := func(r *Run, kind string, seq uint64) *plan.Event {
		i := slices.IndexFunc(r.Events, func(e plan.Event) bool { return e.Kind == kind && e.Seq == seq })
		return &r.Events[i]
	}
	remove := func(r *Run, kind string, seq uint64) {
		r.Events = slices.DeleteFunc(r.Events, func(e plan.Event) bool { return e.Kind == kind && e.Seq == seq })
	}
	insert := func(r *Run, after int, list ...plan.Event) {
		for i := range list {
			list[i].At = r.Events[after].At
		}
		r.Events = slices.Insert(r.Events, after+1, list...)
	}
	answered := plan.Event{Kind: plan.Answer, N: 9, Members: []int{0}, Rows: [][]int{{1}}}
	for name, spoil := range map[string]func(r *Run){
		"a change is not delivered":        func(r *Run) { remove(r, plan.Delta, 2) },
		"a follower moves past a change":   func(r *Run) { at(r, plan.Delta, 2).Kind = plan.Moved },
		"the metrics lack a result":        func(r *Run) { remove(r, plan.Gauge, 0) },
		"it is not known what is proved":   func(r *Run) { r.Plan.Feed = &plan.Feed{} },
		"a change is delivered twice":      func(r *Run) { insert(r, 8, r.Events[8]) },
		"a follower has other rows":        func(r *Run) { at(r, plan.Delta, 2).Rows = [][]int{{2}} },
		"a change is skipped":              func(r *Run) { at(r, plan.Delta, 2).Prev = 0 },
		"a snapshot in place of a change":  func(r *Run) { at(r, plan.Delta, 2).Kind = plan.Snapshot },
		"a change that no answer explains": func(r *Run) { at(r, plan.State, 2).Rows = [][]int{{1, 3}} },
		"a change that changes nothing":    func(r *Run) { at(r, plan.State, 2).Rows = [][]int{{1}} },
		"an answer is not recorded":        func(r *Run) { remove(r, plan.State, 2) },
		"a change is renumbered":           func(r *Run) { at(r, plan.State, 2).Seq = 3 },
		"the epoch changes":                func(r *Run) { at(r, plan.State, 2).Epoch = "f" },
		"a follower gets another epoch": func(r *Run) {
			*at(r, plan.Delta, 2) = plan.Event{At: 20_060 * time.Millisecond, Kind: plan.Snapshot, Seq: 2, Epoch: "f", Rows: [][]int{{1, 2}}}
		},
		"the result is not fresh":      func(r *Run) { r.Plan.Queries[0].Updates[1].Rows = []int{7} },
		"two requests without a pause": func(r *Run) { insert(r, 4, plan.Event{Kind: plan.Ask, N: 9, Members: []int{0}}, answered) },
		"two requests at a time":       func(r *Run) { insert(r, 3, plan.Event{Kind: plan.Ask, N: 9, Members: []int{0}}) },
		"a request before Retry-After is over": func(r *Run) {
			r.Events[7].Text, r.Events[7].Rows, r.Events[7].Prev = plan.Busy, nil, uint64(20*time.Second)
		},
		"a slot takes more than its budget": func(r *Run) { r.Plan.Budget = 10 * time.Millisecond; r.Events[4].At += 200 * time.Millisecond },
		"the id of a query changes":         func(r *Run) { insert(r, 2, plan.Event{Kind: plan.Registered, Text: "q_2"}) },
		"the store is damaged":              func(r *Run) { r.Events[1] = plan.Event{Kind: plan.Checked, Text: "damaged"} },
		"the server ends": func(r *Run) {
			r.Events = append(r.Events[:9], plan.Event{At: r.Events[8].At, Kind: plan.Failed, Text: "panic"})
		},
		"the server ends without an error": func(r *Run) {
			insert(r, 9, plan.Event{Kind: plan.Failed}, plan.Event{Kind: plan.Start}, plan.Event{Kind: plan.Ready})
		},
		"a read fails while the disk refuses writes": func(r *Run) {
			r.Plan.Disk = []plan.DiskFault{{Window: plan.Window{Until: time.Minute}}}
			insert(r, 9, plan.Event{Kind: plan.Problem, Text: "GET /v1/queries/q: 500 {}"})
		},
		"more changes are kept than retention says": func(r *Run) { r.Plan.Retention = 1 },
		"a snapshot in place of a change that is kept": func(r *Run) {
			r.Plan.Retention = 5
			at(r, plan.Delta, 2).Kind = plan.Snapshot
		},
		"a change of another epoch after a restored backup": func(r *Run) {
			insert(r, 7, plan.Event{Kind: plan.Restored})
			at(r, plan.Delta, 2).Epoch = "f"
		},
		"a change has another time": func(r *Run) { at(r, plan.State, 2).Wall = wallAt(40) },
		"a clock that was just set counts": func(r *Run) {
			r.Plan.Steps = []plan.Step{{At: 15 * time.Second, By: time.Hour}}
			at(r, plan.State, 2).Wall = wallAt(3620)
		},
		"the server panics":   func(r *Run) { r.Output = []byte("http: panic serving 127.0.0.1") },
		"an error of the API": func(r *Run) { insert(r, 9, plan.Event{Kind: plan.Problem, Text: "500"}) },
	} {
		r := quiet()
		spoil(r)
		if len(Judge(r)) == 0 {
			t.Errorf("%s, and the judge sees nothing", name)
		}
	}
}

// A write may fail for a disk that does not sync, a start that has to wait may have no result, and old changes may be dropped.
func TestJudgeLetsPass(t *testing.T) {
	for name, change := range map[string]func(r *Run){
		"a write fails while the disk does not sync": func(r *Run) {
			r.Plan.Disk = []plan.DiskFault{{Window: plan.Window{From: 25 * time.Second, Until: 26 * time.Second}}}
			r.Events = slices.Insert(r.Events, 9, plan.Event{At: 25 * time.Second, Kind: plan.Problem, Text: "POST /v1/queries: 500 {}"})
		},
		"an old change is dropped": func(r *Run) {
			r.Plan.Age, r.Plan.Retention = 30*time.Second, 5
			r.Events = slices.DeleteFunc(r.Events, func(e plan.Event) bool { return e.Kind == plan.State && e.Seq == 1 })
		},
	} {
		r := quiet()
		change(r)
		if wrong := Judge(r); len(wrong) > 0 {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}

// endsWithOne makes the result of a quiet world at its end one row.
func endsWithOne(r *Run) {
	for i := range r.Events {
		switch e := &r.Events[i]; e.Kind {
		case plan.Now:
			e.Rows = [][]int{{1}}
		case plan.Gauge:
			e.N = 1
		}
	}
}

// An answer may be lost whose connection was closed at once, because its time may have ended before it was read.
func TestJudgeOfClosedConnections(t *testing.T) {
	for after, wrong := range map[time.Duration]bool{0: false, time.Millisecond: false, 10 * time.Millisecond: true} {
		r := quiet()
		r.Plan.Queries[0].Updates = r.Plan.Queries[0].Updates[:1]
		r.Events = slices.DeleteFunc(r.Events, func(e plan.Event) bool { return e.Seq == 2 })
		i := slices.IndexFunc(r.Events, func(e plan.Event) bool { return e.Kind == plan.Answer && e.N == 2 })
		r.Events = slices.Insert(r.Events, i+1, plan.Event{At: r.Events[i].At + after, Kind: plan.Closed, N: 2})
		endsWithOne(r)
		if found := Judge(r); len(found) > 0 != wrong {
			t.Errorf("closed after %s: %q", after, found)
		}
	}
}

// An answer may be lost that came after one that was cut off, because both may have taken all of the time that there was.
func TestJudgeOfRepeatedRequests(t *testing.T) {
	for pause, wrong := range map[time.Duration]bool{0: false, 10 * time.Second: true} {
		r := quiet()
		r.Plan.Queries[0].Updates = r.Plan.Queries[0].Updates[:1]
		r.Events = slices.DeleteFunc(r.Events, func(e plan.Event) bool { return e.Seq == 2 })
		i := slices.IndexFunc(r.Events, func(e plan.Event) bool { return e.Kind == plan.Ask && e.N == 2 })
		asked := plan.Event{At: r.Events[i].At - pause - time.Millisecond, Kind: plan.Ask, N: 9, Members: []int{0}}
		cut := plan.Event{At: r.Events[i].At - pause, Kind: plan.Answer, N: 9, Members: []int{0}, Text: plan.Cut}
		r.Events = slices.Insert(r.Events, i, asked, cut)
		endsWithOne(r)
		r.Plan.MinGap = 0
		if found := Judge(r); len(found) > 0 != wrong {
			t.Errorf("after %s: %q", pause, found)
		}
	}
}

// After a slot that took too long the next ones take less, by what was answered when a request begins.
func TestJudgeOfDebt(t *testing.T) {
	for _, c := range []struct {
		name           string
		begins, lasted time.Duration // of a request of the next slot, and of the one before it
		killed         time.Duration // the server was
		members        []int         // of the one before it: the first execution of a query borrows
		wrong          bool
	}{
		{"it is repaid", 400 * time.Millisecond, 400 * time.Millisecond, 0, nil, false},
		{"it is not", 1300 * time.Millisecond, 1200 * time.Millisecond, 0, nil, true},
		{"half of the budget is there", 900 * time.Millisecond, 900 * time.Millisecond, 0, nil, false},
		{"two requests begin together", 0, time.Second, 0, nil, false},
		{"the server was killed at once", 1300 * time.Millisecond, 1200 * time.Millisecond, 4 * time.Second, nil, false},
		{"the server was killed later", 1300 * time.Millisecond, 1200 * time.Millisecond, 9 * time.Second, nil, true},
		{"a query is executed for the first time", 1300 * time.Millisecond, 1200 * time.Millisecond, 0, []int{1}, false},
		{"a query is executed again", 1300 * time.Millisecond, 1200 * time.Millisecond, 0, []int{0}, true},
	} {
		p := &plan.Plan{Span: time.Minute, Slot: 10 * time.Second,
			Settings: plan.Settings{Rule: "debt", Budget: 2 * time.Second, Timeout: 2 * time.Second}}
		j := &judge{Run: &Run{Plan: p}, begins: []time.Duration{0}, requests: []*request{
			{end: 3200 * time.Millisecond, members: []int{0}, rows: [][]int{{1}}},
			{begin: p.Slot, end: p.Slot + c.lasted, members: c.members}, {begin: p.Slot + c.begins, end: p.Slot + c.begins}}}
		if c.killed > 0 {
			j.kills = append(j.kills, c.killed)
		}
		if j.budget(); len(j.wrong) > 0 != c.wrong {
			t.Errorf("%s: %q", c.name, j.wrong)
		}
	}
}

// A wait that the endpoint asked for holds over a restart, unless the clock was set so shortly before that only the new server goes by it.
func TestJudgeOfWaits(t *testing.T) {
	failing := []plan.DiskFault{{Window: plan.Window{From: 129 * time.Second, Until: 135 * time.Second}, Kind: plan.NoSync}}
	later := []plan.DiskFault{{Window: plan.Window{From: 131 * time.Second, Until: 135 * time.Second}, Kind: plan.NoSync}}
	for _, c := range []struct {
		name         string
		set, restart time.Duration
		disk         []plan.DiskFault
		wrong        bool
	}{
		{"no restart", time.Minute, 0, nil, true},
		{"a clock that was believed", time.Second, 131 * time.Second, nil, true},
		{"a clock that was not", time.Minute, 131 * time.Second, nil, false},
		{"a clock that is set after the restart", 132 * time.Second, 131 * time.Second, nil, true},
		{"a disk that fails, and ends the server", time.Second, 131 * time.Second, failing, false},
		{"a disk that fails later", time.Second, 131 * time.Second, later, true},
		{"a disk that fails, and no restart", time.Second, 0, failing, true},
	} {
		p := &plan.Plan{Settings: plan.Settings{Concurrency: 1}, Steps: []plan.Step{{At: c.set, By: time.Hour}}, Disk: c.disk}
		j := &judge{Run: &Run{Plan: p}, begins: []time.Duration{0}, requests: []*request{
			{begin: 130 * time.Second, end: 130 * time.Second, fault: plan.Busy, retry: 19 * time.Second},
			{begin: 140 * time.Second, end: 140 * time.Second}}}
		if c.restart > 0 {
			j.begins, j.ends = append(j.begins, c.restart), []time.Duration{130 * time.Second}
		}
		if j.politeness(); len(j.wrong) > 0 != c.wrong {
			t.Errorf("%s: %q", c.name, j.wrong)
		}
	}
}

// A node that is cut off asks nothing once others may have its lease, and a gateway never does.
func TestJudgeOfLeases(t *testing.T) {
	off := plan.Outage{Window: plan.Window{From: 10 * time.Second, Until: time.Minute}, Node: 1, Kind: plan.Off}
	for _, c := range []struct {
		node  int
		at    time.Duration
		wrong bool
	}{{1, 15 * time.Second, false}, {1, 17 * time.Second, true}, {0, 17 * time.Second, false}, {1, time.Minute, false}} {
		j := &judge{Run: &Run{Plan: &plan.Plan{Lease: 6 * time.Second, Outages: []plan.Outage{off}}},
			requests: []*request{{begin: c.at, end: c.at, node: c.node}}}
		if j.leases(); len(j.wrong) > 0 != c.wrong {
			t.Errorf("%+v: %q", c, j.wrong)
		}
	}
	for gateway := range 2 {
		j := &judge{Run: &Run{Plan: &plan.Plan{Gateway: true}}, requests: []*request{{node: gateway}}}
		if j.leases(); len(j.wrong) > 0 != (gateway == 0) {
			t.Errorf("node %d: %q", gateway, j.wrong)
		}
	}
}

// The budget of a slot is that of two nodes only if another one may not know what was used. An answer that a node got counts unless
// that node was out.
func TestJudgeOfNodesThatTakeOver(t *testing.T) {
	out := plan.Outage{Window: plan.Window{From: time.Minute, Until: 70 * time.Second}, Node: 1, Kind: plan.Off}
	for _, c := range []struct {
		nodes []int // that ask, for two thirds of the budget each
		wrong bool
	}{{[]int{0, 0}, true}, {[]int{1, 1}, false}, {[]int{0, 2}, false}} {
		j := &judge{Run: &Run{Plan: &plan.Plan{Slot: 10 * time.Second, Span: 2 * time.Minute, Outages: []plan.Outage{out},
			Settings: plan.Settings{Budget: 3 * time.Second, Rule: "strict", Timeout: 3 * time.Second}}}, history: map[int][]plan.Event{}}
		for i, n := range c.nodes {
			at := time.Minute + time.Duration(i)*3*time.Second
			j.requests = append(j.requests, &request{begin: at, end: at + 2*time.Second, node: n, members: []int{0}, rows: [][]int{{i}}})
		}
		if j.budget(); len(j.wrong) > 0 != c.wrong {
			t.Errorf("%v: %q", c.nodes, j.wrong)
		}
		for _, a := range j.answers(0) {
			if must := c.nodes[0] == 0; a.must != must {
				t.Errorf("%v: an answer counts: %v", c.nodes, a.must)
			}
		}
	}
	j := &judge{Run: &Run{Plan: &plan.Plan{}}, restored: time.Minute}
	for now, want := range map[time.Duration]bool{40 * time.Second: false, 80 * time.Second: true} {
		if j.lost(30*time.Second, now) != want {
			t.Errorf("what was told before the restored backup may be forgotten at %s: %v", now, !want)
		}
	}
}

// A query is not asked while it is paused, or after it was removed, unless that is forgotten with a restored backup.
func TestJudgeOfWhatHoldersEnd(t *testing.T) {
	const slot = 10 * time.Second
	for _, c := range []struct {
		kind, end string
		asked     time.Duration
		restored  time.Duration
		wrong     bool
	}{
		{plan.Paused, plan.Resuming, time.Minute + slot/2, 0, false},
		{plan.Paused, plan.Resuming, time.Minute + slot, 0, true},
		{plan.Paused, plan.Resuming, time.Minute + slot, time.Minute + slot/2, false},
		{plan.Paused, plan.Registered, 3 * time.Minute, 0, true},
		{plan.Paused, plan.Resuming, 3 * time.Minute, 0, false},
		{plan.Removed, plan.Registered, time.Minute + slot, 0, true},
		{plan.Removed, plan.Registered, 3 * time.Minute, 0, false},
	} {
		j := &judge{Run: &Run{Plan: &plan.Plan{Slot: slot, Span: 4 * time.Minute}, Events: []plan.Event{{At: time.Minute, Kind: c.kind},
			{At: 2 * time.Minute, Kind: plan.Paused, Query: 1}, {At: 150 * time.Second, Kind: c.end}}},
			requests: []*request{{begin: c.asked, end: c.asked, members: []int{0}}}, restored: c.restored}
		if held(j); len(j.wrong) > 0 != c.wrong {
			t.Errorf("%+v: %q", c, j.wrong)
		}
	}
	r := quiet() // what is answered until a query that was removed is registered again is not expected
	r.Events = slices.Insert(r.Events, 3, plan.Event{At: 3 * time.Second, Kind: plan.Ask, N: 7, Members: []int{0}},
		plan.Event{At: 3050 * time.Millisecond, Kind: plan.Answer, N: 7, Members: []int{0}, Rows: [][]int{{5}}})
	if len(Judge(r)) == 0 {
		t.Error("an answer is in no history, and the judge sees nothing")
	}
	r.Events = slices.Insert(r.Events, 3, plan.Event{At: 2500 * time.Millisecond, Kind: plan.Removed})
	r.Events = slices.Insert(r.Events, 6, plan.Event{At: 6 * time.Second, Kind: plan.Registered, Text: "q_1"})
	if wrong := Judge(r); len(wrong) > 0 {
		t.Errorf("a query that was removed and registered again: %q", wrong)
	}
}

// A start puts other settings in force unless it fails, and the slot after it may be charged with what the life before was lent.
func TestJudgeOfStarts(t *testing.T) {
	p := &plan.Plan{Slot: 10 * time.Second, Settings: plan.Settings{Budget: time.Second},
		Edits: []plan.Edit{{At: 15 * time.Second, Settings: plan.Settings{Budget: 2 * time.Second}}}}
	for failed, want := range map[bool]time.Duration{false: 2 * time.Second, true: time.Second} {
		j := &judge{Run: &Run{Plan: p}, begins: []time.Duration{0, 20 * time.Second}}
		if failed {
			j.failed = j.begins[1:]
		}
		if got := j.in(25 * time.Second).Budget; got != want {
			t.Errorf("a start failed: %v: the budget is %s", failed, got)
		}
		for at, want := range map[time.Duration]bool{5 * time.Second: false, 29 * time.Second: true, 31 * time.Second: false} {
			if j.charged(&request{begin: at}) != want {
				t.Errorf("a request at %s is of the slot after a start: %v", at, !want)
			}
		}
	}
}

// What a disk refuses was answered a little earlier.
func TestJudgeOfBrokenDisks(t *testing.T) {
	j := &judge{Run: &Run{Plan: &plan.Plan{Disk: []plan.DiskFault{{Window: plan.Window{From: time.Minute, Until: 2 * time.Minute}}}}}}
	for at, want := range map[time.Duration]bool{time.Minute - 60*time.Millisecond: false, time.Minute - 40*time.Millisecond: true,
		2*time.Minute + 9*time.Second: true, 2*time.Minute + 11*time.Second: false} {
		if j.broken(at) != want {
			t.Errorf("what is written at %s may be lost: %v", at, !want)
		}
	}
}

// An endpoint that has failed for long is probed every five minutes.
func TestJudgeOfEndpointsThatAreLeftAlone(t *testing.T) {
	for _, c := range []struct {
		failures int // after an answer, one a second
		after    time.Duration
		want     bool
	}{
		{0, time.Second, false}, {4, time.Second, false}, {5, 4 * time.Second, true}, {5, 6 * time.Second, false},
		{8, 39 * time.Second, true}, {8, 41 * time.Second, false}, {20, 299 * time.Second, true}, {20, 301 * time.Second, false},
	} {
		j := &judge{Run: &Run{Plan: &plan.Plan{}}, requests: []*request{{members: []int{0}, rows: [][]int{{1}}}}}
		for i := range c.failures {
			at := time.Duration(i+1) * time.Second
			j.requests = append(j.requests, &request{begin: at, end: at, members: []int{0}, fault: plan.Broken},
				&request{begin: at, end: at}) // for the position, and well
		}
		if got := j.leftAlone(time.Duration(c.failures)*time.Second + c.after); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A node that starts may end when it has been cut off from the journal for a minute.
func TestJudgeOfNodesThatAreAlone(t *testing.T) {
	p := &plan.Plan{Outages: []plan.Outage{{Window: plan.Window{From: 10 * time.Second, Until: 80 * time.Second}, Node: 1, Kind: plan.Off}}}
	for _, c := range []struct {
		node int
		at   time.Duration
		text string
		want bool
	}{
		{1, 75 * time.Second, "nothing came from it in 1m5s", true},
		{1, 75 * time.Second, "it ended by itself", false},
		{1, 65 * time.Second, "nothing came from it in 1m5s", false},
		{0, 75 * time.Second, "nothing came from it in 1m5s", false},
	} {
		j := &judge{Run: &Run{Plan: p}}
		if got := j.alone(&plan.Event{Kind: plan.Failed, N: c.node, At: c.at, Text: c.text}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A query that fails while others are answered is asked again later and later.
func TestJudgeOfQueriesThatFail(t *testing.T) {
	for _, c := range []struct {
		failures int // one a slot, with an answer of another query before each
		others   bool
		after    time.Duration // the last one, in slots
		want     bool
	}{{3, true, 4, true}, {3, true, 6, false}, {4, true, 8, true}, {4, false, 4, false}, {0, true, 1, false}} {
		const slot = 10 * time.Second
		j := &judge{Run: &Run{Plan: &plan.Plan{Slot: slot}}, requests: []*request{{members: []int{0}, rows: [][]int{{1}}}}}
		for i := range c.failures {
			at := time.Duration(i+1) * slot
			if c.others {
				j.requests = append(j.requests, &request{begin: at - 2, end: at - 1, members: []int{1}, rows: [][]int{{1}}})
			}
			j.requests = append(j.requests, &request{begin: at, end: at, members: []int{0}, fault: plan.Broken})
		}
		if got := backsOff(j, 0, time.Duration(c.failures)*slot+c.after*slot); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A policy may prefer other queries for ever as long as they fill the slots.
func TestJudgeOfStarvedQueries(t *testing.T) {
	const at = 10 * time.Minute
	for _, c := range []struct {
		policy string
		busy   time.Duration // of each slot
		asked  time.Duration // when the query was asked last
		took   time.Duration // that time
		want   bool
	}{
		{"dj", 500 * time.Millisecond, time.Minute, 0, true},
		{"dj", 370 * time.Millisecond, time.Minute, 0, true},
		{"dj", 300 * time.Millisecond, time.Minute, 0, false},
		{"dj", 300 * time.Millisecond, time.Minute, 210 * time.Millisecond, true},
		{"dj", 500 * time.Millisecond, at - time.Second, 0, false},
		{"rr", 500 * time.Millisecond, time.Minute, 0, false},
		{"hybrid", 500 * time.Millisecond, time.Minute, 0, false},
		{"hybrid", 100 * time.Millisecond, time.Minute, 510 * time.Millisecond, true},
	} {
		p := &plan.Plan{Slot: 2 * time.Second, Settings: plan.Settings{Policy: c.policy, Budget: 500 * time.Millisecond},
			Queries: []plan.Query{{Cost: 140 * time.Millisecond}, {Cost: time.Millisecond}}}
		j := &judge{Run: &Run{Plan: p}}
		for begin := time.Duration(0); begin < at; begin += p.Slot {
			j.requests = append(j.requests, &request{begin: begin, end: begin + c.busy, members: []int{1}})
		}
		j.requests = append(j.requests, &request{begin: c.asked, end: c.asked + c.took, members: []int{0}})
		if got := j.starves(0, at); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// Under the policy ttl a query rests for twice as long after each answer without a change.
func TestJudgeOfQueriesThatRest(t *testing.T) {
	one, two := []int{1}, []int{2}
	for _, c := range []struct {
		policy  string
		answers [][]int // in one slot each
		after   int     // slots since the last one
		want    bool
	}{
		{"ttl", [][]int{one}, 1, false},
		{"ttl", [][]int{one, one}, 1, true},
		{"ttl", [][]int{one, one}, 2, false},
		{"ttl", [][]int{one, one, one, one}, 7, true},
		{"ttl", [][]int{one, one, one, one}, 8, false},
		{"ttl", [][]int{one, one, one, two}, 1, false},
		{"ttl", [][]int{one, one, one, one, one, one, one, one}, 31, true},
		{"ttl", [][]int{one, one, one, one, one, one, one, one}, 32, false},
		{"rr", [][]int{one, one, one, one}, 7, false},
	} {
		p := &plan.Plan{Slot: 10 * time.Second, Settings: plan.Settings{Policy: c.policy, Timeout: time.Second}}
		j := &judge{Run: &Run{Plan: p}}
		for i, rows := range c.answers {
			at := time.Duration(i) * p.Slot
			j.requests = append(j.requests, &request{begin: at, end: at, members: []int{0}, rows: [][]int{rows}})
		}
		if got := j.rests(0, time.Duration(len(c.answers)-1+c.after)*p.Slot); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for after, want := range map[time.Duration]bool{31: true, 32: false} { // what was learned before a backup is not known
		j := &judge{Run: &Run{Plan: &plan.Plan{Slot: 10 * time.Second, Settings: plan.Settings{Policy: "ttl"}}}, restored: time.Minute}
		if got := j.rests(0, time.Minute+after*j.Plan.Slot); got != want {
			t.Errorf("%d slots after a backup was restored: %v", after, got)
		}
	}
}

// Nothing is asked while the endpoint wants a pause, apart from what is on its way when it says so.
func TestJudgeOfPauses(t *testing.T) {
	for _, c := range []struct {
		concurrency int
		after       time.Duration // from the answer that asks for 5 s to the next request
		wrong       bool
	}{
		{1, time.Microsecond, true}, {2, time.Microsecond, false}, {2, 100 * time.Millisecond, true},
		{1, 4 * time.Second, true}, {2, 4 * time.Second, true}, {1, 5 * time.Second, false}, {2, 6 * time.Second, false},
	} {
		j := &judge{Run: &Run{Plan: &plan.Plan{Slot: 10 * time.Second, Settings: plan.Settings{Budget: 2 * time.Second,
			Concurrency: c.concurrency}}}}
		const told = time.Second
		j.requests = []*request{
			{begin: told, end: told, fault: plan.Busy, retry: 5 * time.Second},
			{begin: told + c.after, end: told + c.after},
		}
		j.politeness()
		if wrong := len(j.wrong) > 0; wrong != c.wrong {
			t.Errorf("%+v: %q", c, j.wrong)
		}
	}
}

// A server that begins on a full disk goes on with the settings that its store has.
func TestSettingsOnAFullDisk(t *testing.T) {
	r := quiet()
	r.Plan.Policy, r.Plan.Edits = "rr", []plan.Edit{{At: 10 * time.Second, Settings: plan.Settings{Policy: "ttl"}}}
	j := &judge{Run: r, begins: []time.Duration{0, 20 * time.Second}}
	if got := j.in(21 * time.Second).Policy; got != "ttl" {
		t.Error(got)
	}
	r.Plan.Disk = []plan.DiskFault{{Window: plan.Window{From: 15 * time.Second, Until: 25 * time.Second}, Kind: plan.Full, Every: 1}}
	for at, want := range map[time.Duration]string{21 * time.Second: "rr", 25 * time.Second: "rr", 31 * time.Second: "ttl"} {
		if got := j.in(at).Policy; got != want || applying(j, at) != (want == "rr") {
			t.Errorf("at %s: %s, applying %v", at, got, applying(j, at))
		}
	}
	if applying(j, 19*time.Second) {
		t.Error("settings change before the start")
	}
}
