package plan

import (
	"cmp"
	"container/list"
	"slices"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler/cohort"
)

// Queries that differ in constants only form a cohort. The head of the order brings
// riders from its cohort along, and one execution of the budget serves them all.

// A Membership says with which queries a query can be asked. The zero value is that of
// a query that must be asked alone.
type Membership struct {
	Key       string   // equal for the queries that can be asked together
	Template  string   // id of the template
	Probes    bool     // a probe can confirm results of the template
	Arguments []string // by which the query differs from others with the key
	Form      any      // what the caller needs to write requests; that of the first member is kept
}

// A Merging says how merged requests are made in a slot.
type Merging struct {
	Mode string // registry.Endpoint.Merge
	Rows int    // expected rows of a request at most, 0 = defaultRows
}

const (
	defaultRows = 5000
	maxText     = 48 << 10 // bytes of the arguments of a request
	// lookPast bounds how many unsuitable members are passed over for each rider.
	lookPast = 4
	// checkShare is the part of the budget for asking again what a merged answer left
	// open, as a divisor.
	checkShare = 2
)

// A cohortOf holds the queries that can be asked together. Those asked longest ago come
// first.
type cohortOf struct {
	*cohort.Cohort
	key     string
	form    any
	members list.List // of *item
}

// A check is why a query is asked again.
type check uint8

const (
	unchecked  check = iota
	checkFull        // a probe did not confirm it
	checkAlone       // a merged answer says nothing about it, or is audited
	checkAgain       // an audit found a difference: ask it merged, in a later slot
)

// membership is what the planner knows of a query's cohort.
type membership struct {
	of      *cohortOf
	at      *list.Element // in of.members
	args    []string
	proofs  uint8 // probes that may still confirm the result
	check   check
	again   cohort.Kind // of the request that checkAgain repeats
	queued  bool        // in Planner.checks
	asked   bool        // an answer is awaited
	solo    bool        // merged answers are never exact
	audited uint32      // how often
	lastAsk *LastAsk
}

// A LastAsk describes the request that last answered a query.
type LastAsk struct {
	Kind    cohort.Kind
	Members int
	Elapsed time.Duration
	Rows    int
}

// Unclassified returns up to most queries whose membership is unknown.
func (p *Planner) Unclassified(most int) (out []*registry.Query) {
	for len(p.strangers) > 0 && len(out) < most {
		c := p.strangers[len(p.strangers)-1]
		p.strangers = p.strangers[:len(p.strangers)-1]
		if c.planned {
			c.known = true
			out = append(out, &c.Query)
		}
	}
	return out
}

// forgetStranger notes that a query was removed.
func (p *Planner) forgetStranger(c *item) {
	if c.known {
		return
	}
	if p.gone++; 2*p.gone > len(p.strangers) {
		p.strangers = slices.DeleteFunc(p.strangers, func(c *item) bool { return !c.planned })
		p.gone = 0
	}
}

// Classify sets the membership of a query.
func (p *Planner) Classify(query string, m Membership) {
	c := p.all[query]
	if c == nil || m.Key == "" {
		return
	}
	p.leaveCohort(c)
	k := p.cohorts[m.Key]
	if k == nil {
		if p.cohorts == nil {
			p.cohorts = map[string]*cohortOf{}
		}
		k = &cohortOf{Cohort: cohort.New(m.Template, m.Probes), key: m.Key, form: m.Form}
		p.cohorts[m.Key] = k
	}
	c.member = &membership{of: k, args: m.Arguments, at: k.members.PushFront(c)}
}

// leaveCohort forgets the membership of a query.
func (p *Planner) leaveCohort(c *item) {
	m := c.member
	if m == nil {
		return
	}
	if m.of.members.Remove(m.at); m.of.members.Len() == 0 {
		delete(p.cohorts, m.of.key)
	}
	c.member = nil
}

// Cohorts describes the cohorts, the largest first.
func (p *Planner) Cohorts(now time.Time) []cohort.Snapshot {
	out := make([]cohort.Snapshot, 0, len(p.cohorts))
	for _, k := range p.cohorts {
		s := k.Snapshot(now)
		s.Members = k.members.Len()
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b cohort.Snapshot) int {
		return cmp.Or(cmp.Compare(b.Members, a.Members), strings.Compare(a.Template, b.Template))
	})
	return out
}

// mergeable reports whether a query may be a member of a merged request.
func (c *item) mergeable() bool {
	m := c.member
	return m != nil && !m.solo && m.check != checkAlone && !c.Query.Alone() &&
		c.Stats.Failures == 0 && c.Stats.Cuts == 0 && c.Stats.Outdated == 0 && c.Stats.Floor == 0
}

// provable reports whether a probe may confirm the result of a query.
func (c *item) provable() bool {
	return c.plain && c.member.proofs > 0 && c.member.check == unchecked && c.Stats.Executions > 0
}

// rows is the expected number of rows of a member.
func (c *item) rows() int {
	if c.Stats.Executions > 0 {
		return c.Stats.Rows
	}
	return c.member.of.MeanRows()
}

// ride adds other members of its cohort to an execution that has begun. They take at
// most half of the time that is left for others.
func (s *SlotBudget) ride(r *Execution, now time.Time) {
	c := r.c
	if s.merging.Mode == "" || s.merging.Mode == registry.MergeOff || s.offGrid() || s.alone || !s.p.rule.fits() || !c.mergeable() {
		return
	}
	if r.tier != TierRanked && r.tier != TierNew && r.tier != TierHinted {
		return
	}
	m := c.member
	kind, most := m.again, lookPast
	if !r.again {
		kind, most = m.of.Next(now, s.merging.Mode, c.provable())
	}
	if kind == cohort.Single || most < 2 {
		return
	}
	f := s.fit(r, kind, now)
	if f.add(c); f.full {
		return
	}
	riders := s.riders(r, &f, most-1)
	if len(riders) == 0 {
		return
	}
	r.kind, r.expected = kind, max(r.expected, f.time())
	s.p.ranked.withdrawAll(riders)
	for _, o := range riders {
		y := &Execution{c: o, tier: r.tier, front: r.front, start: now, served: o.asked, marked: s.p.hints.has(o)}
		s.p.pick(o)
		r.riders = append(r.riders, y)
	}
}

// riders returns the members that join the execution, those asked longest ago first.
func (s *SlotBudget) riders(r *Execution, f *fitting, most int) (out []*item) {
	room := lookPast*most + lookPast
	all := &r.c.member.of.members
	for e := all.Front(); e != nil && len(out) < most && room > 0; room-- {
		o := e.Value.(*item)
		next := e.Next()
		if o.in == nil && !o.ran { // not eligible: look at others first next time
			all.MoveToBack(e)
		}
		e = next
		if o == r.c || o.member.asked || !o.mergeable() || !s.waits(o, r) || f.kind == cohort.Probe && !o.provable() {
			continue
		}
		if f.add(o); f.full {
			break
		}
		out = append(out, o)
	}
	return out
}

// waits reports whether a query waits for its turn beside the execution. The second look
// of an audit brings along even those that the policy has due later, because it shows
// nothing without others.
func (s *SlotBudget) waits(o *item, r *Execution) bool {
	switch {
	case o.member.check == checkFull:
		return s.p.recheckable(o) && !r.front
	case o.member.check != unchecked:
		return false
	case r.front:
		return o.in == &s.p.fresh
	}
	return o.in == &s.p.ranked && o.tier == TierRanked || r.again && o.in == nil && !o.ran && o.why == notDue
}

// A fitting adds up what the members of a request need.
type fitting struct {
	kind       cohort.Kind
	a, b, c    float64 // see cohort.Cohort.Costs
	n, rows    int
	text       int
	maxSeconds float64
	maxRows    int
	full       bool // the last member does not fit
}

func (s *SlotBudget) fit(r *Execution, kind cohort.Kind, now time.Time) fitting {
	ranked, front := s.room(now)
	rest := ranked
	if r.front {
		rest = front
	}
	rest /= 2
	if r.tier == TierHinted {
		rest = min(rest, s.budget/(2*hintShare))
	}
	f := fitting{kind: kind, maxRows: defaultRows, maxSeconds: min(r.expected+max(0, rest), s.Limit(r)/2, s.timeout/4).Seconds()}
	if n := s.merging.Rows; n > 0 {
		f.maxRows = n
	}
	f.a, f.b, f.c = r.c.member.of.Costs(kind)
	return f
}

// add adds a member if it fits.
func (f *fitting) add(c *item) {
	n, rows, text := f.n+1, f.rows+c.rows(), f.text+16
	for _, a := range c.member.args {
		text += len(a) + 1
	}
	answer := rows
	if f.kind == cohort.Probe {
		answer = n
	}
	seconds := f.a + f.b*float64(n) + f.c*float64(rows)
	if f.full = n > 1 && seconds > f.maxSeconds || answer > f.maxRows || text > maxText; !f.full {
		f.n, f.rows, f.text = n, rows, text
	}
}

// time is the expected time of the request.
func (f *fitting) time() time.Duration {
	return time.Duration((f.a + f.b*float64(f.n) + f.c*float64(f.rows)) * float64(time.Second))
}

// withdrawAll removes those of the items that are pending. It is remove for many items.
func (t *waitList) withdrawAll(items []*item) {
	if len(t.pending) == 0 {
		return
	}
	gone := map[*item]bool{}
	for _, c := range items {
		if e := listEntryOf(c); c.in == t && (t.source == nil || !c.listed) && t.deferred(&e) {
			gone[c], c.in = true, nil
		}
	}
	t.pending = slices.DeleteFunc(t.pending, func(e listEntry) bool { return gone[e.c] })
}

// Kind is how the query is asked.
func (r *Execution) Kind() cohort.Kind {
	if r.kind == "" {
		return cohort.Single
	}
	return r.kind
}

// Riders are the other members of the request.
func (r *Execution) Riders() []*Execution { return r.riders }

// Members are the queries of a merged request.
func (r *Execution) Members() []*Execution { return append([]*Execution{r}, r.riders...) }

// Form is the Membership.Form of the query's cohort, and Arguments are the query's own.
func (r *Execution) Form() any           { return r.c.member.of.form }
func (r *Execution) Arguments() []string { return r.c.member.args }

// Rechecks reports that the request repeats a merged one whose audit found a difference.
func (r *Execution) Rechecks() bool { return r.again }

// Void returns the members of a merged request whose answer says nothing about them.
// They keep their places for the next slot, and the first is asked alone then. blame
// says that the request itself may be the reason.
func (s *SlotBudget) Void(r *Execution, blame bool) {
	for _, x := range r.Members() {
		s.giveBack(x)
	}
	if m := r.c.member; blame && m != nil {
		m.of.Failed(r.kind, len(r.riders)+1)
		s.recheck(r.c, checkAlone)
	}
}

// giveBack ends an execution of which nothing is recorded.
func (s *SlotBudget) giveBack(x *Execution) {
	if x.marked && x.c.planned {
		s.p.hints.marked[x.c] = struct{}{}
	}
	if m := x.c.member; m != nil {
		m.asked = false
		if x.again {
			m.check = unchecked
		}
	}
}

// Answered adds a merged request that was complete, with the rows of its members. It
// returns the members' shares of its time.
func (s *SlotBudget) Answered(r *Execution, rows []int, confirmed int, took time.Duration) []time.Duration {
	m := r.c.member
	if m == nil { // removed meanwhile
		return cohort.New("", false).Shares(cohort.Values, rows, took)
	}
	sum := 0
	for _, n := range rows {
		sum += n
	}
	m.of.Asked(r.kind, len(rows), sum, confirmed, took)
	last := &LastAsk{Kind: r.kind, Members: len(rows), Elapsed: took, Rows: sum}
	for _, x := range r.Members() {
		x.how = r.kind
		if x.c.member != nil {
			x.c.member.lastAsk = last
		}
	}
	return m.of.Shares(r.kind, rows, took)
}

// Audits chooses members of a complete merged request that are to be asked alone, too.
// Every query with a result may be chosen: one that is asked merged only, like one with a
// max_staleness, needs audits as much as others.
func (s *SlotBudget) Audits(r *Execution, now time.Time) []*Execution {
	if r.again {
		return []*Execution{r}
	}
	if r.c.member == nil {
		return nil
	}
	var may []*Execution
	for _, x := range r.Members() {
		if c := x.c; c.member != nil && c.Stats.Executions > 0 && c.member.check <= checkFull {
			may = append(may, x)
		}
	}
	if len(may) == 0 {
		return nil
	}
	n := min(len(may), r.c.member.of.Audits(now, len(r.riders)+1))
	if n == 0 {
		return nil
	}
	slices.SortStableFunc(may, func(a, b *Execution) int { return cmp.Compare(a.c.member.audited, b.c.member.audited) })
	for _, x := range may[:n] { // those audited least often
		x.c.member.audited++
	}
	return may[:n]
}

// AskAlone returns a member whose merged answer is not recorded. It is asked alone
// next, and always if always is set.
func (s *SlotBudget) AskAlone(x *Execution, always bool) {
	s.giveBack(x)
	if x.c.member != nil {
		x.c.member.solo = x.c.member.solo || always
	}
	s.recheck(x.c, checkAlone)
}

// AskInFull returns a member that a probe did not confirm.
func (s *SlotBudget) AskInFull(x *Execution) {
	s.giveBack(x)
	s.recheck(x.c, checkFull)
}

// AskAgain makes a later slot repeat the merged request, of a kind, of a query whose audit
// found a difference.
func (s *SlotBudget) AskAgain(x *Execution, kind cohort.Kind) {
	if m := x.c.member; m != nil {
		m.again = kind
	}
	s.recheck(x.c, checkAgain)
}

// Audited reports the result of an audit to the query's cohort.
func (s *SlotBudget) Audited(x *Execution, now time.Time, same bool) {
	if x.c.member != nil {
		x.c.member.of.Audited(now, same)
	}
}

func (s *SlotBudget) recheck(c *item, why check) {
	m := c.member
	if m == nil || !c.planned {
		return
	}
	if m.check = why; !m.queued {
		m.queued = true
		s.p.checks = append(s.p.checks, c)
	}
}

// recheckable reports whether a query that is to be checked may start now. It runs once
// a slot at most.
func (p *Planner) recheckable(c *item) bool {
	m := c.member
	if !c.planned || m == nil || m.check == unchecked || m.asked {
		return false
	}
	if c.in == nil {
		return c.ran && m.check != checkAgain && c.Stats.LastRun.Slot != p.slot && c.Stats.Executions > 0
	}
	return c.in == &p.ranked && c.tier == TierRanked
}

// anyChecks reports whether a query that is to be checked may start.
func (p *Planner) anyChecks() bool { return slices.ContainsFunc(p.checks, p.recheckable) }

// startCheck starts the next query that is to be checked.
func (s *SlotBudget) startCheck(now time.Time, room time.Duration) *Execution {
	p := s.p
	room = min(room, s.budget/checkShare-s.onChecks)
	for i, c := range p.checks {
		if !p.recheckable(c) || c.Estimate > room {
			continue
		}
		p.checks = slices.Delete(p.checks, i, i+1)
		c.member.queued = false
		again := c.member.check == checkAgain
		left, _ := s.left(now)
		if c.open() {
			left = room
		}
		r := s.begin(c, now, left, false)
		r.tier, r.again, r.checks = TierRanked, again, true
		return r
	}
	return nil
}

// endChecks forgets the checks that are no longer wanted. The second look of an audit
// waits until the query may run again.
func (p *Planner) endChecks() {
	p.checks = slices.DeleteFunc(p.checks, func(c *item) bool {
		m := c.member
		gone := !c.planned || m == nil || m.check == unchecked || c.in == nil && m.check != checkAgain
		if gone && m != nil {
			m.queued = false
			if m.check != checkAlone {
				m.check = unchecked
			}
		}
		return gone
	})
}

// onRecorded updates the membership after a recorded execution.
func (r *Execution) onRecorded(complete bool, took time.Duration) {
	m := r.c.member
	if m == nil {
		return
	}
	m.asked, m.check = false, unchecked
	if !complete {
		return
	}
	m.of.members.MoveToBack(m.at)
	switch r.how {
	case cohort.Probe:
		m.proofs--
	case "":
		m.of.Asked(cohort.Single, 1, r.c.Stats.Rows, 1, took)
		m.lastAsk = &LastAsk{Kind: cohort.Single, Members: 1, Elapsed: took, Rows: r.c.Stats.Rows}
		fallthrough
	default:
		m.proofs = cohort.MaxProofs
	}
}
