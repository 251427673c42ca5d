package main

// This file plants bugs into the server, to measure whether the simulation finds them. All of
// them are in one module, each behind its name, so that it is compiled once.

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A bug is what a developer might break.
type bug struct {
	name, what string
	edits      []edit // "BUG" in a new text is true if the bug is on
}

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
		{"endpoint/judge.go", "v.wait = retryAfter(x.header, c.health.clock())", "if !BUG { v.wait = retryAfter(x.header, c.health.clock()) }"},
	}},
	{"retry-after-short", "half of Retry-After is waited", []edit{
		{"endpoint/judge.go", "v.wait = retryAfter(x.header, c.health.clock())", "v.wait = retryAfter(x.header, c.health.clock())\n\t\tif BUG { v.wait /= 2 }"},
	}},
	{"partial", "an answer that says that it is capped is taken for complete", []edit{
		{"endpoint/judge.go", "k.told = int(said)", "if BUG { return k }\n\t\tk.told = int(said)"},
	}},
	{"same-body", "all bodies have one digest", []edit{
		{"endpoint/judge.go", "return [2]uint64{body.Hi, body.Lo}", "if BUG { return [2]uint64{1, 1} }\n\treturn [2]uint64{body.Hi, body.Lo}"},
	}},
	{"length-digest", "bodies with equal last bytes count as equal", []edit{
		{"endpoint/judge.go", "return [2]uint64{body.Hi, body.Lo}", "if BUG { return [2]uint64{body.Hi & 7, 1} }\n\treturn [2]uint64{body.Hi, body.Lo}"},
	}},
	{"no-sync", "commits are not synced to the disk", []edit{
		{"store/open.go", "Timeout:         lockWait,", "Timeout:         lockWait,\n\t\t\tNoSync: BUG,"},
	}},
	{"never-probe", "an endpoint that failed is never asked again", []edit{
		{"scheduler/runner.go", "\tdefault:\n\t\tr.budget.SetWidth(1)", "\tdefault:\n\t\tif BUG { r.stopped = \"never\" }\n\t\tr.budget.SetWidth(1)"},
	}},
	{"too-many", "one request more than allowed at a time", []edit{
		{"endpoint/limiter.go", "make(chan struct{}, max(concurrency, 1))", "make(chan struct{}, max(concurrency, 1)+map[bool]int{true: 1}[BUG])"},
		{"scheduler/limiter.go", "l.used >= l.width || len(l.waiting) > 0", "l.used >= l.width+map[bool]int{true: 1}[BUG] || len(l.waiting) > 0"},
		{"scheduler/slot.go", "Width: e.Concurrency,", "Width: e.Concurrency + map[bool]int{true: 1}[BUG],"},
	}},
	{"never-cut", "executions are not cut at the end of the budget", []edit{
		{"scheduler/slot.go", "cut := r.budget.Cut(now)", "cut := r.budget.Cut(now)\n\tif BUG { cut = nil }"},
	}},
	{"deaf-merge", "a merged answer never says that a member has changed", []edit{
		{"scheduler/mergedruns.go", "case (m.differ || audited[m.x]) && !m.outdated(now):", "case !BUG && (m.differ || audited[m.x]) && !m.outdated(now):"},
	}},
	{"lost-wake", "a commit of several changes wakes no followers", []edit{
		{"scheduler/commit.go", "\t\tr.l.wake(notes)", "\t\tif !BUG || len(notes) < 2 { r.l.wake(notes) }"},
	}},
	{"deaf-audience", "the end of one follower ends those of the same query", []edit{
		{"notify/waker.go", "\t\tif len(a.followers) == 0 {\n\t\t\tdelete(f.waker.queries, query)", "\t\tif BUG || len(a.followers) == 0 {\n\t\t\tdelete(f.waker.queries, query)"},
	}},
	{"no-resume", "every stream begins with the result", []edit{
		{"notify/stream.go", "\tif o.After != nil {\n\t\tt.cursor.Jump(*o.After)", "\tif o.After != nil && !BUG {\n\t\tt.cursor.Jump(*o.After)"},
	}},
	{"event-id", "the id of an event is one too high", []edit{
		{"notify/sse.go", "func (t *changesStream) write(ev *StreamEvent) error {\n\tid := ev.At.String()", "func (t *changesStream) write(ev *StreamEvent) error {\n\tid := ev.At.String()\n\tif p := ev.At; BUG { p.Seq++; id = p.String() }"},
	}},
	{"skip-change", "a stream skips the change after a page", []edit{
		{"notify/cursor/cursor.go", "\tc.move(next.Position())\n\treturn Event{Kind: Change", "\tc.move(next.Position())\n\tif BUG && next.Seq%7 == 0 { return Event{}, false }\n\treturn Event{Kind: Change"},
	}},
	{"no-removals", "changes have no removed rows", []edit{
		{"diff/compare.go", "d.Removed, d.Added = pick(old, m.removed), pick(new, m.added)", "d.Removed, d.Added = pick(old, m.removed), pick(new, m.added)\n\tif BUG { d.Removed = nil }"},
	}},
	{"wall-clock", "the server goes by the clock of the machine", []edit{
		{"registry/clock/clock.go", "now := c.Machine()", "now := c.Machine()\n\tif BUG { return now }"},
	}},
	{"new-message", "each attempt of a webhook is a new message", []edit{
		{"notify/webhook/webhook.go", "if s.Cursor == from && s.Seen == seen && pendingID(s) == pending {", "if BUG { p.Until, p.From = from, from }\n\t\tif s.Cursor == from && s.Seen == seen && pendingID(s) == pending {"},
	}},
	{"debt", "an endpoint's debt is forgotten", []edit{
		{"scheduler/commit.go", "r.l.planner.Owe(r.budget.Totals().Debt)", "if !BUG { r.l.planner.Owe(r.budget.Totals().Debt) }"},
	}},
}

// planted returns the edits for all bugs, and the files that switch them on.
func planted() (edits []edit, added map[string]string) {
	added = map[string]string{}
	for _, b := range bugs {
		for _, e := range b.edits {
			e.new = strings.ReplaceAll(e.new, "BUG", fmt.Sprintf("(simulatedBug == %q)", b.name))
			// Two bugs may change one place: a text that an earlier one has put there stays.
			edits = append(edits, e)
			dir := filepath.Dir(e.file)
			added[filepath.Join(dir, "simulated_bug.go")] = fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar simulatedBug = os.Getenv(\"SIM_BUG\")\n", filepath.Base(dir))
		}
	}
	return edits, added
}

// findBug returns a bug by its name.
func findBug(name string) (*bug, error) {
	i := slices.IndexFunc(bugs, func(b bug) bool { return b.name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no bug %q", name)
	}
	return &bugs[i], nil
}
