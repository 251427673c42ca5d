package ui

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// An overviewEndpoint is the section of one endpoint.
type overviewEndpoint struct {
	Name, Link    string
	ID            string
	State         state
	Slot          string
	Next          template.HTML
	Policy        string
	Queries       string
	Hydro         *hydrograph
	Strong, Words string
	Fails         string // how it fails, in words
	Since         string // since when it fails, in words
	Action, Do    string // label and path of the form beside the words
	Rank          int
}

func (v endpointHandler) summary(e registry.Endpoint, slots []scheduler.Slot) (overviewEndpoint, error) {
	o := overviewEndpoint{Name: e.Name, ID: "ep-" + e.Name, Policy: e.Policy, State: state{"new", "starting"}, Rank: 2}
	if v.sections["endpoints"] {
		o.Link = endpointPath(e.Name)
	}
	o.Hydro = v.hydro(e.Name, slots)
	st, err := v.Daemon.State(e.Name)
	if isMissing(err) {
		return o, nil
	} else if err != nil {
		return o, err
	}
	o.Queries = plural(st.Queries, "query", "queries")
	if st.Last.Number > 0 {
		o.Slot = "#" + count(st.Last.Number)
	}
	if e.Pause == nil && !st.Next.IsZero() {
		o.Next = v.Next(later(st.Next, st.NextTry))
	}
	v.judge(&o, e, st, slots)
	return o, nil
}

// judge determines an endpoint's state and the suggested action.
func (v endpointHandler) judge(o *overviewEndpoint, e registry.Endpoint, st scheduler.LoopState, slots []scheduler.Slot) {
	act := func(label, verb string) {
		if v.May(registry.RoleAdmin) {
			o.Action, o.Do = label, endpointPath(e.Name)+"/"+verb
		}
	}
	without := func(s scheduler.Slot) bool { x := judgeSlot(s); return x == failed || x == unfinished }
	bad := 0
	for bad < len(slots) && without(slots[bad]) {
		bad++
	}
	switch h := st.Health; {
	case e.Pause != nil:
		o.State, o.Rank = state{"paused", "paused by " + e.Pause.By + ", " + ago(e.Pause.At, v.now)}, 3
		o.Words = "No slot runs until someone resumes it. The last results are still served."
		act("Resume", "resume")
	case h.State == registry.HealthFailing:
		o.State, o.Rank, o.Fails, o.Since = state{"failing", "failing"}, 0, fails(h), since(h.Since, v.now)
		if bad > 1 {
			o.State.Word = "failing for " + count(bad) + " slots"
		}
		o.Strong, o.Words = clip(h.Error, 300), "There is no result yet."
		if st.Results > 0 {
			o.Words = "The last results are served as stale."
		}
		switch {
		case !st.NextTry.IsZero():
			o.Words += " The next try is " + ago(st.NextTry, v.now) + "."
		case h.Until.IsZero():
			o.Words += " None of the last " + count(h.Incomplete) + " executions was complete; each query is tried again ever more rarely."
		default:
			o.Words += " It is tried again in the next slot in which a query is due."
		}
		act("Run a slot now", "tick")
	case h.State == registry.HealthThrottled:
		o.State, o.Rank = state{"stale", "asked us to wait"}, 1
		o.Strong, o.Words = clip(h.Error, 300), "It answered that it wants fewer requests."
		if !st.NextTry.IsZero() {
			o.Words += " Slots go on " + ago(st.NextTry, v.now) + "."
		}
	case st.Last.Number == 0:
		o.State = state{"new", "no slot yet"}
		act("Run a slot now", "tick")
	case total(slots).run == 0:
		o.State = state{"off", "not asked"}
		o.Words = "No slot had anything to ask, so nothing is known of its health."
	default:
		o.State = state{"live", "live"}
		o.full(slots)
		if st.Debt > 0 {
			o.Words = "In debt: " + took(st.Debt) + ", repaid " + took(time.Duration(e.Budget).Seconds()/2) + " a slot."
		}
	}
}

// full reports in words when the budget is the bottleneck of an endpoint.
func (o *overviewEndpoint) full(slots []scheduler.Slot) {
	slots = slots[:min(len(slots), hydroSlots)]
	used, skipped := 0, 0
	for _, s := range slots {
		if s.Budget > 0 && s.Used >= 0.9*s.Budget {
			used++
		}
		skipped += s.Skipped
	}
	if len(slots) >= 8 && used*2 > len(slots) && skipped > 0 {
		o.Words = fmt.Sprintf("The budget is used up in %d of %d slots.", used, len(slots))
	}
}

const troublesNamed = 3

// Troubles of endpoints: the first few are named, the others counted.
type troubles struct {
	Named []troubled
	N     int
	List  string // address of the full list, "" for this page
}

// A troubled endpoint has a state that needs a look.
type troubled struct{ Name, Link, Class, Fails string }

// add records an endpoint unless it runs normally. Problems come first.
func (t *troubles) add(o overviewEndpoint, link, fails string) {
	switch o.State.Class {
	case "failing", "stale", "paused":
		if t.N++; t.N <= troublesNamed {
			t.Named = append(t.Named, troubled{o.Name, link, o.State.Class, fails})
		}
	}
}

// More returns the number of endpoints that are not named.
func (t troubles) More() int { return t.N - len(t.Named) }

// leadingStatus matches the status code at the start of an endpoint's error.
var leadingStatus = regexp.MustCompile(`^[1-5][0-9]{2}\b`)

// failsSince converts the words of fails to the tense used with a start time.
func failsSince(fails, since string) string {
	if since == "" {
		return fails
	}
	return strings.NewReplacer("does not answer", "has not answered", "answers", "has answered").Replace(fails) + since
}

// fails describes how an endpoint fails.
func fails(h registry.Health) string {
	if h.Until.IsZero() && h.Failures == 0 {
		return "answers nothing complete"
	}
	if status := leadingStatus.FindString(h.Error); status != "" {
		return "answers with status " + status
	}
	return "does not answer"
}

func since(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	if now.Sub(t) > 20*time.Hour {
		return " since " + t.UTC().Format("2 Jan, 15:04")
	}
	return " since " + t.UTC().Format("15:04")
}

// A sum adds up slots.
type sum struct {
	slots, failed, run, changed, skipped, cut, failures int
	used, budget                                        float64
	first, last                                         time.Time
}

func total(slots []scheduler.Slot) sum {
	var t sum
	for i, s := range slots {
		if i == 0 {
			t.last = s.Started
		}
		t.first = s.Started
		t.slots++
		t.run, t.changed, t.skipped, t.cut, t.failures = t.run+s.Run+s.OffGrid.Run, t.changed+s.Found(), t.skipped+s.Skipped, t.cut+s.Cut, t.failures+s.Failed
		t.used += s.Used
		if judgeSlot(s) == failed {
			t.failed++
		}
		if s.Error == "" || s.Run > 0 {
			t.budget += s.Budget
		}
	}
	return t
}

// spoken describes a schedule in words if it has a short form.
func spoken(slot string) string {
	switch {
	case slot == scheduler.Never:
		return "by hand"
	case strings.HasPrefix(slot, "@every "):
		if d, err := time.ParseDuration(strings.TrimSpace(slot[len("@every "):])); err == nil {
			return "every " + span(d)
		}
	case strings.HasPrefix(slot, "@"):
		return slot[1:]
	}
	return slot
}
