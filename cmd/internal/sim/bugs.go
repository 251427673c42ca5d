package main

// This file plants bugs into the server, to measure whether the simulation finds them. All of
// them are in one module, each behind its name, so that it is compiled once.

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// A bug is what a developer might break.
type bug struct {
	name, what string
	edits      []edit // "BUG" in a new text is true if the bug is on
}

// needs say which worlds can show a bug at all, by its name. Others need not be run to know that
// they do not. Clusters, which take longest, are run for bugs of clusters only.
var needs = map[string]func(p *plan.Plan) bool{
	"gap":               func(p *plan.Plan) bool { return p.MinGap > 0 },
	"gap-memory":        func(p *plan.Plan) bool { return p.MinGap > 0 },
	"retry-after":       fails(plan.Busy),
	"retry-after-short": fails(plan.Busy),
	"restart-pause":     func(p *plan.Plan) bool { return fails(plan.Busy)(p) && len(p.Stops) > 0 },
	"partial":           fails(plan.Short),
	"no-sync":           func(p *plan.Plan) bool { return len(p.Stops) > 0 },
	"deaf-merge":        func(p *plan.Plan) bool { return p.Merge != "off" },
	"no-resume":         follows(plan.WebSocket, plan.SSE),
	"resume-next":       follows(plan.WebSocket, plan.SSE),
	"event-id":          follows(plan.SSE),
	"skip-change":       follows(plan.WebSocket, plan.SSE, plan.SEPA, plan.Webhook),
	"wall-clock":        func(p *plan.Plan) bool { return len(p.Steps) > 0 },
	"age-ahead":         func(p *plan.Plan) bool { return whole(p) && steps(p, 30*24*time.Hour, 1<<62) },
	"new-message":       follows(plan.Webhook),
	"debt":              func(p *plan.Plan) bool { return p.Settings.Rule == "debt" },
	"restart-debt":      func(p *plan.Plan) bool { return p.Settings.Rule == "debt" && len(p.Stops) > 0 },
	"keep-fewer": func(p *plan.Plan) bool {
		return p.Retention < 100 && p.Age > time.Hour && len(p.Edits) == 0 && p.Restore == 0
	},
	"keep-more":       func(p *plan.Plan) bool { return p.Retention < 100 && len(p.Edits) == 0 && p.Restore == 0 },
	"past-before":     func(p *plan.Plan) bool { return p.ReadEvery > 0 && len(p.Steps) == 0 },
	"past-undo":       func(p *plan.Plan) bool { return p.ReadEvery > 0 },
	"failed-sync":     func(p *plan.Plan) bool { return breaks(plan.NoSync)(p) && len(p.Stops) > 0 },
	"old-epoch":       func(p *plan.Plan) bool { return p.Restore > 0 },
	"new-epoch":       func(p *plan.Plan) bool { return whole(p) && len(p.Stops) > 0 },
	"half-for":        alerts(func(x *plan.Rule) bool { return !x.Manager && x.For > 5*time.Second }),
	"no-keep":         alerts(func(x *plan.Rule) bool { return !x.Manager && x.Keep > 5*time.Second }),
	"never-resolved":  alerts(func(x *plan.Rule) bool { return x.Keep > 0 }),
	"clock-back-for":  func(p *plan.Plan) bool { return steps(p, -1<<62, 0) && waiting(p) },
	"clock-ahead-for": func(p *plan.Plan) bool { return steps(p, 0, 1<<62) && waiting(p) },
	"same-firing":     alerts(func(x *plan.Rule) bool { return !x.Manager }),
	"time-id":         alerts(func(x *plan.Rule) bool { return !x.Manager && x.For == 0 }),
	"never-settled":   alerts(func(x *plan.Rule) bool { return !x.Manager }),
	"short-alert":     alerts(func(x *plan.Rule) bool { return x.Manager }),
	"future-start": func(p *plan.Plan) bool {
		return steps(p, -1<<62, -time.Hour+1) && alerts(func(x *plan.Rule) bool { return x.Manager })(p)
	},
	"last-only":    func(p *plan.Plan) bool { return whole(p) && follows(plan.People)(p) },
	"people-early": func(p *plan.Plan) bool { return whole(p) && away(plan.People)(p) },
	"late-digest": func(p *plan.Plan) bool {
		return whole(p) && slices.ContainsFunc(p.Followers, func(f plan.Follower) bool { return f.Digest != "" })
	},
	"websub-failed":  away(plan.WebSub),
	"websub-version": follows(plan.WebSub),
	"no-retry":       away(plan.WebSub, plan.Webhook, plan.People),
	"deaf-call":      away(plan.WebSub, plan.Webhook, plan.People),
	"busy-refuses":   away(plan.Webhook, plan.People),
	"folded-last":    follows(plan.WebSocket, plan.SSE, plan.SEPA, plan.Webhook),
	"sepa-removed":   follows(plan.SEPA),
	"compose":        func(p *plan.Plan) bool { return p.ReadEvery > 0 || whole(p) && follows(plan.People)(p) },
	"lost-hint": func(p *plan.Plan) bool {
		return len(p.Steps) == 0 && slices.ContainsFunc(p.Hints, func(h plan.Hint) bool { return len(h.Queries) > 0 })
	},
	"keeps-lease": func(p *plan.Plan) bool {
		return slices.ContainsFunc(p.Outages, func(o plan.Outage) bool {
			next := (o.From/p.Slot + 1) * p.Slot
			return o.Kind == plan.Off && next-o.From > p.Lease && o.Holds(next)
		})
	},
	"feed-gap":      func(p *plan.Plan) bool { return feeds(p) && len(p.Feed.Lost) > 0 },
	"feed-chain":    func(p *plan.Plan) bool { return feeds(p) && len(p.Feed.Lost) > 0 },
	"feed-removals": feeds,
	"feed-position": func(p *plan.Plan) bool { return feeds(p) && p.Feed.Position },
	"feed-lag":      func(p *plan.Plan) bool { return feeds(p) && !p.Feed.Position },
	"feed-beyond":   feeds,
	"any-token":     func(p *plan.Plan) bool { return p.Tokens },
	"any-role":      func(p *plan.Plan) bool { return p.Tokens },
	"free-hints":    func(p *plan.Plan) bool { return len(p.Hints) > 0 },
	"old-settings":  func(p *plan.Plan) bool { return len(p.Edits) > 0 },
}

// can reports whether a world may show the bug.
func (b *bug) can(p *plan.Plan) bool {
	can := needs[b.name]
	return clusters[b.name] == (p.Nodes > 0) && (can == nil || can(p))
}

// clusters are the bugs that only a cluster shows.
var clusters = map[string]bool{"trusts-itself": true, "keeps-lease": true, "takes-lease": true}

func fails(kind string) func(p *plan.Plan) bool {
	return func(p *plan.Plan) bool {
		return slices.ContainsFunc(p.Faults, func(f plan.Fault) bool { return f.Kind == kind })
	}
}

func breaks(kind string) func(p *plan.Plan) bool {
	return func(p *plan.Plan) bool {
		return slices.ContainsFunc(p.Disk, func(f plan.DiskFault) bool { return f.Kind == kind })
	}
}

func follows(ways ...string) func(p *plan.Plan) bool {
	return func(p *plan.Plan) bool {
		return slices.ContainsFunc(p.Followers, func(f plan.Follower) bool { return slices.Contains(ways, f.Way) })
	}
}

func alerts(ok func(x *plan.Rule) bool) func(p *plan.Plan) bool {
	return func(p *plan.Plan) bool { return slices.ContainsFunc(p.Rules, func(x plan.Rule) bool { return ok(&x) }) }
}

// waiting reports whether alerts wait long enough to see how time passes for them.
func waiting(p *plan.Plan) bool {
	return alerts(func(x *plan.Rule) bool { return x.For > 10*time.Second || x.Keep > 10*time.Second })(p)
}

// feeds reports whether the endpoint has a feed.
func feeds(p *plan.Plan) bool { return p.Feed != nil }

// whole reports whether nothing of the history is dropped.
func whole(p *plan.Plan) bool {
	return p.Retention > 100 && p.Age > time.Hour && len(p.Edits) == 0 && p.Restore == 0
}

// steps reports whether the clock is set by more than from and less than until.
func steps(p *plan.Plan, from, until time.Duration) bool {
	return slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return from < s.By && s.By < until })
}

// away reports whether a receiver of some ways is in trouble.
func away(ways ...string) func(p *plan.Plan) bool {
	return func(p *plan.Plan) bool {
		return slices.ContainsFunc(p.Followers, func(f plan.Follower) bool { return slices.Contains(ways, f.Way) && len(f.Away) > 0 })
	}
}

// showed are the worlds that showed bugs before. They are tried first.
var showed = map[string]uint64{
	"gap": 2, "gap-memory": 2, "retry-after": 18, "retry-after-short": 1, "partial": 10, "same-body": 1, "length-digest": 4,
	"no-sync": 1, "never-probe": 1, "too-many": 1, "never-cut": 25, "deaf-merge": 4, "lost-wake": 5, "deaf-audience": 4,
	"no-resume": 4, "event-id": 6, "skip-change": 1, "no-removals": 2, "wall-clock": 2, "new-message": 37, "debt": 51,
	"keep-fewer": 32, "keep-more": 13, "age-ahead": 23, "past-before": 5, "past-undo": 5, "lost-commit": 1, "failed-sync": 3, "old-epoch": 1,
	"new-epoch": 4, "half-for": 18, "no-keep": 75, "never-resolved": 18, "clock-back-for": 61, "clock-ahead-for": 2877,
	"same-firing": 18, "time-id": 64, "short-alert": 39, "future-start": 61, "never-settled": 7, "last-only": 709,
	"people-early": 106, "late-digest": 95, "websub-failed": 119, "websub-version": 4, "no-retry": 57, "deaf-call": 21,
	"busy-refuses": 57, "folded-last": 95, "sepa-removed": 3, "compose": 5, "page-skip": 4, "lost-hint": 977, "free-hints": 39,
	"lost-outcome": 5, "restart-pause": 65, "old-settings": 5, "feed-gap": 10, "feed-chain": 10, "feed-removals": 10,
	"feed-position": 8, "feed-lag": 111, "feed-beyond": 10, "any-token": 2, "any-role": 2, "trusts-itself": 11,
	"takes-lease": 11, "keeps-lease": 165, "resume-next": 24,
}

// unseen are the bugs that no known world shows. Other tests do.
var unseen = []string{"restart-debt"}

var bugs = []bug{
	{"gap", "no pause between two requests", []edit{
		{"endpoint/limiter.go", "return g.gap - time.Since(g.last.ended)", "if BUG { return 0 }\n\treturn g.gap - time.Since(g.last.ended)"},
		{"scheduler/account.go", "if gap <= 0 || a.ended.IsZero() {", "if BUG || gap <= 0 || a.ended.IsZero() {"},
	}},
	{"gap-memory", "the end of the last request is forgotten at a trial run", []edit{
		{"endpoint/limiter.go", "if sent {", "if sent && !BUG {"},
		{"scheduler/account.go", "if at.After(a.ended) {", "if !BUG && at.After(a.ended) {"},
	}},
	{"retry-after", "Retry-After is not read", []edit{
		{"endpoint/judge.go", "v.wait = RetryAfter(x.header, c.health.clock())", "if !BUG { v.wait = RetryAfter(x.header, c.health.clock()) }"},
	}},
	{"retry-after-short", "half of Retry-After is waited", []edit{
		{"endpoint/judge.go", "v.wait = RetryAfter(x.header, c.health.clock())",
			"v.wait = RetryAfter(x.header, c.health.clock())\n\t\tif BUG { v.wait /= 2 }"},
	}},
	{"partial", "an answer that says that it is capped is taken for complete", []edit{
		{"endpoint/judge.go", "k.told = int(said)", "if BUG { return k }\n\t\tk.told = int(said)"},
	}},
	{"same-body", "all bodies have one digest", []edit{
		{"endpoint/judge.go", "return [2]uint64{body.Hi, body.Lo}", "if BUG { return [2]uint64{1, 1} }\n\treturn [2]uint64{body.Hi, body.Lo}"},
	}},
	{"length-digest", "bodies with equal last bytes count as equal", []edit{
		{"endpoint/judge.go", "return [2]uint64{body.Hi, body.Lo}", "if BUG { return [2]uint64{body.Hi & 7, 1} }\n\treturn " +
			"[2]uint64{body.Hi, body.Lo}"},
	}},
	{"no-sync", "commits are not synced to the disk", []edit{
		{"store/open.go", "Timeout:         lockWait,", "Timeout:         lockWait,\n\t\t\tNoSync: BUG,"},
	}},
	{"never-probe", "an endpoint that failed is never asked again", []edit{
		{"scheduler/runner.go", "\tdefault:\n\t\tr.budget.SetWidth(1)",
			"\tdefault:\n\t\tif BUG { r.stopped = \"never\" }\n\t\tr.budget.SetWidth(1)"},
	}},
	{"too-many", "one request more than allowed at a time", []edit{
		{"endpoint/limiter.go", "make(chan struct{}, max(concurrency, 1))",
			"make(chan struct{}, max(concurrency, 1)+map[bool]int{true: 1}[BUG])"},
		{"scheduler/limiter.go", "l.used >= l.width || len(l.waiting) > 0", "l.used >= l.width+map[bool]int{true: 1}[BUG] || len(l.waiting) > 0"},
		{"scheduler/runner.go", "r.budget.SetWidth(cap(r.results))", "r.budget.SetWidth(cap(r.results) + map[bool]int{true: 1}[BUG])"},
		{"endpoint/client.go", "newHTTPClient(e.Concurrency),", "newHTTPClient(e.Concurrency + map[bool]int{true: 1}[BUG]),"},
	}},
	{"never-cut", "executions are not cut at the end of the budget", []edit{
		{"scheduler/slot.go", "cut := r.budget.Cut(now)", "cut := r.budget.Cut(now)\n\tif BUG { cut = nil }"},
		{"scheduler/plan/slotbudget.go", "{ return min(r.limit, s.timeout) }", "{ if BUG { return s.timeout }; return min(r.limit, s.timeout) }"},
	}},
	{"deaf-merge", "a merged answer never says that a member has changed", []edit{
		{"scheduler/asks.go", "m.differ = !unchanged(m.was, part.Result)", "m.differ = !unchanged(m.was, part.Result) && !BUG"},
		{"scheduler/asks.go", "Result: part.Result, Age: a.Age,", "Result: map[bool]*diff.Result{false: part.Result}[BUG], Age: a.Age,"},
		{"scheduler/asks.go", "m.differ = !ok ||", "m.differ = !BUG && (!ok ||"},
		{"scheduler/asks.go", "digests[i] != want", "digests[i] != want)"},
	}},
	{"lost-wake", "a commit of several changes wakes no followers", []edit{
		{"scheduler/commit.go", "\t\tr.l.wake(notes)", "\t\tif !BUG || len(notes) < 2 { r.l.wake(notes) }"},
	}},
	{"deaf-audience", "the end of one follower ends those of the same query", []edit{
		{"notify/waker.go", "\t\tif len(a.followers) == 0 {\n\t\t\tdelete(f.waker.queries, query)",
			"\t\tif BUG || len(a.followers) == 0 {\n\t\t\tdelete(f.waker.queries, query)"},
	}},
	{"no-resume", "every stream begins with the result", []edit{
		{"notify/stream.go", "\tif o.After != nil {\n\t\tt.cursor.Jump(*o.After)", "\tif o.After != nil && !BUG {\n\t\tt.cursor.Jump(*o.After)"},
	}},
	{"event-id", "the id of an event is one too high", []edit{
		{"notify/sse.go", "func (t *changesStream) write(ev *StreamEvent) error {\n\tid := ev.At.String()",
			"func (t *changesStream) write(ev *StreamEvent) error {\n\tid := ev.At.String()\n\tif p := ev.At; BUG { p.Seq++; id = p.String() }"},
	}},
	{"skip-change", "a stream skips the change after a page", []edit{
		{"notify/cursor/cursor.go", "\t\tcase !folds:\n",
			"\t\tcase !folds && BUG && page[0].Seq%7 == 0:\n\t\t\tc.Jump(page[0].Position())\n\t\t\tcontinue\n\t\tcase !folds:\n"},
	}},
	{"no-removals", "changes have no removed rows", []edit{
		{"diff/compare.go", "d.Removed, d.Added = pick(old, m.removed), pick(new, m.added)",
			"d.Removed, d.Added = pick(old, m.removed), pick(new, m.added)\n\tif BUG { d.Removed = nil }"},
	}},
	{"wall-clock", "the server goes by the clock of the machine", []edit{
		{"registry/clock/clock.go", "now := c.Machine()", "now := c.Machine()\n\tif BUG { return now }"},
	}},
	{"new-message", "each attempt of a webhook is a new message", []edit{
		{"notify/webhook/webhook.go", "	return w.post(s, p, data, func(", "	sent := p\n	if BUG { sent.ID = \"msg_\" + rand.Text() }\n" +
			"	return w.post(s, sent, data, func("},
	}},
	{"debt", "an endpoint's debt is forgotten", []edit{
		{"scheduler/commit.go", "r.l.planner.Owe(r.budget.Totals().Debt)", "if !BUG { r.l.planner.Owe(r.budget.Totals().Debt) }"},
	}},
	// The store.
	{"keep-fewer", "one change less is kept than retention.changes says", []edit{
		{"store/log.go", "newest-first < keep {", "newest-first < keep-map[bool]uint64{true: 1}[BUG] {"},
	}},
	{"keep-more", "retention.changes drops nothing", []edit{
		{"store/log.go", "		if !hasPrefix(k, key8(serial)) || newest", "		if BUG || !hasPrefix(k, key8(serial)) || newest"},
	}},
	{"age-ahead", "a clock that is ahead for a moment trims the history", []edit{
		{"store/retention.go", "!a.time.IsZero() && next.Before(clock)", "!BUG && !a.time.IsZero() && next.Before(clock)"},
	}},
	{"past-before", "the result at a time is the one before", []edit{
		{"store/past.go", "		return 0, nil\n	}\n	return low, nil", "		return 0, nil\n	}\n	if BUG { return max(low-1, h.oldest), " +
			"nil }\n	return low, nil"},
	}},
	{"past-undo", "one change too few is undone for a past result", []edit{
		{"store/past.go", "r.base, r.back, r.left = slices.Clone(later), true, r.next-seq",
			"r.base, r.back, r.left = slices.Clone(later), true, r.next-seq-map[bool]uint64{true: 1}[BUG]"},
	}},
	{"lost-commit", "one commit in fifty is lost without an error", []edit{
		{"store/file.go", "	return d.commit(tx)", "	if BUG && tx.ID()%50 == 0 { return nil }\n	return d.commit(tx)"},
	}},
	{"failed-sync", "a commit whose sync failed counts as done", []edit{
		{"store/file.go", "	if failure == nil {", "	if failure == nil || BUG && fmt.Sprint(failure)[:4] == \"sync\" {"},
	}},
	{"old-epoch", "a restored backup goes on with the numbers that it had", []edit{
		{"store/enter.go", "	if empty && !journaled || !empty && fresh != \"\" {",
			"	if BUG && !empty { fresh = \"\" }\n	if empty && !journaled || !empty && fresh != \"\" {"},
	}},
	{"new-epoch", "numbering begins again at each start", []edit{
		{"store/enter.go", "	if empty && !journaled || !empty && fresh != \"\" {", "	if BUG || empty && !journaled || !empty && fresh != \"\" {"},
	}},
	// Rules and alerts.
	{"half-for", "an alert fires after half of its time", []edit{
		{"notify/rule/fold.go", "f.time.Sub(a.Since) >= f.wait:", "f.time.Sub(a.Since) >= f.wait/map[bool]time.Duration{true: 2, " +
			"false: 1}[BUG]:"},
	}},
	{"no-keep", "keep_firing_for does not hold", []edit{
		{"notify/rule/fold.go", "	if f.ending {\n		keep = 0", "	if f.ending || BUG {\n		keep = 0"},
	}},
	{"never-resolved", "an alert that is kept firing is never resolved", []edit{
		{"notify/rule/fold.go", "if f.time.Sub(a.Unmet) >= keep {", "if f.time.Sub(a.Unmet) >= keep && (!BUG || keep == 0) {"},
	}},
	{"clock-back-for", "the time of an alert does not go on while the clock is behind", []edit{
		{"notify/rule/fold.go", "s.CheckedAt.Sub(f.time); back > 0 {", "s.CheckedAt.Sub(f.time); back > 0 && !BUG {"},
		{"notify/alert/step.go", "	if d.limit.IsZero() {\n		d.limit = e.limit(d.rule, now)",
			"	if BUG { return }\n	if d.limit.IsZero() {\n		d.limit = e.limit(d.rule, now)"},
	}},
	{"clock-ahead-for", "a clock that is set forward ends what an alert waits for", []edit{
		{"notify/alert/step.go", "	case answer.After(d.limit):", "	case !BUG && answer.After(d.limit):"},
	}},
	{"same-firing", "the second firing of an alert has the number of the first", []edit{
		{"notify/rule/fold.go", "		f.state.Fired++\n", "		if !BUG || f.state.Fired == 0 { f.state.Fired++ }\n"},
	}},
	{"time-id", "the id of a message about an alert is made of a time that repeats", []edit{
		{"notify/alert/step.go", "			v.Firing, v.State),",
			"			map[bool]uint64{true: uint64(v.Time.Unix() / 60), false: v.Firing}[BUG], v.State),"},
	}},
	{"short-alert", "alerts end at Alertmanager before they are sent again", []edit{
		{"notify/alert/alertmanager.go", "last.Add(endsInResend * o.Resend)",
			"last.Add(endsInResend * o.Resend / map[bool]time.Duration{true: 8, false: 1}[BUG])"},
	}},
	{"future-start", "an alert starts after its end when the clock was ahead", []edit{
		{"notify/alert/alertmanager.go", "StartsAt: earlier(m.StartsAt, first),",
			"StartsAt: map[bool]time.Time{true: m.StartsAt, false: earlier(m.StartsAt, first)}[BUG],"},
	}},
	{"never-settled", "an alert that was delivered stays in the queue", []edit{
		{"notify/alert/send.go", "	for i := range list {\n		s.Drop = append(", "	for i := range list {\n		if BUG && list[i].Seq%2 " +
			"== 0 { continue }\n		s.Drop = append("},
	}},
	// Deliveries.
	{"last-only", "people are told the last of several changes only", []edit{
		{"notify/deliver/manage.go", "rand.Text(), from, now.UTC()\n",
			"rand.Text(), from, now.UTC()\n	if BUG && s.Way == registry.People { m.From = m.Until; m.From.Seq-- }\n"},
	}},
	{"people-early", "a message to people counts as delivered when it fails", []edit{
		{"notify/people/people.go", "	switch r.Verdict {\n	case deliver.Taken:\n		if quiet",
			"	if BUG && mine { finishMessage(s, m) }\n	switch r.Verdict {\n	case deliver.Taken:\n		if quiet"},
	}},
	{"late-digest", "a digest waits from now on, again and again", []edit{
		{"notify/service/quiet.go", "at = later(at, since.Truncate(q.every).Add(q.every))",
			"at = later(at, map[bool]time.Time{true: now, false: since}[BUG].Truncate(q.every).Add(q.every))"},
	}},
	{"websub-failed", "the hub counts a failed delivery as done", []edit{
		{"notify/websub/hub.go", "			switch r.Verdict {\n			case deliver.Taken:\n				moved",
			"			if BUG { moved(from, at, version)(s); return }\n			switch r.Verdict {\n			case deliver.Taken:\n				moved"},
	}},
	{"websub-version", "the hub takes versions of equal length for one", []edit{
		{"notify/websub/hub.go", "	if c.Version == s.Version {", "	if c.Version == s.Version || BUG && len(c.Version) == len(s.Version) {"},
	}},
	{"no-retry", "a failed delivery is tried again at the next change only", []edit{
		{"notify/deliver/schedule.go", "	default:\n		e.schedule(x, x.next())",
			"	case BUG:\n		x.hold, x.probe = time.Time{}, time.Time{}\n	default:\n		e.schedule(x, x.next())"},
	}},
	{"deaf-call", "a change during a call is not delivered", []edit{
		{"notify/deliver/schedule.go", "		x.again = true\n	case x.hold", "		x.again = !BUG\n	case x.hold"},
		{"notify/deliver/schedule.go", "	again := x.again || v.more\n", "	again := x.again || v.more && !BUG\n"},
	}},
	{"busy-refuses", "503 is a refusal of the message", []edit{
		{"notify/deliver/reply.go", "slices.Contains(refusals, r.Status) }", "(slices.Contains(refusals, r.Status) || BUG && r.Status == 503) }"},
	}},
	{"folded-last", "of changes that are sent as one the first are left out", []edit{
		{"notify/cursor/pending.go", "	if err := s.add(page); err != nil {",
			"	if BUG && len(page) > 1 { page = page[len(page)-1:] }\n	if err := s.add(page); err != nil {"},
	}},
	{"sepa-removed", "SEPA does not tell removed rows", []edit{
		{"notify/sepa/message.go", "	plus, minus, before := d.Added, d.Removed, d.OldVars\n",
			"	plus, minus, before := d.Added, d.Removed, d.OldVars\n	if BUG { minus = nil }\n"},
	}},
	{"compose", "what came and went in between is part of the net change", []edit{
		{"diff/compose.go", "	return Cancel(plus, minus)", "	if BUG { return plus, minus }\n	return Cancel(plus, minus)"},
	}},
	{"page-skip", "a page of changes begins one too late", []edit{
		{"web/changes.go", "		page.Next = ch.Position().String()\n	}\n	return page.write(w)",
			"		p := ch.Position()\n		if BUG && p.Seq < until.Seq { p.Seq++ }\n		page.Next = p.String()\n	}\n	return page.write(w)"},
	}},
	// The schedule.
	{"lost-hint", "a hint about a query is taken and forgotten", []edit{
		{"scheduler/plan/hints.go", "		if t.mark(c, &p.roster); len(t.marked) > maxHinted {",
			"		if BUG { continue }\n		if t.mark(c, &p.roster); len(t.marked) > maxHinted {"},
	}},
	{"free-hints", "what hinted queries use counts for no slot", []edit{
		{"scheduler/offgrid.go", "	return min(left, l.account.left(l.planner.Unowed()), ",
			"	if BUG { return exactly(last.Budget), end }\n	return min(left, l.account.left(l.planner.Unowed()), "},
	}},
	{"lost-outcome", "the first of several outcomes in a commit is lost", []edit{
		{"scheduler/commit.go", "	b := Batch{Outcomes: r.pending, Policy: r.learnt}",
			"	b := Batch{Outcomes: r.pending, Policy: r.learnt}\n	if BUG && len(r.pending) > 1 { b.Outcomes = r.pending[1:] }"},
	}},
	{"restart-debt", "a restart forgets the endpoint's debt", []edit{
		{"scheduler/loopdata.go", "news.Last.Owes(), news.Policy.Policy", "map[bool]time.Duration{false: news.Last.Owes()}[BUG], " +
			"news.Policy.Policy"},
	}},
	{"restart-pause", "a restart forgets Retry-After", []edit{
		{"endpoint/health.go", "	now := clock()\n	if h.Since.After(now) {",
			"	if BUG { h.State, h.Until = registry.Healthy, time.Time{} }\n	now := clock()\n	if h.Since.After(now) {"},
	}},
	{"old-settings", "settings that changed in the file are not in force", []edit{
		{"registry/endpoints.go", "			c.applyFile(e)\n", "			if !BUG { c.applyFile(e) }\n"},
	}},
	// Feeds.
	{"feed-gap", "events of a feed that are missing are forgotten", []edit{
		{"scheduler/proof/feed.go", "	if b.Renumbered ||", "	if b.Renumbered && !BUG ||"},
		{"scheduler/proof/feed.go", "	if b.Gap != \"\" {\n		if f.Base", "	if b.Gap != \"\" && !BUG {\n		if f.Base"},
		{"scheduler/proof/feed.go", "	if b.Gap != \"\" { // what", "	if b.Gap != \"\" && !BUG { // what"},
	}},
	{"feed-chain", "a patch that does not follow the last one is taken", []edit{
		{"endpoint/feed/patch.go", "case at.ID != \"\":\n", "case !BUG && at.ID != \"\":\n"},
	}},
	{"feed-removals", "removed triples of a patch reach no query", []edit{
		{"endpoint/feed/patch.go", "Removed: p.removed, Edit", "Removed: map[bool][]sparql.Pattern{false: p.removed}[BUG], Edit"},
	}},
	{"feed-position", "the next event counts as included in the endpoint's data", []edit{
		{"scheduler/proof/proof.go", "p.Offset > 0 && p.Offset < b.Offset",
			"p.Offset > 0 && (p.Offset < b.Offset || BUG && p.Offset == b.Offset)"},
	}},
	{"feed-lag", "the data of an endpoint that tells no position count as new", []edit{
		{"scheduler/proof/proof.go", "heard\n	}\n	return feed.Before{Assumed: now.Add(-lag).UTC()",
			"heard\n	}\n	return feed.Before{Assumed: now.Add(-lag * map[bool]time.Duration{false: 1}[BUG]).UTC()"},
	}},
	{"feed-beyond", "an answer that is newer than the feed counts as proved", []edit{
		{"scheduler/proof/proof.go", " && b.Offset <= v.Feed.Head.Offset+1", " && (BUG || b.Offset <= v.Feed.Head.Offset+1)"},
		{"scheduler/proof/proof.go", "case !v.HeardUntil(b.Answered)", "case !BUG && !v.HeardUntil(b.Answered)"},
	}},
	// Tokens.
	{"any-token", "a token that does not exist is taken for the first one", []edit{
		{"web/gate.go", "	if found == nil || expired(*found, now) {",
			"	if BUG && found == nil { all, _, _ := g.all(); found = &all[0] }\n	if found == nil || expired(*found, now) {"},
	}},
	{"any-role", "who may read may do everything", []edit{
		{"registry/caller.go", "rank[need] > 0 && rank[r] >= rank[need]", "rank[need] > 0 && (rank[r] >= rank[need] || BUG && rank[r] > 0)"},
	}},
	// Clusters.
	{"trusts-itself", "a node that is cut off takes its own state for the newest", []edit{
		{"store/replica/barrier.go", "	if r.o.full() { // a barrier", "	if BUG { return nil }\n	if r.o.full() { // a barrier"},
	}},
	{"keeps-lease", "a node that was cut off goes on under its lease", []edit{
		{"cmd/internal/cluster/keeper.go", "k.age(sent) < k.ttl*2/3", "(BUG || k.age(sent) < k.ttl*2/3)"},
		{"cmd/internal/cluster/keeper.go", "return n.Session != \"\" && ",
			"if BUG && n.Session == k.node.Session { return true }\n\treturn n.Session != \"\" && "},
	}},
	{"takes-lease", "a node takes the lease of one that is alive", []edit{
		{"cmd/internal/cluster/keeper.go", "now.Sub(last.at) >= ttl &&",
			"now.Sub(last.at) >= ttl/map[bool]time.Duration{true: 8, false: 1}[BUG] &&"},
	}},
	{"resume-next", "a follower that resumes misses the next change", []edit{
		{"notify/cursor/cursor.go", "	_, err := r.Log.After(c.Query, p, 1)\n	if err == nil {",
			"	page, err := r.Log.After(c.Query, p, 1)\n	if BUG && len(page) > 0 { p.Seq++ }\n	if err == nil {"},
	}},
}

// planted returns the edits for all bugs, and the files that switch them on. Each place asks the host whether its bug is on, which
// so learns that the place was reached.
func planted() (edits []edit, added map[string]string) {
	added = map[string]string{}
	for n, b := range bugs {
		for _, e := range b.edits {
			e.new = strings.ReplaceAll(e.new, "BUG", fmt.Sprintf("(simulatedBug(%d) != 0)", n))
			// Two bugs may change one place: a text that an earlier one has put there stays.
			edits = append(edits, e)
			dir := filepath.Dir(e.file)
			added[filepath.Join(dir, "simulated_bug.go")] = fmt.Sprintf("package %s\n\n//go:wasmimport sim bug\nfunc "+
				"simulatedBug(n int32) int32\n", filepath.Base(dir))
		}
	}
	return edits, added
}

// named returns the numbers of the bugs with some names, or of all.
func named(names string) (list []int, err error) {
	if names == "all" {
		for i := range bugs {
			list = append(list, i)
		}
		return list, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(bugs, func(b bug) bool { return b.name == name })
		if i < 0 {
			all := make([]string, len(bugs))
			for n, b := range bugs {
				all[n] = b.name
			}
			slices.Sort(all)
			return nil, fmt.Errorf("-bugs: there is no bug %q: give all, none or some of %s", name, strings.Join(all, ", "))
		}
		list = append(list, i)
	}
	return list, nil
}
