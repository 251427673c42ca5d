package main

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// story tells what happened in a world, a line each.
func story(r *Run) []byte {
	var b bytes.Buffer
	p := r.Plan
	fmt.Fprintf(&b, "Slots of %s with a budget of %s by %s (%s), merge: %s, %d at a time, min_gap %s, timeout %s, %d changes kept.\n",
		p.Slot, p.Budget, p.Policy, p.Rule, p.Merge, p.Concurrency, p.MinGap, p.Timeout, p.Retention)
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "%s to %s: the endpoint is %s (%s) at one request in %d.\n", clock(f.From), clock(f.Until), f.Kind, f.Delay, f.Every)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%s: the clock is set by %s.\n", clock(s.At), s.By)
	}
	for _, w := range p.DiskBroken {
		fmt.Fprintf(&b, "%s to %s: the disk refuses writes.\n", clock(w.From), clock(w.Until))
	}
	for _, e := range r.Events {
		fmt.Fprintf(&b, "%s %s\n", clock(e.At), line(p, e))
	}
	return b.Bytes()
}

// line writes an event.
func line(p *plan.Plan, e plan.Event) string {
	who := ""
	if e.Who < len(p.Followers) {
		who = fmt.Sprintf("follower %d (%s, query %d)", e.Who, p.Followers[e.Who].Way, p.Followers[e.Who].Query)
	}
	switch e.Kind {
	case plan.Ask:
		return fmt.Sprintf("request %d asks queries %v", e.N, e.Members)
	case plan.Answer:
		return fmt.Sprintf("request %d is answered (%s): %v", e.N, cmp.Or(e.Text, "well"), e.Rows)
	case plan.Snapshot:
		return fmt.Sprintf("%s gets the result at %d: %v %s", who, e.Seq, e.Rows, e.Text)
	case plan.Delta:
		return fmt.Sprintf("%s gets the change %d to %d: %v", who, e.Prev, e.Seq, e.Rows)
	case plan.Moved:
		return fmt.Sprintf("%s moves to %d", who, e.Seq)
	case plan.Subscribed:
		return fmt.Sprintf("%s is connected at %d %s", who, e.Seq, e.Text)
	case plan.Message, plan.Hooked:
		return fmt.Sprintf("%s: %s %s", who, e.Kind, e.Text)
	case plan.State:
		return fmt.Sprintf("the history of query %d has change %d: %v", e.Query, e.Seq, e.Rows)
	case plan.Now:
		return fmt.Sprintf("the result of query %d is %v", e.Query, e.Rows)
	case plan.Registered:
		return fmt.Sprintf("query %d is registered: %s", e.Query, e.Text)
	}
	return strings.TrimSpace(e.Kind + " " + e.Text)
}
