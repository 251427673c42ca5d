package ui

import (
	"context"
	"errors"
	"fmt"
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
	Form      form
	Endpoints []choice
	Lines     string // the line numbers of the editor
	Rows      int
	Found     found
	Trial     *trial
	First     string // the expected time of its first run
	Admin     bool
}

// Found is the analysis of the query, shown while the user types.
type found struct {
	Lede     lede
	State    state
	Query    *registry.Query // nil if it cannot be registered
	Limit    string          // the limit of its rows
	Keys     string          // its sort keys
	Known    bool
	Holders  int // of the query, if it is already registered
	Findings []finding
	Cost     []string
	Use      string // current use of the endpoint's budget, for the meter
	Meter    string
}

// A finding is an error of the query. Warnings belong to the query itself.
type finding struct{ Where, Text string }

// page returns the initial page; a query may be passed in.
func (v registerHandler) page() (content, error) {
	q := v.r.URL.Query()
	f := form{Fields: registerFields, Values: url.Values{"endpoint": {q.Get("endpoint")}, "query": {q.Get("query")}, "name": {q.Get("name")}}}
	p, err := v.fill(f, nil)
	return content{Data: p}, err
}

func (v registerHandler) fill(f form, t *trial) (*registerPage, error) {
	p := &registerPage{Form: f, Trial: t, Admin: v.May(registry.RoleAdmin)}
	all, err := v.Registry.Endpoints()
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		p.Endpoints = append(p.Endpoints, choice{Value: e.Name, Label: e.Name + ", " + spoken(e.Slot) + v.remark(e)})
	}
	n := max(12, strings.Count(f.Get("query"), "\n")+2)
	var b strings.Builder
	for i := 1; i <= n; i++ {
		b.WriteString(strconv.Itoa(i) + "\n")
	}
	p.Lines, p.Rows = b.String(), n
	name := f.Get("endpoint")
	if name == "" && len(all) > 0 {
		name = all[0].Name
	}
	p.First = v.firstRun(name)
	p.Found = v.found(&p.Form, t)
	return p, nil
}

func (v registerHandler) remark(e registry.Endpoint) string {
	if e.Pause != nil {
		return " (paused)"
	}
	if st, err := v.Daemon.State(e.Name); err == nil && st.Health.State == registry.HealthFailing {
		return " (failing)"
	}
	return ""
}

// firstRun reports when a query registered now would first run.
func (v registerHandler) firstRun(endpoint string) string {
	st, err := v.Daemon.State(endpoint)
	if err != nil || st.Next.IsZero() {
		return ""
	}
	when := "now"
	if st.Next.After(v.now) {
		when = ago(st.Next, v.now)
	}
	return "Its first run is in slot " + count(st.Last.Number+1) + ", " + when + "."
}

// found analyses the form; errors are recorded beside the fields.
func (v registerHandler) found(f *form, t *trial) found {
	if strings.TrimSpace(f.Get("query")) == "" {
		return found{State: state{"off", "empty"}, Lede: lede{Strong: "Write or paste a query.", Rest: []phrase{{Text: "The same question asked twice is executed once."}}}}
	}
	reg := f.registration(registry.Registration{Endpoint: f.Get("endpoint")})
	q, err := v.Registry.Analyse(reg)
	if err != nil {
		return v.wrong(f, err)
	}
	out := found{State: state{"live", "valid"}}
	out.Query, out.Keys = &q, clip(strings.Join(q.OrderKeys, ", ?"), 120)
	if q.Limit >= 0 {
		out.Limit = plural(int(q.Limit), "row", "rows")
	}
	out.Lede = registerLede(len(q.Warnings), f.Status != 0)
	if item, err := v.Queries.Item(q.ID); err == nil {
		out.Known, out.Holders = true, len(item.Query.Holders)
		out.Lede.Rest = []phrase{{Text: "This very question is asked already: you will share its result."}}
	}
	v.costs(&out, reg, t)
	return out
}

func registerLede(warnings int, wrong bool) lede {
	l := lede{Strong: "It can be watched.", Rest: []phrase{{Text: "The same question asked twice is executed once."}}}
	switch {
	case wrong:
		l.Strong = "The query is fine, a setting is not."
	case warnings == 1:
		l.Strong = "It can be watched, with one thing to know."
	case warnings > 1:
		l.Strong = "It can be watched, with " + count(warnings) + " things to know."
	}
	return l
}

// wrong explains why the query cannot be registered.
func (v registerHandler) wrong(f *form, err error) found {
	p, told := web.ProblemOf(err)
	out := found{State: state{"failing", "not valid"}, Lede: lede{Strong: "It cannot be registered as it is."}}
	if !told {
		out.Findings = []finding{{Where: "It could not be checked", Text: "The server's log says why."}}
		return out
	}
	for _, e := range p.Errors {
		if name, _ := fieldOf(e.Pointer); name != "" {
			f.bad(name, sentence(e.Detail))
		}
	}
	if len(f.Errors) > 0 && f.Errors["query"] == "" && p.Kind == registry.KindBadSetting {
		out.Lede.Strong, out.State = "The query is fine, a setting is not.", state{"stale", "almost"}
		return out
	}
	detail := p.Detail
	if detail == "" && len(p.Errors) > 0 {
		detail = p.Errors[0].Detail
	}
	out.Findings = []finding{{Where: p.Heading(), Text: sentence(clip(detail, 600))}}
	f.Status = web.Status(p.Kind)
	return out
}

// costs describes the load that the query puts on the endpoint.
func (v registerHandler) costs(out *found, reg registry.Registration, t *trial) {
	name := reg.Endpoint
	e, err := v.Registry.Endpoint(name)
	if err != nil {
		return
	}
	slots, err := v.slots(e.Name, hydroSlots)
	if err != nil {
		return
	}
	if t != nil && t.Bad == "" {
		part := t.took.Seconds() / time.Duration(e.Budget).Seconds()
		out.Cost = append(out.Cost, fmt.Sprintf("About %s a run, %s of a slot of %s.", cost(t.took), share(part), e.Name))
	} else {
		out.Cost = append(out.Cost, "Run it once to see what it takes.")
	}
	if every, ok := strings.CutPrefix(e.Slot, "@every "); ok && reg.MaxStaleness > 0 {
		if d, err := time.ParseDuration(every); err == nil && d > 0 {
			n := max(1, int(time.Duration(reg.MaxStaleness)/d))
			out.Cost = append(out.Cost, "At the least "+oneIn(n)+", ahead of the ranking.")
		}
	}
	if s := total(slots); s.budget > 0 {
		part := s.used / s.budget
		out.Meter, out.Use = meter(part), share(part).String()+" of the budget of "+e.Name+" is used"
		room := "There is room."
		if part > 0.9 {
			room = "There is little room: others will wait longer."
		}
		out.Cost = append(out.Cost, e.Name+" uses "+share(part).String()+" of its budget. "+room)
	}
}

func oneIn(n int) string {
	if n == 1 {
		return "one run in every slot"
	}
	return "one run in " + count(n) + " slots"
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
	key := trialKey(v.caller.Name, reg)
	switch do := f.Get("do"); {
	case do == "try":
		t, err := v.try(reg)
		if err != nil {
			return err
		}
		v.trials.keep(key, t, v.now)
		return v.again(f, t)
	case do == "check" || f.Status != 0:
		return v.again(f, v.trials.kept(key, v.now))
	}
	q, created, err := v.Registry.Register(v.caller, reg)
	if err != nil {
		if err := f.refuse(err); err != nil {
			return err
		}
		return v.again(f, v.trials.kept(key, v.now))
	}
	v.catalogue.drop()
	if created {
		v.say("good", "query-registered", "", "")
	} else {
		v.say("good", "query-joined", "", "")
	}
	if v.sections["queries"] {
		return v.to(queryPath(q.ID))
	}
	return v.to("/")
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
	select {
	case v.tries <- struct{}{}:
		defer func() { <-v.tries }()
	default:
		return &trial{Bad: "Others are trying queries right now. Try again in a moment."}, nil
	}
	rc := http.NewResponseController(v.w)
	_ = rc.SetWriteDeadline(time.Now().Add(slowestWrite + 2*time.Minute)) // the endpoint's own limits are shorter
	a, err := v.Daemon.Trial(v.r.Context(), &q)
	if errors.Is(err, context.Canceled) {
		return nil, err
	}
	if err != nil {
		p, told := web.ProblemOf(err)
		if !told {
			return nil, err
		}
		return &trial{Bad: sentence(p.Detail)}, nil
	}
	return trialOf(a, q.Text), nil
}

func trialOf(a scheduler.Answer, text string) *trial {
	t := &trial{took: a.Elapsed}
	if !a.Outcome.Complete() || a.Result == nil {
		t.Bad = "It ended with " + string(a.Outcome) + " after " + cost(a.Elapsed).String() + "."
		if a.Error != "" {
			t.Bad += " " + sentence(clip(a.Error, 400))
		}
		return t
	}
	t.Table = previewOf(newNamer(text), a.Result)
	t.Words = []string{resultWords(a.Result), cost(a.Elapsed).String(), "complete", "not stored"}
	return t
}

func resultWords(r *diff.Result) string {
	switch {
	case r.Form() == diff.Ask:
		return "an answer"
	case r.Form().Graph():
		return plural(r.Len(), "triple", "triples")
	}
	return plural(r.Len(), "row", "rows")
}

const previewRows = 20

func previewOf(n namer, r *diff.Result) *preview {
	if r.Form() == diff.Ask {
		return &preview{grid{Heads: []string{"answer"}, Number: []bool{false}, Rows: []gridRow{{Cells: []cell{{Text: word(r.Boolean())}}}}}, 1}
	}
	nowhere := func(int, int) string { return "" }
	return &preview{n.grid(r.Form(), r.Vars(), min(r.Len(), previewRows), r.Terms, noSign, nowhere), r.Len()}
}
