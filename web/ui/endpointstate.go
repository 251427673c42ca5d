package ui

import (
	"cmp"
	"html/template"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
	"github.com/freshet/freshet/web"
)

// An overviewEndpoint is the section of one endpoint. The templates have the words for
// its state.
type overviewEndpoint struct {
	clock
	Name, Link string
	ID         string
	Class      string // of its state: failing, away, halted, stale, paused, new, off or live
	Clustered  bool   // this server is a node of a cluster
	Node       string // the one that asks it, "" while none does
	Known      bool   // its loop runs; else it is starting
	Next       template.HTML
	Policy     string
	Hydro      *hydrograph
	Loop       scheduler.LoopState
	Pause      *registry.Pause
	Bad        int     // consecutive slots without an answer
	Full, Of   int     // slots that used up the budget, if it is the bottleneck, and the slots looked at
	Repay      float64 // seconds that a slot repays
	Do         string  // path of the form beside the words, "" for none
	Rank       int
}

// Strong returns what the endpoint says in its own words.
func (o overviewEndpoint) Strong() string {
	if o.Class == "away" || o.Class == "halted" {
		return o.Loop.Halted
	}
	if o.Class != "failing" && o.Class != "stale" {
		return ""
	}
	return clip(o.Loop.Health.Error, 300)
}

// Says reports whether there is more to say than the state.
func (o overviewEndpoint) Says() bool {
	return o.Class != "new" && (o.Class != "live" || o.Loop.Debt > 0 || o.Full > 0)
}

// Fails returns how it fails.
func (o overviewEndpoint) Fails() failure { return failureOf(o.Loop.Health) }

// FailsSince returns how it fails, and since when.
func (o overviewEndpoint) FailsSince() failure {
	f := o.Fails()
	f.Since = o.hour(o.Loop.Health.Since)
	return f
}

func (v endpointHandler) summary(e registry.Endpoint, slots []scheduler.Slot) (overviewEndpoint, error) {
	o := overviewEndpoint{clock: v.clock, Name: e.Name, Link: endpointPath(e.Name), ID: "ep-" + e.Name, Policy: e.Policy,
		Class: "new", Rank: 2, Pause: e.Pause, Repay: time.Duration(e.Budget).Seconds() / 2}
	o.Hydro = v.hydro(e.Name, slots)
	if o.Clustered = v.Cluster != nil; o.Clustered {
		o.Node = v.Cluster.Owner(e.Name)
	}
	var err error
	if o.Loop, err = v.Daemon.State(e.Name); isMissing(err) {
		return o, nil
	} else if err != nil {
		return o, err
	}
	o.Known = true
	if e.Pause == nil && !o.Loop.Next.IsZero() {
		o.Next = v.Next(later(o.Loop.Next, o.Loop.NextTry))
	}
	o.judge(slots)
	if verb := map[string]string{"paused": "resume", "failing": "tick", "new": "tick"}[o.Class]; verb != "" && v.May(registry.RoleAdmin) {
		o.Do = endpointPath(e.Name) + "/" + verb
	}
	return o, nil
}

// judge determines an endpoint's state.
func (o *overviewEndpoint) judge(slots []scheduler.Slot) {
	for o.Bad < len(slots) && slices.Contains([]verdict{failed, unfinished}, judgeSlot(slots[o.Bad])) {
		o.Bad++
	}
	switch trouble := web.EndpointTrouble(o.Loop); {
	case o.Pause != nil:
		o.Class, o.Rank = "paused", 3
	case trouble == "waiting":
		o.Class, o.Rank = "stale", 1
	case trouble == "unasked":
		o.Class, o.Rank = "away", 0
	case trouble != "":
		o.Class, o.Rank = trouble, 0
	case o.Loop.Last.Number == 0:
	case total(slots).run == 0:
		o.Class = "off"
	default:
		o.Class = "live"
		o.full(slots)
	}
}

// full counts the slots that used up the budget if it is the bottleneck of an endpoint.
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
		o.Full, o.Of = used, len(slots)
	}
}

const troublesNamed = 3

// Troubles of endpoints: the first few are named, the others counted.
type troubles struct {
	Named []troubled
	N     int
	List  string // address of the full list, "" for this page
}

// A troubled endpoint is one that needs attention.
type troubled struct {
	Name, Link, Class string
	Fails             failure
}

// add records an endpoint unless it runs normally. Problems come first.
func (t *troubles) add(o overviewEndpoint, link string, fails failure) {
	switch o.Class {
	case "failing", "away", "halted", "stale", "paused":
		if t.N++; t.N <= troublesNamed {
			t.Named = append(t.Named, troubled{o.Name, link, o.Class, fails})
		}
	}
}

// More returns the number of endpoints that are not named.
func (t troubles) More() int { return t.N - len(t.Named) }

// leadingStatus matches the status code at the start of an endpoint's error.
var leadingStatus = regexp.MustCompile(`^[1-5][0-9]{2}\b`)

// A failure describes what fails at an endpoint.
type failure struct {
	Nothing bool   // it answers nothing complete
	Status  string // the status that it answers with, "" if it does not answer
	Since   string // when it began, "" to leave it out
}

func failureOf(h registry.Health) failure {
	if h.Until.IsZero() && h.Failures == 0 {
		return failure{Nothing: true}
	}
	return failure{Status: leadingStatus.FindString(h.Error)}
}

// A slotView shows what ran in a slot, as far as the queries remember it.
type slotView struct {
	Number uint64
	Slot   *scheduler.Slot // nil if it is not recorded any more
	Runs   []slotRun       // the longest first
	Looked int             // queries that were looked at, if not all
}

type slotRun struct {
	Name, Link string
	Outcome    string
	Changed    bool
	Elapsed    time.Duration
	Why        string
}

const mostLookedAt = 5000 // queries for one page

// slot returns the slot that the address names, nil for none.
func (v endpointHandler) slot(slots []scheduler.Slot) (*slotView, error) {
	number, err := strconv.ParseUint(v.r.URL.Query().Get("slot"), 10, 64)
	if err != nil {
		return nil, nil
	}
	s := &slotView{Number: number}
	if i := slices.IndexFunc(slots, func(x scheduler.Slot) bool { return x.Number == number }); i >= 0 {
		s.Slot = &slots[i]
	}
	snap, err := v.catalogue.look()
	if err != nil {
		return nil, err
	}
	looked := 0
	for i := range snap.digests {
		d := &snap.digests[i]
		if d.Endpoint != v.r.PathValue("name") {
			continue
		}
		if looked++; looked > mostLookedAt {
			s.Looked = mostLookedAt
			break
		}
		if err := v.ranIn(s, d); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(s.Runs, func(a, b slotRun) int { return cmp.Compare(b.Elapsed, a.Elapsed) })
	return s, nil
}

// ranIn adds the run of a query in the slot.
func (v endpointHandler) ranIn(s *slotView, d *registry.QueryDigest) error {
	st, err := v.Queries.Stats(d.ID)
	if isMissing(err) {
		return nil // released meanwhile
	} else if err != nil {
		return err
	}
	run := slotRun{Name: cmp.Or(d.Name, d.ID), Link: queryPath(d.ID)}
	i := slices.IndexFunc(st.Samples, func(x policy.Sample) bool { return x.Slot == s.Number })
	switch {
	case st.LastRun.Slot == s.Number:
		run.Elapsed, run.Outcome, run.Why = st.LastRun.Elapsed, string(st.LastRun.Outcome), st.LastRun.Error
		run.Changed = st.LastRun.Outcome == registry.Changed
	case i >= 0:
		run.Elapsed, run.Changed, run.Outcome = st.Samples[i].Elapsed, st.Samples[i].Changed, string(registry.Unchanged)
		if run.Changed {
			run.Outcome = string(registry.Changed)
		}
	default:
		return nil
	}
	s.Runs = append(s.Runs, run)
	return nil
}
