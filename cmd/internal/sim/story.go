package main

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/freshet/freshet/cmd/internal/sim/plan"
)

// story tells what happened in a world, a line each.
func story(r *Run) []byte {
	var b bytes.Buffer
	p := r.Plan
	fmt.Fprintf(&b, "Slots of %s with %s.\n", p.Slot, settings(p.Settings))
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "%s to %s: the endpoint is %s (%s) at one request in %d.\n", clock(f.From), clock(f.Until), f.Kind, f.Delay, f.Every)
	}
	for _, s := range p.Steps {
		fmt.Fprintf(&b, "%s: the clock is set by %s.\n", clock(s.At), s.By)
	}
	for _, s := range p.Stops {
		if s.Clean {
			fmt.Fprintf(&b, "%s: the server is stopped, and starts again after %s.\n", clock(s.At), s.Pause)
			continue
		}
		fmt.Fprintf(&b, "%s: the power fails at the disk call number %d after that, or a second later; the server starts again after %s.\n",
			clock(s.At), s.Call, s.Pause)
	}
	for i, f := range p.Flips {
		fmt.Fprintf(&b, "%s: before the next start, bit %d is flipped at %.1f%% of the store's file.\n", clock(f.At), i%8, 100*f.Place)
	}
	for _, f := range p.Disk {
		fmt.Fprintf(&b, "%s to %s: the disk %s at one call in %d.\n", clock(f.From), clock(f.Until), says[f.Kind], f.Every)
	}
	if p.Restore > 0 {
		fmt.Fprintf(&b, "%s: a backup is made; it is restored at the first start after %s.\n", clock(p.Backup), clock(p.Restore))
	}
	if p.Nodes > 0 {
		fmt.Fprintf(&b, "There are %d nodes with leases of %s, whose clocks are behind by %s.\n", p.Nodes, p.Lease, p.Behind)
		if p.Gateway {
			b.WriteString("Node 0 is a gateway.\n")
		}
	}
	for _, o := range p.Outages {
		fmt.Fprintf(&b, "%s to %s: node %d is %s.\n", clock(o.From), clock(o.Until), o.Node, o.Kind)
	}
	for _, e := range p.Edits {
		fmt.Fprintf(&b, "%s: from the next start on, the server has %s.\n", clock(e.At), settings(e.Settings))
	}
	if p.Tokens {
		b.WriteString("The server has tokens.\n")
	}
	during := func(list []plan.Window, what string) {
		for _, w := range list {
			fmt.Fprintf(&b, "%s to %s: %s.\n", clock(w.From), clock(w.Until), what)
		}
	}
	if f := p.Feed; f != nil {
		tells := "tells"
		if !f.Position {
			tells = "does not tell"
		}
		fmt.Fprintf(&b, "The endpoint has a feed: its log is %s behind the truth and answers after %s. The data of the endpoint are %s behind, "+
			"and it %s its position in the log.\n", f.Delay, f.Slow, f.Lag, tells)
		trouble := troubles[f.Trouble]
		if f.Trouble == plan.Lost {
			trouble = "cuts its answers off"
		}
		during(f.Away, "the log "+trouble)
		during(f.Lost, "changes of the data are lost to the log")
		if f.Position {
			during(f.Lies, "the endpoint tells a wrong position")
		}
	}
	for i, f := range p.Followers {
		switch f.Way {
		case plan.WebSocket, plan.SSE, plan.SEPA:
			during(f.Away, follower(p, i)+" is away")
		default:
			during(f.Away, "the receiver of "+follower(p, i)+" "+troubles[f.Trouble])
		}
	}
	for i, q := range p.Queries {
		for _, x := range []struct {
			plan.Window
			what string
		}{{q.Before, "is registered, and removed at the end"}, {q.Paused, "is paused"}, {q.Guest, "has a second holder"}} {
			if x.Until > 0 {
				during([]plan.Window{x.Window}, fmt.Sprintf("query %d %s", i, x.what))
			}
		}
	}
	for i, x := range p.Profiles {
		fmt.Fprintf(&b, "%s: profile %d asks for queries %v to be refreshed together every %s, with a slack of %s.\n", clock(x.From), i,
			x.Queries, x.Every, x.Slack)
	}
	for i, x := range p.Rules {
		when, to := fmt.Sprintf("for each value of query %d above %d", x.Query, x.Above), "a webhook"
		if x.Rows {
			when = fmt.Sprintf("if query %d has more than %d rows", x.Query, x.Above)
		}
		if x.Manager {
			to = "an Alertmanager"
		}
		fmt.Fprintf(&b, "%s: rule %d raises an alert %s, after %s, keeps it for %s, and sends it to %s.\n", clock(x.From), i, when, x.For,
			x.Keep, to)
		during(x.Away, fmt.Sprintf("the receiver of rule %d %s", i, troubles[x.Trouble]))
	}
	for _, e := range r.Events {
		fmt.Fprintf(&b, "%s %s\n", clock(e.At), line(p, e))
	}
	if how, _, _ := strings.Cut(r.Ended, "\n"); how != "" {
		fmt.Fprintln(&b, strings.TrimSuffix(how, ":"))
	}
	return b.Bytes()
}

// settings are those of a server in words.
func settings(s plan.Settings) string {
	return fmt.Sprintf("a budget of %s by %s (%s), merge: %s, %d at a time, min_gap %s, timeout %s, and %d changes kept for %s", s.Budget,
		s.Policy, s.Rule, s.Merge, s.Concurrency, s.MinGap, s.Timeout, s.Retention, s.Age)
}

// follower names a follower.
func follower(p *plan.Plan, i int) string {
	return fmt.Sprintf("follower %d (%s, query %d)", i, p.Followers[i].Way, p.Followers[i].Query)
}

// troubles are those of receivers in words.
var troubles = map[string]string{
	plan.Unavailable: "is unavailable", plan.Lost: "takes messages, but its answers are lost", plan.Hangs: "does not answer",
	plan.Resets: "closes connections",
}

// says are the faults of a disk in words.
var says = map[string]string{
	plan.Refuses: "refuses writes", plan.Full: "is full", plan.NoSync: "fails to sync and loses what was written",
}

// line writes an event.
func line(p *plan.Plan, e plan.Event) string {
	who := ""
	if e.Who < len(p.Followers) {
		who = follower(p, e.Who)
	}
	switch e.Kind {
	case plan.Ask:
		if p.Nodes > 0 {
			return fmt.Sprintf("request %d of node %d asks queries %v", e.N, e.Who, e.Members)
		}
		return fmt.Sprintf("request %d asks queries %v", e.N, e.Members)
	case plan.Answer:
		return fmt.Sprintf("request %d is answered (%s): %v", e.N, cmp.Or(e.Text, "well"), e.Rows)
	case plan.Closed:
		return fmt.Sprintf("the connection of request %d is closed", e.N)
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
	case plan.Content:
		return fmt.Sprintf("%s gets the result %v", who, e.Rows[0])
	case plan.Words:
		return fmt.Sprintf("%s is told that %v came and %v went, and %d more %s", who, e.Rows[0], e.Rows[1], e.N, e.Text)
	case plan.Fires, plan.Resolved:
		return fmt.Sprintf("rule %d: alert %d %s at change %d (%s)", e.Who, e.Value, e.Kind, e.Seq, e.Text)
	case plan.Joined, plan.Left:
		return fmt.Sprintf("node %d has %s", e.N, e.Kind)
	case plan.Again:
		return fmt.Sprintf("receiver %d gets the message %s again", e.Who, e.Text)
	case plan.Ruled:
		return fmt.Sprintf("rule %d is there", e.Who)
	case plan.Alerts, plan.Firing:
		return fmt.Sprintf("rule %d ends: %s has %v", e.Who, e.Kind, e.Rows[0])
	case plan.Past:
		at := fmt.Sprintf("at change %d", e.Seq)
		if e.Wall != 0 {
			at = fmt.Sprintf("at %.3fs of the server's clock", time.Unix(0, e.Wall).Sub(epoch).Seconds())
		}
		return fmt.Sprintf("the result of query %d %s was %v", e.Query, at, e.Rows[0])
	case plan.Net:
		return fmt.Sprintf("from %d to %d of query %d %v came and %v went", e.Prev, e.Seq, e.Query, e.Rows[0], e.Rows[1])
	case plan.Proved:
		return fmt.Sprintf("the result of query %d at %d is proved for version %d", e.Query, e.Seq, e.N)
	case plan.Unproved:
		return fmt.Sprintf("the result of query %d at %d is not proved: %s", e.Query, e.Seq, e.Text)
	case plan.Gauge:
		return fmt.Sprintf("the metrics say that query %d has %d rows", e.Query, e.N)
	case plan.Captures:
		return fmt.Sprintf("profile %d has %d captured rounds and %d expired ones", e.Who, e.N, e.Value)
	case plan.Hinted:
		return fmt.Sprintf("the server takes a hint about queries %v", e.Members)
	case plan.Used:
		return fmt.Sprintf("the process has %d goroutines and %d MiB of heap", e.N, e.Seq>>20)
	case plan.State:
		return fmt.Sprintf("the history of query %d has change %d: %v", e.Query, e.Seq, e.Rows)
	case plan.Now:
		return fmt.Sprintf("the result of query %d is %v", e.Query, e.Rows)
	case plan.Paused:
		return fmt.Sprintf("query %d is paused", e.Query)
	case plan.Resuming:
		return fmt.Sprintf("query %d is to be resumed", e.Query)
	case plan.Removed:
		return fmt.Sprintf("query %d is removed", e.Query)
	case plan.Registered:
		return fmt.Sprintf("query %d is registered: %s", e.Query, e.Text)
	}
	return strings.TrimSpace(e.Kind + " " + e.Text)
}
