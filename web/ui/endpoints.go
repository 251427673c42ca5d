package ui

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
)

// An endpointsPage lists the endpoints, problems first.
type endpointsPage struct {
	Lede endpointsLede
	Rows []endpointRow
}

// An endpointsLede answers how many endpoints answer.
type endpointsLede struct {
	All, Answer, Unasked, Queries int
	Troubles                      troubles
}

type endpointRow struct {
	overviewEndpoint
	URL           string
	Slot          string // its schedule
	Used          string // share of the budget in the last slots
	Meter         string
	Hot           bool // the budget is the bottleneck
	Budget        string
	Found, Passed string
}

func (v endpointHandler) list() (content, error) {
	all, err := v.Registry.Endpoints()
	if err != nil {
		return content{}, err
	}
	p := &endpointsPage{}
	queries := 0
	for _, e := range all {
		slots, err := v.slots(e.Name, hydroSlots)
		if err != nil {
			return content{}, err
		}
		o, err := v.summary(e, slots)
		if err != nil {
			return content{}, err
		}
		queries += o.Loop.Queries
		p.Rows = append(p.Rows, rowOf(o, e, slots))
	}
	slices.SortStableFunc(p.Rows, func(a, b endpointRow) int { return cmp.Compare(a.Rank, b.Rank) })
	p.Lede = ledeOf(p.Rows, queries)
	return content{Data: p, Live: []part{{"endpoint-rows", "endpoint-rows", p}}}, nil
}

func rowOf(o overviewEndpoint, e registry.Endpoint, slots []scheduler.Slot) endpointRow {
	r := endpointRow{overviewEndpoint: o, URL: e.URL, Slot: e.Slot, Budget: cost(time.Duration(e.Budget)).String(), Found: none, Passed: none, Meter: "0", Used: none}
	t := total(slots)
	if t.slots > 0 {
		r.Found = count(t.Changed)
		r.Passed = count(slots[0].Skipped)
	}
	if t.budget > 0 {
		part := t.used / t.budget
		r.Used, r.Meter, r.Hot = share(part).String(), meter(part), part > 0.9
	}
	return r
}

func ledeOf(rows []endpointRow, queries int) endpointsLede {
	l := endpointsLede{All: len(rows), Queries: queries}
	for _, r := range rows {
		if r.Class == "off" || r.Class == "new" {
			l.Unasked++
		}
		l.Troubles.add(r.overviewEndpoint, r.Link, r.Fails())
	}
	l.Answer = l.All - l.Troubles.N - l.Unasked
	return l
}

// An endpointPage answers: is the endpoint healthy, is the budget sufficient, and
// would another policy do better?
type endpointPage struct {
	overviewEndpoint
	URL     string
	Toc     []tocEntry
	Never   bool    // it runs by hand only
	Used    measure // of its budget in the last slots, "" if nothing is known
	Passed  int     // queries that the last slot passed over
	Health  health
	Numbers *numbersView
	policyView
	Settings settingsForm
	Merging  *mergingView // nil while queries are asked alone
	Paused   bool
	Admin    bool
	Path     string
}

type tocEntry struct {
	Name, Link string
	Word       string
	Class      string // of an endpoint's state, "" if it runs normally
	Here       bool
}

// healthSlots is the number of slots from which the health plot and the numbers are
// computed.
const healthSlots = 1000

func (v endpointHandler) page() (content, error) {
	e, err := v.Registry.Endpoint(v.r.PathValue("name"))
	if err != nil {
		return content{}, err
	}
	return v.show(e, settingsOf(e))
}

func (v endpointHandler) show(e registry.Endpoint, s settingsForm) (content, error) {
	slots, err := v.slots(e.Name, healthSlots)
	if err != nil {
		return content{}, err
	}
	o, err := v.summary(e, slots)
	if err != nil {
		return content{}, err
	}
	recent := total(slots[:min(len(slots), hydroSlots)])
	p := &endpointPage{overviewEndpoint: o, URL: e.URL, Settings: s, Paused: e.Pause != nil, Admin: v.May(registry.RoleAdmin), Path: endpointPath(e.Name), Never: e.Slot == scheduler.Never}
	if recent.budget > 0 {
		p.Used = share(recent.used / recent.budget)
	}
	if len(slots) > 0 {
		p.Passed = slots[0].Skipped
	}
	p.Health = healthOf(slots, e.Blackout, v.now)
	p.Numbers = numbers(slots, v.now)
	if p.Merging, err = v.merging(e); err != nil {
		return content{}, err
	}
	if p.Toc, err = v.toc(e.Name); err != nil {
		return content{}, err
	}
	p.Now, p.Others = policies(e)
	p.Choice = form{Fields: policyFields}
	if err := policyHandler(v).whatIf(&p.policyView, e); err != nil {
		return content{}, err
	}
	if err := p.Settings.explain(e, recent, slots, v); err != nil {
		return content{}, err
	}
	return content{Data: p, Live: []part{{"endpoint-now", "endpoint-now", p}}}, nil
}

func (v endpointHandler) toc(here string) ([]tocEntry, error) {
	all, err := v.Registry.Endpoints()
	var out []tocEntry
	for _, e := range all {
		t := tocEntry{Name: e.Name, Link: endpointPath(e.Name), Here: e.Name == here}
		if st, err := v.Daemon.State(e.Name); e.Pause != nil {
			t.Class = "paused"
		} else if err == nil && st.Health.State == registry.HealthFailing {
			t.Class = "failing"
		}
		out = append(out, t)
	}
	return out, err
}

// A numbersView sums up the recorded slots of the last day.
type numbersView struct {
	Covers                                   time.Duration
	Slots, Lost, Run, Changed, Failures, Cut int
	Worth                                    measure // the share of the runs that found a change
	Time                                     time.Duration
}

func numbers(slots []scheduler.Slot, now time.Time) *numbersView {
	if i := slices.IndexFunc(slots, func(s scheduler.Slot) bool { return now.Sub(s.Started) > 24*time.Hour }); i >= 0 {
		slots = slots[:i]
	}
	if len(slots) == 0 {
		return nil
	}
	t := total(slots)
	n := &numbersView{Covers: now.Sub(t.first).Round(time.Minute), Slots: t.slots, Lost: t.failed, Run: t.run, Changed: t.Changed, Failures: t.failures, Cut: t.cut, Time: time.Duration(t.used * 1e9)}
	if n.Covers < time.Minute {
		n.Covers = now.Sub(t.first).Truncate(time.Second)
	}
	if t.run > 0 {
		n.Worth = share(float64(t.Changed) / float64(t.run))
	}
	return n
}

// tick runs a slot now and reports its outcome.
func (v endpointHandler) tick() error {
	name := v.r.PathValue("name")
	rc := http.NewResponseController(v.w)
	_ = rc.SetWriteDeadline(time.Time{}) // a slot takes as long as its budget
	slot, err := v.Daemon.Tick(v.r.Context(), name)
	if err != nil {
		return v.refused("tick-refused", err, endpointPath(name))
	}
	said := flash{Kind: "good", Code: "slot-ran", Name: name, Slot: &slot}
	if slot.Error != "" {
		said.Kind, slot.Error = "fail", clip(slot.Error, longestWord)
	}
	v.report(said)
	return v.back(endpointPath(name))
}

func (v endpointHandler) pause() error {
	name := v.r.PathValue("name")
	if _, err := v.Registry.PauseEndpoint(v.caller, name); err != nil {
		return err
	}
	v.say("", "endpoint-paused", name, "")
	return v.back(endpointPath(name))
}

func (v endpointHandler) resume() error {
	name := v.r.PathValue("name")
	if _, err := v.Registry.ResumeEndpoint(name); err != nil {
		return err
	}
	v.say("good", "endpoint-resumed", name, "")
	return v.back(endpointPath(name))
}

// askToRemove lists what is removed together with an endpoint.
func (v endpointHandler) askToRemove() (content, error) {
	e, err := v.Registry.Endpoint(v.r.PathValue("name"))
	if err != nil {
		return content{}, err
	}
	st, err := v.Daemon.State(e.Name)
	c := confirmation{What: "endpoint", Name: e.Name, Back: endpointPath(e.Name), Queries: st.Queries, Known: err == nil}
	return c.content(v.r), nil
}

func (v endpointHandler) remove() error {
	name := v.r.PathValue("name")
	if err := v.Registry.DeleteEndpoint(name, nil); err != nil {
		return err
	}
	v.catalogue.drop()
	v.say("", "endpoint-removed", name, "")
	return v.to("/endpoints")
}
