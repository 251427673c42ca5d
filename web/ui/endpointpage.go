package ui

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web"
)

// An endpointPage answers: is the endpoint healthy, is the budget sufficient, and
// would another policy do better?
type endpointPage struct {
	overviewEndpoint
	URL     string
	Same    string // the other endpoints with this URL
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
	Tab      string    // one of endpointTabs
	Slot     *slotView // the slot that the address names
}

// endpointTabs are the parts of the page of an endpoint.
var endpointTabs = []string{"now", "queries", "settings"}

// Tabs implements the templates' navigation.
func (p *endpointPage) Tabs() []string { return endpointTabs }

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
	if !v.May(registry.RoleAdmin) {
		e.URL = registry.MaskedURL(e.URL)
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
	p := &endpointPage{overviewEndpoint: o, URL: e.URL, Settings: s, Paused: e.Pause != nil, Admin: v.May(registry.RoleAdmin),
		Path: endpointPath(e.Name), Never: e.Slot == scheduler.Never}
	if recent.budget > 0 {
		p.Used = share(recent.used / recent.budget)
	}
	if len(slots) > 0 {
		p.Passed = slots[0].Skipped
	}
	p.Health = healthOf(slots, e.Blackout, v.now)
	p.Numbers = numbers(slots, v.now)
	if err := v.tab(p, e, slots); err != nil {
		return content{}, err
	}
	all, err := v.Registry.Endpoints()
	if err != nil {
		return content{}, err
	}
	p.Same = sameURL(registry.SharedURLs(all), e.Name)
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

// tab chooses the part of the page to show, and reads what only the queries need.
func (v endpointHandler) tab(p *endpointPage, e registry.Endpoint, slots []scheduler.Slot) (err error) {
	p.Tab = v.r.URL.Query().Get("tab")
	switch {
	case v.r.Method == http.MethodPost: // a form that was refused
		p.Tab = "settings"
	case !slices.Contains(endpointTabs, p.Tab):
		p.Tab = endpointTabs[0]
	}
	if p.Tab != "queries" {
		return nil
	}
	if p.Slot, err = v.slot(slots); err != nil {
		return err
	}
	p.Merging, err = v.merging(e)
	return err
}

func (v endpointHandler) toc(here string) ([]tocEntry, error) {
	all, err := v.Registry.Endpoints()
	var out []tocEntry
	for _, e := range all {
		st, _ := v.Daemon.State(e.Name) // an endpoint that is not running has none
		out = append(out, tocEntry{Name: e.Name, Link: endpointPath(e.Name), Here: e.Name == here, Class: troubleOf(e, st)})
	}
	return out, err
}

// troubleOf returns "paused" or the trouble of an endpoint, "" if it is asked as usual.
func troubleOf(e registry.Endpoint, st scheduler.LoopState) string {
	if e.Pause != nil {
		return "paused"
	}
	return web.EndpointTrouble(st)
}

// A numbersView sums up the recorded slots of the last day.
type numbersView struct {
	Covers                                   time.Duration
	Slots, Lost, Run, Changed, Failures, Cut int
	Worth                                    measure // the share of the runs that found a change
	Time                                     time.Duration
}

func numbers(slots []scheduler.Slot, now time.Time) *numbersView {
	if slots = lastDay(slots, now); len(slots) == 0 {
		return nil
	}
	t := total(slots)
	n := &numbersView{Covers: now.Sub(t.first).Round(time.Minute), Slots: t.slots, Lost: t.failed, Run: t.run, Changed: t.Changed,
		Failures: t.failures, Cut: t.cut, Time: time.Duration(t.used * 1e9)}
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
	c := confirmation{What: "endpoint", Name: e.Name, Back: endpointPath(e.Name), Queries: st.Queries, Known: err == nil,
		InFile: v.Registry.InFile(e.Name)}
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

// revert restores the value of the configuration file.
func (v endpointHandler) revert() error {
	name, setting := v.r.PathValue("name"), v.r.URL.Query().Get("setting")
	if _, err := v.Registry.RevertEndpoint(name, setting); err != nil {
		return v.refused("revert-refused", err, settingsPath(name))
	}
	v.say("good", "endpoint-reverted", name, setting)
	return v.to(settingsPath(name))
}

// errForm aborts an edit whose form already shows the error.
var errForm = errors.New("the form says what is wrong")

// save applies the settings of the form.
func (v endpointHandler) save() error {
	name := v.r.PathValue("name")
	f := v.typed(settingNames)
	stale := false
	var was registry.Endpoint
	e, err := v.Registry.UpdateEndpoint(v.caller, name, func(e *registry.Endpoint) error {
		if stale = f.Get("tag") != tagOf(*e); stale {
			return errForm
		}
		was = *e
		if f.apply(e); f.Status != 0 {
			return errForm
		}
		return nil
	})
	if stale {
		v.say("fail", "endpoint-stale", name, "")
		return v.to(settingsPath(name))
	}
	if err != nil && f.Status == 0 {
		err = f.refuse(err)
	}
	switch {
	case f.Status != 0:
		return v.settingsAgain(name, f)
	case err != nil:
		return err
	}
	sources, err := v.Registry.Sources(v.caller, name)
	if err != nil {
		return err
	}
	var notes []string // when the configuration file will override the edit
	for _, note := range registry.Overridden(was, e, sources) {
		notes = append(notes, sentence(note))
	}
	v.say("good", "endpoint-saved", name, strings.Join(notes, " "))
	return v.to(settingsPath(name))
}

func settingsPath(name string) string { return endpointPath(name) + "?tab=settings" }

// settingsAgain shows the page again with the submitted values and their errors.
func (v endpointHandler) settingsAgain(name string, f form) error {
	e, err := v.Registry.Endpoint(name)
	if err != nil {
		return err
	}
	s := settingsOf(e)
	f.Values.Set("tag", s.Get("tag"))
	s.form = f
	c, err := v.show(e, s)
	if err != nil {
		return err
	}
	return v.again(f, "endpoint", "endpoints", c)
}
