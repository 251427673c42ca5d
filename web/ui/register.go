package ui

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web"
)

// A registerPage answers: can the query be watched, what may be surprising, and what
// will it cost?
type registerPage struct {
	clock
	Form      form
	Endpoints []endpointChoice
	Lines     int // of the editor
	Found     found
	Trial     *trial
	Slot      uint64    // of its first run
	First     time.Time // the expected time of its first run, zero if it is unknown
	Admin     bool
}

// An endpointChoice is an endpoint that can be selected.
type endpointChoice struct{ Name, Slot, Class string }

// Found is the analysis of the query, shown while the user types.
type found struct {
	State    string          // empty, valid, almost (a setting is wrong), invalid or unchecked
	Query    *registry.Query // nil if it cannot be registered
	Keys     string          // its sort keys
	Wrong    bool            // a setting is wrong
	Known    bool            // it is already registered
	Holders  int
	Findings []finding
	Cost     costs
}

// A finding is an error of the query. Warnings belong to the query itself.
type finding struct{ Where, Text string }

// Costs describe the load that the query puts on its endpoint.
type costs struct {
	Endpoint string        // "" if it is unknown
	Took     time.Duration // of the trial run, 0 without one
	Part     measure       // of a slot's budget
	OneIn    int           // slots in which it runs at the least once, 0 if there is no limit
	Used     measure       // share of the budget that is in use, "" if it is unknown
	Meter    string
	Tight    bool
}

// page returns the initial page; a query may be passed in.
func (v registerHandler) page() (content, error) {
	q := v.r.URL.Query()
	f := form{Fields: registerFields, Values: url.Values{"endpoint": {q.Get("endpoint")}, "query": {q.Get("query")}, "name": {q.Get("name")}}}
	p, err := v.fill(f, nil)
	return content{Data: p}, err
}

func (v registerHandler) fill(f form, t *trial) (*registerPage, error) {
	p := &registerPage{clock: v.clock, Form: f, Trial: t, Admin: v.May(registry.RoleAdmin),
		Lines: max(12, strings.Count(f.Get("query"), "\n")+2)}
	all, err := v.Registry.Endpoints()
	if err != nil {
		return nil, err
	}
	if f.Get("endpoint") == "" {
		p.Form.Values.Set("endpoint", v.roomiest(all))
	}
	for _, e := range all {
		st, err := v.Daemon.State(e.Name)
		if chosen := f.Get("endpoint"); err == nil && (chosen == e.Name || chosen == "" && len(p.Endpoints) == 0) {
			p.Slot, p.First = st.Last.Number+1, st.Next
		}
		p.Endpoints = append(p.Endpoints, endpointChoice{Name: e.Name, Slot: e.Slot, Class: troubleOf(e, st)})
	}
	p.Found = v.found(&p.Form, t)
	return p, nil
}

// roomiest returns the endpoint that is asked as usual and has most of its budget left.
func (v registerHandler) roomiest(all []registry.Endpoint) string {
	best, least := "", 2.0
	for _, e := range all {
		st, err := v.Daemon.State(e.Name)
		if err != nil || e.Pause != nil || web.EndpointTrouble(st) != "" {
			continue
		}
		used := 0.0
		if st.Last.Budget > 0 && st.Last.Skipped > 0 {
			used = 1
		} else if st.Last.Budget > 0 {
			used = min(1, st.Last.Used/st.Last.Budget)
		}
		if used < least {
			best, least = e.Name, used
		}
	}
	return best
}

// found analyses the form; errors are recorded beside the fields.
func (v registerHandler) found(f *form, t *trial) found {
	if strings.TrimSpace(f.Get("query")) == "" {
		return found{State: "empty"}
	}
	reg := f.registration(registry.Registration{Endpoint: f.Get("endpoint")})
	q, err := v.Registry.Analyse(reg)
	if err != nil {
		return v.wrong(f, err)
	}
	out := found{State: "valid", Query: &q, Keys: clip(strings.Join(q.OrderKeys, ", ?"), 120), Wrong: f.Status != 0, Cost: v.costs(reg, t)}
	if item, err := v.Queries.Item(q.ID); err == nil {
		out.Known, out.Holders = true, len(item.Query.Holders)
	}
	return out
}

// wrong explains why the query cannot be registered.
func (v registerHandler) wrong(f *form, err error) found {
	p, told := web.ProblemOf(err)
	if !told {
		return found{State: "unchecked"}
	}
	for _, e := range p.Errors {
		if name, _ := fieldOf(e.Pointer); name != "" {
			f.record(fault{Name: name, Text: e.Detail})
		}
	}
	if len(f.Faults) > 0 && !f.Bad("query") && p.Kind == registry.KindBadSetting {
		return found{State: "almost"}
	}
	detail := p.Detail
	if detail == "" && len(p.Errors) > 0 {
		detail = p.Errors[0].Detail
	}
	f.Status = web.Status(p.Kind)
	return found{State: "invalid", Findings: []finding{{Where: p.Heading(), Text: sentence(clip(detail, 600))}}}
}

func (v registerHandler) costs(reg registry.Registration, t *trial) (c costs) {
	e, err := v.Registry.Endpoint(reg.Endpoint)
	if err != nil {
		return c
	}
	slots, err := v.slots(e.Name, hydroSlots)
	if err != nil {
		return c
	}
	c.Endpoint = e.Name
	if t != nil && t.Table != nil {
		c.Took, c.Part = t.Took, share(t.Took.Seconds()/time.Duration(e.Budget).Seconds())
	}
	if d := interval(e.Slot); d > 0 && reg.MaxStaleness > 0 {
		c.OneIn = max(1, int(time.Duration(reg.MaxStaleness)/d))
	}
	if s := total(slots); s.budget > 0 {
		part := s.used / s.budget
		c.Used, c.Meter, c.Tight = share(part), meter(part), part > 0.9
	}
	return c
}

// check serves the script while the user types: it answers with the part of the page
// that shows the analysis.
func (v registerHandler) check() error {
	f := v.typed(registerFields)
	p, err := v.fill(f, nil)
	if err != nil {
		return err
	}
	return v.fragment("register", "checked", p)
}

// register checks, tries or registers the query of the form.
func (v registerHandler) register() error {
	f := v.typed(registerFields)
	reg := f.registration(registry.Registration{Endpoint: f.Get("endpoint")})
	switch do := f.Get("do"); {
	case do == "try":
		t, err := v.try(reg)
		if err != nil {
			return err
		}
		return v.again(f, t)
	case do == "check" || f.Status != 0:
		return v.again(f, nil)
	}
	q, created, err := v.Registry.Register(v.caller, reg)
	if err != nil {
		return f.refused(err, func() error { return v.again(f, nil) })
	}
	v.catalogue.drop()
	if created {
		v.say("good", "query-registered", "", "")
	} else {
		v.say("good", "query-joined", "", "")
	}
	return v.to(queryPath(q.ID))
}

func (v registerHandler) again(f form, t *trial) error {
	p, err := v.fill(f, t)
	if err != nil {
		return err
	}
	return v.visit.again(p.Form, "register", "queries", content{Data: p})
}

// try executes a query once within its endpoint's limits and stores nothing. A
// returned error is an internal one.
func (v registerHandler) try(reg registry.Registration) (*trial, error) {
	reg.Name, reg.Tags, reg.Weight = "", nil, 0 // the run does not depend on these, so they may be invalid
	q, err := v.Registry.Analyse(reg)
	if err != nil {
		return nil, nil // reported beside the query
	}
	_, t, err := v.execute(&q)
	return t, err
}

// execute executes a query once. It returns its answer and how the pages show it. A
// returned error is an internal one.
func (v registerHandler) execute(q *registry.Query) (scheduler.Answer, *trial, error) {
	leave, ok := v.tries.Take(v.caller.Name)
	if !ok {
		return scheduler.Answer{}, &trial{Busy: true}, nil
	}
	defer leave()
	rc := http.NewResponseController(v.w)
	_ = rc.SetWriteDeadline(time.Now().Add(slowestWrite + 2*time.Minute)) // the endpoint's own limits are shorter
	a, err := v.Daemon.Trial(v.r.Context(), q)
	if errors.Is(err, context.Canceled) {
		return a, nil, err
	}
	if err != nil {
		p, told := web.ProblemOf(err)
		if !told {
			return a, nil, err
		}
		return a, &trial{Error: p.Detail}, nil
	}
	return a, trialOf(a, q.Text), nil
}

func trialOf(a scheduler.Answer, text string) *trial {
	t := &trial{Took: a.Elapsed, Outcome: a.Outcome, Error: clip(a.Error, 400)}
	if a.Outcome.Complete() && a.Result != nil {
		t.Table, t.Form = previewOf(newNamer(text), a.Result), a.Result.Form()
	}
	return t
}

const previewRows = 20

func previewOf(n namer, r *diff.Result) *preview {
	if r.Form() == diff.Ask {
		return &preview{grid{Heads: []string{"answer"}, Columns: 1, Number: []bool{false},
			Rows: []gridRow{{Cells: []cell{{Text: strconv.FormatBool(r.Boolean())}}}}}, 1}
	}
	nowhere := func(int, int) string { return "" }
	return &preview{n.grid(r.Form(), r.Vars(), min(r.Len(), previewRows), r.Terms, noSign, nowhere), r.Len()}
}
