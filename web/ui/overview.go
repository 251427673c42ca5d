package ui

import (
	"cmp"
	"fmt"
	"html/template"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/web"
)

// An overviewPage answers: is everything fresh, and if not, where and since when?
type overviewPage struct {
	Lede      lede
	Facts     facts
	Endpoints []overviewEndpoint
	Others    int // number of endpoints that are not drawn
	Changes   []changeLine
	At        string // the log position up to which changes are shown
	First     bool   // nothing is registered yet
}

// A lede is the first sentence of a page: the answer, and the problems.
type lede struct {
	Strong string
	Rest   []phrase
}

type phrase struct{ Text, Link string }

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

// A state is displayed as a shape and a word.
type state struct{ Class, Word string }

// A changeLine is a line of the list of changes.
type changeLine struct {
	Query, Name, Endpoint string
	Link                  string
	When                  template.HTML
	Delta                 delta
	offset                uint64
}

const (
	shownChanges   = 12
	endpointsDrawn = 12
	slotsRead      = 2000 // in total, for one page
)

func (v overviewHandler) page() (content, error) {
	d := overviewPage{}
	endpoints, err := v.Registry.Endpoints()
	if err != nil {
		return content{}, err
	}
	d.First = len(endpoints) == 0
	all, err := v.endpoints(&d, endpoints)
	if err != nil {
		return content{}, err
	}
	troubles := v.troubles(d.Endpoints)
	if n := len(d.Endpoints); n > endpointsDrawn {
		d.Endpoints, d.Others = d.Endpoints[:endpointsDrawn], n-endpointsDrawn
	}
	if d.Facts, err = v.facts(all); err != nil {
		return content{}, err
	}
	d.Lede = overviewLede(d.Facts, len(endpoints), troubles)
	lines, at, err := v.newest(shownChanges)
	if err != nil {
		return content{}, err
	}
	d.Changes, d.At = lines, at.String()
	c := content{Title: "Overview", Data: d, Live: []part{{"lede", "lede", d.Lede}, {"facts", "facts", d.Facts}}}
	for _, e := range d.Endpoints {
		c.Live = append(c.Live, part{e.ID, "ep", e})
	}
	c.Feed = &feed{List: "stream", Template: "change", Most: shownChanges, After: v.linesAfter, At: at}
	return c, nil
}

// endpoints fills in the endpoints, problems first, and returns the slots from which
// the trends are computed. With many endpoints it reads fewer slots of each.
func (v overviewHandler) endpoints(d *overviewPage, endpoints []registry.Endpoint) ([][]scheduler.Slot, error) {
	most := trendSlots
	if n := len(endpoints); n > 0 {
		most = min(trendSlots, max(trendBins, slotsRead/n))
	}
	all := make([][]scheduler.Slot, len(endpoints))
	for i, e := range endpoints {
		var err error
		if all[i], err = v.slots(e.Name, most); err != nil {
			return nil, err
		}
		o, err := endpointHandler(v).summary(e, all[i])
		if err != nil {
			return nil, err
		}
		d.Endpoints = append(d.Endpoints, o)
	}
	slices.SortStableFunc(d.Endpoints, func(a, b overviewEndpoint) int { return cmp.Compare(a.Rank, b.Rank) })
	return all, nil
}

// slots returns an endpoint's last slots, newest first; none if it has just been
// removed.
func (v *visit) slots(name string, most int) ([]scheduler.Slot, error) {
	list, err := v.History.Slots(name, most)
	if err != nil && isMissing(err) {
		return nil, nil
	}
	return list, err
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

func overviewLede(f facts, endpoints int, troubles []phrase) lede {
	var l lede
	fresh, results := f.fresh, f.results
	switch {
	case endpoints == 0:
		return lede{Strong: "Nothing to keep fresh yet.", Rest: []phrase{{Text: "Three steps, about two minutes."}}}
	case results == 0:
		l.Strong = "No query is registered yet."
	case fresh == results && results == 1:
		l.Strong = "The one result is fresh."
	case fresh == results:
		l.Strong = "All " + count(results) + " results are fresh."
	default:
		l.Strong = count(fresh) + " of " + plural(results, "result is", "results are") + " fresh."
	}
	l.Rest = troubles
	return l.states(f.states)
}

// troubles lists the phrases about endpoints that do not run normally.
func (v overviewHandler) troubles(endpoints []overviewEndpoint) []phrase {
	var t troubles
	for _, o := range endpoints {
		t.add(phrase{o.Name, "#" + o.ID}, o.State.Class, failsSince(o.Fails, o.Since))
	}
	if v.sections["endpoints"] {
		return t.phrases("/endpoints")
	}
	return t.phrases("")
}

// Troubles of endpoints: the first few are named, the others counted.
type troubles struct {
	named []phrase
	n     int
}

const troublesNamed = 3

// add records an endpoint in a class of states; fails describes the failure, if any.
// Problems come first.
func (t *troubles) add(endpoint phrase, class, fails string) {
	words := map[string]string{"failing": fails + ".", "stale": "asked us to wait.", "paused": "is paused."}[class]
	if words == "" {
		return
	}
	if t.n++; t.n <= troublesNamed {
		t.named = append(t.named, endpoint, phrase{Text: words})
	}
}

// phrases returns the phrases for a lede; list is the address of the full list, "" for
// this page.
func (t *troubles) phrases(list string) []phrase {
	if more := t.n - troublesNamed; more > 0 {
		return append(t.named, phrase{plural(more, "more endpoint needs a look.", "more endpoints need a look."), list})
	}
	return t.named
}

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

// newest returns the last changes of all queries, newest first.
func (v overviewHandler) newest(most int) ([]changeLine, registry.Offset, error) {
	head, err := v.History.Head()
	if err != nil {
		return nil, head, err
	}
	// Removed queries leave holes in the log, so a few more entries are requested.
	for back := uint64(most); ; back *= 4 {
		from := head
		from.Seq -= min(from.Seq, back)
		changes, err := v.History.All(from, int(back))
		if _, told := web.ProblemOf(err); err != nil && !told {
			return nil, head, err
		}
		if len(changes) >= most || back >= 16*uint64(most) || from.Seq == 0 || err != nil {
			changes = changes[max(0, len(changes)-most):]
			lines := v.lines(changes)
			slices.Reverse(lines)
			return lines, head, nil
		}
	}
}

// linesAfter returns the changes after an offset, oldest first.
func (v overviewHandler) linesAfter(at registry.Offset) ([]any, registry.Offset, error) {
	changes, err := v.History.All(at, 100)
	if err != nil {
		return nil, at, err
	}
	var out []any
	for _, l := range v.lines(changes) {
		out = append(out, l)
		at.Seq = l.offset
	}
	return out, at, nil
}

func (v overviewHandler) lines(changes []registry.Change) []changeLine {
	names := map[string]string{}
	out := make([]changeLine, len(changes))
	for i, c := range changes {
		name, ok := names[c.Query]
		if !ok {
			name = c.Query
			if q, err := v.Registry.Query(c.Query); err == nil {
				name = v.name(&q)
			}
			names[c.Query] = name
		}
		out[i] = changeLine{Query: c.Query, Name: clip(name, 160), Endpoint: c.Endpoint, When: v.Past(c.Time), Delta: deltaOf(c.Delta, c.Baseline), offset: c.Offset}
		if v.sections["queries"] {
			out[i].Link = queryPath(c.Query)
		}
	}
	return out
}

// name returns the name by which the visitor knows a query.
func (v *visit) name(q *registry.Query) string {
	if n := strings.TrimSpace(q.NameFor(v.caller.Name)); n != "" {
		return n
	}
	return q.ID
}
