// This file has the pages of alert rules, and the one that makes them from what a visitor points at.

package ui

import (
	"cmp"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/diff"
	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/registry/watch"
	"github.com/freshet/freshet/web"
)

// A rulesPage lists alert rules, and tries and makes them.
type rulesPage struct {
	Table ruleTable
	Form  form
	Edit  *ruleEdit  // the rule that the form changes; nil for a new one
	Trial *ruleTrial // nil until the visitor tries
	Made  []madeSecret
	Known []string // names of queries that the form suggests

	Tested string // the kinds of the receivers that have taken a test message
}

// A ruleEdit is a rule that the form of the list changes.
type ruleEdit struct{ ID, Name, Link, Tag string }

// A madeSecret signs the messages of a webhook. It is shown once.
type madeSecret struct{ Webhook, Secret string }

// A ruleTable is the live part of the list.
type ruleTable struct {
	Rows []ruleRow
	All  int // rules of the visitor, at most mostRules
}

// allRules is a name for the field of a sharedTotals: web.Rules has a method Rules.
type allRules = web.Rules

// A sharedTotals sums up the rules once for the pages of about a second.
type sharedTotals struct {
	allRules
	cached[registry.RuleTotals]
}

// Totals implements web.Rules.
func (s *sharedTotals) Totals() (registry.RuleTotals, error) {
	oldest := func(took time.Duration) time.Duration { return max(time.Second, idleIndex*took) }
	return s.get(time.Now(), oldest, s.allRules.Totals)
}

type ruleRow struct {
	registry.ListedRule
	State           state
	Link            string
	Query, QueryRef string
	Trouble         string // of its deliveries
	Last            template.HTML
}

// A ruleTrial is what a rule would have done, the newest event first.
type ruleTrial struct {
	registry.RuleTrial
	Clock clock
}

const (
	mostRules  = 10_000 // read for one page
	shownRules = 200
)

var ruleFields = append([]string{"name", "query", "when", "for", "keep_firing_for", "labels", "summary", "to"}, quietFields...)

// ruleStates are the looks of statuses.
var ruleStates = map[registry.RuleStatus]string{registry.RuleInactive: "live", registry.RulePending: "new",
	registry.RuleFiring: "failing", registry.RuleStale: "stale",
	registry.RuleWaiting: "new", registry.RuleFailing: "failing", registry.RulePaused: "paused", registry.RuleEnded: "paused"}

func (v ruleHandler) page() (content, error) {
	values := url.Values{"query": {v.r.URL.Query().Get("query")}}
	if r, ok, err := v.ruleToEdit(); err != nil {
		return content{}, err
	} else if ok {
		values = ruleValues(r)
	}
	return v.list(rulesPage{Form: form{Fields: ruleFields, Values: values}})
}

// find returns a rule by its id or name, if it belongs to the visitor.
func (v ruleHandler) find(ref string) (registry.ListedRule, error) {
	r, err := v.Rules.Rule(v.caller, ref)
	if isMissing(err) || err == nil && !web.MayManageRule(v.caller, &r) {
		err = &registry.Problem{Kind: registry.KindNotFound, Title: "There is no such rule",
			Detail: "It may have been removed, or it belongs to another caller."}
	}
	return r, err
}

// rule returns the rule that the path names.
func (v ruleHandler) rule() (registry.ListedRule, error) { return v.find(v.r.PathValue("id")) }

// ruleToEdit returns the rule that the form changes, if it is not for a new one.
func (v ruleHandler) ruleToEdit() (r registry.ListedRule, ok bool, err error) {
	id := cmp.Or(v.r.PostFormValue("edit"), v.r.URL.Query().Get("edit"))
	if id != "" {
		r, err = v.find(id)
	}
	return r, id != "" && err == nil, err
}

// link returns the page of a rule. Others may have given its name to another one.
func (v ruleHandler) link(r *registry.ListedRule) string {
	if r.Caller == v.caller.Name {
		return "/rules/" + url.PathEscape(r.Name)
	}
	return "/rules/" + r.ID
}

// ruleValues fills the form with the settings of a rule.
func ruleValues(r registry.ListedRule) url.Values {
	values := url.Values{"name": {r.Name}, "query": {r.Query}, "when": {r.When}, "summary": {r.Summary}}
	var labels, to []string
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		labels = append(labels, name+"="+r.Labels[name])
	}
	values.Set("labels", strings.Join(labels, "\n"))
	for name, d := range map[string]registry.Duration{"for": r.For, "keep_firing_for": r.KeepFiringFor} {
		if d != 0 {
			values.Set(name, d.String())
		}
	}
	for _, x := range r.To {
		to = append(to, x.Kind+" "+x.Masked())
	}
	values.Set("to", strings.Join(to, "\n"))
	if q, same := commonQuiet(r.To); same {
		for name, text := range map[string]string{"digest": q.Digest, "quiet": q.Hours, "zone": q.Zone, "most": q.Most, "repeat": q.Repeat} {
			values.Set(name, text)
		}
	}
	return values
}

// commonQuiet returns when all receivers may be told something, if that is the same for all.
func commonQuiet(list []registry.Receiver) (q registry.Quiet, same bool) {
	for _, to := range list {
		if to.Quiet != (registry.Quiet{}) && (to.Kind != "webhook" || q == registry.Quiet{}) {
			q = to.Quiet
		}
	}
	return q, !slices.ContainsFunc(list, func(to registry.Receiver) bool { return to.Quiet != quietFor(to.Kind, q) })
}

// list adds the rules and the queries to a page.
func (v ruleHandler) list(p rulesPage) (_ content, err error) {
	if p.Known, err = v.knownQueries(); err != nil {
		return content{}, err
	}
	if r, ok, err := v.ruleToEdit(); err != nil {
		return content{}, err
	} else if ok && len(p.Made) == 0 {
		p.Edit = &ruleEdit{ID: r.ID, Name: r.Name, Link: v.link(&r), Tag: cmp.Or(v.r.PostFormValue("tag"), web.RuleTag(r))}
	}
	own, err := v.own()
	if err != nil {
		return content{}, err
	}
	order := registry.RuleStatuses()
	slices.SortFunc(own, func(a, b registry.ListedRule) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Status), slices.Index(order, b.Status)), strings.Compare(a.Name, b.Name))
	})
	p.Table.All = len(own)
	for _, r := range own[:min(len(own), shownRules)] {
		p.Table.Rows = append(p.Table.Rows, v.row(r))
	}
	return content{Data: p, Live: []part{{"rule-rows", "rule-rows", p.Table}}}, nil
}

// own returns the rules that the visitor may manage.
func (v ruleHandler) own() (own []registry.ListedRule, err error) {
	for after := ""; len(own) < mostRules; {
		page, err := v.Rules.Rules(after, 500)
		if err != nil || len(page) == 0 {
			return own, err
		}
		for i := range page {
			if after = page[i].ID; web.MayManageRule(v.caller, &page[i]) {
				own = append(own, page[i])
			}
		}
	}
	return own, nil
}

// knownQueries returns names of queries, those of the visitor first.
func (v ruleHandler) knownQueries() (names []string, err error) {
	snap, err := v.catalogue.look()
	if err != nil {
		return nil, err
	}
	for _, own := range []bool{true, false} {
		for i := range snap.digests {
			d := &snap.digests[i]
			if len(names) < shownRules && d.Name != "" && slices.Contains(d.Holders, v.caller.Name) == own {
				names = append(names, d.Name)
			}
		}
	}
	return names, nil
}

func (v ruleHandler) row(r registry.ListedRule) ruleRow {
	row := ruleRow{ListedRule: r, State: state{ruleStates[r.Status], string(r.Status)}, Link: v.link(&r), Query: r.Query}
	if q, err := v.Registry.Query(r.Query); err == nil {
		row.QueryRef = queryPath(q.ID)
		row.Query = cmp.Or(q.NameFor(v.caller.Name), r.Query)
	}
	for _, to := range r.Receivers {
		row.Trouble = cmp.Or(row.Trouble, to.LastError)
	}
	if n := len(r.State.Events); n > 0 {
		row.Last = v.Past(r.State.Events[n-1].Time)
	}
	return row
}

func (v ruleHandler) typed() (form, registry.RuleSettings) {
	f := v.visit.typed(ruleFields)
	s := registry.RuleSettings{Name: strings.TrimSpace(f.Get("name")), Query: strings.TrimSpace(f.Get("query")), When: f.Get("when"),
		Summary: strings.TrimSpace(f.Get("summary"))}
	f.read("for", &s.For)
	f.read("keep_firing_for", &s.KeepFiringFor)
	for line := range strings.Lines(f.Get("labels")) {
		name, text, ok := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case name == "" && !ok:
		case !ok:
			f.bad("labels", "rule-label")
		default:
			if s.Labels == nil {
				s.Labels = map[string]string{}
			}
			s.Labels[strings.TrimSpace(name)] = strings.TrimSpace(text)
		}
	}
	s.To = receiversOf(f)
	return f, s
}

// receiversOf reads the receivers of a form, and when they may be told something.
func receiversOf(f form) []registry.Receiver {
	list := receivers(f.Get("to"))
	for i := range list {
		list[i].Quiet = quietFor(list[i].Kind, quietOf(f))
	}
	return list
}

// receivers reads one receiver from each line: its kind and its address, or the address of e-mail or of a service that
// people read.
func receivers(text string) (list []registry.Receiver) {
	for line := range strings.Lines(text) {
		kind, address, two := strings.Cut(strings.TrimSpace(line), " ")
		if at := addressIn(kind); !two && (at != kind || strings.Contains(kind, "://")) {
			kind, address = registry.Notify, at
		}
		if kind != "" {
			list = append(list, registry.Receiver{Kind: kind, Address: strings.TrimSpace(address)})
		}
	}
	return list
}

// act tries or makes the rule of the form, or tests its receivers, depending on the button.
func (v ruleHandler) act() error {
	f, s := v.typed()
	if f.Status != 0 {
		return v.again(rulesPage{Form: f})
	}
	old, editing, err := v.ruleToEdit()
	if err != nil {
		return err
	}
	web.UnmaskReceivers(&s, old.RuleSettings)
	if editing && s.Labels == nil && len(old.Labels) == 0 { // the form shows none in the same way as those by default
		s.Labels = old.Labels
	}
	switch f.Get("do") {
	case "try":
		t, err := v.try(s)
		if p, told := web.ProblemOf(err); told && p.Kind == registry.KindNoResult {
			f.bad("query", "rule-no-result")
			err = nil
		}
		if err != nil {
			return v.wrong(f, err)
		}
		return v.again(rulesPage{Form: f, Trial: t})
	case "test":
		kinds, err := notifyHandler(v).testAll(s.To)
		if err != nil {
			return v.wrong(f, pointAt(err, "/notify", "/to"))
		}
		return v.again(rulesPage{Form: f, Tested: strings.Join(kinds, ", ")})
	}
	var r registry.ListedRule
	if editing {
		if web.RuleTag(old) != v.r.PostFormValue("tag") {
			v.say("fail", "rule-stale", old.Name, "")
			return v.to("/rules?edit=" + url.QueryEscape(old.ID))
		}
		if _, same := commonQuiet(old.To); !same && quietOf(f) == (registry.Quiet{}) {
			keepQuiet(s.To, old.To)
		}
		r, err = v.Rules.Replace(v.r.Context(), v.caller, old.ID, s)
	} else {
		r, err = v.Rules.Create(v.r.Context(), v.caller, s)
	}
	if err != nil {
		return v.wrong(f, err)
	}
	return v.saved(r, old.To)
}

// try tries a rule on the history of its query.
func (v ruleHandler) try(s registry.RuleSettings) (*ruleTrial, error) {
	t, err := web.TryRule(v.r.Context(), v.Rules, v.caller, s)
	if err != nil {
		return nil, err
	}
	slices.Reverse(t.Events)
	return &ruleTrial{t, v.clock}, nil
}

// saved shows the page of a rule that was saved, or the secrets that its receivers had not before.
func (v ruleHandler) saved(r registry.ListedRule, before []registry.Receiver) error {
	if made := secretsOf(r, before); len(made) > 0 {
		return v.again(rulesPage{Form: form{Fields: ruleFields, Status: http.StatusCreated}, Made: made})
	}
	v.say("good", "rule-made", r.Name, "")
	return v.to(v.link(&r))
}

// create makes a rule, under another name if the caller has given its name to another one.
func (v ruleHandler) create(s registry.RuleSettings) (r registry.ListedRule, err error) {
	name := s.Name
	for n := 2; ; n++ {
		r, err = v.Rules.Create(v.r.Context(), v.caller, s)
		if p, told := web.ProblemOf(err); !told || p.Kind != registry.KindExists || n > 9 {
			return r, err
		}
		s.Name = fmt.Sprintf("%s-%d", name, n)
	}
}

// createOnce is create, unless the caller has such a rule for the same receivers, which it returns with these.
func (v ruleHandler) createOnce(s registry.RuleSettings) (r registry.ListedRule, old []registry.Receiver, err error) {
	v.once.Lock() // a form may be sent twice at once
	defer v.once.Unlock()
	list, err := v.own()
	if err != nil {
		return r, nil, err
	}
	if r, err = v.create(s); err != nil { // which completes the addresses
		return r, nil, err
	}
	same := func(a, b registry.Receiver) bool { return a.Key() == b.Key() && a.Quiet == b.Quiet }
	for _, x := range list {
		if x.Caller == r.Caller && x.Query == r.Query && x.When == r.When && slices.EqualFunc(x.To, r.To, same) {
			return x, x.To, v.Rules.Remove(r.ID)
		}
	}
	return r, nil, nil
}

// secretsOf returns the secrets of a rule that were not there before.
func secretsOf(r registry.ListedRule, before []registry.Receiver) (made []madeSecret) {
	secrets := web.NewSecrets(before, r.To)
	for _, i := range slices.Sorted(maps.Keys(secrets)) {
		made = append(made, madeSecret{r.To[i].Masked(), secrets[i]})
	}
	return made
}

// keepQuiet leaves receivers when they may be told something, where the form cannot show it as it differs.
func keepQuiet(list, before []registry.Receiver) {
	for i := range list {
		for _, was := range before {
			if list[i].Key() == was.Key() {
				list[i].Quiet = was.Quiet
			}
		}
	}
}

// wrong shows the form with an error that the visitor can correct.
func (v ruleHandler) wrong(f form, err error) error {
	if err := f.refuse(err); err != nil {
		return err
	}
	return v.again(rulesPage{Form: f})
}

func (v ruleHandler) again(p rulesPage) error {
	c, err := v.list(p)
	if err != nil {
		return err
	}
	return v.visit.again(p.Form, "rules", "rules", c)
}

// test sends a test message to the receivers of the rule of the path.
func (v ruleHandler) test() error {
	r, err := v.rule()
	if err != nil {
		return err
	}
	kinds, err := notifyHandler(v).testAll(r.To)
	if err != nil {
		return v.refused("rule-untested", err, v.link(&r))
	}
	v.say("good", "rule-tested", strings.Join(kinds, ", "), "")
	return v.to(v.link(&r))
}

// A rulePage shows one rule.
type rulePage struct {
	ruleRow
	Clock  clock
	Alerts []registry.ListedAlert // one page of them
	After  string                 // the id that the page begins after, "" for the first page
	Next   string                 // the id that the next page begins after, "" for none
	Events []registry.RuleEvent   // the newest first
	May    bool                   // the visitor may edit, pause and remove it
	Tests  bool                   // test messages can be sent
}

// setRulePaused pauses or resumes the rule of the path.
func setRulePaused(paused bool) func(ruleHandler) error {
	return func(v ruleHandler) error {
		r, err := v.rule()
		if err != nil {
			return err
		}
		if r, err = v.Rules.SetPaused(v.r.Context(), r.ID, paused); err != nil {
			return v.refused("rule-kept", err, "/rules")
		}
		if paused {
			v.say("good", "rule-paused", r.Name, "")
		} else {
			v.say("good", "rule-resumed", r.Name, "")
		}
		return v.to(v.link(&r))
	}
}

func (v ruleHandler) show() (content, error) {
	r, err := v.rule()
	if err != nil {
		return content{}, err
	}
	now := rulePage{ruleRow: v.row(r), Clock: v.clock, After: v.r.URL.Query().Get("after"), Events: slices.Clone(r.State.Events),
		May: v.May(registry.RoleApp)}
	now.Tests = now.May && slices.ContainsFunc(r.To,
		func(to registry.Receiver) bool { return to.Kind != "webhook" && to.Kind != "alertmanager" })
	slices.Reverse(now.Events)
	if now.Alerts, err = v.Rules.Alerts(r.ID, "", now.After, shownRules+1); err != nil {
		return content{}, err
	}
	if len(now.Alerts) > shownRules {
		now.Alerts = now.Alerts[:shownRules]
		now.Next = now.Alerts[shownRules-1].ID
	}
	return content{Data: now, Live: []part{{"rule-now", "rule-now", now}}}, nil
}

func (v ruleHandler) askToRemove() (content, error) {
	r, err := v.rule()
	if err != nil {
		return content{}, err
	}
	return confirmation{What: "rule", Name: r.Name, Back: v.link(&r)}.content(v.r), nil
}

func (v ruleHandler) remove() error {
	r, err := v.rule()
	if err != nil {
		return err
	}
	if err := v.Rules.Remove(r.ID); err != nil {
		return v.refused("rule-kept", err, "/rules")
	}
	v.say("good", "rule-removed", r.Name, "")
	return v.to("/rules")
}

// A tellPage offers rules about a row of a result, and about the result.
type tellPage struct {
	Name, Path string
	B, N       string   // the version and the number of the row; N is "" for the result as a whole
	Row        []kvCell // the row
	Offers     []watch.Offer
	Form       form
	When       string // the condition of the chosen offer
	Trial      *ruleTrial
}

// A kvCell is a cell and the heading of its column.
type kvCell struct {
	Head string
	Cell cell
}

var tellFields = append([]string{"what", "limit", "for", "name", "to"}, quietFields...)

// looked returns the page about the row that the request names.
func (v tellHandler) looked(p url.Values) (q registry.Query, page tellPage, err error) {
	q, st, err := queryHandler(v).resolveStatus()
	if err != nil {
		return q, page, err
	}
	page = tellPage{Name: v.name(&q), Path: queryPath(q.ID), B: p.Get("b"), N: p.Get("row")}
	b := sequence(page.B)
	if b == 0 || b > st.Position.Seq {
		b, page.B = st.Position.Seq, ""
	}
	if b == 0 {
		return q, page, &registry.Problem{Kind: registry.KindNoResult, Detail: "There is no result yet. Its rows can be chosen when it is there."}
	}
	r, err := resultHandler(v).version(q.ID, b)
	if err != nil {
		return q, page, err
	}
	var row []diff.Term
	if i, err := strconv.Atoi(page.N); page.N != "" && q.Form != diff.Ask {
		if err != nil || i < 0 || i >= r.Len() {
			return q, page, noCell
		}
		row = r.Terms(i)
		if len(row) > mostColumns {
			row = row[:mostColumns]
		}
		heads, n := headsOf(q.Form, r.Vars()), newNamer(q.Text)
		for i, t := range row {
			page.Row = append(page.Row, kvCell{heads[i], n.cell(t, "")})
		}
	}
	page.Offers = watch.Offers(q.Form, r.Vars(), row)
	return q, page, nil
}

func (v tellHandler) page() (content, error) {
	_, p, err := v.looked(v.r.URL.Query())
	if err != nil {
		return content{}, err
	}
	p.Form = form{Fields: tellFields, Values: url.Values{"what": {cmp.Or(v.r.URL.Query().Get("what"), p.Offers[0].Key)}}}
	return content{Data: p}, nil
}

// tell tries or makes the rule of the chosen offer.
func (v tellHandler) tell() error {
	f := v.typed(tellFields)
	q, p, err := v.looked(v.r.PostForm)
	if err != nil {
		return err
	}
	s, chosen := v.settings(&f, &q, p.Offers)
	p.When = s.When
	if f.Status != 0 {
		return v.again(f, p)
	}
	if f.Get("do") == "try" {
		if p.Trial, err = ruleHandler(v).try(s); err != nil {
			return f.refused(v.about(err), func() error { return v.again(f, p) })
		}
		return v.again(f, p)
	}
	if s.Name == "" {
		s.Name = cmp.Or(q.NameFor(v.caller.Name), q.ID) + "-" + chosen.Kind
	}
	r, err := ruleHandler(v).create(s)
	if err != nil {
		return f.refused(v.about(err), func() error { return v.again(f, p) })
	}
	return ruleHandler(v).saved(r, nil)
}

// about makes an error of the condition one of its number, which the visitor wrote.
func (v tellHandler) about(err error) error { return pointAt(err, "/when", "/limit") }

// settings returns the rule that the form asks for, and its offer.
func (v tellHandler) settings(f *form, q *registry.Query, all []watch.Offer) (registry.RuleSettings, watch.Offer) {
	s := registry.RuleSettings{Name: strings.TrimSpace(f.Get("name")), Query: q.ID, To: receiversOf(*f)}
	i := slices.IndexFunc(all, func(o watch.Offer) bool { return o.Key == f.Get("what") })
	if i < 0 {
		f.bad("what", "tell-what")
		return s, watch.Offer{}
	}
	limit := strings.TrimSpace(f.Get("limit"))
	if _, err := strconv.ParseFloat(limit, 64); err != nil && all[i].Limit {
		f.bad("limit", "number")
	}
	f.read("for", &s.For)
	s.When, s.Summary = all[i].When(limit), all[i].Summary
	if !all[i].Limit && all[i].Kind != "rows" && s.For > 0 {
		f.bad("for", "tell-for")
	}
	return s, all[i]
}

func (v tellHandler) again(f form, p tellPage) error {
	p.Form = f
	return v.visit.again(f, "tell", "rules", content{Data: p})
}
